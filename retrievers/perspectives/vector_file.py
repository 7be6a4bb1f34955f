"""The vectors of a build so far: raw float32 rows, put on the disk batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tribunal.errors import BadInput
from tribunal.models.embeddings import Vectors

_CHUNK = 8192


class VectorFile:
    """The vectors in a build's folder; the file's name carries their length.

    Attributes:
        path: the file; None before the first batch.
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

    def read(self) -> Iterator[tuple[int, Vectors]]:
        """Every row, a few thousand at a time, each time with the number of the first."""
        for start in range(0, self.rows, _CHUNK):
            numbers = min(_CHUNK, self.rows - start) * self.dimension
            some = np.fromfile(self._there(), "<f4", numbers, offset=start * self.dimension * 4)
            yield start, some.reshape(-1, self.dimension)

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
