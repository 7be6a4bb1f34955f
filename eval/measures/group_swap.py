"""Test whether a court removes posts about one group more often than the same posts about another.

The posts are templates with the group as a factor, as in Fasching and Lelkes, "Model-Dependent Moderation" (Findings of
ACL 2025). A template is a block: groups are exchanged within it, so that hard templates don't count as a difference. Of
complete blocks of yes and no the statistic is Cochran's Q (1950).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import Bools, Floats, Ints, RunColumns
from tribunal.eval.measures.rates import (
    EXCHANGES,
    SEED,
    difference_interval,
    divide,
    holm_correction,
    number_or_none,
    rate_interval,
)
from tribunal.schema import JSON

TARGETS = "by_target"
_MOST_GROUPS = 40
_AT_ONCE = 2_000_000  # numbers held at one time


def measure_group_swap(columns: RunColumns, clusters: Clusters) -> JSON | None:
    """Return how often posts about each group are removed, and whether the groups differ by more than chance.

    Args:
        columns: the run. A template is a group of posts that say the same; the group that a post is about is its field
            `target`. A post about several is left out.
        clusters: the clusters of its posts.

    Returns:
        None unless two templates have verdicts on two groups each. Otherwise, for `all` templates, those labelled
        `hateful`, and those labelled `not_hateful` (None without two templates of the kind): `templates`, `posts`,
        `q` and `p` of the test, and `groups` by name: `n`, the rate of removal with its interval, and its `difference`
        from the other groups in the same templates with interval, `p` and `p_holm`.
    """
    rows, target, names = _posts_about_one_group(columns)
    if len(rows) < 2:
        return None
    templates = np.array(columns.groups_of_posts)[columns.post[rows]]
    blocks, block = np.unique(templates, return_inverse=True)
    sums, counts = (np.zeros((len(blocks), len(names))) for _ in range(2))
    np.add.at(sums, (block, target), columns.hateful[rows] == 1)
    np.add.at(counts, (block, target), 1)
    shares = divide(sums, counts)
    hateful = np.zeros(len(blocks), dtype=bool)
    hateful[block] = columns.positive[rows] == 1
    cluster = np.zeros(len(blocks), dtype=np.int64)
    cluster[block] = clusters.of_post[columns.post[rows]]
    kinds = {"all": np.ones(len(blocks), dtype=bool), "hateful": hateful, "not_hateful": ~hateful}
    measured = {
        kind: _measure_blocks(shares[chosen], cluster[chosen], names)
        for kind, chosen in kinds.items()
    }
    return measured if measured["all"] is not None else None


def _posts_about_one_group(columns: RunColumns) -> tuple[Ints, Ints, list[str]]:
    """Return the rows with a verdict, a template and one target; the number of each row's target; and the targets."""
    held = columns.groups[TARGETS]
    names = sorted(held, key=lambda name: (-len(held[name]), name))[:_MOST_GROUPS]
    target = np.full(columns.row_count, -1)
    times = np.zeros(columns.row_count, dtype=np.int64)
    for rows in held.values():
        times[rows] += 1
    names.sort()
    for number, name in enumerate(names):
        target[held[name]] = number
    in_template = np.array([bool(each) for each in columns.groups_of_posts], dtype=bool)[
        columns.post
    ]
    chosen: Bools = (times == 1) & (target >= 0) & columns.is_decided & in_template
    return np.flatnonzero(chosen), target[chosen], names


def _measure_blocks(shares: Floats, cluster: Ints, names: list[str]) -> JSON | None:
    """Measure templates: the share of removals by template and group, nan where there is no verdict."""
    usable = (~np.isnan(shares)).sum(axis=1) > 1
    shares = shares[usable]
    cluster = cluster[usable]
    present = np.flatnonzero((~np.isnan(shares)).any(axis=0))
    if len(shares) < 2 or len(present) < 2:
        return None
    shares = shares[:, present]
    names = [names[at] for at in present]
    there = ~np.isnan(shares)
    gaps = np.where(there, shares - np.nanmean(shares, axis=1, keepdims=True), 0.0)
    q, p, p_of_groups = _exchange_within_blocks(gaps, there)
    size = there.sum(axis=1, keepdims=True)
    from_others = gaps * size / (size - 1)
    _, of = np.unique(cluster, return_inverse=True)
    groups: JSON = {}
    for at, (name, p_holm) in enumerate(zip(names, holm_correction(p_of_groups), strict=True)):
        mine = there[:, at]
        sizes, hits, differences = (
            np.bincount(of, np.where(mine, each, 0.0)).astype(float)
            for each in (np.ones(len(of)), shares[:, at], from_others[:, at])
        )
        held = sizes > 0
        groups[name] = {
            "n": int(mine.sum()),
            "rate": float(hits.sum() / sizes.sum()),
            "interval": rate_interval(hits[held], sizes[held]),
            "difference": float(differences.sum() / sizes.sum()),
            "difference_interval": difference_interval(differences[held], sizes[held]),
            "p": p_of_groups[at],
            "p_holm": p_holm,
        }
    return {"templates": len(shares), "posts": int(there.sum()), "q": q, "p": p, "groups": groups}


def _exchange_within_blocks(gaps: Floats, there: Bools) -> tuple[float | None, float, list[float]]:
    """Test groups by exchanging them at random within each block.

    Args:
        gaps: by block and group, how far the share of removals lies from the block's mean; 0 where there is none.
        there: which of them there are.

    Returns:
        The statistic, None if no block has a difference; its p; and the p of each group's own sum.
    """
    sizes = there.sum(axis=0)
    scale = float((gaps**2).sum())
    if not scale:
        return None, 1.0, [1.0] * gaps.shape[1]

    def statistic(sums: Floats) -> Floats:
        q: Floats = (
            (gaps.shape[1] - 1) * float(sizes.mean()) * (sums**2 / sizes).sum(axis=-1) / scale
        )
        return q

    seen = gaps.sum(axis=0)
    patterns: dict[bytes, list[int]] = defaultdict(list)
    for row in np.flatnonzero(gaps.any(axis=1)).tolist():  # elsewhere an exchange changes nothing
        patterns[there[row].tobytes()].append(row)
    random = np.random.default_rng(SEED)
    reached = 0
    reached_of_groups = np.zeros(gaps.shape[1])
    step = max(1, _AT_ONCE // gaps.size)
    for start in range(0, EXCHANGES, step):
        times = min(step, EXCHANGES - start)
        sums = np.zeros((times, gaps.shape[1]))
        for rows in patterns.values():
            columns = np.flatnonzero(there[rows[0]])
            values = np.broadcast_to(gaps[rows][:, columns], (times, len(rows), len(columns)))
            sums[:, columns] += random.permuted(values, axis=2).sum(axis=1)
        reached += int((statistic(sums) >= float(statistic(seen)) - 1e-9).sum())
        reached_of_groups += (np.abs(sums) >= np.abs(seen) - 1e-9).sum(axis=0)
    p_of_groups = ((reached_of_groups + 1) / (EXCHANGES + 1)).tolist()
    return number_or_none(float(statistic(seen))), (reached + 1) / (EXCHANGES + 1), p_of_groups
