"""Measure how well verdicts agree with the gold: accuracy, F1, Cohen's kappa and others, with intervals at 95 %.

Every measure comes twice. The headline leaves out what has no verdict. The one that counts errors takes every labelled
post without a verdict for a wrong answer.

The arithmetic is on confusion tables, of one run or of many resamples of it at once, which scikit-learn doesn't take;
tests/eval/measures/test_oracle.py holds it to scikit-learn's. A table counts posts by gold label (row) and answer
(column). Its last column, beyond the labels, holds posts without a verdict, as errors. Of two labels the answer is then
the other one. Of several it is no label at all: it misses the post's own label and falls on no other.
docs/measures.md says which intervals are which.

Macro- and weighted F1, kappa and Matthews' correlation have intervals by the jackknife over clusters, on the scale of
the logit: within their bounds, and always about their estimate. The variance is that of the estimates without one
cluster each (Tukey, 1958), and no less than that without one result each. Its degrees of freedom are Satterthwaite's
(1946).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import sqrt

import numpy as np

from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import NO_LABEL, Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.rates import (
    ClusterKinds,
    Interval,
    Statistics,
    divide,
    f1_interval,
    mean_or_none,
    number_or_none,
    rate_interval,
    satterthwaite_freedom,
    share_interval,
    student_quantile,
    wilson_interval,
)
from tribunal.schema import JSON

MEASURES = (
    "accuracy",
    "macro_f1",
    "weighted_f1",
    "precision",
    "recall",
    "f1",
    "cohen_kappa",
    "mcc",
)
_FROM_MINUS_1 = ("cohen_kappa", "mcc")  # measures from −1 to 1; all others are from 0 to 1
WITHOUT_VERDICT = {"refusals": "refusal", "failures": "failure", "pending": "pending"}


def score_rows(
    columns: RunColumns, rows: Ints | None = None, clusters: Clusters | None = None
) -> JSON:
    """Score these rows, or all: the headline's measures, and beside them those that count errors.

    Fractions; None where a measure isn't defined: of no posts, precision where nothing was called positive, recall
    where nothing is, F1 where both, Cohen's kappa and Matthews' correlation (`mcc`) where one label occurs. `macro_f1`
    and `weighted_f1` are over the labels that occur, as gold or as answer, in the scheme that is compared; `precision`,
    `recall` and `f1` are of the positive class, folded to yes or no.

    With `clusters`, `intervals` beside each have the lowest and the highest value of every measure. That is None where
    there is none: for a measure that isn't defined, for results of one cluster alone, and for macro- and weighted F1,
    kappa and correlation where only one label occurs.
    """
    return _score_with_errors(
        columns,
        lambda each: _score_answers(columns, each, columns.verdict_label[each], clusters),
        rows,
    )


def _score_with_errors(
    columns: RunColumns, score: Callable[[Ints], JSON], rows: Ints | None = None
) -> JSON:
    """Return the scores of the decided ones among these rows, or all, and under `counting_errors` of the labelled."""
    held = np.arange(columns.row_count) if rows is None else rows
    headline, counting = (
        score(held[chosen[held]]) for chosen in (columns.is_decided, columns.is_labelled)
    )
    return {**headline, "counting_errors": counting}


def _score_answers(
    columns: RunColumns, rows: Ints, answer: Ints, clusters: Clusters | None = None
) -> JSON:
    truth = columns.gold_label[rows]
    of_two = columns.scheme == "binary"
    negative = columns.negative_labels
    labels = [0, 1] if of_two else labels_that_occur(truth, answer)
    table = _confusion_table(truth, answer, labels)
    found = measures_of_tables(table, labels, of_two=of_two, negative=negative)
    scores: JSON = {name: number_or_none(value) for name, value in found.items()}
    if clusters is not None:
        cluster = clusters.of_post[columns.post[rows]]
        scores["intervals"] = score_intervals_of(
            cluster, truth, answer, of_two=of_two, negative=negative
        )
    return scores


def score_baselines(columns: RunColumns) -> JSON:
    """Score two answers that look at no post: always hate, never hate.

    Returns:
        Of `always_hate` and `never_hate`: `label` and `name` of the answer, the measures over the posts of the
        headline, and under `counting_errors` over all labelled ones. In the fine scheme "always hate" answers the kind
        of hate that occurs most often; None where no kind does.
    """
    truth = columns.gold_label[columns.is_labelled]
    positive, often = np.unique(
        truth[columns.positive[columns.is_labelled] == 1], return_counts=True
    )
    hate = (
        1
        if columns.scheme == "binary"
        else int(positive[often.argmax()])
        if len(positive)
        else None
    )
    return {
        "always_hate": _score_constant(columns, hate),
        "never_hate": _score_constant(columns, 0),
    }


def _score_constant(columns: RunColumns, label: int | None) -> JSON:
    if label is None:
        nothing = dict.fromkeys(MEASURES)
        return {"label": None, "name": None, **nothing, "counting_errors": nothing}
    name = columns.names.get(label, str(label))
    scores = _score_with_errors(
        columns, lambda rows: _score_answers(columns, rows, np.full(len(rows), label))
    )
    return {"label": label, "name": name, **scores}


def binary_scores(columns: RunColumns) -> JSON:
    """Score the fold to yes or no: precision, recall and F1 of the positive and of the negative class, and overall.

    `overall` is the plain mean of the two, as in AntiHateAgent's Table 2; a class that occurs and was never answered
    has precision 0 in it.
    """

    def score(rows: Ints) -> JSON:
        truth = columns.positive[rows]
        yes = columns.hateful[rows]
        answer = np.where(yes == NO_LABEL, 1 - truth, yes)
        table = _confusion_table(truth, answer, [0, 1])
        each = _class_scores(table)
        occur = (table[:, :-1].sum(axis=0) + table.sum(axis=1)) > 0
        overall: JSON = {"accuracy": mean_or_none(truth == answer)}
        for name, values in each.items():
            overall[name] = mean_or_none(np.nan_to_num(values[occur]))
        positive, negative = (
            {name: number_or_none(values[side]) for name, values in each.items()} for side in (1, 0)
        )
        return {"positive": positive, "negative": negative, "overall": overall}

    return _score_with_errors(columns, score)


def binary_accuracy(
    columns: RunColumns, clusters: Clusters, rows: Ints
) -> tuple[float | None, Interval]:
    """Return the share of verdicts among these rows that is right on yes or no, and its interval."""
    decided = rows[columns.is_decided[rows]]
    right = columns.positive[decided] == columns.hateful[decided]
    return mean_or_none(right), share_interval(clusters.of_post[columns.post[decided]], right)


def scores_by_label(columns: RunColumns, clusters: Clusters) -> JSON:
    """Return precision, recall, F1 and counts of each label of the compared scheme, in the headline.

    `intervals` are those of the three.
    """
    truth = columns.gold_label[columns.is_decided]
    answer = columns.verdict_label[columns.is_decided]
    every = labels_that_occur(columns.gold_label[columns.is_labelled], answer)
    each = _class_scores(_confusion_table(truth, answer, every))
    cluster = clusters.of_post[columns.post[columns.is_decided]]
    found: JSON = {}
    for place, label in enumerate(every):
        own = np.flatnonzero(columns.is_labelled & (columns.gold_label == label))
        found[str(label)] = {
            "name": columns.names.get(label, str(label)),
            "n": len(own),
            **count_without_verdict(columns, own),
            "answered": int((answer == label).sum()),
            **{name: number_or_none(values[place]) for name, values in each.items()},
            "intervals": _class_intervals(cluster, truth == label, answer == label),
        }
    return found


def confusion_as_json(columns: RunColumns) -> JSON:
    """Return counts by gold label (row) and answer (column), and how many of each row had no verdict, by outcome."""
    truth = columns.gold_label[columns.is_decided]
    answer = columns.verdict_label[columns.is_decided]
    labels = labels_that_occur(columns.gold_label[columns.is_labelled], answer)
    rows = [np.flatnonzero(columns.is_labelled & (columns.gold_label == label)) for label in labels]
    missing = [count_without_verdict(columns, row) for row in rows]
    return {
        "labels": labels,
        "names": [columns.names.get(label, str(label)) for label in labels],
        "counts": _confusion_table(truth, answer, labels)[:, :-1].tolist(),
        **{name: [counts[name] for counts in missing] for name in WITHOUT_VERDICT},
    }


def count_without_verdict(columns: RunColumns, rows: Ints) -> JSON:
    """Count the rows that have no verdict, by outcome."""
    return {name: columns.count_outcome(outcome, rows) for name, outcome in WITHOUT_VERDICT.items()}


def labels_that_occur(truth: Ints, answer: Ints) -> list[int]:
    """Return the labels that occur, as gold or as answer, in their order."""
    return sorted({*truth.tolist(), *answer.tolist()} - {NO_LABEL})


def _confusion_table(truth: Ints, answer: Ints, labels: Sequence[int]) -> Ints:
    table: Ints = confusion_tables(np.zeros_like(truth), truth, answer, labels, 1)[0]
    return table


def confusion_tables(
    group: Ints, truth: Ints, answer: Ints, labels: Sequence[int], groups: int
) -> Ints:
    """Return a confusion table for each of so many groups: (group, gold label, answer), NO_LABEL in the last column."""
    tables = np.zeros((groups, len(labels), len(labels) + 1), dtype=np.int64)
    column = np.where(answer == NO_LABEL, len(labels), np.searchsorted(labels, answer))
    np.add.at(tables, (group, np.searchsorted(labels, truth), column), 1)
    return tables


def measures_of_tables(
    tables: Ints | Floats, labels: Sequence[int], *, of_two: bool, negative: Collection[int] = (0,)
) -> dict[str, Floats]:
    """Return the measures of each table.

    Args:
        tables: (…, gold label, answer).
        labels: what rows and columns stand for.
        of_two: the labels are 0 and 1, so that an error on one side is an alarm on the other.
        negative: the labels that fold to no; all others are positive.

    Returns:
        One number a table and measure, nan where it isn't defined, as `score_rows` says.
    """
    k = len(labels)
    positive = np.array([label not in negative for label in labels], dtype=bool)
    answered = tables[..., :k]
    missing = tables[..., k]
    own = answered.diagonal(axis1=-2, axis2=-1)
    gold = answered.sum(axis=-1) + missing
    called = answered.sum(axis=-2)
    if of_two:
        called = called + missing[..., ::-1]
    hits = answered[..., positive, :][..., positive].sum(axis=(-2, -1))
    yes = gold[..., positive].sum(axis=-1)
    said_yes = (
        hits
        + answered[..., ~positive, :][..., positive].sum(axis=(-2, -1))
        + missing[..., ~positive].sum(-1)
    )
    f1s = divide(2 * own, gold + called)
    occur = gold + called > 0
    # Cohen (1960), and Gorodkin (2004) for several labels. No verdict is an answer beside the labels.
    total = gold.sum(axis=-1)
    right = own.sum(axis=-1)
    by_chance = (gold * called).sum(axis=-1)
    answers = (called**2).sum(axis=-1) + (0 if of_two else missing.sum(axis=-1) ** 2)
    spread = np.sqrt(
        (total**2 - answers).clip(0).astype(float) * (total**2 - (gold**2).sum(axis=-1)).clip(0)
    )
    values = (
        divide(own.sum(axis=-1), gold.sum(axis=-1)),
        divide(np.where(occur, f1s, 0).sum(axis=-1), occur.sum(axis=-1)),
        divide(np.where(occur, f1s * gold, 0).sum(axis=-1), gold.sum(axis=-1)),
        divide(hits, said_yes),
        divide(hits, yes),
        divide(2 * hits, said_yes + yes),
        divide(total * right - by_chance, total**2 - by_chance),
        divide(total * right - by_chance, spread),
    )
    return dict(zip(MEASURES, values, strict=True))


def _class_scores(table: Ints) -> dict[str, Floats]:
    """Return precision, recall and F1 of each label of a table of answered posts; nan where undefined."""
    answered = table[:, :-1]
    own = answered.diagonal()
    gold = answered.sum(axis=1)
    called = answered.sum(axis=0)
    return {
        "precision": divide(own, called),
        "recall": divide(own, gold),
        "f1": divide(2 * own, gold + called),
    }


def score_intervals_of(
    cluster: Ints,
    truth: Ints,
    answer: Ints,
    *,
    of_two: bool,
    negative: frozenset[int] = frozenset({0}),
) -> dict[str, Interval]:
    """Return the intervals of the measures.

    Args:
        cluster: of each result, the number of its cluster.
        truth: its gold label.
        answer: its answer; NO_LABEL where there is no verdict.
        of_two: as `measures_of_tables`.
        negative: as `measures_of_tables`.
    """
    if not len(truth):
        return dict.fromkeys(MEASURES)
    if of_two:  # no verdict is the other label
        answer = np.where(answer == NO_LABEL, 1 - truth, answer)
    is_it = ~np.isin(truth, list(negative))
    called = ~np.isin(answer, [*negative, NO_LABEL])
    # Without a verdict, what is no hate was called hate, and what is hate was not.
    called |= (answer == NO_LABEL) & ~is_it
    found = {
        "accuracy": share_interval(cluster, answer == truth),
        **_class_intervals(cluster, is_it, called),
    }
    labels = labels_that_occur(truth, answer)
    if len(labels) > 1:
        cell = np.searchsorted(labels, truth) * (len(labels) + 1)
        cell += np.where(answer == NO_LABEL, len(labels), np.searchsorted(labels, answer))
        found |= _jackknife_intervals(cluster, cell, len(labels), of_two=of_two)
    return {name: found.get(name) for name in MEASURES}


def _class_intervals(cluster: Ints, is_it: Bools, called: Bools) -> dict[str, Interval]:
    """Return the intervals of one class's precision, recall and F1."""
    hits, gold, answered = (
        np.bincount(cluster, each, minlength=1) for each in (is_it & called, is_it, called)
    )
    return {
        "precision": rate_interval(hits, answered),
        "recall": rate_interval(hits, gold),
        "f1": f1_interval(hits, gold + answered - 2 * hits),
    }


def _jackknife_intervals(
    cluster: Ints, cell: Ints, labels: int, *, of_two: bool
) -> dict[str, Interval]:
    shape = (labels, labels + 1)
    cells = labels * (labels + 1)
    clusters, results = (
        ClusterKinds.from_cells(each, cell, cells) for each in (cluster, np.arange(len(cell)))
    )
    sizes = np.unique(cluster, return_counts=True)[1].astype(float)
    gold = results.total_values.reshape(shape).sum(axis=1)
    together = float(sizes @ sizes) / len(cell)
    # One error takes from macro-F1 as much as from the accuracy of so many posts: fewer where a label is rare.
    as_many = int((gold > 0).sum()) ** 2 / float((1 / gold[gold > 0]).sum())
    posts_at_ends = dict.fromkeys(("macro_f1", *_FROM_MINUS_1), as_many / together)
    posts_at_ends["weighted_f1"] = len(cell) / together

    def within_0_and_1(sums: Floats) -> dict[str, Floats]:
        found = measures_of_tables(
            sums.reshape(*sums.shape[:-1], *shape), range(labels), of_two=of_two
        )
        return {
            name: (1 + found[name]) / 2 if name in _FROM_MINUS_1 else found[name]
            for name in posts_at_ends
        }

    spans = logit_intervals(clusters, results, within_0_and_1, posts_at_ends)
    for name in _FROM_MINUS_1:
        ends = spans[name]
        spans[name] = ends and [2 * end - 1 for end in ends]
    return spans


def logit_intervals(
    clusters: ClusterKinds,
    results: ClusterKinds,
    statistics: Statistics,
    posts_at_ends: Mapping[str, float],
) -> dict[str, Interval]:
    """Return the intervals of statistics of sums that lie within 0 and 1.

    Args:
        clusters: what each cluster adds to the sums.
        results: what each result adds.
        statistics: of sums, an array (…, values), give arrays (…) by name.
        posts_at_ends: by name, how many independent posts a statistic of 0 or 1 is to count for: nothing varies there.

    Returns:
        By name the lowest and the highest value; None where there is but one cluster, or the statistic isn't defined.
    """
    estimates = statistics(clusters.total_values)
    if clusters.cluster_count < 2:
        return dict.fromkeys(estimates)
    by_cluster, by_result = (
        _variances_without_one(kinds, statistics) for kinds in (clusters, results)
    )
    alone = clusters.cluster_count == results.cluster_count
    found: dict[str, Interval] = {}
    for name, value in estimates.items():
        estimate = float(value)
        variance, freedom = by_cluster[name]
        variance = max(variance, by_result[name][0])
        if np.isnan(estimate):
            found[name] = None
        elif variance and 0 < estimate < 1:
            half = student_quantile(np.inf if alone else freedom) * sqrt(variance)
            middle = np.log(estimate / (1 - estimate))
            half = half / (estimate * (1 - estimate))
            found[name] = [float(1 / (1 + np.exp(-end))) for end in (middle - half, middle + half)]
        else:
            quantile = student_quantile(np.inf if alone else clusters.cluster_count - 1)
            found[name] = wilson_interval(estimate, posts_at_ends[name], quantile)
    return found


def _variances_without_one(
    kinds: ClusterKinds, statistics: Statistics
) -> dict[str, tuple[float, float]]:
    """Return the variance of each statistic over estimates without one each, and its degrees of freedom."""
    every = kinds.cluster_count
    found = {}
    for name, without in statistics(kinds.total_values - kinds.values).items():
        found[name] = (0.0, 1.0)
        known = ~np.isnan(without)
        often = kinds.counts[known]
        if often.sum() > 1:
            gaps = without[known] - np.average(without[known], weights=often)
            found[name] = (
                float(often @ gaps**2) * (every - 1) / every,
                satterthwaite_freedom(gaps, often),
            )
    return found
