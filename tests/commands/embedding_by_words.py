"""An embedder of a user's own: a text's words, hashed; it can be made to fail, and to become another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.doubles import embedding
from tribunal.errors import CallFailed
from tribunal.models.embeddings import Use, Vectors


class ByWords:
    """Attributes: `asked`, the texts it was given; `fails`, whether its server is away."""

    name = f"{__name__}:EMBEDDER"

    def __init__(self) -> None:
        self.dimension = 128
        self.version = "1"
        self.fails = False
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        """As `Embedder.embed`."""
        assert use == "query"
        if self.fails:
            raise CallFailed(
                "embedding: connection at example: refused", kind="connection", model=self.name
            )
        self.asked += texts
        return np.array([embedding(text, self.dimension) for text in texts], np.float32)


EMBEDDER = ByWords()
