"""Building the files of an index: every kind of index is built here, or goes on with a build that was stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from tribunal.errors import BadInput
from tribunal.files import LockHeld, hold_lock, write_whole
from tribunal.models.embeddings import TFIDF, Embedder, Vectors
from tribunal.retrievers.indexes.manifest import IndexFile, note_file
from tribunal.retrievers.indexes.ngrams import fit_ngrams, write_ngrams
from tribunal.retrievers.indexes.text_index import index_vectors
from tribunal.schema import JSON
from tribunal.text import parse_json

# How many texts an embedder is given at once, where it doesn't say: a build that is stopped loses no more than these.
BATCH = 256

Progress = Callable[[int, int], None]


class IndexParts(TypedDict):
    """The fields of a build in the manifest of every kind of index."""

    embedding: str
    dimension: int
    rows: int
    built: str
    index_file: IndexFile
    rows_file: IndexFile
    ngrams_file: IndexFile | None


@contextmanager
def lock_build(owner: str, folder: Path, *, resumable: bool) -> Iterator[None]:
    """Let no other process build the index in a folder, which errors call `owner`.

    What a failed build has made stays for the next one to go on from, if it is `resumable`.

    Raises:
        BadInput: another process is building the index, or the folder can't be written.
    """
    partial = folder / "partial"
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with hold_lock(partial / "lock"):
            try:
                yield
            except BaseException:
                if not resumable:
                    shutil.rmtree(partial, ignore_errors=True)
                raise
            shutil.rmtree(partial, ignore_errors=True)
    except LockHeld as error:
        raise BadInput(f"{owner}: another process is building it; wait for that one") from error
    except OSError as error:
        raise BadInput(f"{owner}: {folder}: {error.strerror or error}") from error
    with suppress(OSError):
        partial.rmdir()  # where a lock that is held can't be deleted, it goes only now


async def build_files(
    folder: Path,
    texts: Sequence[str],
    rows: Sequence[Any],
    model: Embedder | None,
    progress: Progress | None = None,
    known_vector: Callable[[str], Vectors | None] = lambda text: None,
) -> IndexParts:
    """Embed texts and write the files of an index, under names that carry their hashes. Needs `lock_build`.

    Args:
        folder: of the index.
        texts: of the rows.
        rows: what each row holds; anything that JSON can say.
        model: makes the vectors; None is `tfidf`, which is fitted to the texts.
        progress: is given (texts done, texts in all) before the first batch and after each.
        known_vector: returns the vector of a text that needn't be embedded again.

    Raises:
        CallFailed: the embedding endpoint failed; what was embedded so far is kept for the next try.
        BadInput: the embedding gives vectors of another length than before.
        OSError: a file can't be written.
    """
    partial, embedding = folder / "partial", model.name if model else TFIDF
    fitted = None
    if model is None:
        model = fitted = await asyncio.to_thread(fit_ngrams, texts)
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    plan = {"embedding": embedding, "texts": digest.hexdigest(), "rows": len(texts)}
    # What is fitted to the texts begins anew, and is quick.
    vectors = await asyncio.to_thread(_resume_build, partial, None if fitted else plan)
    progress = progress or (lambda done, total: None)
    progress(vectors.rows, len(texts))
    at_once = getattr(model, "at_once", BATCH)
    for start in range(vectors.rows, len(texts), at_once):
        some = {text: known_vector(text) for text in texts[start : start + at_once]}
        if fresh := [text for text, vector in some.items() if vector is None]:
            some |= zip(fresh, await model.embed(fresh, "passage"), strict=True)
        batch = [row for text in texts[start : start + at_once] if (row := some[text]) is not None]
        await asyncio.to_thread(vectors.append_rows, batch)
        progress(vectors.rows, len(texts))

    def write_files() -> IndexParts:
        import faiss

        faiss.write_index(index_vectors(vectors.map_vectors()), str(partial / "index.faiss"))
        write_rows(partial / "rows.bin", rows)
        if fitted:
            write_ngrams(partial / "ngrams.bin", fitted)
        return IndexParts(
            embedding=embedding,
            dimension=vectors.dimension,
            rows=len(rows),
            built=datetime.now(UTC).isoformat(timespec="seconds"),
            index_file=_settle_file(folder, partial / "index.faiss"),
            rows_file=_settle_file(folder, partial / "rows.bin"),
            ngrams_file=_settle_file(folder, partial / "ngrams.bin") if fitted else None,
        )

    return await asyncio.to_thread(write_files)


def _resume_build(partial: Path, plan: JSON | None) -> VectorFile:
    """Return the vectors to go on from: those that were made under the same plan."""
    noted = partial / "plan.json"
    try:
        same = plan is not None and parse_json(noted.read_bytes()) == plan
    except (OSError, ValueError):
        same = False
    if not same:
        for old in partial.glob("vectors-*.f32"):
            old.unlink()
        write_whole(noted, json.dumps(plan))
    return VectorFile(partial)


def _settle_file(folder: Path, path: Path) -> IndexFile:
    note = note_file(path)
    name = f"{path.stem}-{note.sha256[:12]}{path.suffix}"
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # the manifest must not reach the disk before the files that it names
    path.replace(folder / name)
    return IndexFile(name=name, bytes=note.bytes, sha256=note.sha256)


class VectorFile:
    """The vectors of a build so far: raw float32 rows, put on the disk batch by batch.

    Attributes:
        path: the file, whose name carries the length of a vector; None before the first batch.
        dimension: how many numbers a vector has; 1 before the first batch.
        rows: how many vectors there are.
    """

    def __init__(self, partial: Path) -> None:
        """Go on with the vectors in a folder, if it has any."""
        self._partial, self.dimension, self.rows = partial, 1, 0
        self.path: Path | None = next(iter(partial.glob("vectors-*.f32")), None)
        if self.path:
            self.dimension = int(self.path.stem.partition("-")[2])
            self.rows = self.path.stat().st_size // (4 * self.dimension)
            # A row that was cut off by the kill is embedded again.
            os.truncate(self.path, self.rows * 4 * self.dimension)

    def append_rows(self, some: Sequence[Vectors]) -> None:
        """Put a batch of vectors on the disk; raise `BadInput` if they are of another length than those before."""
        if self.path is None:
            self.dimension = len(some[0])
            self.path = self._partial / f"vectors-{self.dimension}.f32"
        if other := {len(row) for row in some} - {self.dimension}:
            raise BadInput(
                f"embedding: vectors of {other.pop()} numbers beside ones of {self.dimension}: the model behind the "
                f"name has changed; delete {self._partial} and build again with --replace, which embeds all again"
            )
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(some, "<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
        self.rows += len(some)

    def map_vectors(self) -> Vectors:
        """Return every row, (rows, dimension), mapped."""
        if self.path is None:
            return np.zeros((0, self.dimension), np.float32)
        return np.memmap(self.path, "<f4", "r", shape=(self.rows, self.dimension))


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write rows, each of which may be anything that JSON can say, in their order; raise OSError if they can't be."""
    ends = [0]
    with path.open("wb") as file:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            ends.append(ends[-1] + len(line))
        file.write(np.array(ends, "<u8").data)
