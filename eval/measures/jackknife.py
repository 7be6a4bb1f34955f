"""Intervals by the jackknife over clusters, on the scale of the logit: within 0 and 1, and always about their estimate.

The variance is that of the estimates without one cluster each (Tukey, 1958), and no less than that without one result
each. Its degrees of freedom are Satterthwaite's (1946): few where few clusters make most of it. docs/measures.md shows
how often such intervals miss, on each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from tribunal.eval.measures.bootstrap import ClusterKinds, Interval, Statistics
from tribunal.eval.measures.rates import satterthwaite_freedom, student_quantile, wilson_interval


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
    by_cluster, by_result = (_variances_without_one(kinds, statistics) for kinds in (clusters, results))
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
            middle, half = np.log(estimate / (1 - estimate)), half / (estimate * (1 - estimate))
            found[name] = [float(1 / (1 + np.exp(-end))) for end in (middle - half, middle + half)]
        else:
            quantile = student_quantile(np.inf if alone else clusters.cluster_count - 1)
            found[name] = wilson_interval(estimate, posts_at_ends[name], quantile)
    return found


def _variances_without_one(kinds: ClusterKinds, statistics: Statistics) -> dict[str, tuple[float, float]]:
    """Return the variance of each statistic over estimates without one each, and its degrees of freedom."""
    every = kinds.cluster_count
    found = {}
    for name, without in statistics(kinds.total_values - kinds.values).items():
        found[name] = (0.0, 1.0)
        known = ~np.isnan(without)
        if known.any():
            often = kinds.counts[known]
            gaps = without[known] - np.average(without[known], weights=often)
            found[name] = (float(often @ gaps**2) * (every - 1) / every, satterthwaite_freedom(gaps, often))
    return found
