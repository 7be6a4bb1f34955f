"""The index of vectors: FAISS's `IndexFlatIP`, which compares a query with every one of them, exactly.

An index of cells, which compares only some of the vectors, would save little next to the seconds of a chat model, and
cost recall.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tribunal.errors import BadInput
from tribunal.models.embeddings import Vectors


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Texts by their vectors, which are of unit length; `vectors` is FAISS's index of them."""

    vectors: Any

    def __len__(self) -> int:
        return int(self.vectors.ntotal)

    @property
    def dimension(self) -> int:
        """Return the number of dimensions of a vector."""
        return int(self.vectors.d)

    def nearest(self, query: Vectors, count: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
        """Return the similarities and numbers of the texts nearest to a query, nearest first.

        Of equal ones, the first comes first. `count` may not be more than there are texts.

        Raises:
            ValueError: the vectors hold numbers that can't be right.
        """
        import faiss

        # FAISS lets the interpreter go while it searches: searches run side by side, each on one core. To share one out
        # over the cores takes more time than it saves. The number counts for this thread alone.
        faiss.omp_set_num_threads(1)
        similarities, numbers = (found[0] for found in self.vectors.search(query[np.newaxis], count))
        if not np.isfinite(similarities).all() or (numbers < 0).any():
            raise ValueError("it holds numbers that can't be right")
        order = np.lexsort((numbers, -similarities))
        return np.minimum(similarities[order], 1), numbers[order]


def index_vectors(vectors: Vectors) -> VectorIndex:
    """Return an index of these vectors, (rows, dimension), in memory."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return VectorIndex(index)


def write_vectors(path: Path, vectors: Vectors) -> None:
    """Write an index of these vectors, (rows, dimension).

    Raises:
        RuntimeError: the file can't be written.
    """
    import faiss

    faiss.write_index(index_vectors(vectors).vectors, str(path))


_KIND = b"IxFI"  # what the file of a flat index by inner product begins with
_HEAD = struct.Struct("<4siq")  # the kind, the length of a vector, the number of vectors
_BESIDE = 4096  # bytes that FAISS writes beside the vectors, at most


def map_vectors(path: Path, rows: int, dimension: int) -> VectorIndex:
    """Return the index in a file, mapped. FAISS is given no file that isn't an index of this kind and shape.

    Raises:
        OSError, RuntimeError, ValueError: the file isn't one.
    """
    import faiss

    with path.open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or _HEAD.unpack(head) != (_KIND, dimension, rows):
        raise ValueError("not an index of this shape")
    if not 0 <= path.stat().st_size - 4 * rows * dimension <= _BESIDE:
        raise ValueError("its size doesn't fit its shape")
    vectors = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if vectors.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise ValueError("not an index by inner product")
    return VectorIndex(vectors)


class VectorFile:
    """The vectors of a build so far: raw float32 rows, put on the disk batch by batch.

    Attributes:
        path: the file, whose name carries the length of a vector; None before the first batch.
        dimension: how many numbers a vector has; 0 before the first batch.
        rows: how many vectors there are.
    """

    def __init__(self, partial: Path) -> None:
        self._partial = partial
        self.path: Path | None = next(iter(partial.glob("vectors-*.f32")), None)
        self.dimension = int(self.path.stem.partition("-")[2]) if self.path else 0
        self.rows = self.path.stat().st_size // (4 * self.dimension) if self.path else 0
        if self.path:
            # A row that was cut off by the kill is embedded again.
            os.truncate(self.path, self.rows * 4 * self.dimension)

    def append(self, some: Vectors) -> None:
        """Put a batch, (rows, dimension), on the disk.

        Raises:
            BadInput: they are of another length than those before.
        """
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

    def read(self) -> Vectors:
        """Return every row, (rows, dimension), mapped.

        Raises:
            OSError: there are none.
        """
        if self.path is None:
            raise OSError("there are no vectors")
        return np.memmap(self.path, "<f4", "r", shape=(self.rows, self.dimension))
