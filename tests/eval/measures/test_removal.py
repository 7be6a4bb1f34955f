"""The threshold that removes as much as another system: held against counting by hand, and SciPy's own test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from tribunal.eval.compare.moderation_log import match_removal


@pytest.mark.parametrize("seed", range(8))
def test_against_counting(seed: int) -> None:
    draw = np.random.default_rng(seed)
    posts = int(draw.integers(5, 120))
    probability = np.round(draw.random(posts), int(draw.integers(1, 4)))
    removed = draw.random(posts) < probability if seed % 2 else draw.random(posts) < 0.3
    match = match_removal(probability, removed)
    nearest, cut = match.nearest, match.nearest.threshold
    assert cut is not None
    ours = probability >= cut
    assert (nearest.removed, nearest.agreeing) == (ours.sum(), (ours == removed).sum())
    assert (nearest.only_ours, nearest.only_theirs) == (
        (ours & ~removed).sum(),
        (~ours & removed).sum(),
    )
    possible = [int((probability >= each).sum()) for each in (*np.unique(probability), 1.1)]
    assert abs(nearest.removed - removed.sum()) == min(
        abs(each - removed.sum()) for each in possible
    )
    if nearest.removed == removed.sum():
        assert match.other_side is None
    else:
        assert match.other_side is not None
        low, high = sorted((nearest.removed, match.other_side.removed))
        assert low < removed.sum() < high
        assert not [each for each in possible if low < each < high], "nothing lies between the two"
    alike = []
    for level in np.unique(probability):
        mine, theirs = (
            ((probability >= level) & ~removed).sum(),
            (~(probability >= level) & removed).sum(),
        )
        p = binomtest(int(mine), int(mine + theirs), 0.5).pvalue if mine + theirs else 1.0
        alike += [level] if p > 0.05 else []
    if match.interval is None:
        assert alike == []
    else:
        for end, level in zip(match.interval, (alike[0], alike[-1]), strict=True):
            assert end <= level
            assert (probability >= end).sum() == (probability >= level).sum()


def test_scores_in_lumps_have_a_threshold_on_each_side() -> None:
    probability = np.array([0.95] * 4 + [0.5] * 4 + [0.05] * 12)
    match = match_removal(probability, np.array([True] * 5 + [False] * 15))
    assert (match.nearest.removed, match.nearest.threshold) == (4, 0.9)
    assert match.other_side is not None
    assert (match.other_side.removed, match.other_side.threshold) == (8, 0.5)


def test_a_log_that_removes_all_or_nothing() -> None:
    probability = np.array([0.2, 0.4])
    all_ = match_removal(probability, np.array([True, True])).nearest
    assert (all_.threshold, all_.removed) == (0.2, 2)
    none = match_removal(probability, np.array([False, False])).nearest
    assert (none.threshold, none.removed) == (1.0, 0)
    sure = match_removal(np.array([1.0, 0.4]), np.array([False, False])).nearest
    assert (sure.threshold, sure.removed) == (None, 0), (
        "no threshold spares a post of probability 1"
    )


def test_the_threshold_is_the_shortest_number_that_does_it() -> None:
    match = match_removal(np.array([0.812345, 0.791234, 0.1]), np.array([True, False, False]))
    assert match.nearest.threshold == 0.8
