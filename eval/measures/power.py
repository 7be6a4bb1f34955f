"""Compute how many posts a comparison of two runs needs to detect a difference in accuracy, with statsmodels.

Both designs are z tests of a mean whose standard deviation is another one under the null hypothesis:

- the same posts for both runs (McNemar's test): √ψ and √(ψ − δ²), for the difference δ and the share ψ of posts that
  only one run gets right (Connor, 1987);
- other posts for each run: √(2 p (1 − p)) for the mean accuracy p, and √(p₁ (1 − p₁) + p₂ (1 − p₂)).

Posts of a cluster aren't independent, so the posts are multiplied by the design effect Σ (sum over a cluster)² / Σ
(post)² of the values' deviations from their mean. For clusters of m posts with a correlation ρ that is 1 + (m − 1) ρ
(Kish, 1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Floats, Ints, RunColumns
from tribunal.eval.measures.comparison import pair_right_shares
from tribunal.schema import JSON

ACCURACY = 0.8  # assumed where no run and no figure is given


class PowerRequest(NamedTuple):
    """The question.

    Attributes:
        difference: the difference of accuracy to detect, a fraction.
        power: the chance to find it.
        alpha: the chance to find one where there is none (two-sided).
        paired: both runs decide the same posts.
        accuracy: the lower one of the two; None: the first run's, otherwise `ACCURACY`.
        discordant: the share of posts that only one run gets right; None: that of two runs, otherwise as if both were
            wrong independently.
        design_effect: how many posts tell as much as an independent one; None: that of the runs, otherwise 1.
        cluster: the field by which the runs' posts belong together (`clusters_of`).
        posts: numbers of posts for which the chance is told.
    """

    difference: float
    power: float = 0.8
    alpha: float = 0.05
    paired: bool = True
    accuracy: float | None = None
    discordant: float | None = None
    design_effect: float | None = None
    cluster: str | None = None
    posts: Sequence[int] = ()


def plan_posts(request: PowerRequest, runs: Sequence[RunColumns] = ()) -> JSON:
    """Return how many posts a difference needs, the `assumptions` in words, and the chances with other numbers.

    Args:
        request: the question.
        runs: none, one or two, from which the figures come that aren't given.

    Raises:
        BadInput: the runs share no decided posts, or the figures contradict each other.
    """
    from statsmodels.stats.power import normal_power_het, normal_sample_size_one_tail

    gap = request.difference
    both = request.paired and len(runs) == 2
    values, clusters, by = _values_of_runs(runs, request.cluster, both=both)
    low = min((float(run.is_right[run.is_decided].mean()) for run in runs), default=ACCURACY)
    low = low if request.accuracy is None else request.accuracy
    high = low + gap
    if not both and request.discordant is None and high > 1:
        raise BadInput(
            f"detect: {100 * gap:g}: an accuracy of {low:.1%} can't rise by so much; give less, or a lower --accuracy"
        )
    if request.paired:
        discordant = (
            low * (1 - high) + high * (1 - low)
            if request.discordant is None
            else request.discordant
        )
        if request.discordant is None and both:
            discordant = float((values**2).mean())
        if discordant < gap:
            raise BadInput(
                f"discordant: {discordant:.4g}: is less than the difference of {gap:.4g}, which it includes; give a "
                "larger share, or a smaller --detect"
            )
        null = sqrt(discordant)
        alternative = sqrt(discordant - gap**2)
        source = (
            "as in these runs"
            if both
            else f"as if runs of {low:.1%} and {high:.1%} were wrong independently"
        )
        source = source if request.discordant is None else "as you stated"
        assumptions = [
            f"both runs decide the same posts; only one of them is right on {discordant:.1%}: {source}"
        ]
    else:
        discordant = None
        mean = (low + high) / 2
        null = sqrt(2 * mean * (1 - mean))
        alternative = sqrt(low * (1 - low) + high * (1 - high))
        assumptions = [
            f"each run decides other posts, with an accuracy of {low:.1%} and {high:.1%}"
        ]
    effect = request.design_effect
    if effect is None:
        effect = design_effect(values, clusters) if len(values) else 1.0
        by = (
            f"posts belong together by {by} as in these runs"
            if len(values)
            else "no clusters are known"
        )
    assumptions.append(
        f"{effect:.2f} posts tell as much as an independent one: {by or 'as you stated'}"
    )
    independent = float(
        normal_sample_size_one_tail(gap, request.power, request.alpha / 2, null, alternative)
    )
    chances = [
        {
            "posts": posts,
            "power": float(normal_power_het(gap, posts / effect, request.alpha, null, alternative)),
        }
        for posts in request.posts
    ]
    return {
        **request._asdict(), "posts": max(1, ceil(independent * effect - 1e-9)), "independent_posts": independent,
        "accuracy": low, "discordant": discordant, "design_effect": effect, "assumptions": assumptions,
        "chances": chances,
    }  # fmt: skip


def design_effect(values: Floats, clusters: Ints) -> float:
    """Return how many posts tell as much as one independent post; at least 1.

    Args:
        values: a value for each post.
        clusters: the number of each post's cluster.
    """
    deviations = values - values.mean()
    sums = np.bincount(clusters, deviations)
    variance = float(deviations @ deviations)
    return max(1.0, float(sums @ sums) / variance) if variance > 0 else 1.0


def _values_of_runs(
    runs: Sequence[RunColumns], cluster: str | None, *, both: bool
) -> tuple[Floats, Ints, str]:
    """Return a value for each post with its cluster, and the name of the clusters' field.

    For `both` runs the value is the second's share of right repeats less the first's; otherwise the first run's.
    """
    if not runs:
        return np.empty(0), np.empty(0, dtype=np.int64), ""
    for run in runs:
        if not run.is_decided.any():
            raise BadInput(
                f"run: {run.folder}: no labelled post has a verdict; give a run that has some"
            )
    clusters = clusters_of(runs[0], cluster)
    if both:
        shares = pair_right_shares(runs[0], runs[1], clusters)
        if shares is None:
            raise BadInput(
                "run: the two runs share no decided post; give two runs over one data set, or --unpaired"
            )
        (first, second), numbers = shares
        if np.allclose(first, second):
            raise BadInput(
                "run: both runs are right on the same posts; give other runs, or --discordant"
            )
        return second - first, numbers, clusters.by
    rows = np.flatnonzero(runs[0].is_decided)
    posts, numbers = np.unique(runs[0].post[rows], return_inverse=True)
    return (
        np.bincount(numbers, runs[0].is_right[rows]) / np.bincount(numbers),
        clusters.of_post[posts],
        clusters.by,
    )
