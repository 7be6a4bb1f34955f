"""Rates, and intervals by the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import erfc, gcd, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tribunal.eval.measures.columns import Bools, Floats, Ints

LEVEL = 0.95  # of every interval
Interval = list[float] | None
RESAMPLES = 2000
SEED = 0
MOST_KINDS = 2000
GROUPS = 500
_AT_ONCE = 1_000_000  # numbers held at one time
_NORMAL = NormalDist()
# bounds an interval of this level about its middle
NORMAL_QUANTILE = _NORMAL.inv_cdf((1 + LEVEL) / 2)

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
        _, first, kind, counts = np.unique(
            marks, return_index=True, return_inverse=True, return_counts=True
        )
        place = np.full(len(marks), -1)
        if len(first) > MOST_KINDS:
            place = _random_groups(kind)
            counts = np.ones(GROUPS, dtype=np.int64)
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
    groups[np.argsort(kind, kind="stable")] = (
        np.random.default_rng(SEED).permutation(len(kind)) % GROUPS
    )
    return groups


def draw_resamples(kinds: ClusterKinds, statistics: Statistics) -> dict[str, Floats]:
    """Draw resamples and return an array of each statistic."""
    random = np.random.default_rng(SEED)
    parts = []
    step = max(1, _AT_ONCE // max(kinds.values.shape))
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        often = random.multinomial(
            kinds.cluster_count, kinds.counts / kinds.cluster_count, size=size
        )
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
        gaps = np.average(without[known], weights=counts[known]) - without[known]
        weights = counts[known]
        squares = float(weights @ gaps**2)
        skew = float(weights @ gaps**3) / (6 * squares**1.5) if squares else 0.0
    shares = []
    for quantile in (-NORMAL_QUANTILE, NORMAL_QUANTILE):
        moved = bias + quantile
        room = 1 - skew * moved
        # Beyond this the correction has no meaning: the percentile as it is.
        shares.append(_NORMAL.cdf(bias + moved / room if room > 0 else quantile))
    low, high = np.quantile(draws, shares)
    # of few clusters it may lie beside its estimate
    return [
        min(float(low), estimate),
        max(float(high), estimate),
    ]


def divide(part: Ints | Floats, whole: Ints | Floats) -> Floats:
    """Return shares; nan of nothing."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Floats = np.true_divide(part, whole)
    return shares


def number_or_none(value: Floats | float) -> float | None:
    """Return a number as JSON has it: None for nan."""
    return None if np.isnan(value) else float(value)


def mean_or_none(values: Floats | Ints | Bools) -> float | None:
    """Return a mean; None of nothing."""
    return float(values.mean()) if len(values) else None


def as_pair(interval: Interval) -> tuple[float, float] | None:
    """Return an interval as a pair."""
    return (interval[0], interval[1]) if interval else None


def share_interval(cluster: Ints, hits: Bools, among: Bools | None = None) -> Interval:
    """Return the interval of the share of results that are hits.

    Args:
        cluster: of each result, the number of its cluster.
        hits: whether it is one.
        among: out of which results, all hits among them; None out of all.
    """
    every = np.ones(len(cluster)) if among is None else among
    return rate_interval(
        np.bincount(cluster, hits, minlength=1), np.bincount(cluster, every, minlength=1)
    )


def rate_interval(hits: Ints | Floats, totals: Ints | Floats) -> Interval:
    """Return the interval of a rate: the sum of hits over the sum of totals.

    Args:
        hits: of each cluster how many count.
        totals: of each cluster out of how many, none below its hits.

    Returns:
        Its lowest and highest value; None of nothing, and where one cluster holds everything.
    """
    held = totals > 0
    hits = hits[held]
    totals = totals[held]
    n = float(totals.sum())
    clusters = len(totals)
    if not n:
        return None
    quantile = NORMAL_QUANTILE
    if clusters < n:
        if clusters == 1:
            return None
        residuals: Floats = hits - float(hits.sum() / n) * totals.astype(float)
        freedom = satterthwaite_freedom(residuals, np.ones(clusters, dtype=np.int64))
        n = n / design_effect(hits, totals)
        quantile = student_quantile(freedom)
    return wilson_interval(float(hits.sum() / totals.sum()), n, quantile)


def wilson_interval(rate: float, n: float, quantile: float = NORMAL_QUANTILE) -> list[float]:
    """Return Wilson's interval of a rate among n independent posts, at 95 % unless another quantile is given."""
    square = quantile * quantile
    centre = (rate + square / (2 * n)) / (1 + square / n)
    half = quantile / (1 + square / n) * sqrt(rate * (1 - rate) / n + square / (4 * n * n))
    return [
        0.0 if rate == 0 else max(0.0, centre - half),
        1.0 if rate == 1 else min(1.0, centre + half),
    ]


def f1_interval(hits: Ints | Floats, errors: Ints | Floats) -> Interval:
    """Return the interval of an F1, from each cluster's true positives and its false ones of both kinds."""
    found = rate_interval(hits, hits + errors)
    return found and [2 * end / (1 + end) for end in found]


def design_effect(hits: Ints | Floats, totals: Ints | Floats) -> float:
    """Return how many posts in clusters tell as much as one independent post; 1 or more.

    Args:
        hits: as `rate_interval`.
        totals: as `rate_interval`, none of them 0; two or more.
    """
    n = float(totals.sum())
    clusters = len(totals)
    rate = float(hits.sum() / n)
    if rate in (0, 1):
        return float(totals @ totals) / n
    residuals = hits - rate * totals
    variance = float(residuals @ residuals) / n**2 * clusters / (clusters - 1)
    return max(1.0, variance * (n - 1) / (rate * (1 - rate)))


def satterthwaite_freedom(residuals: Floats, counts: Ints) -> float:
    """Return the degrees of freedom of a variance over clusters: few where few clusters make most of it.

    Args:
        residuals: of each kind of cluster, how far it lies from the mean.
        counts: how many clusters are of each kind; two or more in all.
    """
    squares = float(counts @ residuals**2)
    fourths = float(counts @ residuals**4)
    most = int(counts.sum()) - 1
    return min(float(most), max(1.0, squares**2 / fourths)) if fourths else float(most)


@cache
def student_quantile(freedom: float) -> float:
    """Return the quantile of Student's distribution that bounds an interval about its middle."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


EXCHANGES = 4999
_COUNTED = 10_000  # from which sum of differences on exchanges are no longer counted


def exchange_test(differences: Ints) -> tuple[float, bool]:
    """Test whether the sums of two runs differ.

    Returns p, two-sided, and whether all exchanges were counted (mid-p); otherwise χ² was taken.

    Args:
        differences: of each cluster what the first run has more than the second, in whole numbers.

    Returns:
        p is 1 where fewer than two clusters differ: one observation tells nothing.
    """
    informative = np.abs(differences[differences != 0])
    seen = abs(int(differences.sum()))
    if len(informative) < 2:
        return 1.0, True
    divisor = gcd(*np.unique(informative).tolist())
    informative = informative // divisor
    seen = seen // divisor
    whole = int(informative.sum())
    if whole > _COUNTED:
        return erfc(seen / sqrt(2 * float((informative.astype(float) ** 2).sum()))), False
    from scipy.stats import binom

    chances = np.ones(1)
    for size, many in zip(*np.unique(informative, return_counts=True), strict=True):
        steps = np.zeros(size * many + 1)
        steps[::size] = binom.pmf(np.arange(many + 1), many, 0.5)
        chances = np.convolve(chances, steps)
    at = (whole + seen) // 2
    return min(1.0, float(2 * chances[at + 1 :].sum() + chances[at])), True


def randomisation_test(one: Floats, other: Floats, statistic: Callable[[Floats], Floats]) -> float:
    """Return the two-sided p that a statistic of sums differs between two runs, by 4,999 random exchanges.

    Args:
        one: what each cluster adds to the first run's sums, (cluster, value).
        other: the same for the second run.
        statistic: of sums (…, value), a number each.
    """
    differ = (one != other).any(axis=1)
    first = one.sum(axis=0)
    second = other.sum(axis=0)

    def gap(one: Floats, other: Floats) -> Floats:
        return np.abs(np.nan_to_num(statistic(one)) - np.nan_to_num(statistic(other)))

    seen = gap(first, second)
    if np.isnan(seen) or not differ.any():
        return 1.0
    kinds = ClusterKinds.from_values((other - one)[differ])
    random = np.random.default_rng(SEED)
    step = max(1, _AT_ONCE // max(kinds.values.shape))
    reached = 0
    for start in range(0, EXCHANGES, step):
        exchanged = random.binomial(
            kinds.counts, 0.5, size=(min(step, EXCHANGES - start), len(kinds.counts))
        )
        moved = exchanged.astype(float) @ kinds.values
        reached += int((gap(first + moved, second - moved) >= seen - 1e-12).sum())
    return (reached + 1) / (EXCHANGES + 1)


def difference_interval(differences: Floats, sizes: Floats) -> Interval:
    """Return the interval of a difference of two shares of the same posts: sum of differences over sum of sizes.

    Bonett and Price, "Adjusted Wald intervals for the difference between proportions in paired data" (2012): two
    clusters of the usual size are added, which differ fully, one each way; so it isn't a point where nothing differs.

    Args:
        differences: of each cluster, from −its size to its size.
        sizes: how many posts each cluster has.

    Returns:
        None where there is but one cluster, unless it is a single post.
    """
    clusters = len(sizes)
    n = float(sizes.sum())
    if not n or (clusters == 1 and n > 1):
        return None
    quantile = student_quantile(clusters - 1) if clusters < n else NORMAL_QUANTILE
    size = float(sizes @ sizes) / n
    differences = np.append(differences, [size, -size])
    sizes = np.append(sizes, [size, size])
    n = float(sizes.sum())
    middle = float(differences.sum()) / n
    half = quantile * sqrt(float(((differences - middle * sizes) ** 2).sum())) / n
    return [max(-1.0, middle - half), min(1.0, middle + half)]


def holm_correction(values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for how many there are (Holm's procedure, 1979), by statsmodels; None stays None."""
    known = [value for value in values if value is not None]
    if not known:
        return [None] * len(values)
    from statsmodels.stats.multitest import multipletests

    corrected = iter(multipletests(known, method="holm")[1].tolist())
    return [None if value is None else next(corrected) for value in values]
