"""A perspective's labelled texts as an index: building it, opening it, and the texts most similar to a post.

PREDICT's PRE phase (section 3.1) shows each perspective the three texts of its own set that are nearest to the post by
cosine. An index is a folder:

- `index-….faiss`: the vectors, normalised, in a flat inner-product index: every vector is compared. Up to
  `LARGEST_EXACT` numbers they are kept whole (`exact`), above it at half precision (`half`), which halves memory and
  time (200,000 rows of 384 numbers: 17 ms for 33) and finds the same neighbours but for near ties. Building measures
  that and writes the recall into the manifest; below 0.95 it keeps them whole. An index of cells, which compares only
  some of the vectors, would save little next to the seconds of a chat model, and cost more recall.
- `rows-….parquet`: the texts and labels, in small row groups, so that a hit is looked up without reading the rest.
- `manifest.json`: what was built from what, by which embedding, and the hash of each file. It is written last, by a
  rename, and names the other files by their hash: a reader sees the old index or the new one, never half of each.
- `verified.json`: sizes and times of the files when their hashes were last compared. Hashing 300 MB takes longer than
  an index may take to open, so opening compares hashes only when a size or time has changed; `verify` always does.
- `partial/`: a build under way. A killed build goes on from the last batch in it.

Both files are mapped into memory, not read: opening costs nothing that grows with the rows, and processes share pages.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import Field, ValidationError

from tribunal.errors import BadInput, TribunalError
from tribunal.models.embeddings import HASHING, Embedder, Vectors, embedder, plain
from tribunal.retrievers.perspectives.perspective import EXAMPLES, Perspective, find, is_path, spec_file, user_folder
from tribunal.retrievers.perspectives.rows import Row, file_hash, locate, read
from tribunal.schema import JSON, Example, Frozen, Stance

FORMAT: Literal[1] = 1
BATCH = 2048
ROW_GROUP = 512
# How many hits beyond k are fetched at first, so that leaving out a few copies of the post needs no second search.
_SPARE = 8
LARGEST_EXACT = 32_000_000
LEAST_RECALL = 0.95
_PROBES = 200
_CHUNK = 8192
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")

Progress = Callable[[int, int], None]


class FileNote(Frozen):
    """A file, by name alone, as it was when the index was built."""

    name: str
    bytes: int
    sha256: str


class Manifest(Frozen):
    """What an index is, and what it was built from."""

    format: Literal[1] = FORMAT
    perspective: Perspective
    spec_sha256: str = Field(description="of the perspective, criterion and label names included, as canonical JSON")
    sources: tuple[FileNote, ...]
    source_sha256: str = Field(description="of the hashes of the source files, in their order")
    embedding: str
    dimension: int
    rows: int
    hate: int
    not_hate: int
    skipped: int = Field(description="rows without a text")
    index: Literal["exact", "half"]
    recall_at_3: float = Field(description="against exact search, measured on its own rows; 1 where it is exact")
    built: str = Field(description="when, in UTC")
    vectors_file: FileNote
    rows_file: FileNote

    @property
    def files(self) -> tuple[FileNote, FileNote]:
        return self.vectors_file, self.rows_file


class Searcher(Protocol):
    """Anything that finds a perspective's texts near a post: a `Store`, or a `VectorStoreSearcher`."""

    @property
    def perspective(self) -> Perspective: ...

    async def search(self, text: str, k: int = 3) -> list[Example]: ...


# ---------------------------------------------------------------------------------------------------------- searching


@dataclass(frozen=True, slots=True)
class _Index:
    """Vectors, and the rows they stand for."""

    vectors: Any
    row: Callable[[int], Row]
    manifest: Manifest | None = None


class Store:
    """One perspective's texts, searched by cosine. Safe to search from many tasks and threads at once."""

    def __init__(self, perspective: Perspective, model: Embedder, index: _Index, folder: Path | None = None) -> None:
        self.perspective = perspective
        self.embedder = model
        self.folder = folder
        self._index = index

    @property
    def manifest(self) -> Manifest | None:
        """What the index was built from; None where it was made in memory."""
        return self._index.manifest

    def __len__(self) -> int:
        return int(self._index.vectors.ntotal)

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """The k texts nearest to this one, nearest first, without those that are equal to it.

        Equal means: the same but for letter case, white space, character width, and signs at the ends. So a set can be
        evaluated over an index of itself. Fewer than k come back where the set has fewer; none for a blank text.

        Raises:
            CallFailed: the embedding endpoint gave no vector.
            BadInput: its vectors are not of the index's length.
        """
        if not plain(text):
            return []
        vector = (await self.embedder.embed([text]))[0]
        return await self.nearest(vector, text, k)

    async def nearest(self, vector: Vectors, text: str, k: int = 3) -> list[Example]:
        """As `search`, for a text whose vector, (dimension,), is known."""
        if k < 1:
            raise BadInput(f"k: {k}: at least one example is asked for")
        if len(vector) != self._index.vectors.d:
            raise BadInput(
                f"perspective {self.perspective.name}: its index holds vectors of {self._index.vectors.d} numbers, and "
                f"{self.embedder.name} now gives {len(vector)}: {_build_again(self.perspective.name)}"
            )
        # FAISS lets the interpreter go while it searches, and a query alone uses one core: searches run side by side.
        return await asyncio.to_thread(self._nearest, vector, _key(text), k)

    def _nearest(self, vector: Vectors, leave_out: str, k: int) -> list[Example]:
        fetched = min(k + _SPARE, len(self))
        while True:
            similarities, rows = self._index.vectors.search(vector[np.newaxis], fetched)
            found: list[Example] = []
            for similarity, number in zip(similarities[0].tolist(), rows[0].tolist(), strict=True):
                row = self._index.row(number)
                if _key(row.text) != leave_out:
                    found.append(_example(self.perspective, row, similarity, number))
                if len(found) == k:
                    return found
            if fetched == len(self):
                return found
            fetched = min(fetched * 4, len(self))

    def verify(self) -> None:
        """Compare every file of the index with its hash in the manifest, whatever its size and times are.

        Raises:
            BadInput: one is missing or differs.
        """
        if self.folder and self.manifest:
            _verify(self.folder, self.manifest)

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        """This store as a LangChain retriever."""
        return PerspectiveRetriever(searcher=self, k=k)


def _example(perspective: Perspective, row: Row, similarity: float, number: int) -> Example:
    label: Stance = "hate" if row.hate else "not_hate"
    return Example(
        text=row.text,
        label=label,
        label_name=perspective.label_name(label),
        similarity=round(similarity, 6),
        row=number,
    )


def _key(text: str) -> str:
    words = plain(text)
    return _EDGES.sub("", words) or words


async def search_together(
    searchers: Sequence[Searcher], text: str, k: int = 3
) -> dict[str, list[Example] | TribunalError]:
    """Every perspective's k examples for one text, by its name, searched at the same time.

    Stores that share an embedding embed the text once. A perspective that fails has its error in place of examples, so
    that it doesn't sink the others.
    """
    models = {each.embedder.name: each.embedder for each in searchers if isinstance(each, Store)}
    blank = not plain(text)
    vectors = {name: asyncio.create_task(model.embed([text])) for name, model in models.items() if not blank}

    async def one(searcher: Searcher) -> list[Example] | TribunalError:
        try:
            if blank or not isinstance(searcher, Store):
                return [] if blank else await searcher.search(text, k)
            return await searcher.nearest((await vectors[searcher.embedder.name])[0], text, k)
        except TribunalError as error:
            return error

    try:
        found = await asyncio.gather(*map(one, searchers))
    finally:
        for task in vectors.values():
            task.cancel()
    return {searcher.perspective.name: each for searcher, each in zip(searchers, found, strict=True)}


# ------------------------------------------------------------------------------------------------------------ opening


def every() -> list[str]:
    """The names of all perspectives that can be heard here: those with an index, and the user's own that play from
    memory; where there is none, the five small examples. Reads files: call it off the event loop."""
    built = {path.parent.name for path in user_folder().glob("*/manifest.json")}
    own = {path.stem for path in user_folder().glob("*.toml") if find(path.stem).texts}
    return sorted(built | own) or list(EXAMPLES)


async def open_stores(names: Sequence[str] = (), *, embedding: str | None = None) -> list[Store]:
    """The stores of these perspectives; with none named, the five small examples, which play from memory.

    Each name is a perspective's, the path of its TOML file, or the path of an index folder. What was opened stays open.

    Args:
        names: which perspectives.
        embedding: the embedding asked for; None is each index's own (`hashing` for an example).

    Raises:
        BadInput: a name is unknown, has no index (with the command that builds it), was built by another embedding or
            from another [source], or its files are damaged.
    """
    return list(await asyncio.gather(*(open_store(name, embedding=embedding) for name in names or EXAMPLES)))


async def open_store(name: str, *, embedding: str | None = None) -> Store:
    """One store, as `open_stores`."""
    opened = await asyncio.to_thread(_open, name, embedding)
    return opened if isinstance(opened, Store) else await in_memory(*opened)


def _open(name: str, embedding: str | None) -> Store | tuple[Perspective, Embedder]:
    perspective, folder = resolve(name)
    if folder is None:
        return perspective, embedder(embedding or HASHING)
    return open_index(folder, perspective, embedding=embedding)


def resolve(name: str) -> tuple[Perspective, Path | None]:
    """A perspective and the folder of its index, whether built or not; None for one that plays from memory."""
    if is_path(name) and not name.endswith(".toml"):
        folder = Path(name).expanduser()
        return read_manifest(folder).perspective, folder
    if not is_path(name) and spec_file(name) is None and (user_folder() / name / "manifest.json").exists():
        # It was built from a TOML file that lies elsewhere, and is known by its index alone.
        return read_manifest(user_folder() / name).perspective, user_folder() / name
    perspective = find(name)
    return perspective, None if perspective.texts else user_folder() / perspective.name


_in_memory: dict[tuple[Perspective, str], _Index] = {}


async def in_memory(perspective: Perspective, model: Embedder) -> Store:
    """A store of the texts that lie in a perspective's own file; made once in a process."""
    if perspective.texts is None:
        raise BadInput(f"perspective {perspective.name}: has no texts of its own; {_build(perspective.name)}")
    held = perspective, model.name
    if held not in _in_memory:
        rows = [Row(text, True) for text in perspective.texts.hate] + [
            Row(text, False) for text in perspective.texts.not_hate
        ]
        vectors = await model.embed([row.text for row in rows])
        _in_memory[held] = await asyncio.to_thread(_flat, vectors, rows)
    return Store(perspective, model, _in_memory[held])


def _flat(vectors: Vectors, rows: list[Row]) -> _Index:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return _Index(index, rows.__getitem__)


def open_index(folder: Path, perspective: Perspective | None = None, *, embedding: str | None = None) -> Store:
    """The index in this folder. Reads files, though none whole: call it off the event loop.

    Args:
        folder: holds `manifest.json`.
        perspective: as it is now; None is as it was when the index was built. Its criterion and label names may have
            changed since, its [source] may not.
        embedding: the embedding asked for; None is the index's own.
    """
    held = read_manifest(folder, perspective)
    current = perspective or held.perspective
    if embedding is not None and embedding != held.embedding:
        raise BadInput(
            f"perspective {current.name}: its index was built with the embedding {held.embedding}, not {embedding}; "
            f"ask for {held.embedding}, or {_build_again(current.name, embedding)}"
        )
    if current.source != held.perspective.source:
        raise BadInput(
            f"perspective {current.name}: its [source] has changed since the index was built; "
            f"{_build_again(current.name, held.embedding)}"
        )
    index = _opened(folder.resolve(), (folder / "manifest.json").stat().st_mtime_ns, held)
    return Store(current, embedder(held.embedding), index, folder)


def read_manifest(folder: Path, perspective: Perspective | None = None) -> Manifest:
    """The manifest of the index in this folder.

    Raises:
        BadInput: there is none, with the command that builds it, or it is damaged.
    """
    name = perspective.name if perspective else folder.name
    try:
        return Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    except FileNotFoundError as error:
        where = f"; the set is obtained from {perspective.source.obtain}" if perspective and perspective.source else ""
        raise BadInput(f"perspective {name}: no index in {folder}; {_build(name)}{where}") from error
    except OSError as error:
        raise BadInput(f"perspective {name}: {folder / 'manifest.json'}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise BadInput(
            f"perspective {name}: the manifest in {folder} is damaged ({field}: {first['msg']}); {_build_again(name)}"
        ) from error


@lru_cache(maxsize=64)
def _opened(folder: Path, stamp: int, held: Manifest) -> _Index:
    """The files of an index, mapped. `stamp` is the manifest's time: an index built anew is opened anew."""
    import faiss
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check(folder, held)
    try:
        vectors = faiss.read_index(str(folder / held.vectors_file.name), faiss.IO_FLAG_MMAP_IFC)
        file = pq.ParquetFile(folder / held.rows_file.name, memory_map=True)
    except (RuntimeError, OSError, pa.ArrowInvalid) as error:
        raise _damaged(held, "can't be read") from error
    shape = vectors.ntotal, vectors.d, vectors.metric_type, file.metadata.num_rows
    if shape != (held.rows, held.dimension, faiss.METRIC_INNER_PRODUCT, held.rows):
        raise _damaged(held, "is of another shape than its manifest says")
    return _Index(vectors, _row_reader(file), held)


def _row_reader(file: Any) -> Callable[[int], Row]:
    turn = Lock()

    @lru_cache(maxsize=16)
    def group(number: int) -> Any:
        # One reader of a Parquet file is not for several threads.
        with turn:
            return file.read_row_group(number, columns=["text", "hate"], use_threads=False)

    def row(number: int) -> Row:
        table, place = group(number // ROW_GROUP), number % ROW_GROUP
        return Row(table["text"][place].as_py(), table["hate"][place].as_py())

    return row


def _check(folder: Path, held: Manifest) -> None:
    for note in held.files:
        path = folder / note.name
        if not path.is_file():
            raise _damaged(held, f"lacks {note.name}")
        if (size := path.stat().st_size) != note.bytes:
            raise _damaged(held, f"is truncated or changed: {note.name} has {size:,} bytes, not {note.bytes:,}")
    try:
        seen = json.loads((folder / "verified.json").read_bytes())
    except (OSError, ValueError):
        seen = None
    if seen != _stamps(folder, held):
        _verify(folder, held)


def _verify(folder: Path, held: Manifest) -> None:
    for note in held.files:
        try:
            same = file_hash(folder / note.name) == note.sha256
        except OSError as error:
            raise _damaged(held, f"lacks {note.name}") from error
        if not same:
            raise _damaged(held, f"was changed since it was built: {note.name} has another hash")
    _note_verified(folder, held)


def _note_verified(folder: Path, held: Manifest) -> None:
    try:
        _write_whole(folder / "verified.json", _stamps(folder, held))
    except OSError:
        # A folder that can't be written is hashed by every process that opens it: slower, and just as right.
        return


def _stamps(folder: Path, held: Manifest) -> JSON:
    stats = {note.name: (folder / note.name).stat() for note in held.files}
    return {name: [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats.items()}


def _damaged(held: Manifest, what: str) -> BadInput:
    name = held.perspective.name
    return BadInput(f"perspective {name}: its index {what}; {_build_again(name, held.embedding)}")


def _build(name: str, embedding: str = HASHING) -> str:
    option = "" if embedding == HASHING else f" --embedding {embedding}"
    return f"build it with: tribunal perspectives build {name} --data DIR{option}"


def _build_again(name: str, embedding: str = HASHING) -> str:
    return _build(name, embedding).replace("build it with", "build it again with", 1)


# ----------------------------------------------------------------------------------------------------------- building


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
        progress: told (rows embedded, rows in all) before the first batch and after each.

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
        with _alone(partial, perspective.name):
            vectors = await asyncio.to_thread(_resume, partial, draft)
            done = vectors.rows
            if progress:
                progress(done, len(draft.texts))
            for start in range(done, len(draft.texts), BATCH):
                some = await model.embed(draft.texts[start : start + BATCH])
                await asyncio.to_thread(vectors.append, some)
                if progress:
                    progress(start + len(some), len(draft.texts))
            return await asyncio.to_thread(_finish, folder, draft, vectors)
    except OSError as error:
        raise BadInput(f"perspective {perspective.name}: {folder}: {error.strerror or error}") from error


@dataclass(slots=True)
class _Draft:
    """What is to be built: the rows, and all that the vectors depend on."""

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
    for row in read(perspective, files):
        if row.text:
            texts.append(row.text)
            hate.append(row.hate)
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
    return _Draft(perspective, embedding, tuple(_note(file) for file in files), texts, hate, skipped)


def _note(path: Path) -> FileNote:
    return FileNote(name=path.name, bytes=path.stat().st_size, sha256=file_hash(path))


class _VectorFile:
    """The vectors of a build so far: raw float32 rows, flushed batch by batch. Its name carries their length."""

    def __init__(self, partial: Path) -> None:
        self._partial = partial
        self.path: Path | None = next(iter(partial.glob("vectors-*.f32")), None)
        self.dimension = int(self.path.stem.partition("-")[2]) if self.path else 0
        self.rows = self.path.stat().st_size // (4 * self.dimension) if self.path else 0
        if self.path:
            # A row that was cut off by the kill is embedded again.
            os.truncate(self.path, self.rows * 4 * self.dimension)

    def append(self, some: Vectors) -> None:
        if self.path is None:
            self.dimension = some.shape[1]
            self.path = self._partial / f"vectors-{self.dimension}.f32"
        if some.shape[1] != self.dimension:
            raise BadInput(
                f"embedding: vectors of {some.shape[1]} numbers after ones of {self.dimension}: the model behind the "
                f"name has changed; delete {self._partial} and build again"
            )
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(some, "<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
        self.rows += len(some)

    def read(self) -> Iterator[tuple[int, Vectors]]:
        """Every row, a few thousand at a time, each time with the number of the first."""
        for start in range(0, self.rows, _CHUNK):
            yield (
                start,
                np.fromfile(
                    self._there(),
                    "<f4",
                    min(_CHUNK, self.rows - start) * self.dimension,
                    offset=start * self.dimension * 4,
                ).reshape(-1, self.dimension),
            )

    def some(self, numbers: npt.NDArray[np.int64]) -> Vectors:
        """These rows: (*numbers.shape, dimension)."""
        rows = np.empty((numbers.size, self.dimension), "<f4")
        with self._there().open("rb") as file:
            for row, number in zip(rows, numbers.flat, strict=True):
                file.seek(int(number) * row.nbytes)
                file.readinto(row.data)
        return rows.reshape(*numbers.shape, self.dimension)

    def _there(self) -> Path:
        if self.path is None:
            raise OSError("there are no vectors")
        return self.path


def _resume(partial: Path, draft: _Draft) -> _VectorFile:
    plan, noted = draft.plan, partial / "plan.json"
    try:
        same = json.loads(noted.read_bytes()) == plan
    except (OSError, ValueError):
        same = False
    if not same:
        for old in partial.glob("vectors-*.f32"):
            old.unlink()
        _write_whole(noted, plan)
    return _VectorFile(partial)


def _finish(folder: Path, draft: _Draft, vectors: _VectorFile) -> Manifest:
    import faiss

    partial = folder / "partial"
    hate = sum(draft.hate)
    _write_rows(partial / "rows.parquet", draft)
    kind: Literal["exact", "half"] = "half" if vectors.rows * vectors.dimension > LARGEST_EXACT else "exact"
    index = _filled(kind, vectors)
    recall = 1.0 if kind == "exact" else _recall_at_3(index, vectors)
    if recall < LEAST_RECALL:
        kind, recall, index = "exact", 1.0, _filled("exact", vectors)
    faiss.write_index(index, str(partial / "index.faiss"))

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
    _write_whole(folder / "manifest.json", built.dump())
    _note_verified(folder, built)
    kept = {note.name for note in notes}
    for old in (*folder.glob("index-*.faiss"), *folder.glob("rows-*.parquet")):
        if old.name not in kept:
            old.unlink(missing_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    return built


def _write_rows(path: Path, draft: _Draft) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("text", pa.string()), ("hate", pa.bool_())])
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for start in range(0, len(draft.texts), ROW_GROUP):
            texts = [text.encode() for text in draft.texts[start : start + ROW_GROUP]]
            ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
            hate = np.packbits(draft.hate[start : start + ROW_GROUP], bitorder="little")
            # From buffers, because `pa.array` imports pandas where it is installed: half a second and 50 MB.
            columns = [
                pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts))),
                pa.Array.from_buffers(pa.bool_(), len(texts), [None, pa.py_buffer(hate)]),
            ]
            file.write_table(pa.Table.from_arrays(columns, schema=schema))


def _filled(kind: Literal["exact", "half"], vectors: _VectorFile) -> Any:
    """A FAISS index of these vectors, encoded into its own memory, so that it holds them once and not twice."""
    import faiss

    half = faiss.ScalarQuantizer.QT_fp16
    index: Any = (
        faiss.IndexFlatIP(vectors.dimension)
        if kind == "exact"
        else faiss.IndexScalarQuantizer(vectors.dimension, half, faiss.METRIC_INNER_PRODUCT)
    )
    size = index.sa_code_size()
    index.codes.resize(vectors.rows * size)
    index.ntotal = vectors.rows
    codes = faiss.rev_swig_ptr(index.codes.data(), vectors.rows * size).reshape(vectors.rows, size)
    for start, chunk in vectors.read():
        codes[start : start + len(chunk)] = index.sa_encode(chunk)
    return index


def _recall_at_3(index: Any, vectors: _VectorFile) -> float:
    """The share of its three nearest neighbours that the index finds for its own rows, itself left out.

    A neighbour counts as found when it is as near as the exact third; which of several equal ones it is, is no matter.
    """
    numbers = np.linspace(0, vectors.rows - 1, min(_PROBES, vectors.rows)).astype(np.int64)
    probes = vectors.some(numbers)
    best = np.full((len(probes), 4), -np.inf, np.float32)
    for _, chunk in vectors.read():
        best = np.partition(np.hstack([best, probes @ chunk.T]), -4, axis=1)[:, -4:]
    third = best.min(axis=1)
    _, hits = index.search(probes, 4)
    nearest = np.stack([row[row != number][:3] for row, number in zip(hits, numbers, strict=True)])
    similarity = np.einsum("pd,phd->ph", probes, vectors.some(nearest))
    return float((similarity >= third[:, np.newaxis] - 1e-6).mean())


def _settled(folder: Path, path: Path) -> FileNote:
    """Move a finished file to its place, under a name that carries its hash."""
    note = _note(path)
    note = note.model_copy(update={"name": f"{path.stem}-{note.sha256[:12]}{path.suffix}"})
    path.replace(folder / note.name)
    return note


def _write_whole(path: Path, content: JSON) -> None:
    """Write a JSON file so that a reader sees the old one or the new one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _alone(partial: Path, name: str) -> Iterator[None]:
    """Hold a build's folder against a second build; the system lets go of it when the process ends, however it ends."""
    with (partial / "lock").open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # not to be had on Windows
        except BlockingIOError as error:
            raise BadInput(f"perspective {name}: another process is building it; wait for that one") from error
        yield


# ---------------------------------------------------------------------------------------------------------- LangChain


class PerspectiveRetriever(BaseRetriever):
    """A searcher as a LangChain retriever. A document's metadata: perspective, label, label_name, similarity, row."""

    searcher: Any
    k: int = Field(default=3, ge=1)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await self._documents(query)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        # In a thread with a loop of its own, since the caller's thread may have one that is running.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._documents(query)).result()

    async def _documents(self, query: str) -> list[Document]:
        name = self.searcher.perspective.name
        return [
            Document(
                id=f"{name}:{found.row}",
                page_content=found.text,
                metadata={"perspective": name, **found.model_dump(exclude={"text"})},
            )
            for found in await self.searcher.search(query, self.k)
        ]


class VectorStoreSearcher:
    """Any LangChain vector store in the place of a `Store`.

    Its documents hold a text and, in their metadata, `label`: hate or not_hate, or the perspective's own name for it.

    Args:
        perspective: whose texts these are.
        vectors: the store.
        similarity: turns the store's score into a cosine; the identity fits a store that scores by cosine, such as
            `InMemoryVectorStore`; for one that gives a distance, pass what undoes it.
    """

    def __init__(
        self, perspective: Perspective, vectors: VectorStore, *, similarity: Callable[[float], float] = float
    ) -> None:
        self.perspective = perspective
        self._vectors = vectors
        self._similarity = similarity

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """As `Store.search`."""
        if not plain(text):
            return []
        fetched, leave_out = k + _SPARE, _key(text)
        while True:
            hits = await self._vectors.asimilarity_search_with_score(text, k=fetched)
            kept = [(hit, score) for hit, score in hits if _key(hit.page_content) != leave_out][:k]
            if len(kept) == k or len(hits) < fetched:
                return [self._example(document, score) for document, score in kept]
            fetched *= 4

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        return PerspectiveRetriever(searcher=self, k=k)

    def _example(self, document: Document, score: float) -> Example:
        labels: dict[Any, bool] = {
            "hate": True,
            "not_hate": False,
            self.perspective.labels.hate: True,
            self.perspective.labels.not_hate: False,
        }
        given = document.metadata.get("label")
        if given not in labels:
            raise BadInput(
                f"perspective {self.perspective.name}: a document's label is {given!r}; it may be "
                f"{', '.join(map(repr, labels))}"
            )
        row = Row(document.page_content, labels[given])
        return _example(self.perspective, row, self._similarity(score), int(document.metadata.get("row", -1)))
