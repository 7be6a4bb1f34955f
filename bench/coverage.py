"""How often 95 % intervals hold the true value, over sets of posts drawn from a population whose measures are known."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.table import table
from tribunal.eval.measures import calibration
from tribunal.eval.measures.comparison import ComparedSide, measure_differences
from tribunal.eval.measures.rates import rate_interval
from tribunal.eval.measures.scores import measures_of_tables, score_intervals_of
from tribunal.process.terminal import say

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Floats, Ints

SIZES = (50, 1178)  # the last is H-VLI's test split
_TOGETHER = 0.5  # the chance that a cluster's posts are all right, or all wrong, together
_SIZE = 4  # posts a cluster, on the mean


class _Coverage(NamedTuple):
    inside: float
    below: float
    above: float


class _Population(NamedTuple):
    """How often each gold label occurs, and with which chance it is recognised; another answer is any other label."""

    name: str
    shares: tuple[float, ...]
    recognised: tuple[float, ...]

    @property
    def cells(self) -> Floats:
        """The chance of each gold label and answer, with no column for a missing one."""
        shares, hits = np.array(self.shares), np.array(self.recognised)
        cells = np.repeat((shares * (1 - hits) / (len(shares) - 1))[:, None], len(shares), axis=1)
        cells[np.diag_indices(len(shares))] = shares * hits
        return cells


POPULATIONS = (
    _Population("two labels, accuracy 0.80", (0.6, 0.4), (0.83, 0.755)),
    _Population("two labels, accuracy 0.98", (0.6, 0.4), (0.985, 0.9725)),
    _Population("two labels, one of them rare", (0.9, 0.1), (0.97, 0.7)),
    _Population(
        "six labels, accuracy 0.85",
        (0.45, 0.2, 0.12, 0.1, 0.07, 0.06),
        (0.9, 0.85, 0.8, 0.8, 0.75, 0.75),
    ),
)
_MEASURES = ("accuracy", "macro_f1", "weighted_f1", "f1", "cohen_kappa", "mcc")
# by which each label is recognised less often
_DIFFERENCES = {
    "no difference": 0.0,
    "a real difference": 0.05,
}
_COLUMNS = (
    *_MEASURES,
    *(f"{name}, {true}" for true in _DIFFERENCES for name in ("accuracy", "macro_f1")),
)


def coverage(quick: bool) -> None:
    """Print how often intervals of measures, of differences and of the calibration error hold the true value.

    Differences are of two equal systems, and of two where the second recognises each label 0.05 less often.
    Posts are independent, or come in clusters of about four that often share their fate. In brackets: how often the
    interval lies below the true value, and how often above it.
    """
    draws = 20 if quick else 400
    say(f"### Coverage of 95 % intervals, over {draws:,} sets of posts each\n", lines=True)
    rows = [
        _row(population, posts, draws, clustered=clustered)
        for clustered in (False, True)
        for population in POPULATIONS
        for posts in SIZES
    ]
    table(("population", "posts", "clusters", *_COLUMNS, "accuracy, by post"), rows)
    say("### The expected calibration error: means of both estimates, and coverage\n", lines=True)
    table(
        ("true error", "posts", "plain", "debiased", "coverage"),
        [_of_ece(shift, posts, draws) for shift in (0.0, 0.03, 0.1, 0.25) for posts in SIZES],
    )


def _row(population: _Population, posts: int, draws: int, *, clustered: bool) -> list[str]:
    random = np.random.default_rng(posts)
    true = _true(population)
    worse_populations = {
        title: population._replace(recognised=tuple(hit - less for hit in population.recognised))
        for title, less in _DIFFERENCES.items()
    }
    held: dict[str, list[_Coverage]] = defaultdict(list)
    many = []
    for _ in range(draws):
        cluster = _clusters(random, posts) if clustered else np.arange(posts)
        many.append(len(np.unique(cluster)))
        truth, answer = _drawn(random, population, cluster)
        of_two = len(population.shares) == 2
        found = score_intervals_of(cluster, truth, answer, of_two=of_two)
        for name in _MEASURES:
            held[name].append(_holds(found[name], true[name]))
        by_post = rate_interval(truth == answer, np.ones(posts))
        held["accuracy, by post"].append(_holds(by_post, true["accuracy"]))
        for title, worse in worse_populations.items():
            _, other = _drawn(random, worse, cluster, truth)
            sides = [_side(truth, each) for each in (answer, other)]
            differences = measure_differences(
                sides, cluster, of_two=of_two, negative=frozenset({0})
            )
            for name in ("accuracy", "macro_f1"):
                gap = _true(worse)[name] - true[name]
                held[f"{name}, {title}"].append(_holds(differences[name]["interval"], gap))
    shown = [_as_cell(held[name]) for name in (*_COLUMNS, "accuracy, by post")]
    return [population.name, f"{posts:,}", f"{np.mean(many):,.0f}", *shown]


def _true(population: _Population) -> dict[str, float]:
    labels = len(population.shares)
    cells = np.concatenate([population.cells, np.zeros((labels, 1))], axis=1)
    return {
        name: float(value)
        for name, value in measures_of_tables(cells, range(labels), of_two=labels == 2).items()
    }


def _clusters(random: np.random.Generator, posts: int) -> Ints:
    """Clusters of one post or more, the last one cut off."""
    sizes = 1 + random.poisson(_SIZE - 1, posts)
    return np.repeat(np.arange(posts), sizes)[:posts]


def _drawn(
    random: np.random.Generator, population: _Population, cluster: Ints, truth: Ints | None = None
) -> tuple[Ints, Ints]:
    """Gold, the same in a cluster, and answers."""
    labels, clusters = len(population.shares), int(cluster.max()) + 1
    if truth is None:
        truth = random.choice(labels, size=clusters, p=population.shares)[cluster]
    together = (random.random(clusters) < _TOGETHER)[cluster]
    chance = np.where(together, random.random(clusters)[cluster], random.random(len(cluster)))
    right = chance < np.array(population.recognised)[truth]
    off = np.where(
        together,
        random.integers(1, labels, clusters)[cluster],
        random.integers(1, labels, len(cluster)),
    )
    return truth, np.where(right, truth, (truth + off) % labels)


def _side(truth: Ints, answer: Ints) -> ComparedSide:
    return ComparedSide(
        np.arange(len(truth)),
        truth,
        answer,
        np.full(len(truth), np.nan),
        truth == answer,
        np.zeros(len(truth), int),
    )


def _holds(interval: list[float] | None, value: float) -> _Coverage:
    """Return whether an interval holds the value, lies below it, and lies above it; nan where there is none."""
    if interval is None:
        return _Coverage(np.nan, np.nan, np.nan)
    below, above = interval[1] + 1e-12 < value, value < interval[0] - 1e-12
    return _Coverage(float(not (below or above)), float(below), float(above))


def _as_cell(held: list[_Coverage]) -> str:
    inside, below, above = np.nanmean(held, axis=0)
    return f"{inside:.1%} ({100 * below:.1f}, {100 * above:.1f})"


def _of_ece(shift: float, posts: int, draws: int) -> list[str]:
    """Of verdicts that are right less often than they say, by so much."""
    random = np.random.default_rng(posts)
    levels, shares = np.array([0.55, 0.65, 0.75, 0.85, 0.95]), np.array([0.1, 0.1, 0.2, 0.3, 0.3])
    plain, debiased, held = [], [], []
    for _ in range(draws):
        confidence = random.choice(levels, posts, p=shares)
        right = random.random(posts) < confidence - shift
        scores = calibration.calibration_scores(confidence, right)
        plain.append(scores["ece"] or 0.0)
        debiased.append(scores["ece_debiased"] or 0.0)
        held.append(
            _holds(
                calibration.calibration_intervals(confidence, right, np.arange(posts))["ece"], shift
            )
        )
    return [
        f"{shift:.2f}",
        f"{posts:,}",
        f"{np.mean(plain):.3f}",
        f"{np.mean(debiased):.3f}",
        _as_cell(held),
    ]
