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
from typing import Any

import numpy as np

from tribunal.errors import BadInput
from tribunal.files import LockHeld, hold_lock, write_atomically
from tribunal.models.embeddings import TFIDF, Embedder, Vectors
from tribunal.retrievers.indexes.manifest import IndexFile, note_file
from tribunal.retrievers.indexes.ngrams import fit_ngrams, write_ngrams
from tribunal.retrievers.indexes.text_index import index_vectors
from tribunal.schema import JSON

# How many texts an embedder is given at once, where it doesn't say: a build that is stopped loses no more than these.
BATCH = 256

Progress = Callable[[int, int], None]


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
    partial, embedding = folder / "partial", model.name if model else TFIDF
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
        if fresh := [text for text, vector in some.items() if vector is None]:
            some |= zip(fresh, await model.embed(fresh, "passage"), strict=True)
        batch = [row for text in texts[start : start + at_once] if (row := some[text]) is not None]
        vectors = await asyncio.to_thread(_add_batch, vectors, batch, partial / f"{plan}-{start:09}.npy")
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
    """Return FAISS's index of the batches that were made under the same plan; the others go."""
    vectors = index_vectors(np.zeros((0, 1), np.float32))
    for path in sorted(partial.glob("*.npy")):
        if plan is None or not path.name.startswith(plan):
            path.unlink()
        else:
            vectors = _add_batch(vectors, np.load(path), path)
    return vectors


def _add_batch(vectors: Any, batch: Sequence[Vectors], path: Path) -> Any:
    """Return FAISS's index with a batch added; a new one is first put on the disk, for a build that goes on.

    Raises:
        BadInput: it is of another length than those before.
    """
    if not vectors.ntotal:
        vectors = index_vectors(np.zeros((0, len(batch[0])), np.float32))
    if other := {len(row) for row in batch} - {vectors.d}:
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
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # the manifest must not reach the disk before the files that it names
    path.replace(folder / name)
    return IndexFile(name=name, bytes=note.bytes, sha256=note.sha256)


def write_rows(path: Path, rows: Iterable[Any]) -> None:
    """Write rows, each of which may be anything that JSON can say, in their order; raise OSError if they can't be."""
    ends = [0]
    with path.open("wb") as file:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            file.write(line)
            ends.append(ends[-1] + len(line))
        file.write(np.array(ends, "<u8").data)
