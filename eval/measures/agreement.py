"""The agreement of annotators, and the consistency of repeats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import numpy as np
from pydantic import Field

from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import NO_LABEL, Bools, Floats, Ints, RunColumns, Stances
from tribunal.eval.measures.comparison import mcnemar, share_posts
from tribunal.eval.measures.rates import (
    ClusterKinds,
    Interval,
    bca_intervals,
    difference_interval,
    divide,
    mean_or_none,
    number_or_none,
    rate_interval,
    share_interval,
)
from tribunal.eval.measures.scores import MEASURES, score_rows
from tribunal.schema import JSON, Frozen


def measure_agreement(counts: Ints, complete: Bools, cluster: Ints) -> JSON:
    """Return Fleiss' kappa and Krippendorff's alpha with their intervals.

    Args:
        counts: how many raters gave each label, (subject, label).
        complete: the subjects that every rater labelled: those of kappa.
        cluster: of each subject, the number of the cluster that it is drawn with.

    Returns:
        `kappa`, `alpha`, `ratings` (how many alpha is over), and `intervals` of the two, which draw clusters. Both are
        1.0 for full agreement and 0.0 for what chance would give. Kappa is 1.0 where only one label was ever given, and
        None where there is no complete subject, or fewer than two raters. Alpha is None where no subject has two
        labels, or only one label was ever given, so that nothing could have shown a difference.
    """
    raters = counts.sum(axis=1)
    pairs = (counts * (counts - 1)).sum(axis=1)
    rated = complete & (raters > 1)
    per_kappa = np.column_stack(
        [np.ones(len(counts)), pairs / np.maximum(raters * (raters - 1), 1), counts]
    )[rated]
    per_alpha = np.column_stack([pairs / np.maximum(raters - 1, 1), counts]) * (raters > 1)[:, None]
    return {
        "kappa": number_or_none(_kappa_of_sums(per_kappa.sum(axis=0))),
        "alpha": number_or_none(_alpha_of_sums(per_alpha.sum(axis=0))),
        "ratings": int(per_alpha[:, 1:].sum()),
        "intervals": {
            "kappa": _interval_over_clusters(per_kappa, cluster[rated], _kappa_of_sums),
            "alpha": _interval_over_clusters(per_alpha, cluster, _alpha_of_sums),
        },
    }


def _kappa_of_sums(sums: Floats) -> Floats:
    """Return Fleiss' kappa of sums over subjects: 1, the share of pairs of raters that agree, and the counts."""
    observed = divide(sums[..., 1], sums[..., 0])
    expected = (divide(sums[..., 2:], sums[..., 2:].sum(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return np.where(expected == 1, 1.0, divide(observed - expected, 1 - expected))


def _alpha_of_sums(sums: Floats) -> Floats:
    """Return Krippendorff's alpha of sums over subjects with two labels or more: diagonal coincidences, and counts."""
    labels = sums[..., 1:]
    values = labels.sum(axis=-1)
    observed = 1 - divide(sums[..., 0], values)
    expected = 1 - divide((labels * (labels - 1)).sum(axis=-1), values * (values - 1))
    return np.where(expected > 0, 1 - divide(observed, expected), np.nan)


def _interval_over_clusters(
    sums: Floats, cluster: Ints, statistic: Callable[[Floats], Floats]
) -> Interval:
    if not len(sums):
        return None
    numbers, of = np.unique(cluster, return_inverse=True)
    of_cluster = np.zeros((len(numbers), sums.shape[1]))
    np.add.at(of_cluster, of, sums)
    return bca_intervals(
        ClusterKinds.from_values(of_cluster), lambda drawn: {"it": statistic(drawn)}
    )["it"]


class RaterAgreement(Frozen):
    """Agreement of two raters on the same subjects: observed, and beyond chance (Cohen's kappa)."""

    pairs: int = Field(description="subjects that both rated", examples=[40])
    agreed: int = Field(description="those of them on which both said the same", examples=[36])
    raw: float | None = Field(
        description="their share, from 0 to 1; none without a pair", examples=[0.9]
    )
    kappa: float | None = Field(
        description="Cohen's kappa: 1 full agreement, 0 what chance would give; none where it isn't defined: no pair, "
        "or only one label was ever given",
        examples=[0.78],
    )
    low: float | None = Field(description="the lower end of its 95 % interval", examples=[0.58])
    high: float | None = Field(description="the upper end", examples=[0.98])


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> RaterAgreement:
    """Return Cohen's kappa of two raters with its asymptotic 95 % interval, by statsmodels.

    Args:
        pairs: for each subject what the first and what the second rater said.
    """
    agreed = sum(one == other for one, other in pairs)
    many = len(pairs)
    labels = sorted({label for pair in pairs for label in pair})
    kappa = None
    low = None
    high = None
    if len(labels) > 1:
        from statsmodels.stats.inter_rater import cohens_kappa

        table = np.zeros((len(labels), len(labels)))
        for one, other in pairs:
            table[labels.index(one), labels.index(other)] += 1
        with np.errstate(invalid="ignore", divide="ignore"):
            found = cohens_kappa(table)
            kappa, low, high = map(number_or_none, (found.kappa, found.kappa_low, found.kappa_upp))
    return RaterAgreement(
        pairs=many,
        agreed=agreed,
        raw=agreed / many if many else None,
        kappa=kappa,
        low=None if low is None else max(-1.0, low),
        high=None if high is None else min(1.0, high),
    )


_NOT_YET = -2  # a repeat that hasn't come to the post; -1 is no verdict


def measure_repeats(columns: RunColumns, clusters: Clusters) -> JSON:
    """Measure each repeat, and how far repeats agree.

    `std` is the sample standard deviation (ddof = 1), None of fewer than two repeats in which the measure is defined.
    `kappa` and `flip_rate` are over the posts that every repeat gave a verdict on, labelled or not: the share of them
    whose label isn't the same in all. `alpha` is over all posts with two verdicts or more, and `ratings` counts these.
    `intervals` of the three draw clusters. Counting errors, having no verdict is an answer of its own, and the posts
    are all those that stand in every repeat.
    """
    repeats = np.unique(columns.repeat)
    each = [
        score_rows(columns, np.flatnonzero(columns.repeat == repeat)) for repeat in repeats.tolist()
    ]
    table = np.full((len(columns.ids), len(repeats)), _NOT_YET)
    table[columns.post, np.searchsorted(repeats, columns.repeat)] = columns.verdict_label
    complete: Bools = np.not_equal(table, _NOT_YET).all(axis=1)
    decided: Bools = np.greater_equal(table, 0).all(axis=1)
    labels = np.unique(table[table >= 0])
    counts = (
        np.stack([(table == label).sum(axis=1) for label in labels], axis=1)
        if len(labels)
        else table[:, :0] * 0
    )
    flips = (table != table[:, :1]).any(axis=1)

    def summarise(scores: Sequence[JSON], posts: Bools, agreed: JSON) -> JSON:
        several = len(repeats) > 1
        rate = mean_or_none(flips[posts]) if several else None
        interval = share_interval(clusters.of_post[posts], flips[posts]) if several else None
        return {
            **{
                name: _mean_std_values([measured[name] for measured in scores]) for name in MEASURES
            },
            "posts": int(posts.sum()),
            **agreed,
            "flip_rate": rate,
            "intervals": {**agreed.get("intervals", {}), "flip_rate": interval},
        }

    return {
        "repeats": len(repeats),
        **summarise(each, decided, measure_agreement(counts, decided, clusters.of_post)),
        "counting_errors": summarise(
            [measured["counting_errors"] for measured in each], complete, {}
        ),
    }


def measure_perspectives(columns: RunColumns, clusters: Clusters) -> JSON:
    """Measure how far the perspectives of a panel agree.

    Returns:
        `agents`; `n`, the results in which all of them took a stance, over which `kappa` is; `alpha` over results in
        which two or more did, `ratings` of them in all; `intervals` of both, which draw clusters.
    """
    number: dict[Stances, int] = {}
    of_row = np.array(
        [number.setdefault(row, len(number)) for row in columns.stances], dtype=np.int64
    )
    agents = sorted({agent for row in number for agent, _ in row})
    stances = sorted({stance for row in number for _, stance in row})
    counts = np.zeros((len(number), len(stances)), dtype=np.int64)
    for row, at in number.items():
        for _, stance in row:
            counts[at, stances.index(stance)] += 1
    complete = np.array([len(row) == len(agents) > 1 for row in number], dtype=bool)[of_row]
    return {
        "agents": agents,
        "n": int(complete.sum()),
        **measure_agreement(counts[of_row], complete, clusters.of_post[columns.post]),
    }


def _mean_std_values(values: list[float | None]) -> JSON:
    """Return the mean and sample standard deviation of the values that are defined, and all values as given."""
    defined = [value for value in values if value is not None]
    return {
        "mean": float(np.mean(defined)) if defined else None,
        "std": float(np.std(defined, ddof=1)) if len(defined) > 1 else None,
        "values": values,
    }


# As what verdicts are compared: hate or not, and the category by its number.
KINDS = {"yes_or_no": "hateful", "category": "label"}  # with the column of `RunColumns`


def measure_consistency(columns: RunColumns) -> JSON:
    """Measure how consistent a run is over the groups that its data set declares.

    Returns:
        `groups` and `posts`: those declared, of groups with two posts or more. By kind (`KINDS`), over the groups with
        two verdicts or more: `groups`, `one_verdict` (the share of them whose posts all got the same), `pairs`, `same`
        (the share of pairs of posts that did), `flips` (posts with another verdict than most of their group), and
        `intervals`. Each repeat counts by itself; intervals draw groups, each with all of its repeats.
        `counting_errors` takes having no verdict for an answer of its own.
    """
    every: dict[str, list[int]] = defaultdict(list)
    for post, group in enumerate(columns.groups_of_posts):
        if group:
            every[group].append(post)
    posts = {group: held for group, held in every.items() if len(held) > 1}
    headline, counting = (
        {
            kind: _measure_groups(columns, posts, getattr(columns, column), errors=errors)
            for kind, column in KINDS.items()
        }
        for errors in (False, True)
    )
    return {
        "groups": len(posts),
        "posts": sum(map(len, posts.values())),
        **headline,
        "counting_errors": counting,
    }


def compare_consistency(first: RunColumns, second: RunColumns) -> JSON | None:
    """Compare how many groups two runs over the same posts give one verdict, over the first repeat of each.

    Only posts that both decided count. `difference` is the second's share less the first's, with an interval that draws
    groups; the test is McNemar's, over groups. By kind; None where the runs have no such group in common.
    """
    if not share_posts(first, second):
        return None
    found: JSON = {"first": first.folder.name, "second": second.folder.name}
    for kind in KINDS:
        one = _first_answers(first, kind)
        other = _first_answers(second, kind)
        pairs: list[tuple[bool, bool]] = []
        for group, mine in one.items():
            theirs = other.get(group, {})
            shared = mine.keys() & theirs.keys()
            if len(shared) > 1:
                before, after = (
                    len({held[post] for post in shared}) == 1 for held in (mine, theirs)
                )
                pairs.append((before, after))
        table = np.array(pairs, dtype=bool).reshape(-1, 2)
        test = mcnemar(*table.T)
        gaps = table[:, 1].astype(float) - table[:, 0]
        found[kind] = {
            "groups": test["n"],
            "first": mean_or_none(table[:, 0]),
            "second": mean_or_none(table[:, 1]),
            "only_first": test["only_first_right"],
            "only_second": test["only_second_right"],
            "p": test["p"],
            "difference": mean_or_none(gaps),
            "interval": difference_interval(gaps, np.ones(len(pairs))),
        }
    return found if any(found[kind]["groups"] for kind in KINDS) else None


def compare_consistency_of_all(runs: Sequence[RunColumns]) -> list[JSON]:
    """Compare every pair of runs that can be compared so."""
    return [
        each for pair in combinations(runs, 2) if (each := compare_consistency(*pair)) is not None
    ]


def _measure_groups(
    columns: RunColumns, groups: dict[str, list[int]], answers: Ints, *, errors: bool
) -> JSON:
    of_post = {post: group for group, posts in groups.items() for post in posts}
    given: dict[str, dict[int, Counter[int]]] = {group: defaultdict(Counter) for group in groups}
    for post, repeat, answer in zip(
        columns.post.tolist(), columns.repeat.tolist(), answers.tolist(), strict=True
    ):
        if post in of_post and (errors or answer != NO_LABEL):
            given[of_post[post]][repeat][answer] += 1
    # Of each group in each repeat: its number, whether it got one verdict, its pairs, those that agree, and its flips.
    sittings = [
        (
            place,
            len(often) == 1,
            comb(often.total(), 2),
            sum(comb(number, 2) for number in often.values()),
            often.total() - max(often.values()),
        )
        for place, repeats in enumerate(given.values())
        for often in repeats.values()
        if often.total() > 1
    ]
    place, one_verdict, pairs, same, flips = np.array(sittings, dtype=np.int64).reshape(-1, 5).T
    by_group = [
        np.bincount(place, each) for each in (np.ones(len(place)), one_verdict, pairs, same)
    ]
    return {
        "groups": len(np.unique(place)),
        "one_verdict": mean_or_none(one_verdict),
        "pairs": int(pairs.sum()),
        "same": int(same.sum()) / int(pairs.sum()) if len(place) else None,
        "flips": int(flips.sum()),
        "intervals": {
            "one_verdict": rate_interval(by_group[1], by_group[0]),
            "same": rate_interval(by_group[3], by_group[2]),
        },
    }


def _first_answers(columns: RunColumns, kind: str) -> dict[str, dict[str, int]]:
    """Return the answers of the first repeat by group and post, of the posts that have one."""
    answers = getattr(columns, KINDS[kind])
    held = defaultdict[str, dict[str, int]](dict)
    for row in range(columns.row_count):
        post = int(columns.post[row])
        if columns.groups_of_posts[post] and columns.repeat[row] == 0 and answers[row] != NO_LABEL:
            held[columns.groups_of_posts[post]][columns.ids[post]] = int(answers[row])
    return held
