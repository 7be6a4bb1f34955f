"""A perspective of one's own, its rows, and an embedding that says what it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from tribunal.core.text import normalize_text
from tribunal.errors import CallFailed
from tribunal.models.embeddings import Use, Vectors
from tribunal.models.embeddings.vectors import normalize_rows

WORDS = [
    "river",
    "bakery",
    "window",
    "train",
    "garden",
    "music",
    "winter",
    "ladder",
    "pepper",
    "signal",
]
TEXTS = [f"{WORDS[n % 10]} {WORDS[n // 10 % 10]} {WORDS[n // 100 % 10]}" for n in range(300)]
SPEC = """
name = "mine"
language = "en"
criterion = "Rude."
[labels]
hate = "Rude"
not_hate = "Fine"
[source]
files = ["rows.csv"]
text = "text"
obtain = "the office"
[source.label]
column = "label"
hate = ["1"]
"""


def write_rows(tmp_path: Path, texts: Sequence[str]) -> None:
    """Put texts into rows/rows.csv, every third of them hate."""
    lines = [f"{text},{int(number % 3 == 0)}" for number, text in enumerate(texts)]
    (tmp_path / "rows" / "rows.csv").write_text("\n".join(["text,label", *lines]) + "\n")


class Letters:
    """A small embedding of one's own: the pairs of letters of a text, in 64 places. It knows nothing of uses."""

    name = "tests.retrievers.perspectives.mine:LETTERS"
    dimension = 64

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        return self.vectors(texts)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, map(normalize_text, texts), strict=True):
            for one, other in pairwise(f" {text} "):
                row[(31 * ord(one) + ord(other)) % self.dimension] += 1
        return normalize_rows(rows)


LETTERS = Letters()


class Counting(Letters):
    """The same, which says what it was asked for, and can fail after so many calls."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.asked: list[str] = []
        self.uses: set[Use] = set()
        self._left = fails_after

    async def embed(self, texts: Sequence[str], use: Use) -> Vectors:
        if self._left == 0:
            raise CallFailed("the line is dead", kind="connection")
        self._left = self._left - 1 if self._left else self._left
        self.asked += texts
        self.uses.add(use)
        return await super().embed(texts, use)
