"""Measure what a run cost, what asking about its posts takes, and what its shortcuts saved.

A run's cost leaves out answers from our own cache. What asking takes counts them as calls that were made, so that two
runs that share a cache can be compared, and the cost of posts to come can be told. Two runs over the same posts that
differ in one setting show what that setting saves, and what it costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tribunal.eval.measures.clusters import Clusters, clusters_of
from tribunal.eval.measures.columns import OWN_CACHE, Floats, Ints, RunColumns
from tribunal.eval.measures.comparison import compare_runs, correct_by_holm, share_posts
from tribunal.eval.measures.rates import (
    ClusterKinds,
    Interval,
    bca_intervals,
    exchange_test,
    mean_or_none,
    share_interval,
)
from tribunal.runner.prices import ModelUsage, Prices, UsageByModel, prices_of_run
from tribunal.runner.results import read_results
from tribunal.schema import JSON

SPANNED = ("calls", "tokens", "seconds")  # whose means have an interval


def measure_cost(columns: RunColumns, clusters: Clusters) -> JSON:
    """Return total, mean, median and 95th percentile over results, one a post and repeat, whatever their outcome.

    A call that is asked again or retried makes several `requests`.
    Answers from the project's own cache cost nothing and are counted apart (`from_cache`). `seconds` is wall time.
    `unseen_calls` are those that the graph made past `ask`, there only if it made some: nothing else counts them.
    `estimated_calls` are those whose tokens the server didn't count; there only if there are some.
    `cached_tokens` are prompt tokens that the provider served from its cache; there only if it tells of them.
    Of `calls`, `tokens` and `seconds`, `interval` is that of the mean.
    """
    each: dict[str, Ints | Floats] = {
        "calls": columns.calls,
        "requests": columns.requests,
        "tokens": columns.prompt_tokens + columns.completion_tokens,
        "prompt_tokens": columns.prompt_tokens,
        "completion_tokens": columns.completion_tokens,
        "seconds": columns.seconds,
        "from_cache": columns.from_cache,
    }
    known = columns.cached_tokens >= 0
    if known.any():
        each["cached_tokens"] = columns.cached_tokens[known]
    if columns.estimated_calls.any():
        each["estimated_calls"] = columns.estimated_calls
    if columns.unseen_calls.any():
        each["unseen_calls"] = columns.unseen_calls
    spans = mean_intervals({name: each[name] for name in SPANNED}, clusters.of_post[columns.post])
    return {
        name: {
            **_summarise_values(values),
            **({"interval": spans[name]} if name in SPANNED else {}),
        }
        for name, values in each.items()
    }


def measure_group_cost(columns: RunColumns, clusters: Clusters, rows: Ints) -> JSON:
    """Return the mean calls, tokens and seconds of some results, each with its `interval`; None of no results."""
    tokens = columns.prompt_tokens[rows] + columns.completion_tokens[rows]
    held: dict[str, Ints | Floats] = {
        "calls": columns.calls[rows],
        "tokens": tokens,
        "seconds": columns.seconds[rows],
    }
    return mean_costs(held, clusters.of_post[columns.post[rows]])


def mean_costs(costs: Mapping[str, Ints | Floats], cluster: Ints) -> JSON:
    """Return the mean of each cost, with its `interval`; None of no results.

    Args:
        costs: by name what each result took.
        cluster: of each result, the number of its cluster.
    """
    spans = mean_intervals(costs, cluster)
    return {
        name: {"mean": mean_or_none(values), "interval": spans[name]}
        for name, values in costs.items()
    }


def mean_intervals(costs: Mapping[str, Ints | Floats], cluster: Ints) -> dict[str, Interval]:
    """Return the intervals of means (BCa over clusters); None of no results, of one cluster, and of equal values."""
    if not len(cluster):
        return dict.fromkeys(costs)
    _, of = np.unique(cluster, return_inverse=True)
    sums = [np.bincount(of, values) for values in (*costs.values(), np.ones(len(of)))]

    def means(totals: Floats) -> dict[str, Floats]:
        """Return the means of sums over clusters."""
        return {name: totals[..., at] / totals[..., -1] for at, name in enumerate(costs)}

    return bca_intervals(ClusterKinds.from_values(np.stack(sums, axis=1)), means)


def money_by_result(folder: Path, prices: Prices) -> Floats | None:
    """Return what each result cost, in the order of the file; None if a call has no price.

    Raises:
        BadInput: a file of the run is broken.
    """
    costs = [prices.cost_of_calls(result.calls) for _, result in read_results(folder)]
    known = [cost for cost in costs if cost is not None]
    return np.array(known, dtype=float) if len(known) == len(costs) else None


def _summarise_values(values: Ints | Floats) -> JSON:
    if not len(values):
        return {"total": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.percentile(values, (50, 95))
    return {
        "total": values.sum().item(),
        "mean": float(values.mean()),
        "p50": float(p50),
        "p95": float(p95),
    }


class AskingCost(NamedTuple):
    """Sums over a post's results, a row a post. `money` is None where not every call has a price."""

    results: Ints
    calls: Floats
    tokens: Floats
    money: Floats | None

    def of_each_post(self, name: str) -> Floats | None:
        """Return each post's mean over its results."""
        sums: Floats | None = getattr(self, name)
        return None if sums is None else sums / np.maximum(self.results, 1)

    @property
    def mean_calls_and_tokens(self) -> tuple[float, ...]:
        """Return the mean of calls and of tokens over the posts."""
        return tuple(
            float((sums / np.maximum(self.results, 1)).mean()) for sums in (self.calls, self.tokens)
        )


def cost_of_asking(
    folder: Path, ids: Sequence[str], prices: Prices | None, *, repeats: bool = True
) -> AskingCost:
    """Return what asking about these posts takes. Answers from our own cache count as calls that were made.

    So two runs that share a cache can be compared, and what posts to come will take is told.

    Args:
        folder: the run's.
        ids: the posts, a row each.
        prices: what calls cost; None where nothing is known.
        repeats: take all of a post's results, and not only the first repeat's.

    Raises:
        BadInput: a file of the run is broken.
    """
    place = {post: at for at, post in enumerate(ids)}
    results = np.zeros(len(ids), dtype=np.int64)
    calls = np.zeros(len(ids))
    tokens = np.zeros(len(ids))
    money = np.zeros(len(ids))
    for _, result in read_results(folder):
        at = place.get(result.post_id)
        if at is None or (result.repeat and not repeats):
            continue
        results[at] += 1
        made = len(result.calls) or result.usage.calls
        calls[at] += made
        tokens[at] += sum(
            each.prompt_tokens + each.completion_tokens for each in result.calls or (result.usage,)
        )
        costs = [
            prices.cost_of_tokens(call.model, call) if prices else None for call in result.calls
        ]
        known = [cost for cost in costs if cost is not None]
        money[at] += (
            sum(known) if len(known) == len(costs) and bool(costs) == bool(made) else np.nan
        )
    return AskingCost(results, calls, tokens, None if np.isnan(money).any() else money)


# The seats that the spared calls would have gone to; of another shortcut all but its own.
_SEATS = {"judge_draws": ("judge",), "early_exit": ("prosecutor", "defender")}
PROMPT_CACHE = "prompt_cache"
# Whose tokens are those of the answers themselves, and which leave every answer as it is.
_COUNTED = (OWN_CACHE, PROMPT_CACHE)


def measure_savings(columns: RunColumns, clusters: Clusters) -> JSON:
    """Measure what each shortcut saved, by its id: `early_exit`, `judge_draws`, `triage`, `cache`, ….

    `results` are those that it was taken in, `share` their share of all. `calls` are at least so many. `tokens` are
    what so many calls of the seats that were spared take in this run, in the mean (`estimated`); of the two caches they
    are counted. `accuracy` and `accuracy_elsewhere` are of the decided results that it was taken in, and of the others:
    other posts, so their difference is not what the shortcut costs.
    """
    found: JSON = {}
    cluster = clusters.of_post[columns.post]
    for name, spared in sorted(columns.spared.items()):
        taken = np.zeros(columns.row_count, dtype=bool)
        taken[spared.rows] = True
        tokens: float | None = spared.tokens
        estimated = name not in _COUNTED and not spared.tokens
        if estimated:
            used = _usage_of_spared_seats(columns, name).values()
            calls = sum(each.calls for each in used)
            whole = sum(each.prompt_tokens + each.completion_tokens for each in used)
            tokens = spared.calls * whole / calls if calls else None
        saved: JSON = {
            "results": int(taken.sum()),
            "share": float(taken.mean()),
            "calls": spared.calls,
            "tokens": tokens,
            "estimated": estimated,
        }
        for part, within in (("accuracy", taken), ("accuracy_elsewhere", ~taken)):
            rows = columns.is_decided & within & (name not in _COUNTED)
            right = columns.is_right[rows]
            saved[part] = mean_or_none(right)
            saved[f"{part}_interval"] = share_interval(cluster[rows], right)
        found[name] = saved
    return found


def money_saved(columns: RunColumns, name: str, prices: Prices) -> float | None:
    """Return the money that a shortcut saved; None if a call has no price, or nothing is known of such calls.

    Args:
        columns: the run.
        name: the shortcut's id.
        prices: what calls cost.
    """
    spared = columns.spared[name]
    if name == PROMPT_CACHE:
        found = 0.0
        for model, used in columns.spent.items():
            if not used.cached_tokens:
                continue
            price = prices.root.get(model)
            if price is None:
                return None
            found += (
                used.cached_tokens
                * (price.input - (price.input if price.cached is None else price.cached))
                / 1e6
            )
        return found
    of = columns.cached if name == OWN_CACHE else _usage_of_spared_seats(columns, name)
    costs = [prices.cost_of_tokens(model, used) for model, used in of.items()]
    if not costs or None in costs:
        return None
    whole = sum(cost for cost in costs if cost is not None)
    return (
        whole
        if name == OWN_CACHE
        else spared.calls * whole / sum(used.calls for used in of.values())
    )


def _usage_of_spared_seats(columns: RunColumns, name: str) -> UsageByModel:
    """Return what the calls of the seats that a shortcut spares took, by model."""
    found: UsageByModel = {}
    for seat in _SEATS.get(name) or [each for each in columns.seated if each != name]:
        for model, used in columns.seated.get(seat, {}).items():
            found.setdefault(model, ModelUsage()).add_tokens(used.calls, used)
    return found


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
                each
                for each in pairs
                if (each["first"], each["second"]) == (first.folder.name, second.folder.name)
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
    sides = []
    for run, value in ((first, switch.first), (second, switch.second)):
        asked = cost_of_asking(run.folder, ids, prices or prices_of_run(run.folder))
        sides.append((run, value, asked))
    dearer, cheaper = sorted(sides, key=lambda side: side[2].mean_calls_and_tokens, reverse=True)
    place = {post: at for at, post in enumerate(first.ids)}
    of_post = clusters_of(first, cluster).of_post[[place[post] for post in ids]]
    numbers = np.unique(of_post, return_inverse=True)[1]
    return {
        "setting": switch.name,
        "dearer": dearer[0].folder.resolve().name,
        "cheaper": cheaper[0].folder.resolve().name,
        "dearer_value": dearer[1],
        "cheaper_value": cheaper[1],
        "posts": len(ids),
        "rehearsed": bool(first.rehearsed or second.rehearsed),
        **{
            name: _saving_as_json(dearer[2], cheaper[2], name, numbers)
            for name in ("calls", "tokens", "money")
        },
        **{
            name: _loss_as_json(compared, name, turned=cheaper[0] is first)
            for name in ("accuracy", "recall")
        },
    }


def _saving_as_json(
    dearer: AskingCost, cheaper: AskingCost, name: str, cluster: Ints
) -> JSON | None:
    """Return what the second run takes less than the first, a post; None where it isn't known of both."""
    before = dearer.of_each_post(name)
    after = cheaper.of_each_post(name)
    if before is None or after is None:
        return None
    spared = np.bincount(cluster, before - after)
    kinds = ClusterKinds.from_values(np.stack([spared, np.bincount(cluster).astype(float)], axis=1))
    spans = bca_intervals(kinds, lambda values: {"saved": values[..., 0] / values[..., 1]})
    whole = lcm(
        *{int(many) for each in (dearer, cheaper) for many in np.unique(each.results) if many}
    )
    p, _ = exchange_test(
        np.rint(spared * whole * (_FINE if name == "money" else 1)).astype(np.int64)
    )
    means = {"dearer": float(before.mean()), "cheaper": float(after.mean())}
    return {
        **means,
        "saved": means["dearer"] - means["cheaper"],
        "interval": spans["saved"],
        "p": p,
    }


def _loss_as_json(compared: JSON | None, name: str, *, turned: bool) -> JSON | None:
    held = compared["differences"][name] if compared else {"difference": None}
    if held["difference"] is None:
        return None
    gap = held["difference"]
    span = held["interval"]
    if turned:
        gap = -gap
        span = span and [-span[1], -span[0]]
    return {"difference": gap, "interval": span, "p": held.get("p")}
