"""Cutting a text into windows that overlap, each small enough for one call."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tribunal.errors import BadInput
from tribunal.retrievers.web.pages.tokens import ESTIMATE, TokenCounter


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text: `whole[start:end] == text`."""

    index: int
    start: int
    """In characters, from the start of the whole text."""
    end: int
    text: str
    tokens: int
    """Counted word by word, so on the high side."""


# A word with the space before it, which is how tokenizers cut. A run without spaces is cut too: byte pair merging takes
# time that grows faster than the run does.
_WORD = re.compile(r"\s{0,200}\S{1,200}|\s{1,200}")


def windows(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """Cut a text into windows that overlap.

    Takes about a second a million characters: `awindows` does it off the event loop.

    Args:
        text: the whole.
        size: tokens of a window, at most; a single word that is larger has a window of its own.
        overlap: tokens that a window repeats of the one before, at most.
        counter: what counts.

    Raises:
        BadInput: the size is under 1, or the overlap isn't smaller than it.
    """
    if size < 1 or not 0 <= overlap < size:
        raise BadInput(f"window: size {size} and overlap {overlap}: the size is at least 1, the overlap smaller")
    return list(_windows(text, size, overlap, counter))


async def awindows(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """`windows`, on a thread."""
    return await asyncio.to_thread(windows, text, size, overlap, counter)


def _windows(text: str, size: int, overlap: int, counter: TokenCounter) -> Iterator[Window]:
    words = [(match.start(), match.end(), counter.count(match[0])) for match in _WORD.finditer(text)]
    first, index = 0, 0
    while first < len(words):
        last, total = first, 0.0
        while last < len(words) and (last == first or total + words[last][2] <= size):
            total += words[last][2]
            last += 1
        start, end = words[first][0], words[last - 1][1]
        yield Window(index, start, end, text[start:end], math.ceil(total))
        if last == len(words):
            return
        # What is repeated must leave room for the word that comes next, or the next window would end where this did.
        back, repeated, room = last, 0.0, min(overlap, size - words[last][2])
        while back - 1 > first and repeated + words[back - 1][2] <= room:
            back -= 1
            repeated += words[back][2]
        first, index = back, index + 1
