"""A metric of the user's own: a function `(gold, predicted) -> float`, with an interval and a paired test.

The interval is a percentile bootstrap over clusters (Efron, 1979): the function is a black box, so the jackknife of our
own measures doesn't apply. The paired test exchanges the results of two runs, cluster by cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np

from tribunal.core.text import one_line
from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import Ints, RunColumns
from tribunal.eval.measures.comparison import (
    PairedRows,
    correct_by_holm,
    pair_rows,
    same_data,
)
from tribunal.eval.measures.rates import RESAMPLES, SEED
from tribunal.plugins import plugin
from tribunal.schema import JSON

Metric = Callable[[Ints, Ints], float]


def load_metrics(names: Sequence[str]) -> dict[str, Metric]:
    """Return the functions of these names, `module:function` or an entry point of the group `tribunal.metrics`.

    Raises:
        BadInput: one can't be imported, or is no function.
    """
    metrics: dict[str, Metric] = {}
    for name in names:
        function: Any = plugin("tribunal.metrics", name, object, "--metric")
        if not callable(function):
            raise BadInput(
                f"--metric {name}: is no function; give module:function, as sklearn.metrics:f1_score"
            )
        metrics[name] = function
    return metrics


def measure_own_metrics(
    runs: Sequence[RunColumns], metrics: Mapping[str, Metric], *, cluster: str | None = None
) -> list[JSON]:
    """Measure runs by functions of the user.

    A function gets the labels of the posts with a verdict, two arrays of integers: 0 and 1 in the binary scheme, the
    places of the policy's categories in the fine scheme.

    Args:
        runs: the runs.
        metrics: the functions by name.
        cluster: the field by which posts belong together (`tribunal.eval.measures.clusters`).

    Returns:
        For each metric its `name`; `runs`, each with `name`, `n` (results), `value` and `interval` (95 %); and `pairs`
        of runs over the same data, each with `first`, `second`, `n` (posts of both), `difference` (the second's value
        less the first's), `p` and `p_holm`. None where a function returns no finite number.

    Raises:
        BadInput: a function raised an error, or returned something else than a number.
    """
    if not metrics:
        return []
    clusters = [clusters_of(run, cluster) for run in runs]
    paired = [
        (first, second, pair_rows(first, second, of_first))
        for (first, of_first), (second, _) in combinations(zip(runs, clusters, strict=True), 2)
        if same_data(first, second)
    ]
    measured = []
    for name, function in metrics.items():
        call = _checked(name, function)
        pairs = [_compare(call, *pair) for pair in paired]
        correct_by_holm(pairs)
        each_run = [_measure(call, *run) for run in zip(runs, clusters, strict=True)]
        measured.append({"name": name, "runs": each_run, "pairs": pairs})
    return measured


def _checked(name: str, function: Metric) -> Callable[[Ints, Ints], float | None]:
    def call(gold: Ints, predicted: Ints) -> float | None:
        if not len(gold):
            return None
        try:
            value = float(function(gold, predicted))
        except Exception as error:  # the user's function may fail in any way
            raise BadInput(
                f"--metric {name}: {type(error).__name__}: {one_line(str(error))}"
            ) from error
        return value if isfinite(value) else None

    return call


def _measure(
    call: Callable[[Ints, Ints], float | None], run: RunColumns, clusters: Clusters
) -> JSON:
    rows = np.flatnonzero(run.is_decided)
    of_two = run.scheme == "binary"
    gold = (run.positive if of_two else run.gold)[rows]
    answer = (run.hateful if of_two else run.label)[rows]
    values = [call(gold[drawn], answer[drawn]) for drawn in _resamples(run, clusters, rows)]
    finite = [value for value in values if value is not None]
    interval = np.quantile(finite, [0.025, 0.975]).tolist() if finite else None
    return {
        "name": run.folder.resolve().name,
        "n": len(rows),
        "value": call(gold, answer),
        "interval": interval,
    }


def _resamples(run: RunColumns, clusters: Clusters, rows: Ints) -> Iterator[Ints]:
    """Yield places in `rows`, of as many clusters as there are, drawn with replacement; none of one cluster."""
    numbers = np.unique(clusters.of_post[run.post[rows]], return_inverse=True)[1]
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])
    random = np.random.default_rng(SEED)
    for _ in range(RESAMPLES if len(members) > 1 else 0):
        drawn = random.integers(len(members), size=len(members))
        yield np.concatenate([members[each] for each in drawn])


def _compare(
    call: Callable[[Ints, Ints], float | None],
    first: RunColumns,
    second: RunColumns,
    rows: PairedRows,
) -> JSON:
    one, other = rows.sides
    gold = np.concatenate([one.truth, other.truth])
    answer = np.concatenate([one.answer, other.answer])
    cluster_of_row = (
        rows.cluster[np.concatenate([one.post, other.post])] if len(rows.cluster) else gold
    )
    is_of_second = np.arange(len(gold)) >= len(one.truth)

    def difference(is_second: Any) -> float | None:
        before = call(gold[~is_second], answer[~is_second])
        after = call(gold[is_second], answer[is_second])
        return None if before is None or after is None else after - before

    seen = difference(is_of_second)
    reached = 0
    if seen is not None:
        random = np.random.default_rng(SEED)
        for _ in range(RESAMPLES):
            is_exchanged = random.integers(2, size=int(rows.cluster.max()) + 1) == 1
            drawn = difference(is_of_second ^ is_exchanged[cluster_of_row])
            reached += drawn is None or abs(drawn) >= abs(seen) - 1e-9
    p = None if seen is None else (reached + 1) / (RESAMPLES + 1)
    names = {"first": first.folder.resolve().name, "second": second.folder.resolve().name}
    return {**names, "n": len(rows.cluster), "difference": seen, "p": p}
