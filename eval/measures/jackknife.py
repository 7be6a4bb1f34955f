"""Intervals by the jackknife over clusters, on the scale of the logit: within 0 and 1, and always about their estimate.

The variance is that of the estimates without one cluster each (Tukey, 1958), and no less than that without one result
each. Its degrees of freedom are Satterthwaite's (1946): few where few clusters make most of it. docs/measures.md shows
how often such intervals miss, on each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.bootstrap import LEVEL, ClusterKinds, Interval, Statistics
from tribunal.eval.measures.columns import Floats, Ints
from tribunal.eval.measures.rates import satterthwaite_freedom, student_quantile, wilson_interval


class _Spread(NamedTuple):
    variance: float
    freedom: float


def logit_intervals(
    clusters: ClusterKinds, results: ClusterKinds, statistics: Statistics, posts_at_ends: Mapping[str, float]
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
    by_cluster, by_result = (_jackknife(kinds, statistics) for kinds in (clusters, results))
    alone = clusters.cluster_count == results.cluster_count
    found: dict[str, Interval] = {}
    for name, value in estimates.items():
        estimate, spread = float(value), by_cluster[name]
        variance = max(spread.variance, by_result[name].variance)
        if np.isnan(estimate):
            found[name] = None
        elif variance and 0 < estimate < 1:
            half = student_quantile(np.inf if alone else spread.freedom, LEVEL) * sqrt(variance)
            middle, half = np.log(estimate / (1 - estimate)), half / (estimate * (1 - estimate))
            found[name] = [float(1 / (1 + np.exp(-end))) for end in (middle - half, middle + half)]
        else:
            quantile = student_quantile(np.inf if alone else clusters.cluster_count - 1, LEVEL)
            found[name] = wilson_interval(estimate, posts_at_ends[name], quantile)
    return found


def _jackknife(kinds: ClusterKinds, statistics: Statistics) -> dict[str, _Spread]:
    """Return the variance of each statistic, and its degrees of freedom."""
    without = statistics(kinds.total_values - kinds.values)
    return {name: _spread_of(values, kinds.counts) for name, values in without.items()}


def _spread_of(without: Floats, counts: Ints) -> _Spread:
    known = ~np.isnan(without)
    if not known.any():
        return _Spread(0.0, 1.0)
    gaps, often = without[known] - np.average(without[known], weights=counts[known]), counts[known]
    every = int(counts.sum())
    return _Spread(float(often @ gaps**2) * (every - 1) / every, satterthwaite_freedom(gaps, often))
