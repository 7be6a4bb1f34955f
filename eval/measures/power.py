"""Compute how many posts a comparison of two runs needs to detect a difference.

Independent samples are planned by the difference h of two arcsines: n = 2 ((z₁ + z₂) / h)² for each (Cohen,
"Statistical Power Analysis", 1988). Paired runs are planned by McNemar's test: n = (z₁ √ψ + z₂ √(ψ − δ²))² / δ², for a
discordant share ψ and a difference δ (Connor, "Sample size for testing differences in proportions for the paired-sample
design", 1987). Posts of a cluster aren't independent, so n grows by the design effect 1 + (m − 1) ρ (Kish, 1965), for
the intraclass correlation ρ (analysis of variance: Donner and Koval, 1980) and the size m of the cluster of a post.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import asin, ceil, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.bootstrap import ClusterKinds, draw_resamples
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Floats, Ints, RunColumns
from tribunal.eval.measures.comparison import macro_f1_tables, pair_right_shares, same_data
from tribunal.schema import JSON, Scheme

ACCURACY = 0.8  # assumed where no run and no figure is given
_LEAST_CLUSTERS = 10  # fewer tell nothing of a correlation or a spread
_NONE_SHARED = "run: the two runs have no decided post in common; give two runs over one data set, or --unpaired"


class ClusterDesign(NamedTuple):
    """Hold how posts belong together: the correlation within a cluster, and the size of the cluster of a post."""

    correlation: float
    size: float

    @property
    def design_effect(self) -> float:
        """Return how many posts tell as much as one independent post."""
        return 1 + max(0.0, self.size - 1) * max(0.0, self.correlation)


class PowerRequest(NamedTuple):
    """Hold what is asked: a difference, as a fraction, and how surely it has to be found."""

    difference: float
    power: float = 0.8
    alpha: float = 0.05


def posts_for_paired_runs(request: PowerRequest, discordant: float) -> float:
    """Return how many independent posts McNemar's test needs, both runs on each.

    Args:
        request: what is asked.
        discordant: the share of posts that one run alone gets right; at least the difference.
    """
    normal, gap = NormalDist(), request.difference
    level, power = normal.inv_cdf(1 - request.alpha / 2), normal.inv_cdf(request.power)
    return ((level * sqrt(discordant) + power * sqrt(max(0.0, discordant - gap**2))) / gap) ** 2


def posts_for_separate_runs(request: PowerRequest, accuracy: float) -> float:
    """Return how many independent posts each of two runs needs, on other posts than the other's.

    Args:
        request: what is asked.
        accuracy: the lower one of the two.
    """
    apart = 2 * asin(sqrt(accuracy + request.difference)) - 2 * asin(sqrt(accuracy))
    return 2 * (_needed_errors(request) / apart) ** 2


def posts_for_standard_error(request: PowerRequest, error: float, posts: int) -> float:
    """Return how many posts a measure needs whose difference has this standard error over so many posts."""
    return posts * (_needed_errors(request) * error / request.difference) ** 2


def _needed_errors(request: PowerRequest) -> float:
    """Return how many standard errors a difference has to be, to be found so surely."""
    normal = NormalDist()
    return normal.inv_cdf(1 - request.alpha / 2) + normal.inv_cdf(request.power)


def _whole_posts(posts: float) -> int:
    return max(1, ceil(posts - 1e-9))


def intraclass_correlation(values: Floats, cluster: Ints) -> float | None:
    """Return the correlation of values within clusters, by analysis of variance; None if no cluster has two posts.

    Args:
        values: of each post.
        cluster: of each post, the number of its cluster.
    """
    _, of, sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    n, clusters = len(values), len(sizes)
    if clusters < 2 or n == clusters:
        return None
    means = np.bincount(of, values) / sizes
    between = float(sizes @ (means - values.mean()) ** 2) / (clusters - 1)
    within = float(((values - means[of]) ** 2).sum()) / (n - clusters)
    usual = (n - float(sizes @ sizes) / n) / (clusters - 1)
    whole = between + (usual - 1) * within
    return max(0.0, (between - within) / whole) if whole > 0 else 0.0


def plan_posts(
    request: PowerRequest,
    runs: Sequence[RunColumns] = (),
    *,
    paired: bool = True,
    measure: str = "accuracy",
    accuracy: float | None = None,
    discordant: float | None = None,
    design: ClusterDesign | None = None,
    cluster: str | None = None,
) -> JSON:
    """Return how many posts a difference needs, and what that assumes.

    Args:
        request: the difference, the power and the significance level.
        runs: none, one or two, from whose posts figures are taken that aren't given.
        paired: both runs decide the same posts.
        measure: accuracy or macro_f1; the latter needs runs.
        accuracy: the lower one of the two, of separate posts.
        discordant: the share of posts that one run alone gets right, of the same posts.
        design: how posts belong together.
        cluster: the field by which they do in the runs (`clusters_of`).

    Returns:
        `posts`, and `independent_posts` before the `design_effect`; `assumptions`, a sentence each; and the figures
        that it rests on.

    Raises:
        BadInput: the runs don't share posts, or the figures contradict each other.
    """
    if measure == "macro_f1":
        return _plan_macro_f1(request, runs, paired=paired, cluster=cluster)
    said = [
        "the same posts for both runs, by McNemar's test"
        if paired
        else "other posts for each run (two-sided z test of arcsines)"
    ]
    figures: JSON = {}
    values, clusters = _values_of_runs(runs, cluster, paired=paired)
    if paired:
        if accuracy is None and len(runs) == 1 and values is not None:
            accuracy = float(values.mean())
        share, source = _discordant_share(request, discordant, accuracy, values if len(runs) == 2 else None)
        said.append(source)
        independent, figures["discordant"] = posts_for_paired_runs(request, share), share
    else:
        rate, source = _lower_accuracy(request, accuracy, runs)
        said.append(f"accuracy of {rate:.1%} against {rate + request.difference:.1%}: {source}")
        independent, figures["accuracy"] = posts_for_separate_runs(request, rate), rate
    if design is None:
        design, source = _design_of_runs(values, clusters)
    else:
        source = "as you stated"
    said.append(
        f"posts are independent: {source}"
        if design.design_effect == 1
        else f"a design effect of {design.design_effect:.2f}, for clusters of {design.size:.1f} posts with a "
        f"correlation of {design.correlation:.2f}: {source}"
    )
    return {
        **request._asdict(), "measure": measure, "paired": paired,
        "posts": _whole_posts(independent * design.design_effect),
        "independent_posts": _whole_posts(independent), "design_effect": design.design_effect,
        "correlation": design.correlation, "cluster_size": design.size, **figures, "assumptions": said,
    }  # fmt: skip


def _values_of_runs(
    runs: Sequence[RunColumns], cluster: str | None, *, paired: bool
) -> tuple[Floats | None, tuple[Ints, str] | None]:
    """Return what a design effect is of, a value a post, and the posts' clusters with what tells them apart.

    Of two paired runs a value is the second's share of right repeats less the first's; else the first run's share.
    """
    if not runs:
        return None, None
    clusters = clusters_of(runs[0], cluster)
    if paired and len(runs) == 2:
        shares = pair_right_shares(runs[0], runs[1], clusters)
        if shares is None:
            raise BadInput(_NONE_SHARED)
        right, of = shares
        return right[1] - right[0], (of, clusters.by)
    columns = runs[0]
    rows = _decided_rows(columns)
    posts, of = np.unique(columns.post[rows], return_inverse=True)
    return np.bincount(of, columns.is_right[rows]) / np.bincount(of), (clusters.of_post[posts], clusters.by)


def _decided_rows(columns: RunColumns) -> Ints:
    rows: Ints = np.flatnonzero(columns.is_decided)
    if not len(rows):
        raise BadInput(f"run: {columns.folder}: no labelled post has a verdict; give a run that has some")
    return rows


def _discordant_share(
    request: PowerRequest, given: float | None, accuracy: float | None, differences: Floats | None
) -> tuple[float, str]:
    """Return the share of posts that one run alone gets right, and a sentence on it.

    Of runs with repeats it is the mean square of their difference in right repeats, which McNemar's formula is of: a
    post that one run alone gets right differs by 1.
    """
    if given is not None:
        share, source = given, "as you stated"
    elif differences is not None:
        share, source = float((differences**2).mean()), f"as in these runs, over {len(differences):,} posts"
        if np.allclose(differences, 0):
            raise BadInput(
                "run: these runs are right and wrong on the same posts, so they say nothing of how often runs differ; "
                "give other runs, or --discordant"
            )
        if not np.allclose(differences, differences.round()):
            said = f"the runs' shares of right repeats differ by a mean square of {share:.3g} a post: {source}"
            return share, said
    else:
        low = ACCURACY if accuracy is None else accuracy
        high = min(1.0, low + request.difference)
        share = low * (1 - high) + high * (1 - low)
        source = (
            f"as if runs of {low:.0%} and {high:.0%} were wrong independently of each other; models that are alike "
            "differ on fewer posts, and need fewer: give two runs with --run, or --discordant"
        )
    if share < request.difference:
        raise BadInput(
            f"discordant: {share:.4g}: is less than the difference of {request.difference:.4g}, which it has to hold; "
            "give a smaller --detect, or --discordant from that share to 1"
        )
    return share, f"one run alone is right on {share:.1%} of posts: {source}"


def _lower_accuracy(request: PowerRequest, given: float | None, runs: Sequence[RunColumns]) -> tuple[float, str]:
    if given is not None:
        rate, source = given, "as you stated"
    elif runs:
        rate = min(float(run.is_right[_decided_rows(run)].mean()) for run in runs)
        source = "as in these runs" if len(runs) > 1 else "as in this run"
    else:
        rate, source = ACCURACY, "assumed; give --accuracy or --run"
    if rate + request.difference > 1:
        raise BadInput(
            f"detect: {100 * request.difference:g}: an accuracy of {rate:.1%} can't rise by so much; give less, or a "
            "lower --accuracy"
        )
    return rate, source


def _design_of_runs(values: Floats | None, clusters: tuple[Ints, str] | None) -> tuple[ClusterDesign, str]:
    if values is None or clusters is None:
        return ClusterDesign(0.0, 1.0), "nothing is known of clusters; give --run, or --correlation and --cluster-size"
    of, by = clusters
    _, sizes = np.unique(of, return_counts=True)
    correlation = intraclass_correlation(values, of)
    if correlation is None:
        return ClusterDesign(0.0, 1.0), f"by {by}, no two of these {len(values):,} posts belong together"
    size = float(sizes @ sizes) / len(values)
    few = f"; {len(sizes)} clusters say little of it" if len(sizes) < _LEAST_CLUSTERS else ""
    return ClusterDesign(correlation, size), f"by {by}, as in these runs, over {len(sizes):,} clusters{few}"


def _plan_macro_f1(request: PowerRequest, runs: Sequence[RunColumns], *, paired: bool, cluster: str | None) -> JSON:
    """Plan by the spread of Macro-F1 over resamples of the runs' clusters."""
    if not runs or (paired and len(runs) < 2):
        raise BadInput(
            "measure: macro_f1: its spread is taken from runs; give two with --run, or --unpaired with one or two"
        )
    if paired:
        if not same_data(*runs):
            raise BadInput(_NONE_SHARED)
        variance, posts, clusters = _macro_f1_variance(runs[0], runs[1], cluster)
    else:  # each run alone, as so many posts of each as the first has
        scheme: Scheme = "fine" if all(run.scheme == "fine" for run in runs) else "binary"
        alone = [
            _macro_f1_variance(run, None, cluster)
            for run in (replace(each, scheme=scheme) for each in (runs[0], runs[-1]))
        ]
        posts, clusters = alone[0][1], " and ".join(dict.fromkeys(each[2] for each in alone))
        variance = sum(each * of / posts for each, of, _ in alone)
    if not variance:
        raise BadInput("run: the runs give the same answers, so Macro-F1 has no spread; give runs that differ")
    error = sqrt(variance)
    needed = _whole_posts(posts_for_standard_error(request, error, posts))
    return {
        **request._asdict(), "measure": "macro_f1", "paired": paired, "posts": needed, "standard_error": error,
        "assumptions": [
            "the same posts for both runs" if paired else "other posts for each run",
            f"a standard error of {100 * error:.2f} points over {posts:,} posts, by resampling these runs' "
            f"{clusters}; it falls with the root of the posts",
        ],
    }  # fmt: skip


def _macro_f1_variance(first: RunColumns, second: RunColumns | None, cluster: str | None) -> tuple[float, int, str]:
    """Return the variance of a run's Macro-F1 over resamples, how many posts, and clusters.

    With a second run it is that of the difference of the two.
    """
    clusters = clusters_of(first, cluster)
    held = macro_f1_tables(first, second or first, clusters)
    if not held.posts or len(held.first) < 2:
        raise BadInput(
            f"run: {first.folder}: too few labelled posts have a verdict; give runs with some, of several clusters"
        )
    tables = np.concatenate([held.first, held.second], axis=1)

    def measure_sums(sums: Floats) -> dict[str, Floats]:
        """Measure sums over clusters."""
        before, after = (held.measure(half) for half in np.split(sums, 2, axis=-1))
        return {"value": before if second is None else after - before}

    draws = draw_resamples(ClusterKinds.from_values(tables), measure_sums)["value"]
    return float(np.nanvar(draws)), held.posts, f"{len(held.first):,} clusters by {clusters.by}"
