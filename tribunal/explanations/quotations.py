"""The passages of a post that a cue quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from tribunal.explanations.case_view import TextSegment
from tribunal.schema import Cue

# Words between marks of quotation of any language; an apostrophe within a word is none.
_QUOTED = re.compile(
    r"“([^”]+)”|„([^“”]+)[“”]|\"([^\"]+)\"|«([^»]+)»|「([^」]+)」|『([^』]+)』|《([^》]+)》|‘([^’]+)’(?!\w)"
    r"|(?<!\w)'([^']+)'(?!\w)"
)
_LEFT_OUT = re.compile(r"\s*(?:…|\.\.\.)\s*")
_LETTER = "[A-Za-z0-9_]"  # of scripts that put blanks between words
# Of one cue: a claim may be as long as a model likes, and to look for its quotations takes the square of that.
_MOST_READ = 2_000
_MOST_QUOTATIONS = 20
_MOST_PLACES = 100

Span = tuple[int, int]


class MarkedCue(NamedTuple):
    """A cue by its number, and where in the post it quotes its words; `by_gate`: the gatekeeper alone saw it."""

    cue: Cue
    number: int
    spans: list[Span]
    by_gate: bool = False


def quoted_spans(cue: Cue, text: str) -> list[Span]:
    """Return where in a text the words stand that a cue quotes, in order and apart from each other.

    A cue quotes the post in its claim, or is a passage of it; else in its justification. A place is its begin and end
    (exclusive) in characters.
    """
    in_claim = set(find_spans(text, [*quotations_in(cue.claim), cue.claim]))
    return merge_spans(in_claim or set(find_spans(text, quotations_in(cue.justification))))


def quotations_in(words: str) -> list[str]:
    """Return what stands in a text between quotation marks, apart where something was left out of it."""
    matches = islice(_QUOTED.finditer(words[:_MOST_READ]), _MOST_QUOTATIONS)
    inside = (next(filter(None, match.groups())) for match in matches)
    return [part.strip(" .,!?;:") for each in inside for part in _LEFT_OUT.split(each)]


def find_spans(text: str, phrases: Iterable[str]) -> Iterator[Span]:
    """Yield where any of these phrases stand in a text, whatever its letter case and line breaks."""
    for phrase in islice(phrases, _MOST_QUOTATIONS + 1):
        if not phrase.strip() or len(phrase) > _MOST_READ:
            continue
        pattern = r"\s+".join(re.escape(word) for word in phrase.split())
        before = f"(?<!{_LETTER})" if re.match(_LETTER, phrase) else ""
        after = f"(?!{_LETTER})" if re.match(_LETTER, phrase[-1]) else ""
        for match in islice(
            re.finditer(before + pattern + after, text, re.IGNORECASE), _MOST_PLACES
        ):
            yield match.span()


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with those that overlap merged."""
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def cut_segments(text: str, marked: Sequence[MarkedCue]) -> tuple[TextSegment, ...]:
    """Return a text cut wherever words that a cue quotes begin or end; marks may overlap."""
    spans: list[tuple[Span, int]] = [(span, each.number) for each in marked for span in each.spans]
    edges = sorted({0, len(text), *(edge for (begin, end), _ in spans for edge in (begin, end))})
    segments = []
    for begin, end in pairwise(edges):
        over = sorted({number for (first, last), number in spans if first <= begin and end <= last})
        ends = sorted({number for (first, last), number in spans if last == end and first <= begin})
        segments.append(TextSegment(text=text[begin:end], cues=tuple(over), ends=tuple(ends)))
    return tuple(segments)
