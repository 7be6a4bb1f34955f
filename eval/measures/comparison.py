"""Two runs over the same posts: by how much their measures differ, and whether by more than chance would."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import lcm
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.calibration import calibration_statistics, group_confidences
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import NO_LABEL, Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.rates import (
    ClusterKinds,
    Interval,
    Statistics,
    bca_intervals,
    difference_interval,
    exchange_test,
    holm_correction,
    number_or_none,
    randomisation_test,
)
from tribunal.eval.measures.scores import MEASURES, labels_that_occur, measures_of_tables
from tribunal.schema import JSON

TESTED = ("accuracy", "macro_f1")
ALPHA = 0.05  # the level of paired tests
OF_CONFIDENCE = ("ece", "aurc", "brier", "auroc")


def compare_runs(
    first: RunColumns, second: RunColumns, *, cluster: str | None = None
) -> JSON | None:
    """Compare two runs over the posts that both hold.

    Args:
        first: a run.
        second: another one.
        cluster: the field by which posts belong together (`clusters_of`); what the first run declares.

    Returns:
        None where the runs aren't over the same data. Else, over the posts that both decided, and under
        `counting_errors` over all that both hold, a post without a verdict being a wrong answer: the table of McNemar's
        test over the first repeat of each; `p` of their accuracy over all repeats; and `differences`, by measure the
        first run's value, the second's, the second's less the first's, and its interval, with `p` for accuracy and
        macro-F1. A post counts once, however many repeats it has; its repeats, and the posts of its cluster, are drawn
        and exchanged together.
    """
    if not same_data(first, second):
        return None
    clusters = clusters_of(first, cluster)
    fine = first.scheme == second.scheme == "fine"
    return {
        "first": first.folder.name,
        "second": second.folder.name,
        "scheme": "fine" if fine else "binary",
        "rehearsed": bool(first.rehearsed or second.rehearsed),
        "clusters": clusters.as_json(),
        **_compare_rows(first, second, clusters, errors=False),
        "counting_errors": _compare_rows(first, second, clusters, errors=True),
    }


def compare_all_pairs(runs: Sequence[RunColumns], *, cluster: str | None = None) -> list[JSON]:
    """Compare every pair of runs over the same data.

    `p_holm` is p corrected for how many pairs there are (Holm). `places` are the places of both runs in `runs`.
    """
    found = []
    for places in combinations(range(len(runs)), 2):
        compared = compare_runs(*(runs[place] for place in places), cluster=cluster)
        if compared is not None:
            found.append({**compared, "places": list(places)})
    for column in (found, [each["counting_errors"] for each in found]):
        for tests in (column, *([each["differences"][name] for each in column] for name in TESTED)):
            correct_by_holm(tests)
    return found


def compare_accuracy(first: RunColumns, second: RunColumns, clusters: Clusters) -> JSON:
    """Compare the accuracy of two runs over the same data, of the posts that both decided.

    Args:
        first: a run.
        second: another one.
        clusters: those of the first run's posts.

    Returns:
        McNemar's table, the accuracy of each run, `difference` with its `interval`, `p` by cluster, and `p_independent`
        as though no posts belonged together.
    """
    rows = pair_rows(first, second, clusters)
    sizes = np.bincount(rows.cluster).astype(float)
    one, other = (_right_by_cluster(side, rows.cluster) for side in rows.sides)
    before, after = (each.sum() / sizes.sum() if len(sizes) else np.nan for each in (one, other))
    gap = _difference_as_json(before, after, difference_interval(other - one, sizes))
    p, _ = _test_accuracy(rows)
    return {**_count_pairs(*rows.pairs), **gap, "p": p, "p_independent": mcnemar(*rows.pairs)["p"]}


def compare_macro_f1(first: RunColumns, second: RunColumns, clusters: Clusters) -> JSON:
    """Compare the macro-F1 of two runs over the same data, of the posts that both decided."""
    rows = pair_rows(first, second, clusters)
    if not len(rows.cluster):
        return {**_UNDEFINED, "p": None}
    one, other, measure = _tables_of_both(rows.sides, rows.cluster, of_two=rows.of_two)
    kinds = ClusterKinds.from_values(np.concatenate([one, other], axis=1))
    return {**_differences(kinds, measure, ["macro_f1"])["macro_f1"], "p": _test_macro_f1(rows)}


def pair_right_shares(
    first: RunColumns, second: RunColumns, clusters: Clusters
) -> tuple[tuple[Floats, Floats], Ints] | None:
    """Return, for each post that both runs decided, each run's share of right repeats; and the posts' clusters.

    None where the runs aren't over the same data, or have no such post.
    """
    if not same_data(first, second):
        return None
    rows = pair_rows(first, second, clusters)
    if not len(rows.cluster):
        return None
    one, other = (
        np.bincount(side.post, side.right * _result_weights(side)).astype(float)
        for side in rows.sides
    )
    return (one, other), rows.cluster


def correct_by_holm(tests: Collection[JSON]) -> None:
    """Add to each of several tests `p_holm`: its p corrected for how many they are."""
    for each, corrected in zip(tests, holm_correction([each["p"] for each in tests]), strict=True):
        each["p_holm"] = corrected


def share_posts(first: RunColumns, second: RunColumns) -> bool:
    """Return whether two runs have posts of one data set in common, labelled or not."""
    if first.run.get("dataset") != second.run.get("dataset"):
        return False
    if first.is_labelled.any() or second.is_labelled.any():
        return same_data(first, second)
    return bool(set(first.ids) & set(second.ids))


def same_data(first: RunColumns, second: RunColumns) -> bool:
    """Return whether two runs are over one data set, by its name and the gold of every post that both hold."""
    if first.run.get("dataset") != second.run.get("dataset"):
        return False
    one = _gold_by_post(first)
    other = _gold_by_post(second)
    shared = one.keys() & other.keys()
    return bool(shared) and all(one[post] == other[post] for post in shared)


def mcnemar(first: Bools, second: Bools) -> JSON:
    """Return McNemar's test of independent pairs, by mid-p (`exchange_test`). `p` is None of no pairs.

    Args:
        first: of each pair, whether the first is right.
        second: whether the second is.
    """
    counts = _count_pairs(first, second)
    p, exact = exchange_test(first.astype(np.int64) - second)
    return {**counts, "exact": exact, "p": p if counts["n"] else None}


def _count_pairs(first: Bools, second: Bools) -> JSON:
    names = ("both_right", "only_first_right", "only_second_right", "both_wrong")
    counts = np.bincount(2 * ~first + ~second, minlength=4).tolist()
    return {"n": len(first), **dict(zip(names, counts, strict=True))}


class ComparedSide(NamedTuple):
    """The results of one run that are compared: a row each."""

    post: Ints  # its place among the posts of both
    truth: Ints
    answer: Ints
    confidence: Floats
    right: Bools
    repeat: Ints


class PairedRows(NamedTuple):
    """The results of two runs over the posts of both: each side's, the posts' clusters, and the first repeats."""

    sides: list[ComparedSide]
    cluster: Ints
    pairs: Bools  # of each post that both have in their first repeat, whether the first is right, and the second
    of_two: bool  # the labels that are compared are yes and no


def pair_rows(
    first: RunColumns, second: RunColumns, clusters: Clusters, *, errors: bool = False
) -> PairedRows:
    """Pair the decided results of two runs; with `errors` all labelled ones. `clusters` are the first run's."""
    runs = (first, second)
    of_two = not first.scheme == second.scheme == "fine"
    rows = [np.flatnonzero(each.is_labelled if errors else each.is_decided) for each in runs]
    one, other = (
        {each.ids[post] for post in each.post[row]} for each, row in zip(runs, rows, strict=True)
    )
    posts = {post: at for at, post in enumerate(sorted(one & other))}
    of_post = dict(zip(first.ids, clusters.of_post.tolist(), strict=True))
    cluster = (
        np.unique([of_post[post] for post in posts], return_inverse=True)[1]
        if posts
        else np.arange(0)
    )
    sides = []
    first_repeats = np.full((2, len(posts)), -1)
    for run, labelled, first_repeat in zip(runs, rows, first_repeats, strict=True):
        number = np.array([posts.get(post, -1) for post in run.ids], dtype=np.int64)[run.post]
        row = labelled[number[labelled] >= 0]
        decided = run.is_decided[row]
        truth = (run.positive if of_two else run.gold)[row]
        answer = np.where(decided, (run.hateful if of_two else run.label)[row], NO_LABEL)
        confidence = np.where(decided, run.confidence[row], np.nan)
        side = ComparedSide(
            number[row], truth, answer, confidence, truth == answer, run.repeat[row]
        )
        first_repeat[side.post[side.repeat == 0]] = side.right[side.repeat == 0]
        sides.append(side)
    return PairedRows(
        sides, cluster, first_repeats[:, (first_repeats >= 0).all(axis=0)] == 1, of_two
    )


def _compare_rows(
    first: RunColumns, second: RunColumns, clusters: Clusters, *, errors: bool
) -> JSON:
    rows = pair_rows(first, second, clusters, errors=errors)
    negative = first.negative_labels | second.negative_labels
    differences = measure_differences(
        rows.sides, rows.cluster, of_two=rows.of_two, negative=negative
    )
    p, exact = _test_accuracy(rows)
    differences["accuracy"]["p"] = p
    differences["macro_f1"]["p"] = _test_macro_f1(rows)
    independent = mcnemar(*rows.pairs)
    return {
        **independent,
        "exact": exact,
        "p": p,
        "p_independent": independent["p"],
        "differences": differences,
    }


def _right_by_cluster(side: ComparedSide, cluster: Ints) -> Floats:
    """Return how many posts of each cluster are right; a post of several results counts by their share."""
    right: Floats = side.right * _result_weights(side)
    sums: Floats = np.bincount(cluster[side.post], right, int(cluster.max(initial=-1)) + 1).astype(
        float
    )
    return sums


def _test_accuracy(rows: PairedRows) -> tuple[float | None, bool]:
    """Test accuracy by exchanging whole numbers: each post's share of right repeats, times their common multiple.

    Returns p, None of no posts, and whether it is exact.
    """
    posts = len(rows.cluster)
    if not posts:
        return None, True
    each = [np.bincount(side.post, minlength=posts) for side in rows.sides]
    whole = lcm(*{int(many) for often in each for many in np.unique(often) if many})
    right = [np.bincount(side.post[side.right], minlength=posts) for side in rows.sides]
    shares = [
        hits * (whole // np.maximum(often, 1)) for hits, often in zip(right, each, strict=True)
    ]
    return exchange_test(np.bincount(rows.cluster, weights=shares[0] - shares[1]).astype(np.int64))


def _test_macro_f1(rows: PairedRows) -> float | None:
    """Test macro-F1 by random exchanges; None of no posts."""
    if not len(rows.cluster):
        return None
    one, other, measure = _tables_of_both(rows.sides, rows.cluster, of_two=rows.of_two)
    return randomisation_test(one, other, lambda sums: measure(sums)["macro_f1"])


def measure_differences(
    sides: Sequence[ComparedSide], cluster: Ints, *, of_two: bool, negative: frozenset[int]
) -> JSON:
    """Return, for each measure, the values of two runs, the second's less the first's, and the interval of that.

    Args:
        sides: two runs' results.
        cluster: of each post of both, the number of its cluster, from 0, none left out.
        of_two: as `scores.measures_of_tables`.
        negative: as `scores.measures_of_tables`.
    """
    if not len(cluster):
        return {name: {**_UNDEFINED} for name in (*MEASURES, *OF_CONFIDENCE)}
    one, other, measure = _tables_of_both(sides, cluster, of_two=of_two, negative=negative)
    found = _differences(
        ClusterKinds.from_values(np.concatenate([one, other], axis=1)), measure, MEASURES
    )
    right = [_right_by_cluster(side, cluster) for side in sides]
    found["accuracy"]["interval"] = difference_interval(
        right[1] - right[0], np.bincount(cluster).astype(float)
    )
    return {**found, **_confidence_differences(sides, cluster)}


def _differences(kinds: ClusterKinds, statistics: Statistics, names: Sequence[str]) -> JSON:
    """Return the differences of two runs' measures, with BCa intervals.

    Args:
        kinds: the clusters; the first half of what each adds is the first run's.
        statistics: measures one half.
        names: the measures.
    """

    def measure_gaps(sums: Floats) -> dict[str, Floats]:
        """Return the second run's measures less the first's."""
        before, after = (statistics(half) for half in np.split(sums, 2, axis=-1))
        return {name: after[name] - before[name] for name in names}

    spans = bca_intervals(kinds, measure_gaps)
    before, after = (statistics(half) for half in np.split(kinds.total_values, 2))
    return {name: _difference_as_json(before[name], after[name], spans[name]) for name in names}


def _tables_of_both(
    sides: Sequence[ComparedSide],
    cluster: Ints,
    *,
    of_two: bool,
    negative: frozenset[int] = frozenset({0}),
) -> tuple[Floats, Floats, Statistics]:
    """Return what each cluster adds to each run's table, (cluster, cell), and a function that measures sums of that.

    A post counts once, however many results it has.
    """
    every = {label for side in sides for label in labels_that_occur(side.truth, side.answer)}
    labels = [0, 1] if of_two else sorted(every)
    shape = (len(labels), len(labels) + 1)
    tables = np.zeros((2, int(cluster.max(initial=-1)) + 1, *shape))
    for table, side in zip(tables, sides, strict=True):
        column = np.where(
            side.answer == NO_LABEL, len(labels), np.searchsorted(labels, side.answer)
        )
        place = (cluster[side.post], np.searchsorted(labels, side.truth), column)
        np.add.at(table, place, _result_weights(side))

    def measure(sums: Floats) -> dict[str, Floats]:
        """Measure sums over clusters."""
        return measures_of_tables(
            sums.reshape(*sums.shape[:-1], *shape), labels, of_two=of_two, negative=negative
        )

    one, other = tables.reshape(*tables.shape[:2], -1)
    return one, other, measure


def _result_weights(side: ComparedSide) -> Floats:
    """Return, for each result, 1 over how many results its post has."""
    return 1 / np.bincount(side.post)[side.post]


def _confidence_differences(sides: Sequence[ComparedSide], cluster: Ints) -> JSON:
    """Return the differences of the measures of confidence, over the results of each run that state one."""
    stated = [~np.isnan(side.confidence) for side in sides]
    if not all(each.any() for each in stated):
        return dict.fromkeys(OF_CONFIDENCE, _UNDEFINED)
    confidence = np.concatenate(
        [side.confidence[each] for side, each in zip(sides, stated, strict=True)]
    )
    right = np.concatenate([side.right[each] for side, each in zip(sides, stated, strict=True)])
    of = np.concatenate(
        [cluster[side.post[each]] for side, each in zip(sides, stated, strict=True)]
    )
    levels, level = group_confidences(confidence)
    half = 2 * len(levels)
    second = np.arange(len(level)) >= stated[0].sum()
    kinds = ClusterKinds.from_cells(of, 2 * level + right + half * second, 2 * half)
    return _differences(kinds, calibration_statistics(levels), OF_CONFIDENCE)


def _difference_as_json(before: Floats | float, after: Floats | float, interval: Interval) -> JSON:
    gap = number_or_none(np.subtract(after, before))
    return {
        "first": number_or_none(before),
        "second": number_or_none(after),
        "difference": gap,
        "interval": interval,
    }


_UNDEFINED = _difference_as_json(np.nan, np.nan, None)


def _gold_by_post(columns: RunColumns) -> dict[str, tuple[int, int]]:
    rows = np.flatnonzero(columns.is_labelled)
    golds = zip(columns.gold[rows].tolist(), columns.positive[rows].tolist(), strict=True)
    return {columns.ids[post]: gold for post, gold in zip(columns.post[rows], golds, strict=True)}
