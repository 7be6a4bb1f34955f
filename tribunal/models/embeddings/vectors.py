"""Vectors, and what turns texts into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
# What a text is embedded for: to be found, or to find by. Many models tell the two apart.
Use = Literal["query", "passage"]
# A token is at least a byte, so this keeps OpenAI's limit of 8,191 tokens a text without its tables.
LONGEST_TEXT_BYTES = 8_000


@runtime_checkable
class Embedder(Protocol):
    """A model that turns texts into vectors."""

    @property
    def name(self) -> str:
        """Its name in manifests and in the setting `embedding`. Two of one name give the same vectors."""

    @property
    def dimension(self) -> int | None:
        """The length of its vectors; None for an endpoint that hasn't answered yet."""

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """Return one row of unit length per text, as (len(texts), dimension) of float32; zeros for an empty text.

        Args:
            texts: any.
            use: `passage` for the texts of an index, `query` for the post that is held against them.

        Raises:
            CallFailed: the endpoint could not be asked, or its answer is not vectors for these texts.
        """


def cut_text(text: str, most: int = LONGEST_TEXT_BYTES) -> str:
    """Return a text, well formed, of at most so many bytes."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def normalize_rows(rows: npt.NDArray[Any]) -> Vectors:
    """Return rows of unit length with the same directions; a row of zeros stays one."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(length == 0, 1, length)).astype(np.float32)
