"""A run's results as columns: one array a measure reads, so that a run of any length fits into memory."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.eval.runs.results import Result, read_results, read_run
from tribunal.eval.runs.rungs import Asked, asked_in
from tribunal.eval.runs.spent import Spared, Spent, Used, spend
from tribunal.rehearsed import REHEARSAL
from tribunal.schema import JSON, Scheme

if TYPE_CHECKING:
    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]

OUTCOMES = ("verdict", "refusal", "failure", "pending")
NO_LABEL = -1
OWN_CACHE = "cache"  # among the shortcuts: answers from our own cache
# Under which name results are told apart, and by which fields of the data set.
GROUPS = {
    "by_difficulty": ("difficulty",),
    "by_pattern": ("smi_pattern",),
    "by_functionality": ("functionality",),
    "by_target": ("target", "targets"),
    "by_implicit": ("implicit",),
}
_NUMBERS = (
    "post", "repeat", "outcome", "gold", "positive", "label", "yes", "uncertain", "calls", "prompt_tokens",
    "completion_tokens", "cached_tokens", "from_cache", "unseen_calls", "offset",
)  # fmt: skip
Stances = tuple[tuple[str, str], ...]


class ImagesShown(NamedTuple):
    """Of how many posts their set names an image, it was there, and the models were shown it: all of them, or some."""

    named: int
    here: int
    shown: int
    to_some: int


@dataclass(frozen=True)
class Columns:
    """The results of a run, a row each, in the order of its file. Rows of one post share its number in `ids`."""

    folder: Path
    run: JSON
    ids: list[str]
    post: Ints
    repeat: Ints
    outcome: Ints  # its place in OUTCOMES
    gold: Ints  # NO_LABEL where the post has none
    positive: Ints  # the gold folded to 0 or 1
    label: Ints  # NO_LABEL where there is no verdict
    yes: Ints  # the verdict folded to 0 or 1: whether its category is hate; NO_LABEL where there is none
    uncertain: Ints
    confidence: Floats  # nan where there is none
    seconds: Floats
    calls: Ints
    prompt_tokens: Ints
    completion_tokens: Ints
    cached_tokens: Ints  # -1 where the provider says nothing of them
    from_cache: Ints
    unseen_calls: Ints  # made by the graph past `ask`, so in no other number
    offset: Ints
    scheme: Scheme  # fine only where both sides are, and labels can be compared as they are
    names: dict[int, str]  # what a label is called
    groups: dict[str, dict[str, Ints]]  # by_difficulty → Easy → its rows
    alike: list[str]  # by the number of a post: the group of posts that say the same; empty where it has none
    signatures: list[str]  # by the number of a post: of its text (`eval.runs.likeness`); empty where it has none
    stances: list[Stances]  # of each row: which perspective said what
    rehearsed: int  # rows in which the rehearsal model took part
    images: ImagesShown
    asked: Asked  # answered calls, by model, role and rung
    spent: Spent  # what the calls took, by model
    seated: dict[str, Spent]  # the same by seat, and there by model
    cached: Spent  # what the answers from our own cache would have taken, by model
    spared: dict[str, Spared]  # what shortcuts spared, by their id
    told: int  # rows in which a model was shown the policy

    @property
    def n(self) -> int:
        return len(self.post)

    @cached_property
    def labelled(self) -> Bools:
        return np.not_equal(self.gold, NO_LABEL)

    @cached_property
    def decided(self) -> Bools:
        """Verdicts on posts that have a gold label: what headline measures are about."""
        return self.labelled & np.equal(self.outcome, OUTCOMES.index("verdict"))

    @cached_property
    def truth(self) -> Ints:
        """The gold in the scheme that is compared."""
        return self.gold if self.scheme == "fine" else self.positive

    @cached_property
    def answer(self) -> Ints:
        """The verdict's label in the scheme that is compared; NO_LABEL where there is none."""
        return self.label if self.scheme == "fine" else self.yes

    @cached_property
    def negative(self) -> frozenset[int]:
        """The labels that fold to no: 0, and in the fine scheme the policy's categories that aren't hate."""
        if self.scheme != "fine":
            return frozenset({0})
        held = zip((self.gold, self.label), (self.positive, self.yes), strict=True)
        return frozenset({0}).union(*(label[folded == 0].tolist() for label, folded in held))

    @cached_property
    def right(self) -> Bools:
        return self.decided & np.equal(self.truth, self.answer)

    def count(self, outcome: str, rows: Ints | Bools | slice = slice(None)) -> int:
        """How many of these rows ended so."""
        return int((self.outcome[rows] == OUTCOMES.index(outcome)).sum())


def read_columns(folder: Path) -> Columns:
    """Read a run.

    Raises:
        BadInput: the folder is no run's, or one of its files is broken.
    """
    run = read_run(folder)
    reading = _Reading()
    for offset, result in read_results(folder):
        reading.take(offset, result)
    return reading.columns(folder, run)


class _Reading:
    """Columns as they grow."""

    def __init__(self) -> None:
        self._posts: dict[str, int] = {}
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._confidence, self._seconds = array("d"), array("d")
        self._groups: dict[str, dict[str, array[int]]] = {name: defaultdict(lambda: array("q")) for name in GROUPS}
        self._called: dict[int, Counter[str]] = defaultdict(Counter)
        self._gold_names: tuple[set[str], set[str]] = (set(), set())
        self._stances: list[Stances] = []
        self._known: dict[Stances, Stances] = {}
        self._alike: list[str] = []
        self._signatures: list[str] = []
        self._coarse = False
        self._rehearsed = self._told = 0
        self._asked: Asked = Counter()
        self._spent: Spent = {}
        self._seated: dict[str, Spent] = defaultdict(dict)
        self._cached: Spent = {}
        self._spared: dict[str, Spared] = defaultdict(Spared)
        self._named, self._here, self._unseen, self._seen = set[int](), set[int](), set[int](), set[int]()

    def take(self, offset: int, result: Result) -> None:
        row = len(self._stances)
        gold, usage = result.gold, result.usage
        label = result.label if result.outcome == "verdict" and result.label is not None else NO_LABEL
        values = {
            "post": self._posts.setdefault(result.post_id, len(self._posts)),
            "repeat": result.repeat,
            "outcome": OUTCOMES.index(result.outcome),
            "gold": NO_LABEL if gold is None else gold.label,
            "positive": NO_LABEL if gold is None else int(gold.positive),
            "label": label,
            "yes": NO_LABEL if label == NO_LABEL else int(label > 0 if result.hateful is None else result.hateful),
            "uncertain": int(result.uncertain),
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": -1 if usage.cached_tokens is None else usage.cached_tokens,
            "from_cache": sum(call.cached for call in result.calls),
            "unseen_calls": result.unseen_calls,
            "offset": offset,
        }
        for name, number in values.items():
            self._numbers[name].append(number)
        self._confidence.append(np.nan if result.confidence is None else result.confidence)
        self._seconds.append(result.seconds)
        stances = tuple(sorted((opinion.id, opinion.stance) for opinion in result.opinions))
        self._stances.append(self._known.setdefault(stances, stances))
        if len(self._alike) < len(self._posts):
            self._alike.append(result.group)
            self._signatures.append(result.likeness)
        self._rehearsed += result.rehearsed or any(call.model == REHEARSAL for call in result.calls)
        self._told += bool(result.policy)
        self._asked.update(asked_in(result.calls))
        spend(self._spent, result.calls)
        self._spare(row, result)
        self._look(values["post"], result)
        if label != NO_LABEL and result.category is not None:
            self._called[label][result.category] += 1
        if gold is not None:
            self._coarse |= gold.scheme != "fine" or result.scheme != "fine"
            self._called[gold.label][gold.name] += 1
            self._gold_names[int(gold.positive)].add(gold.name)
            for name, fields in GROUPS.items():
                for value in {value for field in fields for value in _values(result.fields.get(field))}:
                    self._groups[name][value].append(row)

    def _spare(self, row: int, result: Result) -> None:
        """Count what a seat's calls take, what our own cache answered, and what shortcuts spared."""
        for call in result.calls:
            of = self._cached if call.cached else self._seated[call.seat.partition(":")[0]]
            used = of.setdefault(call.model, Used())
            used.calls += 1
            used.prompt_tokens += call.prompt_tokens
            used.cached_tokens += call.cached_tokens
            used.completion_tokens += call.completion_tokens
        for saving in result.saved:
            spared = self._spared[saving.id]
            spared.rows.append(row)
            spared.calls += saving.calls
            spared.tokens += saving.tokens
        if kept := [call for call in result.calls if call.cached]:
            spared = self._spared[OWN_CACHE]
            spared.rows.append(row)
            spared.calls += len(kept)
            spared.tokens += sum(call.prompt_tokens + call.completion_tokens for call in kept)

    def _look(self, post: int, result: Result) -> None:
        """Note whether the post's image was there, and who was shown it."""
        if result.has_image is None:
            return
        self._named.add(post)
        if result.has_image:
            self._here.add(post)
        shown = ["image" in call.shown for call in result.calls if call.shown]
        if any(shown):
            self._seen.add(post)
        if not all(shown) or not shown:
            self._unseen.add(post)

    def columns(self, folder: Path, run: JSON) -> Columns:
        return Columns(
            folder=folder,
            run=run,
            ids=list(self._posts),
            scheme="binary" if self._coarse else "fine",
            names=self._names(),
            groups={
                name: {value: np.asarray(rows) for value, rows in sorted(held.items())}
                for name, held in self._groups.items()
            },
            alike=self._alike,
            signatures=self._signatures,
            stances=self._stances,
            rehearsed=self._rehearsed,
            images=ImagesShown(
                named=len(self._named),
                here=len(self._here),
                shown=len(self._seen - self._unseen),
                to_some=len(self._seen & self._unseen),
            ),
            asked=self._asked,
            spent=self._spent,
            seated=dict(self._seated),
            cached=self._cached,
            spared=dict(self._spared),
            told=self._told,
            confidence=np.asarray(self._confidence),
            seconds=np.asarray(self._seconds),
            **{name: np.asarray(values) for name, values in self._numbers.items()},
        )

    def _names(self) -> dict[int, str]:
        """Fine labels as they are mostly called; of two, the set's own words where it has one each."""
        if not self._coarse:
            return {label: called.most_common(1)[0][0] for label, called in sorted(self._called.items())}
        negative, positive = self._gold_names
        one_each = len(negative) <= 1 and len(positive) <= 1
        return {
            0: next(iter(negative), "negative") if one_each else "negative",
            1: next(iter(positive), "positive") if one_each else "positive",
        }


def _values(given: Any) -> Iterable[str]:
    """What a field says: nothing, one thing, or several (a post may aim at two groups)."""
    if isinstance(given, list | tuple):
        return [value for each in given for value in _values(each)]
    if isinstance(given, bool):
        return ("true" if given else "false",)
    return () if given is None or given == "" else (str(given),)
