"""What a first look sees of a text: which runs of characters and words are in it, by their hashes.

Features are hashed (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009) by CRC-32, which
every Python has in C. The same function makes them when a first look is fitted and when it looks, so that the two can't
differ. Runs of two to four characters stay within a word and count its ends.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

from tribunal.retrievers.perspectives.words import plain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SIZE = 2**20
_RUNS = (2, 3, 4)
_VARYING = re.compile(r"https?://\S+|www\.\S+|(?<!\w)@\w+")
_WORD = re.compile(r"\w+")
_LONG = 40  # characters from which on the runs of a word aren't kept: such words don't come again


def features(text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The features of a text, and the value of each; none of a text without words.

    The values of all runs of characters have the length 1 together, and so have those of all words and pairs of words.
    A feature may stand there twice, where a run and a word have one hash; its values are added.
    """
    import numpy as np

    words = _WORD.findall(plain(_VARYING.sub(" ", text)))
    if not words:
        return np.empty(0, dtype=np.int64), np.empty(0)
    runs: set[int] = set()
    for word in dict.fromkeys(words):
        runs.update(_runs(word) if len(word) < _LONG else _runs.__wrapped__(word))
    said = {_place(f"\0{word}") for word in words} | {_place(f"\0{one}\0{next_}") for one, next_ in pairwise(words)}
    # In an order of their own, so that a sum of floats is the same in every process.
    places = np.array([*sorted(runs), *sorted(said)], dtype=np.int64)
    return places, np.repeat([len(runs) ** -0.5, len(said) ** -0.5], [len(runs), len(said)])


@lru_cache(maxsize=2**14)
def _runs(word: str) -> tuple[int, ...]:
    """The runs of characters within a word, its ends among them."""
    ended = f" {word} "
    return tuple({_place(ended[at : at + run]) for run in _RUNS for at in range(max(1, len(ended) - run + 1))})


def _place(feature: str) -> int:
    return crc32(feature.encode("utf-8", "replace")) % SIZE
