"""Building the index of a perspective from its files, or going on with a build that was stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.files import Taken, alone, write_whole
from tribunal.models.embeddings import HASHING, Embedder, embedder
from tribunal.retrievers.perspectives.index import write_index
from tribunal.retrievers.perspectives.labelled_texts import locate, read
from tribunal.retrievers.perspectives.manifest import FORMAT, FileNote, Manifest, note_of, write_manifest
from tribunal.retrievers.perspectives.perspective import Perspective, user_folder
from tribunal.retrievers.perspectives.texts_file import write_texts
from tribunal.retrievers.perspectives.vector_file import VectorFile
from tribunal.schema import JSON, Stance

BATCH = 2048

Progress = Callable[[int, int], None]


async def build(
    perspective: Perspective,
    data: Path,
    *,
    embedding: str | Embedder = HASHING,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the index of a perspective from the files in `data`, or go on with a build that was stopped.

    Args:
        perspective: with a [source].
        data: the folder that holds its files.
        embedding: the name of an embedding, or an embedder.
        out: the folder in which the index's own folder lies; None is the user's (`user_folder`).
        progress: is given (rows embedded, rows in all) before the first batch and after each.

    Raises:
        BadInput: a file or column is missing, a value is unknown, one label has no rows, or another process is building
            this index.
        CallFailed: the embedding endpoint failed; what was embedded so far is kept for the next try.
    """
    model = await asyncio.to_thread(embedder, embedding) if isinstance(embedding, str) else embedding
    folder = (out or user_folder()) / perspective.name
    draft = await asyncio.to_thread(_draft, perspective, data, model.name)
    partial = folder / "partial"
    try:
        await asyncio.to_thread(partial.mkdir, parents=True, exist_ok=True)
        with alone(partial / "lock"):
            vectors = await asyncio.to_thread(_resume, partial, draft)
            done = vectors.rows
            if progress:
                progress(done, len(draft.texts))
            for start in range(done, len(draft.texts), BATCH):
                some = await model.embed(draft.texts[start : start + BATCH])
                await asyncio.to_thread(vectors.append, some)
                if progress:
                    progress(start + len(some), len(draft.texts))
            manifest = await asyncio.to_thread(_finish, folder, draft, vectors)
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
    texts: list[str]
    hate: list[bool]
    skipped: int

    @property
    def plan(self) -> JSON:
        """Vectors made under the same plan may be kept."""
        texts = hashlib.sha256()
        for text in self.texts:
            texts.update(text.encode() + b"\0")
        return {"format": FORMAT, "embedding": self.embedding, "rows": len(self.texts), "texts": texts.hexdigest()}


def _draft(perspective: Perspective, data: Path, embedding: str) -> _Draft:
    files = locate(perspective, data)
    texts: list[str] = []
    hate: list[bool] = []
    skipped = 0
    for labelled in read(perspective, files):
        if labelled.text:
            texts.append(labelled.text)
            hate.append(labelled.hate)
        else:
            skipped += 1
    present: dict[Stance, bool] = {"hate": any(hate), "not_hate": not all(hate)}
    for label, some in present.items():
        if not some:
            raise BadInput(
                f"perspective {perspective.name}: none of the {len(texts):,} rows of "
                f"{', '.join(file.name for file in files)} is {perspective.label_name(label)!r} ({label}); "
                "check source.label"
            )
    return _Draft(perspective, embedding, tuple(note_of(file) for file in files), texts, hate, skipped)


def _resume(partial: Path, draft: _Draft) -> VectorFile:
    plan, noted = draft.plan, partial / "plan.json"
    try:
        same = json.loads(noted.read_bytes()) == plan
    except (OSError, ValueError):
        same = False
    if not same:
        for old in partial.glob("vectors-*.f32"):
            old.unlink()
        write_whole(noted, json.dumps(plan))
    return VectorFile(partial)


def _finish(folder: Path, draft: _Draft, vectors: VectorFile) -> Manifest:
    partial, hate = folder / "partial", sum(draft.hate)
    write_texts(partial / "rows.parquet", draft.texts, draft.hate)
    kind, recall = write_index(partial / "index.faiss", vectors)
    notes = _settled(folder, partial / "index.faiss"), _settled(folder, partial / "rows.parquet")
    built = Manifest(
        perspective=draft.perspective,
        spec_sha256=_sha(draft.perspective.model_dump_json()),
        sources=draft.sources,
        source_sha256=_sha("\n".join(note.sha256 for note in draft.sources)),
        embedding=draft.embedding,
        dimension=vectors.dimension,
        rows=vectors.rows,
        hate=hate,
        not_hate=vectors.rows - hate,
        skipped=draft.skipped,
        index=kind,
        recall_at_3=round(recall, 4),
        built=datetime.now(UTC).isoformat(timespec="seconds"),
        vectors_file=notes[0],
        rows_file=notes[1],
    )
    write_manifest(folder, built)
    kept = {note.name for note in notes}
    for old in (*folder.glob("index-*.faiss"), *folder.glob("rows-*.parquet")):
        if old.name not in kept:
            with suppress(OSError):  # on Windows, one that a process still has open can only go the next time
                old.unlink()
    shutil.rmtree(partial, ignore_errors=True)
    return built


def _settled(folder: Path, path: Path) -> FileNote:
    """Move a finished file to its place, under a name that carries its hash."""
    note = note_of(path)
    note = note.model_copy(update={"name": f"{path.stem}-{note.sha256[:12]}{path.suffix}"})
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # the manifest must not reach the disk before the files that it names
    path.replace(folder / note.name)
    return note


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
