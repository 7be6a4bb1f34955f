"""A plan of a cascade in figures: what it decides, costs and gets wrong, beside each of its stages alone."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.cascade.plan import CascadePromise, CascadeResult, find_plan, plans_to_test
from tribunal.eval.cascade.stages import ALL, CascadePlan, SharedStages, walk_posts
from tribunal.eval.measures.columns import Bools, Floats, Ints
from tribunal.eval.measures.fit import first_of_each_cluster, shuffle_rows
from tribunal.eval.measures.rates import mean_or_none, rate_interval
from tribunal.eval.measures.risk_control import count_attempt, error_of_attempt, hash_rows
from tribunal.schema import JSON
from tribunal.threshold import counted_as

PLANS = "plans.jsonl"
PEOPLE = "a person"


class PricedPlans:
    """Plans over some of the posts that stages share, in figures."""

    def __init__(self, shared: SharedStages, promise: CascadePromise) -> None:
        """Take the money that asking each stage costs a post; tokens where not every call has a price."""
        self.shared, self.promise = shared, promise
        self.cost_in, self.costs = "money", [stage.money for stage in shared.stages if stage.money is not None]
        if len(self.costs) < len(shared.stages):
            if promise.cost_person is not None:
                without = next(stage.name for stage in shared.stages if stage.money is None)
                raise BadInput(
                    f"cost_person: is in the unit of the prices, and not every call of {without} has one; give "
                    "--prices FILE, or leave the cost of a person out"
                )
            self.cost_in, self.costs = "tokens", [stage.tokens for stage in shared.stages]

    def figures_of(self, shown: CascadePlan, rows: Ints, name: str | None = None) -> JSON:
        """Return the figures of a plan over these posts."""
        stages = [self.shared.stages[number].take_rows(rows) for number in shown.order]
        walked = walk_posts(shown, self.shared.stages, rows)
        left, accuracy, posts = ~walked.decided_posts, self.promise.person_accuracy, max(1, len(rows))
        right = walked.decided_posts & ~walked.wrong
        agreed = right + accuracy * left
        calls, tokens, models = (
            sum(float(each[reached].sum()) for each, reached in zip(column, walked.reached, strict=True))
            for column in (
                [stage.calls for stage in stages],
                [stage.tokens for stage in stages],
                [self.costs[number][rows] for number in shown.order],
            )
        )
        person = self.promise.cost_person
        cluster = np.unique(self.shared.cluster[rows], return_inverse=True)[1]

        def share_and_interval(name: str, hits: Floats | Bools, among: Bools) -> JSON:
            interval = rate_interval(np.bincount(cluster, hits * among), np.bincount(cluster, among))
            return {name: mean_or_none(hits[among]), f"{name}_interval": interval}

        return {
            "name": name or " → ".join([*(stage.name for stage in stages), PEOPLE]),
            "stages": [
                {
                    "run": stage.name,
                    **rule._asdict(),
                    "reached": float(reached.mean()),
                    "decided": float((walked.by == at).mean()),
                }
                for at, (stage, rule, reached) in enumerate(zip(stages, shown.rules, walked.reached, strict=True))
            ],
            "decided": float(walked.decided_posts.mean()),
            "people": float(left.mean()),
            "calls": calls / posts,
            "tokens": tokens / posts,
            "money": models / posts if self.cost_in == "money" else None,
            "with_people": None if person is None else (models + person * int(left.sum())) / posts,
            **share_and_interval("agreement", agreed, np.ones(len(rows), dtype=bool)),
            **share_and_interval("agreement_of_models", right, walked.decided_posts),
            **share_and_interval("missed_hate", walked.missed_hate, walked.decided_posts & ~walked.hateful),
            **share_and_interval("false_alarms", walked.false_alarms, walked.decided_posts & walked.hateful),
        }


def plan_cascade(shared: SharedStages, promise: CascadePromise) -> JSON:
    """Return the cheapest cascade of these stages that is shown to hold a promise, as `cascade plan --json` prints it.

    docs/cascade.md names what it holds. That it was tried is written down beside the results of each run
    (`plans.jsonl`), and each further try is tested more strictly (`tribunal.eval.measures.risk_control`). Figures are
    of the posts that promise; of those that choose where there is no plan, so that no further try can be made to suit
    the others.

    Raises:
        BadInput: there are too few posts, a person's cost is given where no money is known, or the try can't be
            counted.
    """
    if shared.by["n"] < 2:
        few = counted_as(len(shared.ids), shared.by)
        raise BadInput(f"{shared.folders[0]}: {few}: too few to plan by; give more labelled posts")
    priced = PricedPlans(shared, promise)
    attempt = _count_attempt(priced)
    error = error_of_attempt(attempt, promise.level)
    result = find_plan(shared.stages, shared.ids, shared.cluster, promise, priced.costs, error)
    rows = result.choosing if result.plan is None else result.promising
    beside = _single_stage_plans(result, priced)
    beside += [(CascadePlan((number,), (ALL,)), f"{stage.name} for all") for number, stage in enumerate(shared.stages)]
    beside.append((CascadePlan((), ()), f"{PEOPLE} for all"))
    return {
        "promise": {**asdict(promise), "attempt": attempt, "error": error},
        "runs": [stage.name for stage in shared.stages],
        "scheme": shared.scheme,
        "posts": len(shared.ids),
        "left_out": shared.left_out,
        "clusters": shared.by,
        "chosen_on": {"posts": len(result.choosing), "clusters": result.chosen_on},
        "promised_on": {"posts": len(result.promising), "clusters": result.promised_on},
        "tested": len(result.tested),
        "cost_in": priced.cost_in,
        "figures_of": "chosen_on" if result.plan is None else "promised_on",
        "plan": None if result.plan is None else priced.figures_of(result.plan, rows),
        "needed": result.needed._asdict(),
        "beside": [priced.figures_of(plan, rows, name) for plan, name in beside],
        "warnings": list(shared.warnings),
    }


def _single_stage_plans(result: CascadeResult, priced: PricedPlans) -> list[tuple[CascadePlan, str]]:
    """Return each stage's cheapest plan alone that keeps the agreement on the posts that choose, if one does."""
    shared, promise = priced.shared, priced.promise
    drawn = first_of_each_cluster(shuffle_rows(shared.ids), shared.cluster)
    rows = np.intersect1d(drawn, result.choosing)
    plans = []
    for number, stage in enumerate(shared.stages if len(shared.stages) > 1 else ()):
        front = plans_to_test([stage], rows, promise, [priced.costs[number]])
        if holding := [each for each in front if promise.holds_on(each, [stage], rows)]:
            plan = CascadePlan((number,), holding[-1].rules)
            if plan != result.plan:
                plans.append((plan, f"{stage.name} alone → {PEOPLE}"))
    return plans


def _count_attempt(priced: PricedPlans) -> int:
    """Write down in each folder that this was tried, and return which try it is."""
    shared = priced.shared
    request: JSON = {
        "runs": sorted(stage.name for stage in shared.stages),
        **asdict(priced.promise),
        "cost_in": priced.cost_in,
        "cluster": shared.by["by"],
    }
    columns = [shared.ids, shared.cluster.tolist()]
    for stage, cost in sorted(zip(shared.stages, priced.costs, strict=True), key=lambda each: each[0].name):
        posts = stage.posts
        columns.append([None if value != value else value for value in posts.confidence.tolist()])
        columns += [each.tolist() for each in (posts.decided, posts.hateful, posts.wrong, stage.hate, cost)]
    data = hash_rows(map(list, zip(*columns, strict=True)))
    return max(count_attempt(folder / PLANS, request, data) for folder in shared.folders)
