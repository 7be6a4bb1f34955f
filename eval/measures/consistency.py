"""The consistency of verdicts on posts that say the same: paraphrases, near-copies, the posts of one template.

Which posts belong together, the data set says (`Sample.group`). Posts of one group are no independent observations, so
everything is counted by group: the share of groups with one verdict, and intervals that draw groups.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from tribunal.eval.measures.columns import NO_LABEL, Ints, RunColumns
from tribunal.eval.measures.comparison import mcnemar, share_posts
from tribunal.eval.measures.rates import difference_interval, mean_or_none, rate_interval
from tribunal.schema import JSON

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
        one, other = _first_answers(first, kind), _first_answers(second, kind)
        pairs: list[tuple[bool, bool]] = []
        for group, mine in one.items():
            theirs = other.get(group, {})
            shared = mine.keys() & theirs.keys()
            if len(shared) > 1:
                before, after = (len({held[post] for post in shared}) == 1 for held in (mine, theirs))
                pairs.append((before, after))
        table = np.array(pairs, dtype=bool).reshape(-1, 2)
        test, gaps = mcnemar(*table.T), table[:, 1].astype(float) - table[:, 0]
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
    return [each for pair in combinations(runs, 2) if (each := compare_consistency(*pair)) is not None]


def _measure_groups(columns: RunColumns, groups: dict[str, list[int]], answers: Ints, *, errors: bool) -> JSON:
    of_post = {post: group for group, posts in groups.items() for post in posts}
    given: dict[str, dict[int, Counter[int]]] = {group: defaultdict(Counter) for group in groups}
    for post, repeat, answer in zip(columns.post.tolist(), columns.repeat.tolist(), answers.tolist(), strict=True):
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
    by_group = [np.bincount(place, each) for each in (np.ones(len(place)), one_verdict, pairs, same)]
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
    answers, held = getattr(columns, KINDS[kind]), defaultdict[str, dict[str, int]](dict)
    for row in range(columns.row_count):
        post = int(columns.post[row])
        if columns.groups_of_posts[post] and columns.repeat[row] == 0 and answers[row] != NO_LABEL:
            held[columns.groups_of_posts[post]][columns.ids[post]] = int(answers[row])
    return held
