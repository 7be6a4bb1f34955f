"""Where the sentences, the quotations and the groups named in a post lie."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

from tribunal.nodes.rehearsal.groups import GROUPS
from tribunal.nodes.rehearsal.phrases import SATIRE
from tribunal.nodes.rehearsal.spelling import WORD, plain
from tribunal.prompts.policy import Policy

AROUND = 300  # characters on either side that are looked at beside an attack
OWN_WORDS = 3  # outside quotations, from which on the rest of a post counts as quoted

_STOP = re.compile(r"(?<=[.!?…]) |\n")
_QUOTATION_MARK = re.compile(r"\"|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)|\n")
_THE = r"(?=\s+(?:are|were|should|must|have|always|never|can't|don't|live|take|get|deserve)\b|\s*[.,!?;:]|\s*$)"


@dataclass(frozen=True, slots=True)
class Mention:
    """A group named in the post; `key` is its place in the lexicon, or the policy's own name for it."""

    start: int
    end: int
    key: str
    term: str
    one: bool


@dataclass(frozen=True)
class Layout:
    """A post in one spelling, and where its parts lie, each as a place in `text`."""

    text: str
    policy: Policy
    quotes: tuple[tuple[int, int], ...]
    stops: tuple[int, ...]
    mentions: tuple[Mention, ...]

    def sentence(self, at: int, spare: int = 0) -> tuple[int, int]:
        """Where the sentence that holds a place begins and ends, with so many more on either side."""
        place = bisect_right(self.stops, at)
        first, last = place - 1 - spare, place + spare
        return self.stops[first] if first >= 0 else 0, self.stops[last] if last < len(self.stops) else len(self.text)

    def in_quotes(self, at: int) -> bool:
        """Whether a place lies between quotation marks."""
        place = bisect_right(self.quotes, (at, len(self.text))) - 1
        return place >= 0 and at < self.quotes[place][1]

    @cached_property
    def satire(self) -> str:
        """Where the post calls itself satire."""
        found = SATIRE.search(self.text)
        return found.group() if found else ""

    @cached_property
    def has_own_words(self) -> bool:
        """Whether enough words stand outside quotations for the author to have said something about them."""
        starts, ends = [0, *(end for _, end in self.quotes)], [*(start for start, _ in self.quotes), len(self.text)]
        own = (found for start, end in zip(starts, ends, strict=True) for found in WORD.finditer(self.text, start, end))
        return len(list(islice(own, OWN_WORDS))) == OWN_WORDS


def lay_out(text: str, policy: Policy) -> Layout:
    """A post in one spelling, and where its parts lie, under a policy that may name groups of its own."""
    text = plain(text)
    stops = tuple(stop.end() for stop in _STOP.finditer(text))
    return Layout(text, policy, tuple(_quotations(text)), stops, tuple(_mentions(text, policy)))


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """From each opening mark to its closing one; a quotation ends with its paragraph at the latest."""
    opened: tuple[int, str] | None = None
    for mark in _QUOTATION_MARK.finditer(text):
        if mark.group() == "\n":
            opened = None
        elif opened is None:
            follows = text[mark.end() : mark.end() + 1]
            if mark.group() == '"' or follows.isalnum():
                opened = (mark.start(), mark.group())
        elif mark.group() == opened[1]:
            yield opened[0], mark.end()
            opened = None


def _mentions(text: str, policy: Policy) -> Iterator[Mention]:
    pattern, table = _terms(policy)
    for found in pattern.finditer(text):
        key, one = table[" ".join(found.group().casefold().split())]
        yield Mention(found.start(), found.end(), key, found.group(), one)


@lru_cache(maxsize=32)
def _terms(policy: Policy) -> tuple[re.Pattern[str], dict[str, tuple[str, bool]]]:
    """The words for groups, the policy's own among them, as one pattern and as a table: word → (key, is it one)."""
    table = {term: (key, False) for key, group in GROUPS.items() for term in group.many}
    table |= {term: (key, True) for key, group in GROUPS.items() for term in group.one}
    for name in policy.protected_groups:
        if _is_plural(name):
            table.setdefault(" ".join(name.casefold().split()), (name, False))
    spelt = sorted(table, key=len, reverse=True)
    words = [re.escape(term).replace(r"\ ", r"\s+") + (_THE if term.startswith("the ") else r"\b") for term in spelt]
    return re.compile(r"\b(?:" + "|".join(words) + ")", re.IGNORECASE), table


def _is_plural(name: str) -> bool:
    """Whether a policy's name for a group is a word for people ("veterans"), not for what they share ("status")."""
    last = name.casefold().split()[-1]
    return "people" in name.casefold() or (last.endswith("s") and not last.endswith(("ss", "us", "is")))
