"""Building the index of a perspective from its files, or going on with a build that was stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.files import Taken, alone, write_whole
from tribunal.models.embeddings import TFIDF, Embedder, embedder
from tribunal.parsed import from_json
from tribunal.retrievers.perspectives.held_files import FileNote, note_of, remove_others, settled
from tribunal.retrievers.perspectives.labelled_texts import LabelledText, locate, read
from tribunal.retrievers.perspectives.manifest import FORMAT, Manifest, read_manifest, write_manifest
from tribunal.retrievers.perspectives.ngrams import fit_ngrams, write_ngrams
from tribunal.retrievers.perspectives.perspective import Perspective, user_folder
from tribunal.retrievers.perspectives.texts_file import write_texts
from tribunal.retrievers.perspectives.vector_index import VectorFile, write_vectors
from tribunal.schema import JSON, Stance

# How many texts an embedder is given at once, where it doesn't say: a build that is stopped loses no more than these.
BATCH = 256

Progress = Callable[[int, int], None]


async def build(
    perspective: Perspective,
    data: Path,
    *,
    embedding: str | Embedder = TFIDF,
    out: Path | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index of a perspective from the files in `data`, or go on with a build that was stopped.

    Args:
        perspective: with a [source].
        data: the folder that holds its files.
        embedding: the name of an embedding, or an embedder.
        out: the folder in which the index's own folder lies; None is the user's (`user_folder`).
        replace: overwrite an index of the same name that was built from other files, by another rule or by another
            embedding. The same index is built again without it.
        progress: is given (rows done, rows in all) before the first batch and after each.

    Raises:
        BadInput: a file or column is missing, a value is unknown, one label has no rows, another process is building
            this index, or another index lies where it is to lie.
        CallFailed: the embedding endpoint failed; what was embedded so far is kept for the next try.
    """
    model = await asyncio.to_thread(embedder, embedding) if isinstance(embedding, str) else embedding
    folder = (out or user_folder()) / perspective.name
    draft = await asyncio.to_thread(_draft, perspective, data, model.name if model else TFIDF)
    told = progress or (lambda done, total: None)
    if not replace:
        await asyncio.to_thread(_keep_another, folder, draft)
    partial = folder / "partial"
    try:
        await asyncio.to_thread(partial.mkdir, parents=True, exist_ok=True)
        with alone(partial / "lock"):
            if not replace:  # again, since a build that ended meanwhile may have put one there
                await asyncio.to_thread(_keep_another, folder, draft)
            dimension = await _embed(partial, draft, model, told)
            manifest = await asyncio.to_thread(_finish, folder, draft, dimension)
    except Taken as error:
        raise BadInput(f"perspective {perspective.name}: another process is building it; wait for that one") from error
    except OSError as error:
        raise BadInput(f"perspective {perspective.name}: {folder}: {error.strerror or error}") from error
    with suppress(OSError):
        partial.rmdir()  # where a lock that is held can't be deleted, it goes only now
    return manifest


@dataclass(slots=True)
class _Draft:
    """What is to be built: the texts, and all that the vectors depend on."""

    perspective: Perspective
    embedding: str
    sources: tuple[FileNote, ...]
    rows: list[LabelledText]
    skipped: int

    @property
    def texts(self) -> list[str]:
        return [row.text for row in self.rows]

    @property
    def source_sha256(self) -> str:
        """Of the hashes of the source files, in their order."""
        return _sha("\n".join(note.sha256 for note in self.sources))

    @property
    def plan(self) -> JSON:
        """Vectors made under the same plan may be kept."""
        texts = hashlib.sha256()
        for text in self.texts:
            texts.update(text.encode() + b"\0")
        return {"format": FORMAT, "embedding": self.embedding, "rows": len(self.rows), "texts": texts.hexdigest()}


def _draft(perspective: Perspective, data: Path, embedding: str) -> _Draft:
    files = locate(perspective, data)
    every = list(read(perspective, files))
    rows = [row for row in every if row.text]
    hate = [row.hate for row in rows]
    present: dict[Stance, bool] = {"hate": any(hate), "not_hate": not all(hate)}
    for label, some in present.items():
        if not some:
            raise BadInput(
                f"perspective {perspective.name}: none of the {len(rows):,} rows of "
                f"{', '.join(file.name for file in files)} is {perspective.label_name(label)!r} ({label}); "
                "check source.label"
            )
    notes = tuple(note_of(file) for file in files)
    return _Draft(perspective, embedding, notes, rows, len(every) - len(rows))


def _keep_another(folder: Path, draft: _Draft) -> None:
    """Raise `BadInput` where another index lies in this folder, naming it."""
    way_out = "give --replace to overwrite it, or --out for another folder"
    owner = f"perspective {draft.perspective.name}: {folder}"
    if not (folder / "manifest.json").exists():
        return
    try:
        there = read_manifest(folder, draft.perspective)
    except BadInput as error:
        raise BadInput(f"{owner}: holds an index that this version can't read; {way_out}") from error
    if (
        there.perspective.name == draft.perspective.name
        and there.perspective.source == draft.perspective.source
        and there.source_sha256 == draft.source_sha256
        and there.embedding == draft.embedding
    ):
        return
    files = ", ".join(f"{note.name} (sha256 {note.sha256[:12]})" for note in there.sources)
    raise BadInput(
        f"{owner}: holds another index: {there.rows:,} texts of {files}, by {there.embedding}, built {there.built}; "
        f"{way_out}"
    )


async def _embed(partial: Path, draft: _Draft, model: Embedder | None, progress: Progress) -> int:
    """Write the index of all texts' vectors, from where a build that was stopped has left off; return their length."""
    vectors, texts = await asyncio.to_thread(_resume, partial, draft, model is None), draft.texts
    progress(vectors.rows, len(texts))
    if model is None:
        model = fitted = await asyncio.to_thread(fit_ngrams, texts)
        await asyncio.to_thread(write_ngrams, partial / "ngrams.bin", fitted)
    at_once = getattr(model, "at_once", BATCH)
    for start in range(vectors.rows, len(texts), at_once):
        some = await model.embed(texts[start : start + at_once], "passage")
        await asyncio.to_thread(vectors.append, some)
        progress(start + len(some), len(texts))
    await asyncio.to_thread(lambda: write_vectors(partial / "index.faiss", vectors.read()))
    return vectors.dimension


def _resume(partial: Path, draft: _Draft, anew: bool) -> VectorFile:
    """Return the vectors to go on from. What is fitted to the texts begins anew, and is quick."""
    plan, noted = draft.plan, partial / "plan.json"
    try:
        same = not anew and from_json(noted.read_bytes()) == plan
    except (OSError, ValueError):
        same = False
    if not same:
        for old in partial.glob("vectors-*.f32"):
            old.unlink()
        write_whole(noted, json.dumps(plan))
    return VectorFile(partial)


def _finish(folder: Path, draft: _Draft, dimension: int) -> Manifest:
    partial, hate = folder / "partial", sum(row.hate for row in draft.rows)
    write_texts(partial / "rows.parquet", draft.rows)
    built = Manifest(
        perspective=draft.perspective,
        spec_sha256=_sha(draft.perspective.model_dump_json()),
        sources=draft.sources,
        source_sha256=draft.source_sha256,
        embedding=draft.embedding,
        dimension=dimension,
        rows=len(draft.rows),
        hate=hate,
        not_hate=len(draft.rows) - hate,
        skipped=draft.skipped,
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        index_file=settled(folder, partial / "index.faiss"),
        rows_file=settled(folder, partial / "rows.parquet"),
        ngrams_file=settled(folder, partial / "ngrams.bin") if draft.embedding == TFIDF else None,
    )
    write_manifest(folder, built)
    remove_others(folder, built.files)
    shutil.rmtree(partial, ignore_errors=True)
    return built


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
