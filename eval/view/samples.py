"""The samples of a run in memory, and those of them that a filter leaves, sorted, counted, and beside a second run's.

100,000 samples take 25 MB, and a filter of them some milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tribunal.eval.view.rows import FACETS, KINDS, RIGHT
from tribunal.eval.view.sample_filter import KIND, PAIRED, SORTS, SampleFilter

if TYPE_CHECKING:
    import numpy.typing as npt

    Places = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

PAGE = 50  # samples
COLUMNS = (
    "offset", "repeat", "ended", "fine", "coarse", "gold", "label", "yes", "confidence", "seconds", "calls", "tokens",
    "money",
)  # fmt: skip
_MOST_CHANGES = 40


class IndexedSample(NamedTuple):
    """A sample of the index; `row` is its place in the run."""

    row: int
    offset: int
    post: str
    repeat: int
    kind: str
    confidence: float | None
    seconds: float
    calls: int
    tokens: int
    money: float | None
    facets: dict[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class SampleTable:
    """One state of an index, an array for each column.

    Attributes:
        posts: the ids of the posts.
        numbers: `COLUMNS` by name; nan where nobody knows.
        codes: for each facet the number of each sample's values in `sets`.
        sets: values that a sample has of a facet.
        begun: another one whenever the run was read anew.
        folded: whether labels are compared as yes and no.
        skipped: lines that can't be read, or that repeat a sample.
        read: bytes of the results that are in it.
        size: bytes of the results, without a torn last line.
    """

    posts: npt.NDArray[Any]
    numbers: dict[str, npt.NDArray[np.float64]]
    codes: dict[str, npt.NDArray[np.int32]]
    sets: list[tuple[str, ...]]
    begun: int = 0
    folded: bool = False
    skipped: int = 0
    read: int = 0
    size: int = 0

    @classmethod
    def empty(cls) -> Self:
        """Return a table of no samples."""
        numbers = {name: np.zeros(0) for name in COLUMNS}
        return cls(
            posts=np.zeros(0, dtype=object), numbers=numbers, codes={name: np.zeros(0, np.int32) for name in FACETS},
            sets=[],
        )  # fmt: skip

    def with_samples(self, rows: Sequence[tuple[Any, ...]], sets: list[tuple[str, ...]], **state: Any) -> Self:
        """Return the table with more samples: of each its post, `COLUMNS` and codes."""
        columns = list(zip(*rows, strict=True)) or [()] * (1 + len(COLUMNS) + len(FACETS))
        numbers, codes = columns[1 : 1 + len(COLUMNS)], columns[1 + len(COLUMNS) :]
        return type(self)(
            posts=np.concatenate([self.posts, np.array(columns[0], dtype=object)]),
            numbers={
                name: np.concatenate([self.numbers[name], np.array(new, dtype=np.float64)])
                for name, new in zip(COLUMNS, numbers, strict=True)
            },
            codes={
                name: np.concatenate([self.codes[name], np.array(new, dtype=np.int32)])
                for name, new in zip(FACETS, codes, strict=True)
            },
            sets=sets,
            **state,
        )

    @property
    def samples(self) -> int:
        """Return how many there are."""
        return len(self.posts)

    @property
    def is_complete(self) -> bool:
        """Return whether every line is in it. A torn last line is none."""
        return self.read >= self.size

    def kinds(self, folded: bool) -> npt.NDArray[np.int32]:
        """Return how each verdict stands to the gold label, as places in `KINDS`."""
        return self.numbers["coarse" if folded else "fine"].astype(np.int32)

    def find(self, post: str, repeat: int) -> int | None:
        """Return the place of a sample; None where there is none."""
        found = np.flatnonzero((self.posts == post) & (self.numbers["repeat"] == repeat))
        return int(found[0]) if len(found) else None

    def sample(self, place: int, folded: bool) -> IndexedSample:
        """Return the sample at a place."""
        held = {name: float(column[place]) for name, column in self.numbers.items()}
        values = {name: self.sets[codes[place]] for name, codes in self.codes.items()}
        return IndexedSample(
            row=place,
            offset=int(held["offset"]),
            post=self.posts[place],
            repeat=int(held["repeat"]),
            kind=tuple(KINDS)[int(held["coarse" if folded else "fine"])],
            confidence=None if np.isnan(held["confidence"]) else held["confidence"],
            seconds=held["seconds"],
            calls=int(held["calls"]),
            tokens=int(held["tokens"]),
            money=None if np.isnan(held["money"]) else held["money"],
            facets={name: each for name, each in values.items() if each},
        )


class LoadedRun(NamedTuple):
    """A state of a run, and for each search term whether a sample holds it."""

    table: SampleTable
    matches: list[Mask]


class FacetCounts(NamedTuple):
    """A facet's values and how many samples have each, the most frequent first."""

    name: str
    counts: list[tuple[str, int]]


class AnswerChange(NamedTuple):
    """A count of samples to which the first run gives one answer and the second another."""

    first: str
    second: str
    samples: int


@dataclass(frozen=True)
class SampleSelection:
    """The samples that a filter leaves.

    Attributes:
        places: of the samples, sorted.
        facets: how many samples have each value, counted as if the facet weren't filtered by.
        folded: whether labels are compared as yes and no.
        partners: of two runs: for each sample of the first its place in the second, or -1.
        paired: of two runs: how many samples there are of each kind of `PAIRED`.
        changes: of two runs: which answers became which, the most frequent first.
    """

    places: Places
    facets: list[FacetCounts]
    folded: bool
    partners: Places
    paired: dict[str, int]
    changes: list[AnswerChange]

    def page(self, number: int) -> list[int]:
        """Return the places of one page."""
        found: list[int] = self.places[(number - 1) * PAGE : number * PAGE].tolist()
        return found

    def around(self, place: int) -> tuple[int | None, int | None, int | None]:
        """Return at which position a sample stands, from 0 on, and the places before and after it, or None."""
        at = np.flatnonzero(self.places == place)
        if not len(at):
            return None, None, None
        position = int(at[0])
        before = int(self.places[position - 1]) if position else None
        return position, before, int(self.places[position + 1]) if position + 1 < len(self.places) else None


def select_samples(wanted: SampleFilter, first: LoadedRun, second: LoadedRun | None = None) -> SampleSelection:
    """Return the samples of a run that a filter leaves; with a second run, of those that both hold.

    Facets and numbers are the first run's; words may stand in either.
    """
    table = first.table
    folded = table.folded or (second is not None and second.table.folded)
    codes = {KIND: table.kinds(folded), **table.codes}
    sets: dict[str, list[tuple[str, ...]]] = {**dict.fromkeys(FACETS, table.sets), KIND: [(name,) for name in KINDS]}
    own = {facet: _has_value(sets[facet], codes[facet], values) for facet, values in wanted.chosen.items()}
    others = []
    for bound, number in wanted.bounds.items():
        name, _, end = bound.rpartition("_")
        others.append(table.numbers[name] >= number if end == "from" else table.numbers[name] <= number)
    matches, paired, changes = first.matches, dict[str, int](), list[AnswerChange]()
    partners = np.full(table.samples, -1)
    if second is not None:
        partners = _find_partners(table, second.table)
        matches = [one | _of_partners(two, partners) for one, two in zip(matches, second.matches, strict=True)]
        if wanted.into:
            answers = _has_value(second.table.sets, second.table.codes["verdict"], [wanted.into])
            others.append(_of_partners(answers, partners))
    others += matches
    if second is not None:
        left = np.logical_and.reduce([partners >= 0, *others, *own.values()])
        of_kind = _pair_kinds(table, second.table, partners, folded)
        paired = {kind: int((left & of_kind[kind]).sum()) for kind in PAIRED}
        changes = _count_changes(table, second.table, partners, left & of_kind["differ"])
        others += [partners >= 0, of_kind[wanted.paired]]
    failed = np.zeros(table.samples, dtype=np.int32)
    for each in (*own.values(), *others):
        failed += ~each
    facets = []
    for facet in (KIND, *FACETS):
        left = failed - ~own[facet] == 0 if facet in own else failed == 0
        facets.append(FacetCounts(facet, _count_values(sets[facet], codes[facet][left], by_count=facet != KIND)))
    places = _sort_places(np.flatnonzero(failed == 0), table, wanted, folded)
    return SampleSelection(places, facets, folded, partners, paired, changes)


def _has_value(sets: list[tuple[str, ...]], codes: npt.NDArray[np.int32], values: Sequence[str]) -> Mask:
    """Return for each sample whether it has one of these values."""
    known = np.array([not set(values).isdisjoint(each) for each in sets], dtype=bool)
    return known[codes]


def _count_values(
    sets: list[tuple[str, ...]], codes: npt.NDArray[np.int32], *, by_count: bool
) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for code, number in enumerate(np.bincount(codes).tolist()):
        if number:
            counts.update(dict.fromkeys(sets[code], number))
    return sorted(counts.items(), key=lambda each: (-each[1], each[0])) if by_count else list(counts.items())


def _sort_places(places: Places, table: SampleTable, wanted: SampleFilter, folded: bool) -> Places:
    """Sort samples; those of one key by their line, and what nobody knows last."""
    column = SORTS[wanted.sort][0] or ("coarse" if folded else "fine")
    if column == "row":
        return places[::-1] if wanted.down else places
    if column == "post":
        keys = np.unique(table.posts[places], return_inverse=True)[1].astype(np.float64)
    else:
        keys = table.numbers[column][places]
    keys = np.where(np.isnan(keys), np.inf, -keys if wanted.down else keys)
    return places[np.argsort(keys, kind="stable")]


def _find_partners(table: SampleTable, other: SampleTable) -> Places:
    """Return for each sample its place in the other run, or -1."""
    there = {key: place for place, key in enumerate(zip(other.posts, other.numbers["repeat"], strict=True))}
    here = zip(table.posts, table.numbers["repeat"], strict=True)
    return np.fromiter((there.get(key, -1) for key in here), dtype=np.int64, count=table.samples)


def _of_partners(values: npt.NDArray[Any], partners: Places) -> npt.NDArray[Any]:
    """Return the partners' values; a sample without one, at -1, has a zero."""
    return np.append(values, values.dtype.type(0))[partners]


def _pair_kinds(table: SampleTable, other: SampleTable, partners: Places, folded: bool) -> dict[str, Mask]:
    """Return for each kind of `PAIRED` whether a sample is of it; those without a partner may be anything."""
    one, two = (np.isin(each.kinds(folded), RIGHT) for each in (table, other))
    two = _of_partners(two, partners)
    differ = np.zeros(table.samples, dtype=bool)
    for name in ("ended", "yes" if folded else "label"):
        differ |= table.numbers[name] != _of_partners(other.numbers[name], partners)
    known = differ & (table.numbers["gold"] >= 0)
    kinds = {"differ": differ, "first": known & one & ~two, "second": known & two & ~one}
    return {**kinds, "neither": known & ~one & ~two, "all": partners >= 0}


def _count_changes(table: SampleTable, other: SampleTable, partners: Places, chosen: Mask) -> list[AnswerChange]:
    one, two = table.codes["verdict"][chosen], other.codes["verdict"][partners[chosen]]
    found = Counter(zip(one.tolist(), two.tolist(), strict=True)).most_common(_MOST_CHANGES)
    return [AnswerChange(table.sets[first][0], other.sets[second][0], count) for (first, second), count in found]
