"""The plan of a cascade, and the report of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.cascade.search import (
    ALL,
    MOST,
    CascadePlan,
    CascadeStage,
    PlanOutcome,
    SharedStages,
    rules_of_stage,
    stage_orders,
    try_order,
    walk_posts,
)
from tribunal.eval.measures.columns import Bools, Floats, Ints
from tribunal.eval.measures.fit import first_of_each_cluster, shuffle_rows
from tribunal.eval.measures.rates import mean_or_none, rate_interval
from tribunal.eval.measures.risk_control import (
    binomial_p_values,
    count_attempt,
    error_of_attempt,
    hash_rows,
    least_posts_needed,
)
from tribunal.nodes.threshold import counted_as
from tribunal.schema import JSON

OF_ALL = "all"
OF_MODELS = "models"
_STEP = 0.01  # by which share a plan is cheaper than the one that is tested before it, at least
_ROUNDING = 1e-9
_PRIOR = 1 / 4  # of the bound: how often a model is taken to be wrong beside what is seen


@dataclass(frozen=True)
class CascadePromise:
    """The promise of a plan.

    Attributes:
        agreement: at least this share agrees with the gold.
        level: how sure that is.
        of: `all` posts, those that people decide among them; or those that `models` decide.
        person_accuracy: the share of posts that a person decides as the gold.
        one_threshold: each stage has one threshold for both verdicts.
        cost_person: what a person costs a post, in the unit of the models' costs. None takes for the cheapest the plan
            with the fewest posts for people, and of these the one with the cheapest models.

    Raises:
        BadInput: one is out of range.
    """

    agreement: float = 0.95
    level: float = 0.9
    of: str = OF_ALL
    person_accuracy: float = 1.0
    cost_person: float | None = None
    one_threshold: bool = False

    def __post_init__(self) -> None:
        """Check that every value is in range."""
        for name in ("agreement", "level"):
            if not 0 < (value := getattr(self, name)) < 1:
                raise BadInput(
                    f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.9"
                )
        if not 0 < self.person_accuracy <= 1:
            raise BadInput(
                f"person_accuracy: {self.person_accuracy} is no share above 0; give one, such as 0.98"
            )
        if self.cost_person is not None and not 0 <= self.cost_person < np.inf:
            raise BadInput(f"cost_person: {self.cost_person} is no cost; give 0 or more")

    def p_values(self, wrong: Floats, left: Floats, posts: int) -> Floats:
        """Return, for each plan, the p-value that the promise is broken.

        `wrong` and `left` are how many of so many independent posts it decides wrong and leaves to people. Exact
        (binomial) where each post is right or wrong; of people who are right in a share of their posts, by Hoeffding
        and Bentkus (as in Learn then Test).
        """
        bound = 1 - self.agreement
        lost, counted = self.count_lost(wrong, left, posts)
        if self.of == OF_MODELS or self.person_accuracy == 1:
            return binomial_p_values(counted, lost, bound)
        return _bentkus_p_value(lost, posts, bound)

    def doubt_of_plans(self, wrong: Floats, left: Floats, posts: int) -> Floats:
        """Return how far plans are from the bound on the half that chooses, to order them by.

        Each post that a model decides counts as a little wrong, since of many plans the best by chance is better here
        than elsewhere; so those that leave more to people are surer.
        """
        bound = 1 - self.agreement
        lost, counted = self.count_lost(wrong + _PRIOR * bound * (posts - left), left, posts)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = (lost - bound * counted) / np.sqrt(counted)
        return np.where(counted > 0, found, np.inf)

    def count_lost(self, wrong: Floats, left: Floats, posts: int) -> tuple[Floats, Floats]:
        """Return, for each plan, how many posts are wrong, and of how many that is counted."""
        if self.of == OF_MODELS:
            return wrong, posts - left
        return wrong + (1 - self.person_accuracy) * left, np.full_like(left, posts)

    def count_lost_in(self, walked: PlanOutcome) -> tuple[float, float]:
        """Return how many posts of an outcome are wrong, and of how many that is counted."""
        lost, counted = self.count_lost(*_wrong_and_left(walked), len(walked.by))
        return float(lost[0]), float(counted[0])

    def holds_on(self, tried: CascadePlan, stages: Sequence[CascadeStage], rows: Ints) -> bool:
        """Return whether a plan keeps the agreement on just these posts, which promises nothing of others."""
        lost, counted = self.count_lost_in(walk_posts(tried, stages, rows))
        return counted > 0 and lost <= (1 - self.agreement) * counted + _ROUNDING


def _wrong_and_left(walked: PlanOutcome) -> tuple[Floats, Floats]:
    return np.array([float(walked.wrong.sum())]), np.array([float((~walked.decided_posts).sum())])


class PostsNeeded(NamedTuple):
    """Hold how many labelled posts a promise takes, in all, each a cluster of its own.

    `least`: where no verdict were wrong. `likely`: where as many were wrong as of the surest plan on the half that
    chooses; None where no number would do. `seen` is that share; None where no plan decides anything.
    """

    least: int
    likely: int | None
    seen: float | None


class CascadeResult(NamedTuple):
    """The result of planning: the plan, if any; the plans that were tested; and which rows chose and which promise."""

    plan: CascadePlan | None
    tested: list[CascadePlan]
    choosing: Ints  # rows of every cluster of that half
    promising: Ints
    chosen_on: int  # clusters, of each of which one post counts
    promised_on: int
    needed: PostsNeeded


def find_plan(
    stages: Sequence[CascadeStage],
    ids: Sequence[str],
    cluster: Ints,
    promise: CascadePromise,
    costs: Sequence[Floats],
    error: float,
) -> CascadeResult:
    """Return the cheapest plan that is shown to hold a promise; at most `error` is the chance that it doesn't hold it.

    Rows are the same in all stages: posts with these ids, in clusters of these numbers. `costs` has for each stage what
    asking it about each post costs.
    """
    drawn = first_of_each_cluster(shuffle_rows(ids), cluster)
    drawn = drawn[np.random.default_rng(1).permutation(len(drawn))]
    choosing = drawn[: len(drawn) // 2]
    promising = drawn[len(drawn) // 2 :]
    front = plans_to_test(stages, choosing, promise, costs)
    tested = []
    passed = None
    for each in front:
        tested.append(each)
        if p_value_of_plan(each, stages, promising, promise) > error:
            break
        passed = each
    first, second = (
        np.flatnonzero(np.isin(cluster, cluster[half])) for half in (choosing, promising)
    )
    needed = _posts_needed(front[0] if front else None, stages, choosing, promise, error)
    return CascadeResult(passed, tested, first, second, len(choosing), len(promising), needed)


def plans_to_test(
    stages: Sequence[CascadeStage], rows: Ints, promise: CascadePromise, costs: Sequence[Floats]
) -> list[CascadePlan]:
    """Return the plans to test, the surest first and each cheaper than the one before, by these independent posts."""
    alike = promise.one_threshold
    rules = [rules_of_stage(stage.posts, alike=alike) for stage in stages]
    few = [rules_of_stage(stage.posts, alike=alike, few=True) for stage in stages]
    here = [stage.take_rows(rows) for stage in stages]
    paid = [cost[rows] for cost in costs]
    person = promise.cost_person
    if person is None:  # more than all models together
        person = 1 + sum(float(cost.sum()) for cost in paid)
    front: list[tuple[float, float, CascadePlan]] = []
    for order in stage_orders(len(stages)):
        tried_rules = rules if prod(len(rules[number]) for number in order) <= MOST else few
        tried = try_order(order, here, tried_rules, paid)
        doubt = promise.doubt_of_plans(tried.wrong, tried.left, len(rows))
        cost = tried.cost + person * tried.left
        front += [
            (float(doubt[at]), float(cost[at]), tried.plan_at(at, tried_rules))
            for at in _pareto_front(doubt, cost)
        ]
    chosen = _pareto_front(
        np.array([each[0] for each in front]), np.array([each[1] for each in front])
    )
    return [front[at][2] for at in chosen]


def p_value_of_plan(
    tested: CascadePlan, stages: Sequence[CascadeStage], rows: Ints, promise: CascadePromise
) -> float:
    """Return the p-value that a plan doesn't hold the promise, by independent posts."""
    walked = walk_posts(tested, stages, rows)
    return float(promise.p_values(*_wrong_and_left(walked), len(rows))[0])


def _pareto_front(doubt: Floats, cost: Floats) -> list[int]:
    """Return, by rising doubt, the plans that are cheaper than every surer one, by a step at least."""
    if not len(doubt):
        return []
    order = np.lexsort((np.arange(len(doubt)), cost, doubt))
    lowest = np.minimum.accumulate(cost[order])
    candidates = order[np.concatenate([[True], lowest[1:] < lowest[:-1]])]
    chosen = [int(candidates[0])]
    for at in candidates[1:].tolist():
        if cost[at] <= cost[chosen[-1]] * (1 - _STEP):
            chosen.append(at)
    return chosen


def _bentkus_p_value(lost: Floats, posts: int, bound: float) -> Floats:
    """Return the Hoeffding–Bentkus p-value of losses between 0 and 1, by their sum."""
    from scipy.special import rel_entr
    from scipy.stats import binom

    if not posts:
        return np.ones_like(lost)
    mean = np.minimum(lost / posts, bound)
    hoeffding = np.exp(-posts * (rel_entr(mean, bound) + rel_entr(1 - mean, 1 - bound)))
    bentkus = np.e * binom.cdf(np.ceil(lost - _ROUNDING), posts, bound)
    p_values: Floats = np.minimum(1.0, np.minimum(hoeffding, bentkus))
    return p_values


def _posts_needed(
    surest: CascadePlan | None,
    stages: Sequence[CascadeStage],
    rows: Ints,
    promise: CascadePromise,
    error: float,
) -> PostsNeeded:
    """Return how many posts it takes to show the promise."""
    least = least_posts_needed(1 - promise.agreement, error)
    if surest is None:
        return PostsNeeded(2 * least, None, None)
    lost, counted = promise.count_lost_in(walk_posts(surest, stages, rows))
    seen = lost / counted
    share = counted / len(rows)
    likely = None
    if seen < 1 - promise.agreement:
        # Numbers of posts, each a twentieth more than the one before, up to ten millions.
        for posts in (round(least * 1.05**at) for at in range(300) if least * 1.05**at < 1e7):
            wrong = np.array([np.ceil(seen * posts - _ROUNDING)])
            if promise.p_values(wrong, np.zeros(1), posts)[0] <= error:
                likely = int(2 * posts / share)
                break
    return PostsNeeded(int(2 * least / share), likely, seen)


PLANS = "plans.jsonl"
PEOPLE = "a person"


class PricedPlans:
    """Plans over some of the posts that stages share, in figures."""

    def __init__(self, shared: SharedStages, promise: CascadePromise) -> None:
        """Take the money that asking each stage costs a post; tokens where not every call has a price."""
        self.shared = shared
        self.promise = promise
        self.cost_in = "money"
        self.costs = [stage.money for stage in shared.stages if stage.money is not None]
        if len(self.costs) < len(shared.stages):
            if promise.cost_person is not None:
                without = next(stage.name for stage in shared.stages if stage.money is None)
                raise BadInput(
                    f"cost_person: is in the unit of the prices, and not every call of {without} has one; give "
                    "--prices FILE, or leave the cost of a person out"
                )
            self.cost_in = "tokens"
            self.costs = [stage.tokens for stage in shared.stages]

    def figures_of(self, shown: CascadePlan, rows: Ints, name: str | None = None) -> JSON:
        """Return the figures of a plan over these posts."""
        stages = [self.shared.stages[number].take_rows(rows) for number in shown.order]
        walked = walk_posts(shown, self.shared.stages, rows)
        left = ~walked.decided_posts
        accuracy = self.promise.person_accuracy
        posts = max(1, len(rows))
        right = walked.decided_posts & ~walked.wrong
        agreed = right + accuracy * left
        calls, tokens, models = (
            sum(
                float(each[reached].sum())
                for each, reached in zip(column, walked.reached, strict=True)
            )
            for column in (
                [stage.calls for stage in stages],
                [stage.tokens for stage in stages],
                [self.costs[number][rows] for number in shown.order],
            )
        )
        person = self.promise.cost_person
        cluster = np.unique(self.shared.cluster[rows], return_inverse=True)[1]

        def share_and_interval(name: str, hits: Floats | Bools, among: Bools) -> JSON:
            interval = rate_interval(
                np.bincount(cluster, hits * among), np.bincount(cluster, among)
            )
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
                for at, (stage, rule, reached) in enumerate(
                    zip(stages, shown.rules, walked.reached, strict=True)
                )
            ],
            "decided": float(walked.decided_posts.mean()),
            "people": float(left.mean()),
            "calls": calls / posts,
            "tokens": tokens / posts,
            "money": models / posts if self.cost_in == "money" else None,
            "with_people": None if person is None else (models + person * int(left.sum())) / posts,
            **share_and_interval("agreement", agreed, np.ones(len(rows), dtype=bool)),
            **share_and_interval("agreement_of_models", right, walked.decided_posts),
            **share_and_interval(
                "missed_hate", walked.missed_hate, walked.decided_posts & ~walked.hateful
            ),
            **share_and_interval(
                "false_alarms", walked.false_alarms, walked.decided_posts & walked.hateful
            ),
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
    beside += [
        (CascadePlan((number,), (ALL,)), f"{stage.name} for all")
        for number, stage in enumerate(shared.stages)
    ]
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


def _single_stage_plans(
    result: CascadeResult, priced: PricedPlans
) -> list[tuple[CascadePlan, str]]:
    """Return each stage's cheapest plan alone that keeps the agreement on the posts that choose, if one does."""
    shared = priced.shared
    promise = priced.promise
    drawn = first_of_each_cluster(shuffle_rows(shared.ids), shared.cluster)
    rows = np.intersect1d(drawn, result.choosing)
    plans = []
    for number, stage in enumerate(shared.stages if len(shared.stages) > 1 else ()):
        front = plans_to_test([stage], rows, promise, [priced.costs[number]])
        holding = [each for each in front if promise.holds_on(each, [stage], rows)]
        if holding:
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
    for stage, cost in sorted(
        zip(shared.stages, priced.costs, strict=True), key=lambda each: each[0].name
    ):
        posts = stage.posts
        columns.append([None if value != value else value for value in posts.confidence.tolist()])
        columns += [
            each.tolist() for each in (posts.decided, posts.hateful, posts.wrong, stage.hate, cost)
        ]
    data = hash_rows(map(list, zip(*columns, strict=True)))
    return max(count_attempt(folder / PLANS, request, data) for folder in shared.folders)
