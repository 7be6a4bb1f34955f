"""An index of texts, built and open: its rows, and what finds those nearest to a query.

Vectors are an `IndexFlatIP` of FAISS, which compares a query with every one of them, exactly. An index of cells, which
compares only some of the vectors, would save little next to the seconds of a chat model, and cost recall.

Rows are one JSON value a line, and at the end the place where each line begins. All files are mapped into memory, not
read: opening costs nothing that grows with the rows, processes share pages, and any thread looks a row up without
reading the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.models.embeddings import TFIDF, Embedder, Vectors, find_embedder
from tribunal.process.files import (
    LockHeld,
    hold_lock,
    open_regular,
    read_regular,
    sync_file,
    write_atomically,
)
from tribunal.retrievers.indexes.manifest import MANIFEST, IndexFile, IndexManifest, note_file
from tribunal.retrievers.indexes.ngrams import (
    NgramEmbedder,
    fit_ngrams,
    map_bytes,
    map_ngrams,
    write_ngrams,
)
from tribunal.schema import JSON

Row = TypeVar("Row")

# How many hits beyond k are fetched at first, so that leaving out a few copies of the post needs no second search.
SPARE = 8
LONGEST_ROW = 16 * 1024 * 1024  # bytes: more than any text that a build takes
_KIND = b"IxFI"  # what the file of a flat index by inner product begins with
_HEAD = struct.Struct("<4siq")  # the kind, the length of a vector, the number of vectors
_MOST_BATCH = 1024**3  # bytes of a batch of vectors, far more than there ever are
_BESIDE = 4096  # bytes that FAISS writes beside the vectors, at most
# How many texts an embedder is given at once, where it doesn't say: a build that is stopped loses no more than these.
BATCH = 256

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TextIndex(Generic[Row]):
    """Rows, and what finds the nearest of them. Safe to search from many threads at once.

    Attributes:
        vectors: FAISS's index of the rows' vectors, which are of unit length.
        read_row: reads the row of a number; it raises ValueError for one that is damaged.
        ngrams: makes the vectors of queries, where the embedding is `tfidf`; else None.
        manifest: its description; None in memory.
        folder: its folder; None in memory.
    """

    vectors: Any
    read_row: Callable[[int], Row]
    ngrams: NgramEmbedder | None = None
    manifest: IndexManifest | None = None
    folder: Path | None = None

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self.vectors.ntotal)

    def row(self, number: int) -> Row:
        """Return the row of a number, from 0. Reads a file: call it off the event loop.

        Raises:
            BadInput: the index is damaged.
        """
        try:
            if not 0 <= number < len(self):
                raise IndexError(number)
            return self.read_row(number)
        except (ValueError, TypeError, IndexError, OSError) as error:
            raise self._damage_error("holds a row that can't be read") from error

    def find_nearest(
        self, query: Vectors, k: int, keep: Callable[[float, Row], bool]
    ) -> list[tuple[float, int, Row]]:
        """Return the similarities, numbers and content of the k rows nearest to a query, nearest first. Blocks.

        The query is a vector, (dimension,). `keep` tells from its similarity and the row which may be among them.

        Raises:
            BadInput: the query's vector is of another length, or the index is damaged.
        """
        if len(query) != self.vectors.d:
            raise self._damage_error(
                f"holds vectors of {self.vectors.d} numbers, and "
                f"{self.manifest.embedding if self.manifest else 'the embedding'} now gives {len(query)}"
            )
        fetched = min(k + SPARE, len(self))
        while True:
            try:
                similarities, numbers = search_vectors(self.vectors, query, fetched)
            except ValueError as error:
                raise self._damage_error("holds numbers that can't be right") from error
            found: list[tuple[float, int, Row]] = []
            for similarity, number in zip(similarities.tolist(), numbers.tolist(), strict=True):
                row = self.row(number)
                if keep(similarity, row):
                    found.append((round(similarity, 6), number, row))
                if len(found) == k:
                    return found
            if fetched == len(self):
                return found
            fetched = min(fetched * 4, len(self))

    def fingerprint(self, *beside: Any) -> str:
        """Return a hash of the index's files and of all that a search shows."""
        files = [note.sha256 for note in self.manifest.files] if self.manifest else []
        return hashlib.sha256(json.dumps([*beside, files], sort_keys=True).encode()).hexdigest()[
            :16
        ]

    def verify(self) -> None:
        """Compare every file of the index with its hash; raise `BadInput` if one is missing or differs."""
        if self.folder and self.manifest:
            self.manifest.check_files(self.folder, always_hash=True)

    def load_embedder(self) -> Embedder:
        """Return what makes the vectors of queries; raise `BadInput` if the index lacks it, or it can't be had here."""
        assert self.manifest is not None  # noqa: S101 (an index in memory has an embedder already)
        model = (
            self.ngrams
            if self.manifest.embedding == TFIDF
            else find_embedder(self.manifest.embedding)
        )
        if model is None:
            raise self._damage_error("lacks what tfidf was fitted to be")
        return model

    def _damage_error(self, problem: str) -> BadInput:
        return (
            self.manifest.damage_error(problem)
            if self.manifest
            else BadInput(f"an index in memory {problem}")
        )


def index_vectors(vectors: Vectors) -> Any:
    """Return FAISS's index of these vectors, (rows, dimension), in memory."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


def search_vectors(
    vectors: Any, query: Vectors, count: int
) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """Return the similarities and numbers of so many vectors nearest to a query, nearest first; of equals, the first.

    `vectors` is FAISS's index of them, which must hold as many.

    Raises:
        ValueError: the vectors hold numbers that can't be right.
    """
    import faiss

    # FAISS lets the interpreter go while it searches: searches run side by side, each on one core. To share one out
    # over the cores takes more time than it saves. The number counts for this thread alone.
    faiss.omp_set_num_threads(1)
    similarities, numbers = (found[0] for found in vectors.search(query[np.newaxis], count))
    if not np.isfinite(similarities).all() or (numbers < 0).any():
        raise ValueError("it holds numbers that can't be right")
    order = np.lexsort((numbers, -similarities))
    return np.minimum(similarities[order], 1), numbers[order]


def map_vectors(path: Path, rows: int, dimension: int) -> Any:
    """Return FAISS's index in a file, mapped. FAISS is given no file that isn't an index of this kind and shape.

    Raises:
        OSError, RuntimeError, ValueError: the file isn't one.
    """
    import faiss

    with open_regular(path) as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or _HEAD.unpack(head) != (_KIND, dimension, rows):
        raise ValueError("not an index of this shape")
    if not 0 <= path.stat().st_size - 4 * rows * dimension <= _BESIDE:
        raise ValueError("its size doesn't fit its shape")
    vectors = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if vectors.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ValueError("not an index by inner product")
    return vectors


def map_rows(path: Path, number: int) -> Callable[[int], Any]:
    """Map a file of so many rows, and return the function that reads a row by its number, from 0.

    The function raises ValueError if the row is not JSON.

    Raises:
        OSError: the file can't be read.
        ValueError: the file has another number of rows, or a row is longer than any of ours.
    """
    lines = path.stat().st_size - 8 * (number + 1)
    if lines < 0:
        raise ValueError("it has another number of rows")
    whole = map_bytes(path)
    ends = whole[lines:].view("<u8")
    lengths = np.diff(ends.astype(np.int64))
    if ends[0] != 0 or ends[-1] != lines or (lengths <= 0).any():
        raise ValueError("it has another number of rows")
    if lengths.max(initial=0) > LONGEST_ROW:
        raise ValueError("a row is longer than any of ours")

    def read_row(place: int) -> Any:
        return parse_json(whole[int(ends[place]) : int(ends[place + 1])].tobytes())

    return read_row


def map_index(
    folder: Path, manifest: IndexManifest, parse_row: Callable[[Any], Row]
) -> TextIndex[Row]:
    """Map the files of an index. One that was opened before is mapped again only when it was built again.

    `parse_row` makes a row of what its line holds, and raises ValueError or TypeError for what no index of ours holds.

    Raises:
        BadInput: a file is missing, was changed, or can't be read.
    """
    stamp = (folder / MANIFEST).stat().st_mtime_ns
    return _map_files(
        folder.resolve(), stamp, type(manifest), manifest.model_dump_json(), parse_row
    )


@lru_cache(maxsize=64)
def _map_files(
    folder: Path,
    stamp: int,
    form: type[IndexManifest],
    written: str,
    parse_row: Callable[[Any], Row],
) -> TextIndex[Row]:
    manifest = form.model_validate_json(written)
    manifest.check_files(folder)
    try:
        vectors = map_vectors(folder / manifest.index_file.name, manifest.rows, manifest.dimension)
        note = manifest.ngrams_file
        ngrams = map_ngrams(folder / note.name, manifest.dimension) if note else None
        read_line = map_rows(folder / manifest.rows_file.name, manifest.rows)
    except (RuntimeError, OSError, ValueError, KeyError, IndexError) as error:
        raise manifest.damage_error("can't be read") from error
    return TextIndex(vectors, lambda number: parse_row(read_line(number)), ngrams, manifest, folder)


def forget_mapped_files() -> None:
    """Map the files of every index again when it is opened next."""
    _map_files.cache_clear()


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
) -> JSON:
    """Embed texts, write the files of an index under names that carry their hashes, and return their manifest's fields.

    Needs `lock_build`.

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
    partial = folder / "partial"
    embedding = model.name if model else TFIDF
    fitted = None
    if model is None:
        model = fitted = await asyncio.to_thread(fit_ngrams, texts)
    digest = hashlib.sha256()
    for text in (embedding, *texts):
        digest.update(text.encode() + b"\0")
    plan = digest.hexdigest()[:16]
    # What is fitted to the texts begins anew, and is quick.
    vectors = await asyncio.to_thread(_resume_build, partial, None if fitted else plan)
    progress = progress or (lambda done, total: None)
    progress(vectors.ntotal, len(texts))
    at_once = getattr(model, "at_once", BATCH)
    for start in range(vectors.ntotal, len(texts), at_once):
        some = {text: known_vector(text) for text in texts[start : start + at_once]}
        fresh = [text for text, vector in some.items() if vector is None]
        if fresh:
            some |= zip(fresh, await model.embed(fresh, "passage"), strict=True)
        batch = [row for text in texts[start : start + at_once] if (row := some[text]) is not None]
        vectors = await asyncio.to_thread(
            _add_batch, vectors, batch, partial / f"{plan}-{start:09}.npy"
        )
        progress(vectors.ntotal, len(texts))

    def write_files() -> JSON:
        import faiss

        faiss.write_index(vectors, str(partial / "index.faiss"))
        write_rows(partial / "rows.bin", rows)
        if fitted:
            write_ngrams(partial / "ngrams.bin", fitted)
        return {
            "embedding": embedding,
            "dimension": vectors.d,
            "rows": len(rows),
            "built": datetime.now(UTC).isoformat(timespec="seconds"),
            "index_file": _settle_file(folder, partial / "index.faiss"),
            "rows_file": _settle_file(folder, partial / "rows.bin"),
            "ngrams_file": _settle_file(folder, partial / "ngrams.bin") if fitted else None,
        }

    return await asyncio.to_thread(write_files)


def _resume_build(partial: Path, plan: str | None) -> Any:
    """Return FAISS's index of the batches that were made under the same plan, up to one that can't be read.

    The others are deleted.
    """
    vectors = index_vectors(np.zeros((0, 1), np.float32))
    for path in sorted(partial.glob("*.npy")):
        batch = None
        planned = plan is not None and path.name.startswith(plan)
        if planned:
            with suppress(OSError, ValueError, EOFError):
                batch = np.load(io.BytesIO(read_regular(path, _MOST_BATCH)), allow_pickle=False)
        if batch is None:
            path.unlink()
            plan = None if planned else plan
        else:
            vectors = _add_batch(vectors, batch, path)
    return vectors


def _add_batch(vectors: Any, batch: Sequence[Vectors], path: Path) -> Any:
    """Return FAISS's index with a batch added; a new one is first put on the disk, for a build that goes on.

    Raises:
        BadInput: it is of another length than those before.
    """
    if not vectors.ntotal:
        vectors = index_vectors(np.zeros((0, len(batch[0])), np.float32))
    other = {len(row) for row in batch} - {vectors.d}
    if other:
        raise BadInput(
            f"embedding: vectors of {other.pop()} numbers beside ones of {vectors.d}: the model behind the name has "
            f"changed; delete {path.parent} and build again with --replace, which embeds all again"
        )
    rows = np.ascontiguousarray(batch, np.float32)
    if not path.exists():
        with write_atomically(path) as file:
            np.save(file, rows)
    vectors.add(rows)
    return vectors


def _settle_file(folder: Path, path: Path) -> IndexFile:
    note = note_file(path)
    name = f"{path.stem}-{note.sha256[:12]}{path.suffix}"
    sync_file(path)  # the manifest must not reach the disk before the files that it names
    path.replace(folder / name)
    return IndexFile(name=name, bytes=note.bytes, sha256=note.sha256)


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write rows, each of which may be anything that JSON can say, in their order; raise OSError if they can't be."""
    ends = [0]
    with write_atomically(path) as file:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            ends.append(ends[-1] + len(line))
        file.write(np.array(ends, "<u8").data)
