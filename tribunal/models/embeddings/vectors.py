"""Vectors, and what turns texts into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """What an index's manifest calls it, and the setting `embedding`; two of one name give the same vectors."""

    @property
    def dimension(self) -> int | None:
        """The length of its vectors; None for an endpoint that hasn't answered yet."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of unit length per text: (len(texts), dimension), float32. A text with nothing in it is all zeros.

        Raises:
            CallFailed: the endpoint could not be asked, or its answer is not vectors for these texts.
        """


def of_unit_length(rows: npt.NDArray[Any]) -> Vectors:
    """The same directions; a row of zeros stays one."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(length == 0, 1, length)).astype(np.float32)
