"""Test the conditions of a table against each other in pairs, over the posts that both decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from tribunal.eval.experiments.experiment import RunKey
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import RunColumns
from tribunal.eval.measures.comparison import TESTED, compare_accuracy, compare_macro_f1, pair_right_shares, same_data
from tribunal.eval.measures.rates import holm_correction

ALPHA = 0.05


@dataclass(frozen=True)
class PairedTest:
    """Hold a paired test of two runs over the same posts.

    `first` and `second` are conditions, and `same` is the model of both; `by` model it is the other way round.
    `difference` is the second's value less the first's, with its 95 % interval from `low` to `high`,
    over `n` posts that both decided. `p_holm` is p corrected for all tests of this measure in the table.
    """

    dataset: str
    by: Literal["condition", "model"]
    same: str
    first: str
    second: str
    measure: str
    first_value: float | None
    second_value: float | None
    difference: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    p_holm: float | None = None

    @property
    def result(self) -> str:
        """Return in words what the test shows, at 5 % after the correction."""
        if self.p_holm is None:
            return "not tested"
        return "differ" if self.p_holm < ALPHA else "not told apart"


def compare_conditions(runs: Mapping[RunKey, RunColumns], measures: Collection[str]) -> tuple[PairedTest, ...]:
    """Test the runs of a table in pairs.

    Args:
        runs: those with a figure in the table.
        measures: which the table shows. Of those, accuracy and macro-F1 are tested; if it shows neither, accuracy.
    """
    tested = [name for name in TESTED if name in measures] or [TESTED[0]]
    pairs = list(_pairs_of_conditions(runs)) or list(_pairs_of_models(runs))
    found = [each for pair in pairs for each in _test_pair(runs, *pair, tested)]
    corrected: dict[int, PairedTest] = {}
    for name in tested:
        places = [at for at, each in enumerate(found) if each.measure == name]
        for at, p in zip(places, holm_correction([found[at].p for at in places]), strict=True):
            corrected[at] = replace(found[at], p_holm=p)
    return tuple(corrected[at] for at in range(len(found)))


def _pairs_of_conditions(runs: Mapping[RunKey, RunColumns]) -> Iterator[tuple[RunKey, RunKey]]:
    for first, second in combinations(runs, 2):
        if (first.dataset, first.model) == (second.dataset, second.model) and _can_be_paired(runs[first], runs[second]):
            yield first, second


def _pairs_of_models(runs: Mapping[RunKey, RunColumns]) -> Iterator[tuple[RunKey, RunKey]]:
    for first, second in combinations(runs, 2):
        same = (first.dataset, first.condition) == (second.dataset, second.condition)
        if same and _can_be_paired(runs[first], runs[second]):
            yield first, second


def _can_be_paired(first: RunColumns, second: RunColumns) -> bool:
    """Return whether two runs are different ones, of one scheme, over the same posts."""
    return first.folder != second.folder and first.scheme == second.scheme and same_data(first, second)


def _test_pair(
    runs: Mapping[RunKey, RunColumns], first: RunKey, second: RunKey, measures: Collection[str]
) -> Iterator[PairedTest]:
    one, other = runs[first], runs[second]
    clusters = clusters_of(one)
    shared = pair_right_shares(one, other, clusters)
    compare_by = {"accuracy": compare_accuracy, "macro_f1": compare_macro_f1}
    by: Literal["condition", "model"] = "model" if first.condition == second.condition else "condition"
    for name in measures:
        found = compare_by[name](one, other, clusters)
        low, high = found["interval"] or (None, None)
        yield PairedTest(
            dataset=first.dataset,
            by=by,
            same=first.condition if by == "model" else first.model,
            first=getattr(first, by),
            second=getattr(second, by),
            measure=name,
            first_value=found["first"],
            second_value=found["second"],
            difference=found["difference"],
            low=low,
            high=high,
            n=len(shared[1]) if shared else 0,
            p=found["p"],
        )
