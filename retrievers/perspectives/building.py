"""Building the index of a perspective from its files, or going on with a build that was stopped."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.models.embeddings import TFIDF, Embedder, find_embedder
from tribunal.retrievers.indexes.building import Progress, build_files, lock_build
from tribunal.retrievers.indexes.manifest import MANIFEST, FileNote, note_file
from tribunal.retrievers.perspectives.perspective import (
    LabelledText,
    Perspective,
    find_source_files,
    perspectives_folder,
    read_labelled_texts,
)
from tribunal.retrievers.perspectives.store import PerspectiveManifest


async def build_index(
    perspective: Perspective,
    data: Path,
    *,
    embedding: str | Embedder = TFIDF,
    out: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> PerspectiveManifest:
    """Build the index of a perspective from the files in `data`, or go on with a build that was stopped.

    Args:
        perspective: with a [source].
        data: the folder that holds its files.
        embedding: the name of an embedding, or an embedder.
        out: the folder in which the index's own folder lies; None is the user's (`perspectives_folder`).
        replace: overwrite an index of the same name that was built from other files, by another rule or by another
            embedding. The same index is built again without it.
        progress: is given (rows done, rows in all) before the first batch and after each.

    Raises:
        BadInput: a file or column is missing, a value is unknown, one label has no rows, another process is building
            this index, or another index lies where it is to lie.
        CallFailed: the embedding endpoint failed; what was embedded so far is kept for the next try.
    """
    model = await asyncio.to_thread(find_embedder, embedding) if isinstance(embedding, str) else embedding
    folder = (out or perspectives_folder()) / perspective.name
    sources, texts = await asyncio.to_thread(_read_sources, perspective, data)
    source_sha256 = _hash_text("\n".join(note.sha256 for note in sources))

    def check_folder() -> None:
        if not replace:
            _refuse_to_overwrite(folder, perspective, source_sha256, model.name if model else TFIDF)

    await asyncio.to_thread(check_folder)
    with lock_build(f"perspective {perspective.name}", folder, resumable=True):
        await asyncio.to_thread(check_folder)  # again, since a build that ended meanwhile may have put one there
        rows = [row for row in texts if row.text]
        files = await build_files(folder, [row.text for row in rows], rows, model, progress)
        hate = sum(row.hate for row in rows)
        manifest = PerspectiveManifest(
            perspective=perspective,
            spec_sha256=_hash_text(perspective.model_dump_json()),
            sources=sources,
            source_sha256=source_sha256,
            hate=hate,
            not_hate=len(rows) - hate,
            skipped=len(texts) - len(rows),
            **files,
        )
        await asyncio.to_thread(manifest.write, folder)
        return manifest


def _read_sources(perspective: Perspective, data: Path) -> tuple[tuple[FileNote, ...], Sequence[LabelledText]]:
    files = find_source_files(perspective, data)
    texts = list(read_labelled_texts(perspective, files))
    hate = [row.hate for row in texts if row.text]
    for label, is_there in (("hate", any(hate)), ("not_hate", not all(hate))):
        if not is_there:
            name = perspective.labels.hate if label == "hate" else perspective.labels.not_hate
            raise BadInput(
                f"perspective {perspective.name}: none of the {len(hate):,} rows of "
                f"{', '.join(file.name for file in files)} is {name!r} ({label}); check source.label"
            )
    return tuple(map(note_file, files)), texts


def _refuse_to_overwrite(folder: Path, perspective: Perspective, source_sha256: str, embedding: str) -> None:
    """Raise `BadInput` where another index lies in this folder, naming it."""
    way_out = "give --replace to overwrite it, or --out for another folder"
    owner = f"perspective {perspective.name}: {folder}"
    if not (folder / MANIFEST).exists():
        return
    try:
        there = PerspectiveManifest.read(folder, perspective.name)
    except BadInput as error:
        raise BadInput(f"{owner}: holds an index that this version can't read; {way_out}") from error
    built_from = (there.perspective.name, there.perspective.source, there.source_sha256, there.embedding)
    if built_from != (perspective.name, perspective.source, source_sha256, embedding):
        files = ", ".join(f"{note.name} (sha256 {note.sha256[:12]})" for note in there.sources)
        raise BadInput(
            f"{owner}: holds another index: {there.rows:,} texts of {files}, by {there.embedding}, built "
            f"{there.built}; {way_out}"
        )


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
