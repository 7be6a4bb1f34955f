"""The cheapest order of models and a person that holds a promised agreement, found and promised on labelled posts.

Pareto testing (Laufer-Goldshtein, Fisch, Barzilay and Jaakkola, "Efficiently Controlling Multiple Risks with Pareto
Testing", 2023) over Learn then Test (Angelopoulos et al., 2021). One half of the posts, by cluster, chooses: every plan
is tried on it, and those are kept than which no other is both cheaper and surer to hold the promise. They are put in
the order of how sure that is. The other half promises: the plans are tested in this order, each at the whole error,
until one fails (fixed sequence testing); the last that passed is taken. So the chance that a plan is taken that doesn't
hold the promise is at most the error, however many were tried on the half that chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.cascade.stages import (
    MOST,
    CascadePlan,
    CascadeStage,
    PlanOutcome,
    rules_of_stage,
    stage_orders,
    try_order,
    walk_posts,
)
from tribunal.eval.measures.columns import Floats, Ints
from tribunal.eval.measures.fit import first_of_each_cluster, shuffle_rows
from tribunal.eval.measures.risk_control import binomial_p_values, least_posts_needed

OF_ALL, OF_MODELS = "all", "models"
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
                raise BadInput(f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.9")
        if not 0 < self.person_accuracy <= 1:
            raise BadInput(f"person_accuracy: {self.person_accuracy} is no share above 0; give one, such as 0.98")
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
    choosing, promising = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    front = plans_to_test(stages, choosing, promise, costs)
    tested, passed = [], None
    for each in front:
        tested.append(each)
        if p_value_of_plan(each, stages, promising, promise) > error:
            break
        passed = each
    first, second = (np.flatnonzero(np.isin(cluster, cluster[half])) for half in (choosing, promising))
    needed = _posts_needed(front[0] if front else None, stages, choosing, promise, error)
    return CascadeResult(passed, tested, first, second, len(choosing), len(promising), needed)


def plans_to_test(
    stages: Sequence[CascadeStage], rows: Ints, promise: CascadePromise, costs: Sequence[Floats]
) -> list[CascadePlan]:
    """Return the plans to test, the surest first and each cheaper than the one before, by these independent posts."""
    alike = promise.one_threshold
    rules = [rules_of_stage(stage.posts, alike=alike) for stage in stages]
    few = [rules_of_stage(stage.posts, alike=alike, few=True) for stage in stages]
    here, paid = [stage.take_rows(rows) for stage in stages], [cost[rows] for cost in costs]
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
            (float(doubt[at]), float(cost[at]), tried.plan_at(at, tried_rules)) for at in _pareto_front(doubt, cost)
        ]
    chosen = _pareto_front(np.array([each[0] for each in front]), np.array([each[1] for each in front]))
    return [front[at][2] for at in chosen]


def p_value_of_plan(tested: CascadePlan, stages: Sequence[CascadeStage], rows: Ints, promise: CascadePromise) -> float:
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
    surest: CascadePlan | None, stages: Sequence[CascadeStage], rows: Ints, promise: CascadePromise, error: float
) -> PostsNeeded:
    """Return how many posts it takes to show the promise."""
    least = least_posts_needed(1 - promise.agreement, error)
    if surest is None:
        return PostsNeeded(2 * least, None, None)
    lost, counted = promise.count_lost_in(walk_posts(surest, stages, rows))
    seen, share = lost / counted, counted / len(rows)
    likely = None
    if seen < 1 - promise.agreement:
        # Numbers of posts, each a twentieth more than the one before, up to ten millions.
        for posts in (round(least * 1.05**at) for at in range(300) if least * 1.05**at < 1e7):
            wrong = np.array([np.ceil(seen * posts - _ROUNDING)])
            if promise.p_values(wrong, np.zeros(1), posts)[0] <= error:
                likely = int(2 * posts / share)
                break
    return PostsNeeded(int(2 * least / share), likely, seen)
