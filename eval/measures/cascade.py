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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.errors import BadInput
from tribunal.eval.measures.cascade_search import MOST, Plan, Walked, orders, rules_of, tried, walk
from tribunal.eval.measures.fit import one_a_cluster, shuffled
from tribunal.eval.measures.sequence import least

if TYPE_CHECKING:
    from tribunal.eval.measures.cascade_stages import Stage
    from tribunal.eval.measures.columns import Floats, Ints

OF_ALL, OF_MODELS = "all", "models"
_STEP = 0.01  # by which share a plan is cheaper than the one that is tested before it, at least
_ROUNDING = 1e-9
_PRIOR = 1 / 4  # of the bound: how often a model is taken to be wrong beside what is seen


@dataclass(frozen=True)
class Promise:
    """What a plan is to hold.

    Attributes:
        agreement: at least this share agrees with the gold.
        level: how sure that is.
        of: `all` posts, those that people decide among them; or those that `models` decide.
        person_accuracy: the share of posts that a person decides as the gold.
        alike: each stage has one threshold for both verdicts.
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
    alike: bool = False

    def __post_init__(self) -> None:
        for name in ("agreement", "level"):
            if not 0 < (value := getattr(self, name)) < 1:
                raise BadInput(f"{name}: {value} is not between 0 and 1; give a fraction, such as 0.9")
        if not 0 < self.person_accuracy <= 1:
            raise BadInput(f"person_accuracy: {self.person_accuracy} is no share above 0; give one, such as 0.98")
        if self.cost_person is not None and not 0 <= self.cost_person < np.inf:
            raise BadInput(f"cost_person: {self.cost_person} is no cost; give 0 or more")

    def p_values(self, wrong: Floats, left: Floats, posts: int) -> Floats:
        """Of plans, by how many of so many independent posts they decide wrong and leave: that the promise is broken.

        Exact (binomial) where each post is right or wrong; of people who are right in a share of their posts, by
        Hoeffding and Bentkus (as in Learn then Test).
        """
        if self.of == OF_MODELS:
            return _exact(wrong, posts - left, 1 - self.agreement)
        if self.person_accuracy == 1:
            return _exact(wrong, np.full_like(wrong, posts), 1 - self.agreement)
        return _bounded(wrong + (1 - self.person_accuracy) * left, posts, 1 - self.agreement)

    def doubt(self, wrong: Floats, left: Floats, posts: int) -> Floats:
        """How little the half that chooses speaks for plans, to put them in order: by how far they are from the bound.

        Each post that a model decides counts as a little wrong, since of many plans the best by chance is better here
        than elsewhere; so those that leave more to people are surer.
        """
        bound, decided = 1 - self.agreement, posts - left
        lost = wrong + _PRIOR * bound * decided
        if self.of == OF_ALL:
            lost = lost + (1 - self.person_accuracy) * left
        counted = decided if self.of == OF_MODELS else np.full_like(decided, posts)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = (lost - bound * counted) / np.sqrt(counted)
        return np.where(counted > 0, found, np.inf)

    def holds_on(self, tried: Plan, stages: Sequence[Stage], rows: Ints) -> bool:
        """Whether a plan keeps the agreement on just these posts, which promises nothing of others."""
        lost, counted = self.lost(walk(tried, [stage.taken(rows) for stage in stages]))
        return counted > 0 and lost <= (1 - self.agreement) * counted + _ROUNDING

    def lost(self, walked: Walked) -> tuple[float, float]:
        """How many posts are wrong, and of how many that is counted."""
        wrong, left = float(walked.wrong.sum()), float((walked.by < 0).sum())
        if self.of == OF_MODELS:
            return wrong, len(walked.by) - left
        return wrong + (1 - self.person_accuracy) * left, float(len(walked.by))


class Found(NamedTuple):
    """What was found: the plan, if any; the plans that were tested; and which rows chose and which promise."""

    plan: Plan | None
    tested: list[Plan]
    surest: Plan | None  # of the half that chooses
    choosing: Ints  # rows of every cluster of that half
    promising: Ints
    chosen_on: int  # clusters, of each of which one post counts
    promised_on: int
    needed: Needed


class Needed(NamedTuple):
    """How many labelled posts a promise takes, in all, each a cluster of its own.

    `least`: where no verdict were wrong. `likely`: where as many were wrong as of the surest plan on the half that
    chooses; None where no number would do. `seen` is that share; None where no plan decides anything.
    """

    least: int
    likely: int | None
    seen: float | None


def plan(
    stages: Sequence[Stage], ids: Sequence[str], cluster: Ints, promise: Promise, costs: Sequence[Floats], error: float
) -> Found:
    """The cheapest plan that is shown to hold a promise.

    Args:
        stages: what each says of each post; rows are the same in all.
        ids: of the posts.
        cluster: the number of each post's cluster.
        promise: what is to hold.
        costs: of each stage what asking it about each post costs.
        error: the chance that the plan doesn't hold it, at most.
    """
    drawn = one_a_cluster(shuffled(ids), cluster)
    drawn = drawn[np.random.default_rng(1).permutation(len(drawn))]
    halves = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    choosing, promising = halves
    front = chosen(stages, choosing, promise, costs)
    tested, passed = [], None
    for each in front:
        tested.append(each)
        if p_value(each, stages, promising, promise) > error:
            break
        passed = each
    whole = [np.flatnonzero(np.isin(cluster, cluster[half])) for half in halves]
    surest = front[0] if front else None
    needed = _needed(surest, stages, choosing, promise, error)
    return Found(passed, tested, surest, whole[0], whole[1], len(choosing), len(promising), needed)


def chosen(stages: Sequence[Stage], rows: Ints, promise: Promise, costs: Sequence[Floats]) -> list[Plan]:
    """The plans to test, the surest first and each cheaper than the one before, by these posts.

    Args:
        stages: as `plan`.
        rows: independent posts.
        promise: as `plan`.
        costs: as `plan`.
    """
    alike = [promise.alike or stage.first for stage in stages]
    rules = [rules_of(stage.posts, alike=each) for stage, each in zip(stages, alike, strict=True)]
    few = [rules_of(stage.posts, alike=each, few=True) for stage, each in zip(stages, alike, strict=True)]
    here, paid = [stage.taken(rows) for stage in stages], [cost[rows] for cost in costs]
    person = promise.cost_person
    if person is None:  # more than all models together
        person = 1 + sum(float(cost.sum()) for cost in paid)
    front: list[tuple[float, float, Plan]] = []
    for order in orders(len(stages)):
        if any(stages[number].first for number in order[1:]):
            continue
        held = rules if prod(len(rules[number]) for number in order) <= MOST else few
        made = tried(order, here, held, paid)
        doubt = promise.doubt(made.wrong, made.left, len(rows))
        cost = made.cost + person * made.left
        front += [(float(doubt[at]), float(cost[at]), made.plan(at, held)) for at in _front(doubt, cost)]
    kept = _front(np.array([each[0] for each in front]), np.array([each[1] for each in front]))
    return [front[at][2] for at in kept]


def p_value(tested: Plan, stages: Sequence[Stage], rows: Ints, promise: Promise) -> float:
    """That a plan doesn't hold the promise, by independent posts."""
    walked = walk(tested, [stage.taken(rows) for stage in stages])
    wrong, left = float(walked.wrong.sum()), float((walked.by < 0).sum())
    return float(promise.p_values(np.array([wrong]), np.array([left]), len(rows))[0])


def _front(doubt: Floats, cost: Floats) -> list[int]:
    """By rising doubt those that are cheaper than every surer one, by a step at least."""
    if not len(doubt):
        return []
    order = np.lexsort((np.arange(len(doubt)), cost, doubt))
    lowest = np.minimum.accumulate(cost[order])
    candidates = order[np.concatenate([[True], lowest[1:] < lowest[:-1]])]
    kept = [int(candidates[0])]
    for at in candidates[1:].tolist():
        if cost[at] <= cost[kept[-1]] * (1 - _STEP):
            kept.append(at)
    return kept


def _exact(wrong: Floats, among: Floats, bound: float) -> Floats:
    """Of so many wrong ones, that more than a share is. Of nothing, nothing is shown."""
    from scipy.stats import binom

    pairs, place = np.unique(np.stack([wrong, among]), axis=1, return_inverse=True)
    p = np.where(pairs[1] > 0, binom.cdf(pairs[0], np.maximum(pairs[1], 1), bound), 1.0)
    found: Floats = p[place.ravel()]
    return found


def _bounded(lost: Floats, posts: int, bound: float) -> Floats:
    """The same of losses between 0 and 1, by their sum."""
    from scipy.special import rel_entr
    from scipy.stats import binom

    if not posts:
        return np.ones_like(lost)
    sums, place = np.unique(lost, return_inverse=True)
    mean = np.minimum(sums / posts, bound)
    hoeffding = np.exp(-posts * (rel_entr(mean, bound) + rel_entr(1 - mean, 1 - bound)))
    bentkus = np.e * binom.cdf(np.ceil(sums - _ROUNDING), posts, bound)
    found: Floats = np.minimum(1.0, np.minimum(hoeffding, bentkus))[place.ravel()]
    return found


def _needed(surest: Plan | None, stages: Sequence[Stage], rows: Ints, promise: Promise, error: float) -> Needed:
    bound = 1 - promise.agreement
    without = least(bound, error)
    if surest is None:
        return Needed(2 * without, None, None)
    walked = walk(surest, [stage.taken(rows) for stage in stages])
    lost, counted = promise.lost(walked)
    seen, share = lost / counted, counted / len(rows)
    likely = next((n for n in _sizes(without) if _would_do(seen, n, promise, error)), None) if seen < bound else None
    return Needed(int(2 * without / share), None if likely is None else int(2 * likely / share), seen)


def _sizes(start: int) -> list[int]:
    """Numbers of posts, each a twentieth more than the one before, up to ten millions."""
    return [round(start * 1.05**at) for at in range(300) if start * 1.05**at < 1e7]


def _would_do(seen: float, posts: int, promise: Promise, error: float) -> bool:
    lost = np.array([np.ceil(seen * posts - _ROUNDING)])
    if promise.of == OF_ALL and promise.person_accuracy < 1:
        return bool(_bounded(lost, posts, 1 - promise.agreement)[0] <= error)
    return bool(_exact(lost, np.array([float(posts)]), 1 - promise.agreement)[0] <= error)
