"""Compare verdicts under two policies that differ: which should have changed, and which did.

After GMP ("A Benchmark for Content Moderation under Co-occurring Violations and Dynamic Rules", arXiv 2603.01724),
whose second task changes the rules and keeps the posts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import Floats, RunColumns
from tribunal.eval.measures.rates import ClusterKinds, bca_intervals, divide, rate_interval
from tribunal.eval.measures.records import policy_of_run
from tribunal.prompts.policy import Policy
from tribunal.retrievers.indexes.table_rows import NO, YES
from tribunal.runner.results import Result, read_results
from tribunal.schema import JSON
from tribunal.settings.names import POLICIES

# the fields of a data set that say which verdicts should change
CHANGES = "changes"
CLAUSE = "clause"
GOLD = "gold"
CITED = "cited"
# no model is shown these, or they have a list of their own
_UNTOLD = (
    "name",
    "source",
    "sha",
    "translations",
    "clauses",
)
_MOST_LISTED = 50  # posts of each kind


class ClauseChanges(NamedTuple):
    """How two policies differ.

    Attributes:
        added: ids of clauses that only the second policy has.
        removed: ids of clauses that only the first has.
        reworded: ids of clauses that both have, in other words or of another category.
        elsewhere: other parts that differ, such as `definition`.
    """

    added: frozenset[str]
    removed: frozenset[str]
    reworded: frozenset[str]
    elsewhere: tuple[str, ...]

    @property
    def clauses(self) -> frozenset[str]:
        """Return the ids of all clauses that differ."""
        return self.added | self.removed | self.reworded


def compare_policies(first: Policy, second: Policy) -> ClauseChanges:
    """Return how two policies differ in what models are told."""
    before, after = ({each.id: each for each in policy.clauses} for policy in (first, second))
    parts = [name for name in Policy.model_fields if name not in _UNTOLD]
    return ClauseChanges(
        added=frozenset(after.keys() - before.keys()),
        removed=frozenset(before.keys() - after.keys()),
        reworded=frozenset(
            clause for clause in before.keys() & after.keys() if before[clause] != after[clause]
        ),
        elsewhere=tuple(name for name in parts if getattr(first, name) != getattr(second, name)),
    )


def compare_rule_changes(runs: Sequence[RunColumns], *, cluster: str | None = None) -> list[JSON]:
    """Return the rule change of every two runs over the same posts whose policies differ."""
    found = (measure_rule_change(*pair, cluster=cluster) for pair in combinations(runs, 2))
    return [each for each in found if each is not None]


def measure_rule_change(
    first: RunColumns, second: RunColumns, *, cluster: str | None = None
) -> JSON | None:
    """Return which verdicts a change of the policy should have changed, and which did change.

    Which should is told by the first of these that is there: the posts' field `changes` (yes or no); gold labels that
    differ between the runs; the posts' field `clause`, the ids of the clauses that people found them to break, where a
    post should change if all of its clauses differ; and the clauses that the first run's verdicts cite, likewise, which
    tells nothing of added clauses.

    Args:
        first: the run under the old policy.
        second: the run under the new one.
        cluster: the field by which posts belong together (`clusters_of`), of the first run.

    Returns:
        None if the policies are the same or unknown, or the runs share no posts. Otherwise the clauses that differ and
        how, whether they are `clauses_shown` to models; `by`, what tells: `changes`, `gold`, `clause`, `cited` or None;
        the rates `should` and `should_not`, each with the share of verdicts that changed; their `difference`; and the
        posts that are `stuck` or changed `beside` the rule.
    """
    old = policy_of_run(first.run)
    new = policy_of_run(second.run)
    if old is None or new is None or old.sha == new.sha:
        return None
    if first.run.get("dataset") != second.run.get("dataset"):
        return None
    differing = compare_policies(old, new)
    if not differing.clauses and not differing.elsewhere:
        return None
    pairs = _paired_verdicts(first, second)
    if not pairs:
        return None
    by = _told_by(pairs, differing)
    clusters = clusters_of(first, cluster)
    rows: list[
        tuple[str, bool, bool]
    ] = []  # the post, whether it should change, and whether it did
    for post, (before, after) in pairs.items():
        should = _should_change(before, after, by, differing)
        if should is not None:
            same_scheme = before.scheme == after.scheme
            did = (
                before.category != after.category
                if same_scheme
                else before.hateful != after.hateful
            )
            rows.append((post, should, did))
    return {
        "first": first.folder.name,
        "second": second.folder.name,
        "rehearsed": bool(first.rehearsed or second.rehearsed),
        **{
            name: sorted(getattr(differing, name))
            for name in ("added", "removed", "reworded", "elsewhere")
        },
        "one_clause": len(differing.clauses) == 1 and not differing.elsewhere,
        "clauses_shown": _shows_clauses(first.run) and _shows_clauses(second.run),
        "by": by,
        "n": len(rows),
        **_measure_rows(rows, first, clusters),
        "stuck": [post for post, should, did in rows if should and not did][:_MOST_LISTED],
        "beside": [post for post, should, did in rows if did and not should][:_MOST_LISTED],
    }


def _shows_clauses(run: JSON) -> bool:
    """Return whether a run's models were shown the clauses: as set, otherwise with a policy that the user named."""
    settings = run.get("settings") or {}
    chosen = settings.get("policy_clauses")
    return bool(settings.get("policy") not in POLICIES.values() if chosen is None else chosen)


def _paired_verdicts(first: RunColumns, second: RunColumns) -> dict[str, tuple[Result, Result]]:
    """Return the verdicts on each post that both runs decided in their first repeat."""
    one, other = (
        {
            each.post_id: each
            for _, each in read_results(run.folder)
            if not each.repeat and each.outcome == "verdict"
        }
        for run in (first, second)
    )
    return {post: (one[post], other[post]) for post in one if post in other}


def _told_by(pairs: dict[str, tuple[Result, Result]], differing: ClauseChanges) -> str | None:
    """Return what tells which verdicts should change; None if nothing does."""
    known = differing.removed | differing.reworded
    there = {
        CHANGES: any(before.fields.get(CHANGES) not in (None, "") for before, _ in pairs.values()),
        GOLD: any(
            before.gold != after.gold
            for before, after in pairs.values()
            if before.gold and after.gold
        ),
        CLAUSE: any(before.fields.get(CLAUSE) not in (None, "") for before, _ in pairs.values()),
        CITED: any(known.intersection(before.clauses) for before, _ in pairs.values()),
    }
    return next((name for name, is_there in there.items() if is_there), None)


def _should_change(
    before: Result, after: Result, by: str | None, differing: ClauseChanges
) -> bool | None:
    """Return whether a verdict should change; None if nothing tells."""
    if by == CHANGES:
        told = str(before.fields.get(CHANGES)).strip().casefold()
        return True if told in YES else False if told in NO else None
    if by == GOLD:
        return before.gold != after.gold if before.gold and after.gold else None
    if by == CLAUSE:
        held = before.fields.get(CLAUSE)
        named = held if isinstance(held, list) else str(held or "").split(",")
        return _all_differ((str(each).strip() for each in named), differing)
    return _all_differ(before.clauses, differing) if by == CITED else None


def _all_differ(clauses: Iterable[str], differing: ClauseChanges) -> bool:
    named = set(filter(None, clauses))
    return bool(named) and named <= differing.clauses


def _measure_rows(
    rows: Sequence[tuple[str, bool, bool]], first: RunColumns, clusters: Clusters
) -> JSON:
    """Return the shares of verdicts that changed among those that should and should not, and their difference."""
    of_post = dict(zip(first.ids, clusters.of_post.tolist(), strict=True))
    numbers = {
        number: at for at, number in enumerate(dict.fromkeys(of_post[post] for post, _, _ in rows))
    }
    # of each cluster: changed and all that should, changed and all that should not
    sums = np.zeros((len(numbers), 4))
    for post, should, did in rows:
        sums[numbers[of_post[post]], 0 if should else 2] += did
        sums[numbers[of_post[post]], 1 if should else 3] += 1

    def gap(sums: Floats) -> dict[str, Floats]:
        return {"gap": divide(sums[..., 0], sums[..., 1]) - divide(sums[..., 2], sums[..., 3])}

    measured: JSON = {}
    for name, at in (("should", 0), ("should_not", 2)):
        hits = sums[:, at]
        totals = sums[:, at + 1]
        n = int(totals.sum())
        value = float(hits.sum() / n) if n else None
        measured[name] = {"n": n, "value": value, "interval": rate_interval(hits, totals)}
    known = all(measured[name]["n"] for name in ("should", "should_not"))
    difference = measured["should"]["value"] - measured["should_not"]["value"] if known else None
    interval = bca_intervals(ClusterKinds.from_values(sums), gap)["gap"] if known else None
    return {**measured, "difference": {"difference": difference, "interval": interval}}
