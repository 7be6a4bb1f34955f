"""The threshold on our probability that removes as many posts as another system did, and where the two differ."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from tribunal.eval.measures.columns import Bools, Floats
from tribunal.eval.measures.rates import LEVEL, wilson_interval

_DIGITS = 6  # of a probability


class Removal(NamedTuple):
    """Tell what a threshold does to the posts that both systems have judged.

    Attributes:
        threshold: posts of this probability or more are removed; None: none is, since some have probability 1.
        removed: how many it removes.
        share: of all posts.
        share_interval: Wilson's, 95 %.
        only_ours: removed by it, and not by them.
        only_theirs: removed by them, and not by it.
        agreeing: treated alike by both.
    """

    threshold: float | None
    removed: int
    share: float
    share_interval: list[float]
    only_ours: int
    only_theirs: int
    agreeing: int


class RemovalMatch(NamedTuple):
    """The threshold that removes as many posts as they did.

    Attributes:
        posts: how many both have judged.
        removed: how many they removed.
        share: of all posts.
        share_interval: Wilson's, 95 %.
        nearest: the threshold whose share is nearest to theirs.
        other_side: where no threshold has just their share: the nearest whose share lies on the other side of theirs.
        interval: the lowest and highest threshold whose share doesn't differ from theirs by more than chance would
            make it (McNemar's exact test, 5 %); None where every one does.
    """

    posts: int
    removed: int
    share: float
    share_interval: list[float]
    nearest: Removal
    other_side: Removal | None
    interval: tuple[float, float] | None


def match_removal(probability: Floats, removed: Bools) -> RemovalMatch:
    """Return the threshold on `probability` that removes as many posts as they `removed`; at least one post is needed.

    Many posts may have one probability; all of them are removed or none, so that their share may be out of reach.
    """
    levels, level_of_post, posts_at = np.unique(np.round(probability, _DIGITS), return_inverse=True, return_counts=True)
    theirs_at = np.bincount(level_of_post, removed, minlength=len(levels)).astype(np.int64)
    # From here on of each possible cut: before the lowest level, …, above the highest, which removes nothing.
    ours = np.append(posts_at[::-1].cumsum()[::-1], 0)
    both = np.append(theirs_at[::-1].cumsum()[::-1], 0)
    wanted, posts = int(removed.sum()), len(probability)
    only_ours, only_theirs = ours - both, wanted - both

    def removal_at(cut: int) -> Removal:
        count, mine, others = int(ours[cut]), int(only_ours[cut]), int(only_theirs[cut])
        share, interval = _share_of(count, posts)
        return Removal(_threshold_of_cut(levels, cut), count, share, interval, mine, others, posts - mine - others)

    above = int(np.flatnonzero(ours >= wanted)[-1])  # the highest threshold that removes as many as they did, or more
    nearest, other = above, above + 1
    if ours[above] != wanted and wanted - ours[above + 1] < ours[above] - wanted:
        nearest, other = other, nearest
    share, share_interval = _share_of(wanted, posts)
    return RemovalMatch(
        posts, wanted, share, share_interval, removal_at(nearest),
        None if ours[above] == wanted else removal_at(other),
        _thresholds_alike(levels, only_ours[:-1], only_theirs[:-1]),
    )  # fmt: skip


def _share_of(count: int, posts: int) -> tuple[float, list[float]]:
    return count / posts, wilson_interval(count / posts, posts)


def _threshold_of_cut(levels: Floats, cut: int) -> float | None:
    """Return the shortest number between the level beneath a cut and the one above it, which it removes."""
    if cut == len(levels):
        return 1.0 if levels[-1] < 1 else None
    highest, beneath = Decimal(str(levels[cut])), Decimal(str(levels[cut - 1])) if cut else Decimal(-1)
    rounded = (highest.quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR) for digits in range(1, _DIGITS))
    return float(next((each for each in rounded if each > beneath), highest))


def _thresholds_alike(levels: Floats, only_ours: Floats, only_theirs: Floats) -> tuple[float, float] | None:
    """Return the ends of the thresholds that McNemar's exact test doesn't tell from the other system's."""
    differing = only_ours + only_theirs
    p = np.minimum(1.0, 2 * binom.cdf(np.minimum(only_ours, only_theirs), differing, 0.5))
    alike = np.flatnonzero(p > 1 - LEVEL)
    if not len(alike):
        return None
    ends = [_threshold_of_cut(levels, int(each)) for each in (alike[0], alike[-1])]
    return float(ends[0] or 0), float(ends[1] or 0)
