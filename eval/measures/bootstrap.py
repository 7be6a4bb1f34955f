"""Resampling of a run's clusters: what intervals and tests of measures rest on that are no plain rates.

A resample draws as many clusters as there are, with replacement, each with all of its posts and their repeats. Clusters
whose results are the same can't be told apart by any measure, so what is drawn is how often each kind of cluster
occurs: a multinomial, equal in distribution to drawing the clusters one by one. SciPy's bootstrap draws one by one, and
holds a table of clusters by clusters; tests/eval/measures/test_bootstrap.py holds BCa intervals to it. More than 2,000
kinds are put together at random into 500 groups, which are drawn in their place (random groups: Wolter, "Introduction
to Variance Estimation", chapter 2).
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.eval.measures.columns import Floats, Ints

LEVEL = 0.95  # of every interval
Interval = list[float] | None
RESAMPLES, SEED = 2000, 0
MOST_KINDS, GROUPS = 2000, 500
_AT_ONCE = 1_000_000  # numbers held at one time
_NORMAL = NormalDist()
NORMAL_QUANTILE = _NORMAL.inv_cdf((1 + LEVEL) / 2)  # bounds an interval of this level about its middle

# Of sums (…, values): by name one number each, nan where it isn't defined.
Statistics = Callable[[Floats], dict[str, Floats]]


class ClusterKinds(NamedTuple):
    """The kinds of clusters: what each adds to the sums that measures are made of, and how many are of it."""

    values: Floats
    counts: Ints

    @classmethod
    def from_values(cls, values: Ints | Floats) -> ClusterKinds:
        """Group clusters by what each adds: (cluster, value)."""
        values = values.astype(float) + 0.0  # no zero below zero
        bits = values.view(np.uint64)
        # Mixed by SplitMix64, so that each bit depends on every one: those of small numbers are mostly zeros.
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        marks = (bits * _random_marks(values.shape[1])).sum(axis=1, dtype=np.uint64)
        _, first, of = np.unique(marks, return_index=True, return_inverse=True)
        if len(first) <= MOST_KINDS:
            return cls(values[first], np.bincount(of))
        sums = np.zeros((GROUPS, values.shape[1]))
        np.add.at(sums, _random_groups(of), values)
        return cls(sums, np.ones(GROUPS, dtype=np.int64))

    @classmethod
    def from_cells(cls, cluster: Ints, cell: Ints, cells: int) -> ClusterKinds:
        """Group clusters by the counts that each adds to cells.

        Args:
            cluster: of each result, the number of its cluster.
            cell: of each result, the one of so many cells that it counts in.
            cells: how many there are.
        """
        _, of = np.unique(cluster, return_inverse=True)
        marks = np.zeros(int(of.max(initial=-1)) + 1, dtype=np.uint64)
        np.add.at(marks, of, _random_marks(cells)[cell])
        _, first, kind, counts = np.unique(marks, return_index=True, return_inverse=True, return_counts=True)
        place = np.full(len(marks), -1)
        if len(first) > MOST_KINDS:
            place, counts = _random_groups(kind), np.ones(GROUPS, dtype=np.int64)
        else:
            place[first] = np.arange(len(first))
        held = place[of] >= 0
        values = np.zeros((len(counts), cells))
        np.add.at(values, (place[of][held], cell[held]), 1)
        return cls(values, counts)

    @property
    def cluster_count(self) -> int:
        """Return how many clusters, or groups of them, there are."""
        return int(self.counts.sum())

    @property
    def total_values(self) -> Floats:
        """Return the sum of all clusters' values."""
        return self.counts @ self.values


def _random_marks(n: int) -> npt.NDArray[np.uint64]:
    """Return a random number for each value. Clusters that add the same have the same sum of these, others another."""
    return np.random.default_rng(SEED).integers(2**63, size=n, dtype=np.uint64) * 2 + 1


def _random_groups(kind: Ints) -> Ints:
    """Return the group of each cluster, at random, of equal size; the order of the clusters changes nothing."""
    groups = np.empty(len(kind), dtype=np.int64)
    groups[np.argsort(kind, kind="stable")] = np.random.default_rng(SEED).permutation(len(kind)) % GROUPS
    return groups


def draw_resamples(kinds: ClusterKinds, statistics: Statistics) -> dict[str, Floats]:
    """Draw resamples and return an array of each statistic."""
    random = np.random.default_rng(SEED)
    parts = []
    step = max(1, _AT_ONCE // max(kinds.values.shape))
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        often = random.multinomial(kinds.cluster_count, kinds.counts / kinds.cluster_count, size=size)
        parts.append(statistics(often.astype(float) @ kinds.values))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bca_intervals(kinds: ClusterKinds, statistics: Statistics) -> dict[str, Interval]:
    """Return BCa intervals of statistics of sums over clusters.

    Args:
        kinds: the clusters.
        statistics: of sums, an array (…, values), give arrays (…) by name.

    Returns:
        By name the lowest and the highest value; None where there is but one cluster, the statistic isn't defined, or
        all resamples give the same.
    """
    estimates = statistics(kinds.total_values)
    if kinds.cluster_count < 2:
        return dict.fromkeys(estimates)
    draws = draw_resamples(kinds, statistics)
    without = statistics(kinds.total_values - kinds.values)
    return {
        name: _bca_interval(float(estimate), draws[name], without[name], kinds.counts)
        for name, estimate in estimates.items()
    }


def _bca_interval(estimate: float, draws: Floats, without: Floats, counts: Ints) -> Interval:
    """Return the BCa interval of one statistic.

    Args:
        estimate: its value.
        draws: its values in the resamples; nan, where it isn't defined, is left out.
        without: its value without one cluster of each kind.
        counts: how many clusters are of each kind.
    """
    draws = draws[~np.isnan(draws)]
    if np.isnan(estimate) or not len(draws) or draws.min() == draws.max():
        return None
    below = float((draws < estimate).mean() + (draws == estimate).mean() / 2)
    # The bias can't be told better than by one resample more on either side.
    bias = _NORMAL.inv_cdf(min(max(below, 1 / (len(draws) + 1)), len(draws) / (len(draws) + 1)))
    known = ~np.isnan(without)
    skew = 0.0
    if known.any():
        gaps, weights = np.average(without[known], weights=counts[known]) - without[known], counts[known]
        squares = float(weights @ gaps**2)
        skew = float(weights @ gaps**3) / (6 * squares**1.5) if squares else 0.0
    shares = []
    for quantile in (-NORMAL_QUANTILE, NORMAL_QUANTILE):
        moved = bias + quantile
        room = 1 - skew * moved
        # Beyond this the correction has no meaning: the percentile as it is.
        shares.append(_NORMAL.cdf(bias + moved / room if room > 0 else quantile))
    low, high = np.quantile(draws, shares)
    return [min(float(low), estimate), max(float(high), estimate)]  # of few clusters it may lie beside its estimate
