"""Test the conditions of a table against each other in pairs, over the posts that both decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from tribunal.eval.experiments.experiment import RunKey
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import RunColumns
from tribunal.eval.measures.comparison import (
    TESTED,
    compare_accuracy,
    compare_macro_f1,
    correct_by_holm,
    pair_right_shares,
    same_data,
)
from tribunal.schema import JSON

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
    pairs = list(_comparable_pairs(runs, "model")) or list(_comparable_pairs(runs, "condition"))
    tests = [each for pair in pairs for each in _test_pair(runs, *pair, tested)]
    for name in tested:
        correct_by_holm([each for each in tests if each["measure"] == name])
    return tuple(PairedTest(**each) for each in tests)


def _comparable_pairs(
    runs: Mapping[RunKey, RunColumns], same: Literal["model", "condition"]
) -> Iterator[tuple[RunKey, RunKey]]:
    """Yield the pairs of different runs over the same posts, in one scheme, of the same model or condition."""
    for first, second in combinations(runs, 2):
        one, other = runs[first], runs[second]
        alike = first.dataset == second.dataset and getattr(first, same) == getattr(second, same)
        if alike and one.folder != other.folder and one.scheme == other.scheme and same_data(one, other):
            yield first, second


def _test_pair(
    runs: Mapping[RunKey, RunColumns], first: RunKey, second: RunKey, measures: Collection[str]
) -> Iterator[JSON]:
    one, other = runs[first], runs[second]
    clusters = clusters_of(one)
    shared = pair_right_shares(one, other, clusters)
    by = "model" if first.condition == second.condition else "condition"
    for name in measures:
        compare = compare_accuracy if name == "accuracy" else compare_macro_f1
        compared = compare(one, other, clusters)
        low, high = compared["interval"] or (None, None)
        yield {
            "dataset": first.dataset,
            "by": by,
            "same": first.condition if by == "model" else first.model,
            "first": getattr(first, by),
            "second": getattr(second, by),
            "measure": name,
            "first_value": compared["first"],
            "second_value": compared["second"],
            "difference": compared["difference"],
            "low": low,
            "high": high,
            "n": len(shared[1]) if shared else 0,
            "p": compared["p"],
        }
