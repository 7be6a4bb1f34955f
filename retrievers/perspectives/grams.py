"""The character n-grams of texts, one to three long, each as a number that spells it: no table, and no collision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.retrievers.perspectives.words import plain

LONGEST = 3
MOST = 255
# A code point takes 21 bits, so that three of them fit into 64. Each is counted up by one: no n-gram begins with a 0.
_BITS = np.uint64(21)
_BLANK = np.uint64(ord(" ") + 1)


class Grams(NamedTuple):
    """How often each n-gram stands in each text; the entries are sorted by n-gram, and then by text.

    Attributes:
        gram: the n-grams that there are, ascending.
        start: where each one's entries begin, and at last where they all end; one longer than `gram`.
        text: the place of each entry's text.
        times: how often the n-gram stands in it, `MOST` at most.
    """

    gram: npt.NDArray[np.uint64]
    start: npt.NDArray[np.int64]
    text: npt.NDArray[np.signedinteger[Any]]
    times: npt.NDArray[np.uint8]


def counted(texts: Sequence[str]) -> Grams:
    """The n-grams of some texts, a blank before and after each text. Those of three don't reach over a blank, which
    would cost room and finds no better neighbours."""
    encoded = [
        np.frombuffer(f" {words} ".encode("utf-32-le", "surrogatepass") if words else b"", "<u4")
        for words in map(plain, texts)
    ]
    points = np.concatenate([np.zeros(0, "<u4"), *encoded]).astype(np.uint64) + np.uint64(1)
    text_of = np.repeat(np.arange(len(texts)), [len(each) for each in encoded])
    grams = np.zeros(len(points), np.uint64)
    spelled, stands_in = [], []
    for n in range(1, LONGEST + 1):
        # The n-gram that begins at each place: the (n-1)-gram there, and the n-th character.
        grams = (grams[: max(len(points) - n + 1, 0)] << _BITS) | points[n - 1 :]
        whole = text_of[: len(grams)] == text_of[n - 1 :]
        if n == LONGEST:
            whole &= points[1:-1] != _BLANK
        spelled.append(grams[whole])
        stands_in.append(text_of[: len(grams)][whole])
    gram, number = np.unique(np.concatenate(spelled), return_inverse=True)
    entry, times = np.unique(number * max(len(texts), 1) + np.concatenate(stands_in), return_counts=True)
    number, text = np.divmod(entry, max(len(texts), 1))
    start = np.searchsorted(number, np.arange(len(gram) + 1))
    return Grams(gram, start, text, np.minimum(times, MOST).astype(np.uint8))
