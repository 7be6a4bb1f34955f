"""Measure how far raters agree: repeats of a run, the perspectives of a panel, two people.

Fleiss' kappa (PREDICT's formula has its terms under exchanged names) is over subjects that all rated; Krippendorff's
alpha, for nominal data, takes subjects that some left out; Cohen's kappa, of two raters, is statsmodels'. The first two
come from sums over subjects, so that all resamples are measured at once; tests hold kappa to statsmodels'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from tribunal.eval.measures.bootstrap import ClusterKinds, Interval, bca_intervals
from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import Bools, Floats, Ints, RunColumns, Stances
from tribunal.eval.measures.rates import divide, mean_or_none, number_or_none, share_interval
from tribunal.eval.measures.scores import MEASURES, score_rows
from tribunal.schema import JSON, Frozen


def measure_agreement(counts: Ints, complete: Bools, cluster: Ints) -> JSON:
    """Return Fleiss' kappa and Krippendorff's alpha with their intervals.

    Args:
        counts: how many raters gave each label, (subject, label).
        complete: the subjects that every rater labelled: those of kappa.
        cluster: of each subject, the number of the cluster that it is drawn with.

    Returns:
        `kappa`, `alpha`, `ratings` (how many alpha is over), and `intervals` of the two, which draw clusters. Both are
        1.0 for full agreement and 0.0 for what chance would give. Kappa is 1.0 where only one label was ever given, and
        None where there is no complete subject, or fewer than two raters. Alpha is None where no subject has two
        labels, or only one label was ever given, so that nothing could have shown a difference.
    """
    raters = counts.sum(axis=1)
    pairs = (counts * (counts - 1)).sum(axis=1)
    rated = complete & (raters > 1)
    per_kappa = np.column_stack([np.ones(len(counts)), pairs / np.maximum(raters * (raters - 1), 1), counts])[rated]
    per_alpha = np.column_stack([pairs / np.maximum(raters - 1, 1), counts]) * (raters > 1)[:, None]
    return {
        "kappa": number_or_none(_kappa_of_sums(per_kappa.sum(axis=0))),
        "alpha": number_or_none(_alpha_of_sums(per_alpha.sum(axis=0))),
        "ratings": int(per_alpha[:, 1:].sum()),
        "intervals": {
            "kappa": _interval_over_clusters(per_kappa, cluster[rated], _kappa_of_sums),
            "alpha": _interval_over_clusters(per_alpha, cluster, _alpha_of_sums),
        },
    }


def _kappa_of_sums(sums: Floats) -> Floats:
    """Return Fleiss' kappa of sums over subjects: 1, the share of pairs of raters that agree, and the counts."""
    observed = divide(sums[..., 1], sums[..., 0])
    expected = (divide(sums[..., 2:], sums[..., 2:].sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return np.where(expected == 1, 1.0, divide(observed - expected, 1 - expected))


def _alpha_of_sums(sums: Floats) -> Floats:
    """Return Krippendorff's alpha of sums over subjects with two labels or more: diagonal coincidences, and counts."""
    labels = sums[..., 1:]
    values = labels.sum(axis=-1)
    observed = 1 - divide(sums[..., 0], values)
    expected = 1 - divide((labels * (labels - 1)).sum(axis=-1), values * (values - 1))
    return np.where(expected > 0, 1 - divide(observed, expected), np.nan)


def _interval_over_clusters(sums: Floats, cluster: Ints, statistic: Callable[[Floats], Floats]) -> Interval:
    if not len(sums):
        return None
    numbers, of = np.unique(cluster, return_inverse=True)
    of_cluster = np.zeros((len(numbers), sums.shape[1]))
    np.add.at(of_cluster, of, sums)
    return bca_intervals(ClusterKinds.from_values(of_cluster), lambda drawn: {"it": statistic(drawn)})["it"]


class RaterAgreement(Frozen):
    """Agreement of two raters on the same subjects: observed, and beyond chance (Cohen's kappa)."""

    pairs: int = Field(description="subjects that both rated", examples=[40])
    agreed: int = Field(description="those of them on which both said the same", examples=[36])
    raw: float | None = Field(description="their share, from 0 to 1; none without a pair", examples=[0.9])
    kappa: float | None = Field(
        description="Cohen's kappa: 1 full agreement, 0 what chance would give; none where it isn't defined: no pair, "
        "or only one label was ever given",
        examples=[0.78],
    )
    low: float | None = Field(description="the lower end of its 95 % interval", examples=[0.58])
    high: float | None = Field(description="the upper end", examples=[0.98])


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> RaterAgreement:
    """Return Cohen's kappa of two raters with its asymptotic 95 % interval, by statsmodels.

    Args:
        pairs: for each subject what the first and what the second rater said.
    """
    agreed, many = sum(one == other for one, other in pairs), len(pairs)
    labels = sorted({label for pair in pairs for label in pair})
    kappa, low, high = None, None, None
    if len(labels) > 1:
        from statsmodels.stats.inter_rater import cohens_kappa

        table = np.zeros((len(labels), len(labels)))
        for one, other in pairs:
            table[labels.index(one), labels.index(other)] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            found = cohens_kappa(table)
            kappa, low, high = map(number_or_none, (found.kappa, found.kappa_low, found.kappa_upp))
    return RaterAgreement(
        pairs=many,
        agreed=agreed,
        raw=agreed / many if many else None,
        kappa=kappa,
        low=None if low is None else max(-1.0, low),
        high=None if high is None else min(1.0, high),
    )


_NOT_YET = -2  # a repeat that hasn't come to the post; -1 is no verdict


def measure_repeats(columns: RunColumns, clusters: Clusters) -> JSON:
    """Measure each repeat, and how far repeats agree.

    `std` is the sample standard deviation (ddof = 1), None of fewer than two repeats in which the measure is defined.
    `kappa` and `flip_rate` are over the posts that every repeat gave a verdict on, labelled or not: the share of them
    whose label isn't the same in all. `alpha` is over all posts with two verdicts or more, and `ratings` counts these.
    `intervals` of the three draw clusters. Counting errors, having no verdict is an answer of its own, and the posts
    are all those that stand in every repeat.
    """
    repeats = np.unique(columns.repeat)
    each = [score_rows(columns, np.flatnonzero(columns.repeat == repeat)) for repeat in repeats.tolist()]
    table = np.full((len(columns.ids), len(repeats)), _NOT_YET)
    table[columns.post, np.searchsorted(repeats, columns.repeat)] = columns.verdict_label
    complete: Bools = np.not_equal(table, _NOT_YET).all(axis=1)
    decided: Bools = np.greater_equal(table, 0).all(axis=1)
    labels = np.unique(table[table >= 0])
    counts = np.stack([(table == label).sum(axis=1) for label in labels], axis=1) if len(labels) else table[:, :0] * 0
    flips = (table != table[:, :1]).any(axis=1)

    def summarise(scores: Sequence[JSON], posts: Bools, agreed: JSON) -> JSON:
        several = len(repeats) > 1
        rate = mean_or_none(flips[posts]) if several else None
        interval = share_interval(clusters.of_post[posts], flips[posts]) if several else None
        return {
            **{name: _mean_std_values([measured[name] for measured in scores]) for name in MEASURES},
            "posts": int(posts.sum()),
            **agreed,
            "flip_rate": rate,
            "intervals": {**agreed.get("intervals", {}), "flip_rate": interval},
        }

    return {
        "repeats": len(repeats),
        **summarise(each, decided, measure_agreement(counts, decided, clusters.of_post)),
        "counting_errors": summarise([measured["counting_errors"] for measured in each], complete, {}),
    }


def measure_perspectives(columns: RunColumns, clusters: Clusters) -> JSON:
    """Measure how far the perspectives of a panel agree.

    Returns:
        `agents`; `n`, the results in which all of them took a stance, over which `kappa` is; `alpha` over results in
        which two or more did, `ratings` of them in all; `intervals` of both, which draw clusters.
    """
    number: dict[Stances, int] = {}
    of_row = np.array([number.setdefault(row, len(number)) for row in columns.stances], dtype=np.int64)
    agents = sorted({agent for row in number for agent, _ in row})
    stances = sorted({stance for row in number for _, stance in row})
    counts = np.zeros((len(number), len(stances)), dtype=np.int64)
    for row, at in number.items():
        for _, stance in row:
            counts[at, stances.index(stance)] += 1
    complete = np.array([len(row) == len(agents) > 1 for row in number], dtype=bool)[of_row]
    return {
        "agents": agents,
        "n": int(complete.sum()),
        **measure_agreement(counts[of_row], complete, clusters.of_post[columns.post]),
    }


def _mean_std_values(values: list[float | None]) -> JSON:
    """Return the mean and sample standard deviation of the values that are defined, and all values as given."""
    defined = [value for value in values if value is not None]
    return {
        "mean": float(np.mean(defined)) if defined else None,
        "std": float(np.std(defined, ddof=1)) if len(defined) > 1 else None,
        "values": values,
    }
