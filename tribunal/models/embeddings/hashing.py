"""Texts as vectors with no model and no network, in any script: the default."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence

import numpy as np

from tribunal.models.embeddings.vectors import Vectors, of_unit_length
from tribunal.text import without_hidden

HASHING = "hashing"
DIMENSION = 384
_LONGEST_GRAM = 3
_HASHED_AT_ONCE = 1024


def plain(text: str) -> str:
    """A text without what doesn't change its words: NFKC, case folded, no invisible marks, white space to one blank."""
    return " ".join(without_hidden(unicodedata.normalize("NFKC", text)).casefold().split())


class Hashing:
    """Character n-grams of one to three, hashed with a sign into a fixed number of places; counts weigh 1 + ln(count).

    On KODOLI and UnSmile three-grams and 384 places find neighbours as well as four-grams and 512 do, in less time.
    The vectors must never change under this name, or built indexes would silently go wrong; a test pins one.
    """

    name = HASHING
    dimension = DIMENSION

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """The same, at once: (len(texts), 384), float32."""
        parts = [self._some(texts[start : start + _HASHED_AT_ONCE]) for start in range(0, len(texts), _HASHED_AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _some(self, texts: Sequence[str]) -> Vectors:
        encoded = [
            np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass") if words else b"", "<u4")
            for words in map(plain, texts)
        ]
        points = np.concatenate(encoded).astype(np.uint64)
        text_of = np.repeat(np.arange(len(texts)), [len(each) for each in encoded])
        grams = np.zeros(len(points), np.uint64)
        weights = np.zeros(len(texts) * self.dimension)
        for n in range(1, _LONGEST_GRAM + 1):
            # The hash of the n-gram beginning at each place, from that of the (n-1)-gram there and the n-th character.
            grams = (grams[: max(len(points) - n + 1, 0)] ^ points[n - 1 :]) * np.uint64(0x9E3779B97F4A7C15)
            grams ^= grams >> np.uint64(29)
            first, last = text_of[: len(grams)], text_of[n - 1 :]
            whole = first == last
            gram, text = grams[whole], first[whole].astype(np.uint64)
            in_text = gram ^ (text * np.uint64(0xD6E8FEB86659FD93))
            _, at, count = np.unique(in_text, return_index=True, return_counts=True)
            gram, text = gram[at], text[at]
            place = text * np.uint64(self.dimension) + (gram >> np.uint64(20)) % np.uint64(self.dimension)
            sign = np.where(gram >> np.uint64(63), 1.0, -1.0)
            weights += np.bincount(place.astype(np.int64), sign * (1 + np.log(count)), len(weights))
        return of_unit_length(weights.reshape(len(texts), self.dimension))
