"""Two runs over the same posts: by how much their measures differ, and whether by more than chance would."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from math import lcm
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.bootstrap import ClusterKinds, Interval, Statistics, bca_intervals
from tribunal.eval.measures.calibration import calibration_statistics, group_confidences
from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import NO_LABEL, Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.rates import (
    difference_interval,
    exchange_test,
    holm_correction,
    number_or_none,
    randomisation_test,
)
from tribunal.eval.measures.scores import MEASURES, labels_that_occur, measures_of_tables
from tribunal.schema import JSON

TESTED = ("accuracy", "macro_f1")
OF_CONFIDENCE = ("ece", "aurc", "brier", "auroc")


def compare_runs(first: RunColumns, second: RunColumns, *, cluster: str | None = None) -> JSON | None:
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
    fine = first.scheme == second.scheme == "fine"
    clusters = clusters_of(first, cluster)
    of_post = dict(zip(first.ids, clusters.of_post.tolist(), strict=True))
    return {
        "first": first.folder.name,
        "second": second.folder.name,
        "scheme": "fine" if fine else "binary",
        "rehearsed": bool(first.rehearsed or second.rehearsed),
        "clusters": clusters.as_json(),
        **_compare_rows(first, second, of_post, fine=fine, errors=False),
        "counting_errors": _compare_rows(first, second, of_post, fine=fine, errors=True),
    }


def compare_all_pairs(runs: Sequence[RunColumns], *, cluster: str | None = None) -> list[JSON]:
    """Compare every pair of runs over the same data.

    `p_holm` is p corrected for how many pairs there are (Holm).
    """
    found = [each for pair in combinations(runs, 2) if (each := compare_runs(*pair, cluster=cluster)) is not None]
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
    fine = first.scheme == second.scheme == "fine"
    of_post = dict(zip(first.ids, clusters.of_post.tolist(), strict=True))
    sides, cluster, pairs = _pair_rows(first, second, of_post, fine=fine, errors=False)
    p = _accuracy_test(sides, cluster)[0] if len(cluster) else None
    one, other = (_right_by_cluster(side, cluster) for side in sides)
    sizes = np.bincount(cluster).astype(float)
    before, after = (each.sum() / sizes.sum() if len(cluster) else np.nan for each in (one, other))
    gap = _difference_as_json(before, after, difference_interval(other - one, sizes) if len(cluster) else None)
    return {**_count_pairs(*pairs), **gap, "p": p, "p_independent": mcnemar(*pairs)["p"]}


def compare_macro_f1(first: RunColumns, second: RunColumns, clusters: Clusters) -> JSON:
    """Compare the macro-F1 of two runs over the same data: what `compare_runs` has of it."""
    held = macro_f1_tables(first, second, clusters)
    if not held.posts:
        return {**_difference_as_json(np.nan, np.nan, None), "p": None}
    kinds = ClusterKinds.from_values(np.concatenate([held.first, held.second], axis=1))
    found = _differences(kinds, lambda half: {"macro_f1": held.measure(half)}, ["macro_f1"])["macro_f1"]
    return {**found, "p": randomisation_test(held.first, held.second, held.measure)}


def pair_right_shares(
    first: RunColumns, second: RunColumns, clusters: Clusters
) -> tuple[tuple[Floats, Floats], Ints] | None:
    """Return, for each post that both runs decided, each run's share of right repeats; and the posts' clusters.

    None where the runs aren't over the same data, or have no such post.
    """
    if not same_data(first, second):
        return None
    sides, cluster = _pair_decided(first, second, clusters)
    if not len(cluster):
        return None
    one, other = (np.bincount(side.post, side.right * _result_weights(side)).astype(float) for side in sides)
    return (one, other), cluster


class MacroF1Tables(NamedTuple):
    """Hold what each cluster adds to each of two runs' tables, (cluster, cell), and how sums of that are measured."""

    first: Floats
    second: Floats
    measure: Callable[[Floats], Floats]
    posts: int


def macro_f1_tables(first: RunColumns, second: RunColumns, clusters: Clusters) -> MacroF1Tables:
    """Return what the macro-F1 of two runs is measured from, over the posts that both decided."""
    of_two = not first.scheme == second.scheme == "fine"
    return _macro_f1_of_sides(*_pair_decided(first, second, clusters), of_two=of_two)


def _pair_decided(first: RunColumns, second: RunColumns, clusters: Clusters) -> tuple[list[ComparedSide], Ints]:
    fine = first.scheme == second.scheme == "fine"
    of_post = dict(zip(first.ids, clusters.of_post.tolist(), strict=True))
    return _pair_rows(first, second, of_post, fine=fine, errors=False)[:2]


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
    one, other = _gold_by_post(first), _gold_by_post(second)
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


def _pair_rows(
    first: RunColumns,
    second: RunColumns,
    of_post: dict[str, int],
    *,
    fine: bool,
    errors: bool,
) -> PairedRows:
    runs = (first, second)
    rows = [np.flatnonzero(each.is_labelled if errors else each.is_decided) for each in runs]
    one, other = ({each.ids[post] for post in each.post[row]} for each, row in zip(runs, rows, strict=True))
    posts = {post: at for at, post in enumerate(sorted(one & other))}
    sides = [_compared_side(each, row, posts, fine=fine) for each, row in zip(runs, rows, strict=True)]
    cluster = np.unique([of_post[post] for post in posts], return_inverse=True)[1] if posts else np.arange(0)
    first_repeats = np.full((2, len(posts)), -1)
    for at, side in enumerate(sides):
        first_repeats[at, side.post[side.repeat == 0]] = side.right[side.repeat == 0]
    return PairedRows(sides, cluster, first_repeats[:, (first_repeats >= 0).all(axis=0)] == 1)


def _compare_rows(first: RunColumns, second: RunColumns, of_post: dict[str, int], *, fine: bool, errors: bool) -> JSON:
    sides, cluster, pairs = _pair_rows(first, second, of_post, fine=fine, errors=errors)
    p, exact = _accuracy_test(sides, cluster)
    negative = first.negative_labels | second.negative_labels
    differences = measure_differences(sides, cluster, of_two=not fine, negative=negative)
    differences["accuracy"]["p"] = p if len(cluster) else None
    tables = _macro_f1_of_sides(sides, cluster, of_two=not fine)
    exchanged = randomisation_test(tables.first, tables.second, tables.measure) if tables.posts else None
    differences["macro_f1"]["p"] = exchanged
    return {
        **_count_pairs(*pairs), "exact": exact, "p": p if len(cluster) else None,
        "p_independent": mcnemar(*pairs)["p"], "differences": differences,
    }  # fmt: skip


def _right_by_cluster(side: ComparedSide, cluster: Ints) -> Floats:
    """Return how many posts of each cluster are right; a post of several results counts by their share."""
    right: Floats = side.right * _result_weights(side)
    sums: Floats = np.bincount(cluster[side.post], right, int(cluster.max(initial=-1)) + 1).astype(float)
    return sums


def _compared_side(columns: RunColumns, rows: Ints, posts: dict[str, int], *, fine: bool) -> ComparedSide:
    number = np.array([posts.get(post, -1) for post in columns.ids], dtype=np.int64)
    rows = rows[number[columns.post[rows]] >= 0]
    truth, answer = (columns.gold, columns.label) if fine else (columns.positive, columns.hateful)
    decided, truth = columns.is_decided[rows], truth[rows]
    answer = np.where(decided, answer[rows], NO_LABEL)
    confidence = np.where(decided, columns.confidence[rows], np.nan)
    return ComparedSide(number[columns.post[rows]], truth, answer, confidence, truth == answer, columns.repeat[rows])


def _accuracy_test(sides: Sequence[ComparedSide], cluster: Ints) -> tuple[float, bool]:
    """Test accuracy by exchanging whole numbers: each post's share of right repeats, times their common multiple."""
    each = [np.bincount(side.post, minlength=len(cluster)) for side in sides]
    whole = lcm(*{int(many) for often in each for many in np.unique(often) if many})
    right = [np.bincount(side.post[side.right], minlength=len(cluster)) for side in sides]
    shares = [hits * (whole // np.maximum(often, 1)) for hits, often in zip(right, each, strict=True)]
    sums = np.bincount(cluster, weights=shares[0] - shares[1])
    return exchange_test(sums.astype(np.int64))


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
    labels, one, other = _tables_of_both(sides, cluster, of_two=of_two)
    shape = (len(labels), len(labels) + 1)

    def measure_sums(sums: Floats) -> dict[str, Floats]:
        """Measure sums over clusters."""
        tables = sums.reshape(*sums.shape[:-1], *shape)
        return measures_of_tables(tables, labels, of_two=of_two, negative=negative)

    if not len(one):
        return {name: _difference_as_json(np.nan, np.nan, None) for name in (*MEASURES, *OF_CONFIDENCE)}
    found = _differences(ClusterKinds.from_values(np.concatenate([one, other], axis=1)), measure_sums, MEASURES)
    right = [_right_by_cluster(side, cluster) for side in sides]
    found["accuracy"]["interval"] = difference_interval(right[1] - right[0], np.bincount(cluster).astype(float))
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


def _macro_f1_of_sides(sides: Sequence[ComparedSide], cluster: Ints, *, of_two: bool) -> MacroF1Tables:
    labels, one, other = _tables_of_both(sides, cluster, of_two=of_two)

    def macro_f1(sums: Floats) -> Floats:
        """Return Macro-F1 of sums over clusters."""
        tables = sums.reshape(*sums.shape[:-1], len(labels), len(labels) + 1)
        return measures_of_tables(tables, labels, of_two=of_two)["macro_f1"]

    return MacroF1Tables(one, other, macro_f1, len(cluster))


def _tables_of_both(sides: Sequence[ComparedSide], cluster: Ints, *, of_two: bool) -> tuple[list[int], Floats, Floats]:
    """Return the labels that occur in either run, and what each cluster adds to each run's table: (cluster, cell).

    A post counts once, however many results it has.
    """
    every = {label for side in sides for label in labels_that_occur(side.truth, side.answer)}
    labels = [0, 1] if of_two else sorted(every)
    tables = np.zeros((2, int(cluster.max(initial=-1)) + 1, len(labels) * (len(labels) + 1)))
    for table, side in zip(tables, sides, strict=True):
        column = np.where(side.answer == NO_LABEL, len(labels), np.searchsorted(labels, side.answer))
        cell = np.searchsorted(labels, side.truth) * (len(labels) + 1) + column
        np.add.at(table, (cluster[side.post], cell), _result_weights(side))
    return labels, tables[0], tables[1]


def _result_weights(side: ComparedSide) -> Floats:
    """Return, for each result, 1 over how many results its post has."""
    return 1 / np.bincount(side.post)[side.post]


def _confidence_differences(sides: Sequence[ComparedSide], cluster: Ints) -> JSON:
    """Return the differences of the measures of confidence, over the results of each run that state one."""
    stated = [~np.isnan(side.confidence) for side in sides]
    if not all(each.any() for each in stated):
        return {name: _difference_as_json(np.nan, np.nan, None) for name in OF_CONFIDENCE}
    confidence = np.concatenate([side.confidence[each] for side, each in zip(sides, stated, strict=True)])
    right = np.concatenate([side.right[each] for side, each in zip(sides, stated, strict=True)])
    of = np.concatenate([cluster[side.post[each]] for side, each in zip(sides, stated, strict=True)])
    levels, level = group_confidences(confidence)
    half, second = 2 * len(levels), np.arange(len(level)) >= stated[0].sum()
    kinds = ClusterKinds.from_cells(of, 2 * level + right + half * second, 2 * half)
    return _differences(kinds, calibration_statistics(levels), OF_CONFIDENCE)


def _difference_as_json(before: Floats | float, after: Floats | float, interval: Interval) -> JSON:
    gap = number_or_none(np.subtract(after, before))
    return {"first": number_or_none(before), "second": number_or_none(after), "difference": gap, "interval": interval}


def _gold_by_post(columns: RunColumns) -> dict[str, tuple[int, int]]:
    rows = np.flatnonzero(columns.is_labelled)
    golds = zip(columns.gold[rows].tolist(), columns.positive[rows].tolist(), strict=True)
    return {columns.ids[post]: gold for post, gold in zip(columns.post[rows], golds, strict=True)}
