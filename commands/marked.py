"""The words of a post, with those that cues quote marked and numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.text import Text

from tribunal.schema import Cue
from tribunal.text import visible

_QUOTED = re.compile(
    r"""“([^“”]+)”|"([^"]+)"|«([^«»]+)»|„([^„“”]+)[“”]|「([^「」]+)」|‘([^‘’]+)’|(?<!\w)'([^']+)'(?!\w)"""
)
_MARK = "underline"


def marked(post: str, cues: Iterable[Cue]) -> Text:
    """The post, with the words that a cue quotes as `[C1 these words]`, underlined where a terminal can.

    A cue quotes with its claim as a whole, else with what stands between quotation marks in the claim, else in its
    justification. One that quotes no words of the post marks nothing.

    Args:
        post: its words.
        cues: those of the case.
    """
    told, open_until, at = Text(), list[int](), 0

    def write(until: int) -> None:
        nonlocal at
        told.append(visible(post[at:until]), _MARK if open_until else "")
        at = until

    def close() -> None:
        write(open_until[-1])
        open_until.pop()
        told.append("]")

    for (start, end), ids in _nested(span for cue in cues for span in _spans(post, cue)):
        while open_until and open_until[-1] <= start:
            close()
        write(start)
        told.append("[").append(f"{' '.join(map(visible, ids))} ", "bold")
        open_until.append(end)
    while open_until:
        close()
    write(len(post))
    return told


def _nested(found: Iterable[tuple[int, int, str]]) -> list[tuple[tuple[int, int], list[str]]]:
    """Places with the ids of their cues, outer ones first; one that crosses another begins where that ends."""
    held: dict[tuple[int, int], list[str]] = {}
    for start, end, id in sorted(found, key=lambda each: (each[0], -each[1])):
        for first, last in sorted(held):
            if first < start < last < end:
                start = last
        ids = held.setdefault((start, end), [])
        if id not in ids:
            ids.append(id)
    return sorted(held.items(), key=lambda each: (each[0][0], -each[0][1]))


def _spans(post: str, cue: Cue) -> Iterator[tuple[int, int, str]]:
    for quotes in ([cue.claim.strip(" .“”\"'")], [*_quotes(cue.claim)], [*_quotes(cue.justification)]):
        found = [place for quote in quotes if (place := _place(post, quote))]
        if found:
            yield from ((*place, cue.id) for place in found)
            return


def _quotes(text: str) -> Iterator[str]:
    for found in _QUOTED.finditer(text):
        yield next(each for each in found.groups() if each).strip(" .,;:!?")


def _place(post: str, quote: str) -> tuple[int, int] | None:
    """Where the words stand first in the post: in any case and with any blanks, and not inside a longer Latin word."""
    words = quote.split()
    if not words:
        return None
    pattern = r"\s+".join(map(re.escape, words))
    before = r"(?<![a-zA-Z0-9])" if re.match("[a-zA-Z0-9]", quote) else ""
    after = r"(?![a-zA-Z0-9])" if re.search("[a-zA-Z0-9]$", quote) else ""
    found = re.search(before + pattern + after, post, re.IGNORECASE)
    return found.span() if found else None
