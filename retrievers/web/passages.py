"""The parts of a text: windows small enough for one call each, and the passages that a model quotes from them."""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
from dataclasses import dataclass

from tribunal.errors import BadInput
from tribunal.models.token_counter import ESTIMATE, TokenCounter


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a text: `whole[start:end] == text`."""

    index: int
    start: int  # in characters, from the start of the whole text
    end: int
    text: str
    tokens: int  # counted word by word, so on the high side


# A word with the space before it, which is how tokenizers cut. A run without spaces is cut too: byte pair merging takes
# time that grows faster than the run does.
_WORD = re.compile(r"\s{0,200}\S{1,200}|\s{1,200}")


def cut_windows(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """Cut a text into windows that overlap. A million characters take a second; `cut_windows_in_thread` frees the loop.

    A window has at most `size` tokens, but for a single word that is larger, and repeats at most `overlap` of the one
    before.

    Raises:
        BadInput: the size is under 1, or the overlap isn't smaller than it.
    """
    if size < 1 or not 0 <= overlap < size:
        raise BadInput(f"window: size {size} and overlap {overlap}: the size is at least 1, the overlap smaller")
    words = [(match.start(), match.end(), counter.count(match[0])) for match in _WORD.finditer(text)]
    windows: list[Window] = []
    first = 0
    while first < len(words):
        last, total = first, 0.0
        while last < len(words) and (last == first or total + words[last][2] <= size):
            total += words[last][2]
            last += 1
        start, end = words[first][0], words[last - 1][1]
        windows.append(Window(len(windows), start, end, text[start:end], math.ceil(total)))
        if last == len(words):
            break
        # What is repeated must leave room for the word that comes next, or the next window would end where this did.
        back, repeated, room = last, 0.0, min(overlap, size - words[last][2])
        while back - 1 > first and repeated + words[back - 1][2] <= room:
            back -= 1
            repeated += words[back][2]
        first = back
    return windows


async def cut_windows_in_thread(text: str, size: int, overlap: int, counter: TokenCounter = ESTIMATE) -> list[Window]:
    """Cut a text as `cut_windows` does, on a thread."""
    return await asyncio.to_thread(cut_windows, text, size, overlap, counter)


_QUOTES = {quote: f"[{group}]" for group in ("'‘’‚‛′`´ʼ＇", '"“”„‟″«»＂') for quote in group}


def find_passage(text: str, passage: str) -> tuple[int, int] | None:
    """Return where a passage stands in a text in Unicode NFC, verbatim, as (start, end) in characters; None if nowhere.

    Only runs of white space, the composition of the passage's characters and the shape of quotation marks may differ.
    Where it fits without tearing a character from its marks comes before where it fits first.
    """
    words = unicodedata.normalize("NFC", passage).split()
    if not words:
        return None
    pattern = r"\s+".join("".join(_QUOTES.get(c) or re.escape(c) for c in word) for word in words)
    first = None
    for match in re.finditer(pattern, text):
        first = first or match.span()
        if not any(0 < at < len(text) and is_mark(text[at]) and not text[at - 1].isspace() for at in match.span()):
            return match.span()
    return first


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the one before it."""
    return unicodedata.category(character).startswith("M")
