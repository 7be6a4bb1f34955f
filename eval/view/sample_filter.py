"""The filter and order of samples: the whole state of a page, as it stands in its address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlencode

from tribunal.errors import BadInput
from tribunal.eval.view.rows import FACETS, KINDS
from tribunal.text import wellformed

# What is filtered from and to, as a reader sees its name.
NUMBERS = {
    "confidence": "Confidence",
    "calls": "Calls",
    "tokens": "Tokens",
    "seconds": "Seconds",
    "money": "Cost",
}
# By what samples are sorted: a column of the index, and how it is called.
SORTS = {
    "line": ("row", "File order"),
    "post": ("post", "Post"),
    "gold": ("gold", "Gold"),
    "verdict": ("label", "Verdict"),
    "kind": ("", "Against the gold"),
    **{name: (name, title) for name, title in NUMBERS.items()},
}
KIND = "kind"
# Of two runs: which samples, by what they came to.
PAIRED = {
    "differ": "where they differ",
    "first": "only the first is correct",
    "second": "only the second is correct",
    "neither": "they differ, neither is correct",
    "all": "all shared samples",
}
_BOUNDS = tuple(f"{name}_{end}" for name in NUMBERS for end in ("from", "to"))
_MOST_VALUES, _MOST_WORDS = 50, 20
_LONGEST = 1000
_TERM = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(frozen=True)
class SampleFilter:
    """A filter of samples.

    Attributes:
        run: the run's name; of two, the first one's.
        other: the second one's; empty for one run.
        chosen: the facets that are filtered by, with their values: a sample has one of each facet's.
        bounds: numbers by NUMBER_from and NUMBER_to.
        words: each has to stand in a sample's text, explanation or arguments.
        sort: of `SORTS`.
        down: the other way round.
        page: from 1 on.
        paired: of `PAIRED`.
        into: of two runs: what the second one came to.
        read: whether the list shows the first words of posts.
    """

    run: str = ""
    other: str = ""
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    words: str = ""
    sort: str = "line"
    down: bool = False
    page: int = 1
    paired: str = "differ"
    into: str = ""
    read: bool = False

    @classmethod
    def from_query(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Return the filter that an address asks for. Names that it doesn't know are left out.

        Raises:
            BadInput: a value is none that its name takes.
        """
        held: dict[str, list[str]] = {}
        for name, value in pairs:
            if value:
                held.setdefault(name, []).append(wellformed(value))
        one = {name: values[-1] for name, values in held.items()}
        for name, known in ((KIND, tuple(KINDS)), ("sort", tuple(SORTS)), ("pairs", tuple(PAIRED))):
            if unknown := next((each for each in held.get(name, ()) if each not in known), None):
                raise BadInput(f"{name}: {unknown[:80]!r}: is none of {', '.join(known)}")
        return cls(
            run=one.get("run", ""),
            other=one.get("with", ""),
            chosen={name: tuple(sorted(set(held[name])))[:_MOST_VALUES] for name in (KIND, *FACETS) if name in held},
            bounds={name: _parse_number(name, one[name]) for name in _BOUNDS if name in one},
            words=one.get("words", "")[:_LONGEST],
            sort=one.get("sort", "line"),
            down=one.get("order") == "down",
            page=max(1, int(_parse_number("page", one.get("page", "1")))),
            paired=one.get("pairs", "differ"),
            into=one.get("into", ""),
            read=one.get("read") == "yes",
        )

    def as_query_pairs(self) -> list[tuple[str, str]]:
        """Return the filter as an address has it."""
        found = [
            ("run", self.run),
            ("with", self.other),
            *((name, value) for name, values in self.chosen.items() for value in values),
            *((name, f"{number:.15g}") for name, number in self.bounds.items()),
            ("words", self.words),
            ("sort", "" if self.sort == "line" else self.sort),
            ("order", "down" if self.down else ""),
            ("page", str(self.page) if self.page > 1 else ""),
            ("pairs", "" if self.paired == "differ" or not self.other else self.paired),
            ("into", self.into if self.other else ""),
            ("read", "yes" if self.read else ""),
        ]
        return [(name, value) for name, value in found if value]

    def query(self, **also: str | int) -> str:
        """Return the query of an address, with more in it."""
        return urlencode([*self.as_query_pairs(), *((name, str(value)) for name, value in also.items())])

    def with_fields(self, **fields: Any) -> Self:
        """Return a filter with other fields, at its first page unless `page` is one of them."""
        return replace(self, **{"page": 1, **fields})

    def with_toggled(self, facet: str, value: str) -> Self:
        """Return a filter with this value of a facet, or without it where it was chosen."""
        values = set(self.chosen.get(facet, ())) ^ {value}
        chosen = {**self.chosen, facet: tuple(sorted(values))}
        return self.with_fields(chosen={name: chosen[name] for name in (KIND, *FACETS) if chosen.get(name)})

    def with_sort(self, sort: str) -> Self:
        """Return a filter that is sorted by this, and the other way round where it was already."""
        return self.with_fields(sort=sort, down=sort == self.sort and not self.down)

    def without_filters(self) -> Self:
        """Return a filter that leaves every sample, in the same order."""
        return self.with_fields(chosen={}, bounds={}, words="", into="")

    @property
    def is_filtered(self) -> bool:
        """Return whether anything is left out."""
        return bool(self.chosen or self.bounds or self.words or self.into)

    @property
    def search_terms(self) -> list[str]:
        """Return the words as the full-text index takes them: beginnings, and those in quotes as one phrase."""
        found = []
        for phrase, word in _TERM.findall(self.words):
            said = "".join(each for each in phrase or word if each != "\0")
            if any(each.isalnum() for each in said):
                quoted = said.replace('"', '""')
                found.append(f'"{quoted}"' if phrase else f'"{quoted}"*')
        return found[:_MOST_WORDS]


def _parse_number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e15:  # neither infinite nor none
        raise BadInput(f"{name}: {value[:80]!r}: is not a number")
    return number
