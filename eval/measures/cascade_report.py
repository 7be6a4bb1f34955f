"""A plan of a cascade as it is told: what it decides, costs and gets wrong, beside each of its stages alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.cascade import Found, Promise, chosen, plan
from tribunal.eval.measures.cascade_search import ALL, Plan, walk
from tribunal.eval.measures.cascade_stages import Stages, read_stages
from tribunal.eval.measures.fit import one_a_cluster, shuffled
from tribunal.eval.measures.rates import rate_interval
from tribunal.eval.measures.tries import counted, hash_of, spent_by
from tribunal.threshold import counted_as

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints
    from tribunal.eval.runs.prices import Prices
    from tribunal.schema import JSON

PLANS = "plans.jsonl"
PEOPLE = "a person"


class Costs(NamedTuple):
    """What asking each stage costs, a post; in money, or in tokens where not every call has a price."""

    unit: str
    of: list[Floats]


def planned(
    folders: Sequence[Path],
    promise: Promise,
    *,
    prices: Prices | None = None,
    cluster: str | None = None,
    first_look: Path | None = None,
    data: Path | None = None,
) -> JSON:
    """The cheapest cascade of these runs that is shown to hold a promise, as `tribunal cascade plan --json` prints it.

    That it was tried is written down beside the results of each run (`plans.jsonl`), and each further try is tested
    more strictly (`tribunal.eval.measures.tries`).

    Args:
        folders: of the runs, a stage each.
        promise: what is to hold.
        prices: what calls cost; None takes for each run those that lie beside its results.
        cluster: the field by which posts belong together.
        first_look: the folder of a fitted first look, which is a stage as well.
        data: the files of the runs' data set, where a first look is to see its texts and results hold none.

    Returns:
        docs/cascade.md names what it holds. Figures are of the posts that promise; of those that choose where there is
        no plan, so that no further try can be chosen to suit the others.

    Raises:
        BadInput: as `read_stages`; a person's cost is given where no money is known; or the try can't be counted.
    """
    held = read_stages(folders, prices=prices, cluster=cluster, first_look=first_look, data=data)
    if held.by["n"] < 2:
        raise BadInput(
            f"{folders[0]}: {counted_as(len(held.ids), held.by)}: too few to plan by; give more labelled posts"
        )
    costs = _costs(held, promise)
    attempt = _attempt(folders, held, promise, costs)
    error = spent_by(attempt, promise.level)
    found = plan(held.stages, held.ids, held.cluster, promise, costs.of, error)
    rows = found.choosing if found.plan is None else found.promising
    names = [stage.name for stage in held.stages]
    shown = _Shown(held, promise, costs, rows)
    return {
        "promise": {
            **_promised(promise),
            "attempt": attempt,
            "error": error,
        },
        "runs": names,
        "scheme": held.scheme,
        "posts": len(held.ids),
        "left_out": held.left_out,
        "fitted_on": held.fitted_on,
        "clusters": held.by,
        "chosen_on": {"posts": len(found.choosing), "clusters": found.chosen_on},
        "promised_on": {"posts": len(found.promising), "clusters": found.promised_on},
        "tested": len(found.tested),
        "cost_in": costs.unit,
        "figures_of": "chosen_on" if found.plan is None else "promised_on",
        "plan": None if found.plan is None else shown.row(found.plan),
        "needed": found.needed._asdict(),
        "beside": [*_single(found, held, promise, costs, shown), *_for_all(held, shown)],
        "warnings": list(held.warnings),
    }


def _single(found: Found, held: Stages, promise: Promise, costs: Costs, shown: _Shown) -> list[JSON]:
    """Of each stage the cheapest plan of it alone that keeps the agreement on the posts that choose, if one does."""
    if len(held.stages) == 1:
        return []
    drawn = one_a_cluster(shuffled(held.ids), held.cluster)
    rows = np.intersect1d(drawn, found.choosing)
    kept = []
    for number, stage in enumerate(held.stages):
        front = chosen([stage], rows, promise, [costs.of[number]])
        if holding := [each for each in front if promise.holds_on(each, [stage], rows)]:
            kept.append(Plan((number,), holding[-1].rules))
    return [
        shown.row(each, f"{held.stages[each.order[0]].name} alone → {PEOPLE}") for each in kept if each != found.plan
    ]


def _for_all(held: Stages, shown: _Shown) -> list[JSON]:
    """Every verdict of a stage taken, however sure it is; and people alone."""
    asked = [(number, stage.name) for number, stage in enumerate(held.stages) if not stage.first]
    rows = [shown.row(Plan((number,), (ALL,)), f"{name} for all") for number, name in asked]
    return [*rows, shown.row(Plan((), ()), f"{PEOPLE} for all")]


def _costs(held: Stages, promise: Promise) -> Costs:
    money = [stage.money for stage in held.stages if stage.money is not None]
    if len(money) == len(held.stages):
        return Costs("money", money)
    if promise.cost_person is not None:
        without = next(stage.name for stage in held.stages if stage.money is None)
        raise BadInput(
            f"cost_person: is in the unit of the prices, and not every call of {without} has one; give --prices FILE, "
            "or leave the cost of a person out"
        )
    return Costs("tokens", [stage.tokens for stage in held.stages])


def _promised(promise: Promise) -> JSON:
    """A promise by the names of the options."""
    return {
        "agreement": promise.agreement,
        "level": promise.level,
        "of": promise.of,
        "person_accuracy": promise.person_accuracy,
        "cost_person": promise.cost_person,
        "one_threshold": promise.alike,
    }


def _attempt(folders: Sequence[Path], held: Stages, promise: Promise, costs: Costs) -> int:
    asked: JSON = {
        "runs": sorted(stage.name for stage in held.stages),
        **_promised(promise),
        "cost_in": costs.unit,
        "cluster": held.by["by"],
    }
    columns = [held.ids, held.cluster.tolist()]
    for stage, cost in sorted(zip(held.stages, costs.of, strict=True), key=lambda each: each[0].name):
        posts = stage.posts
        confidence = [None if value != value else value for value in posts.confidence.tolist()]
        rest = (posts.decided, posts.hateful, posts.wrong, stage.hate, cost)
        columns += [confidence, *(each.tolist() for each in rest)]
    data = hash_of(map(list, zip(*columns, strict=True)))
    return max(counted(folder / PLANS, asked, data) for folder in folders)


class _Shown:
    """Plans over the posts that figures are of."""

    def __init__(self, held: Stages, promise: Promise, costs: Costs, rows: Ints) -> None:
        self._stages = [stage.taken(rows) for stage in held.stages]
        self._costs = [cost[rows] for cost in costs.of]
        self._cluster = np.unique(held.cluster[rows], return_inverse=True)[1]
        self._promise, self._priced = promise, costs.unit == "money"
        self._posts = len(rows)

    def row(self, shown: Plan, name: str | None = None) -> JSON:
        """A plan in figures."""
        walked, posts = walk(shown, self._stages), max(1, self._posts)
        left = walked.by < 0
        names = [self._stages[number].name for number in shown.order]
        accuracy = self._promise.person_accuracy
        decided, right = ~left, ~left & ~walked.wrong
        calls, tokens, models = (
            sum(float(each[number][reached].sum()) for number, reached in zip(shown.order, walked.reached, strict=True))
            for each in (
                [stage.calls for stage in self._stages], [stage.tokens for stage in self._stages], self._costs,
            )
        )  # fmt: skip
        people = None if self._promise.cost_person is None else self._promise.cost_person * int(left.sum())
        return {
            "name": name or " → ".join([*names, PEOPLE]),
            "stages": [
                {
                    "run": self._stages[number].name,
                    "first": self._stages[number].first,
                    **rule.dump(),
                    "reached": float(reached.mean()),
                    "decided": float((walked.by == at).mean()),
                }
                for at, (number, rule, reached) in enumerate(zip(shown.order, shown.rules, walked.reached, strict=True))
            ],
            "decided": float(decided.mean()),
            "people": float(left.mean()),
            "calls": calls / posts,
            "tokens": tokens / posts,
            "money": models / posts if self._priced else None,
            "with_people": None if people is None else (models + people) / posts,
            "agreement": float((right + accuracy * left).mean()),
            "agreement_interval": self._interval(right + accuracy * left, np.ones(self._posts, dtype=bool)),
            **self._share("agreement_of_models", right, decided),
            **self._share("missed_hate", walked.missed, decided & ~walked.hateful),
            **self._share("false_alarms", walked.alarmed, decided & walked.hateful),
        }

    def _share(self, name: str, hits: Bools, among: Bools) -> JSON:
        share = float(hits[among].mean()) if among.any() else None
        return {name: share, f"{name}_interval": self._interval(hits & among, among)}

    def _interval(self, hits: Floats | Bools, among: Bools) -> list[float] | None:
        return rate_interval(np.bincount(self._cluster, hits), np.bincount(self._cluster, among))
