"""The savings and the cost of a switch: two runs over the same posts that differ in one setting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import lcm
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.bootstrap import ClusterKinds, bca_intervals
from tribunal.eval.measures.clusters import clusters_of
from tribunal.eval.measures.columns import Floats, Ints, RunColumns
from tribunal.eval.measures.comparison import compare_runs, correct_by_holm, share_posts
from tribunal.eval.measures.costs import AskingCost, cost_of_asking
from tribunal.eval.measures.rates import exchange_test
from tribunal.eval.runs.prices import Prices, prices_of_run
from tribunal.schema import JSON

# Settings that have no meaning but beside another one, and are set with it.
_BESIDE = {"triage_confidence": "triage", "draw_temperature": "judge_draws"}
_ALIKE = ("graph", "dataset", "policy", "prompts")
_FINE = 1e9  # the part of money that is told apart in a test


class SettingDifference(NamedTuple):
    """The setting that two runs differ in, and its value in each; None where it has its default."""

    name: str
    first: object
    second: object


def setting_difference(first: RunColumns, second: RunColumns) -> SettingDifference | None:
    """Return the one setting in which two runs differ; None where they differ in more, or in none."""
    if any(first.run.get(name) != second.run.get(name) for name in _ALIKE):
        return None
    one, other = (each.run.get("settings") or {} for each in (first, second))
    differ = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    differ -= {name for name in differ if _BESIDE.get(name) in differ}
    if len(differ) != 1:
        return None
    [name] = differ
    return SettingDifference(name, one.get(name), other.get(name))


def compare_settings(
    runs: Sequence[RunColumns], pairs: Sequence[JSON], *, prices: Prices | None, cluster: str | None
) -> list[JSON]:
    """Compare every pair of runs over the same posts that differ in one setting: what the cheaper saved, and lost.

    Args:
        runs: all of them.
        pairs: how they compare (`compare_all`), for what it cost; two that no gold is known of aren't among them.
        prices: what calls cost; None takes for each run those that lie beside its results.
        cluster: the field by which posts belong together (`clusters_of`).

    Returns:
        Of each the `setting`; the run `dearer` and the run `cheaper`, by calls and then by tokens, with their values;
        over the posts that both hold (`posts`), for `calls`, `tokens` and, where every call has a price, `money`, a
        post: `dearer`, `cheaper`, what was `saved` with its `interval` (BCa over clusters) and `p` (as of accuracy);
        and what it cost in `accuracy` and `recall` of hate, the cheaper less the dearer, with interval and p; None
        where no gold is known. Every `p_holm` is corrected over all that is returned. Answers from our own cache count
        as calls that were made.

    Raises:
        BadInput: a run's file is broken.
    """
    found = []
    for first, second in combinations(runs, 2):
        switch = setting_difference(first, second)
        if switch is not None and share_posts(first, second):
            known = [
                each for each in pairs if (each["first"], each["second"]) == (first.folder.name, second.folder.name)
            ]
            # Folders of one name can't be told apart there.
            compared = known[0] if len(known) == 1 else compare_runs(first, second, cluster=cluster)
            found.append(_compare_pair(first, second, switch, compared, prices, cluster))
    for name in ("calls", "tokens", "money", "accuracy", "recall"):
        correct_by_holm([each[name] for each in found if each[name] is not None])
    return found


def _compare_pair(
    first: RunColumns,
    second: RunColumns,
    switch: SettingDifference,
    compared: JSON | None,
    prices: Prices | None,
    cluster: str | None,
) -> JSON:
    ids = sorted(set(first.ids) & set(second.ids))
    costs = [cost_of_asking(run.folder, ids, prices or prices_of_run(run.folder)) for run in (first, second)]
    means = [
        tuple(float((sums / np.maximum(each.results, 1)).mean()) for sums in (each.calls, each.tokens))
        for each in costs
    ]
    turned = means[0] < means[1]  # the first is the cheaper one
    runs, values = [first, second], [switch.first, switch.second]
    if turned:
        runs, values, costs = runs[::-1], values[::-1], costs[::-1]
    place = {post: at for at, post in enumerate(first.ids)}
    of_post = clusters_of(first, cluster).of_post[[place[post] for post in ids]]
    numbers = np.unique(of_post, return_inverse=True)[1]
    return {
        "setting": switch.name,
        "dearer": runs[0].folder.resolve().name,
        "cheaper": runs[1].folder.resolve().name,
        "dearer_value": values[0],
        "cheaper_value": values[1],
        "posts": len(ids),
        "rehearsed": bool(first.rehearsed or second.rehearsed),
        "calls": _saving_as_json(costs, [each.calls for each in costs], numbers),
        "tokens": _saving_as_json(costs, [each.tokens for each in costs], numbers),
        "money": _saving_as_json(costs, [each.money for each in costs], numbers, _FINE),
        "accuracy": _loss_as_json(compared, "accuracy", turned=turned),
        "recall": _loss_as_json(compared, "recall", turned=turned),
    }


def _saving_as_json(
    costs: Sequence[AskingCost], sums: Sequence[Floats | None], cluster: Ints, fine: float = 1.0
) -> JSON | None:
    """Return what the second run takes less than the first, a post; None where it isn't known of both.

    `fine` is what a unit is cut into for the test.
    """
    means = [
        values / np.maximum(each.results, 1) for each, values in zip(costs, sums, strict=True) if values is not None
    ]
    if len(means) < len(costs):
        return None
    spared = np.bincount(cluster, means[0] - means[1])
    kinds = ClusterKinds.from_values(np.stack([spared, np.bincount(cluster).astype(float)], axis=1))
    spans = bca_intervals(kinds, lambda values: {"saved": values[..., 0] / values[..., 1]})
    whole = lcm(*{int(many) for each in costs for many in np.unique(each.results) if many})
    p, _ = exchange_test(np.rint(spared * whole * fine).astype(np.int64))
    dearer, cheaper = (float(each.mean()) for each in means)
    return {"dearer": dearer, "cheaper": cheaper, "saved": dearer - cheaper, "interval": spans["saved"], "p": p}


def _loss_as_json(compared: JSON | None, name: str, *, turned: bool) -> JSON | None:
    held = compared["differences"][name] if compared else {"difference": None}
    if held["difference"] is None:
        return None
    gap, span = held["difference"], held["interval"]
    if turned:
        gap, span = -gap, span and [-span[1], -span[0]]
    return {"difference": gap, "interval": span, "p": held.get("p")}
