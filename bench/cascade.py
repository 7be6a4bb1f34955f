"""What `tribunal cascade plan` finds, and how often it is wrong: by simulation, of stages whose agreement is known."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.table import table
from tribunal.eval.cascade.plan import CascadePromise, find_plan
from tribunal.eval.cascade.search import CascadePlan, walk_posts
from tribunal.eval.cascade.stages import CascadeStage
from tribunal.eval.measures.risk_control import LabelledPosts, error_of_attempt
from tribunal.terminal import say

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Ints

_CONFIDENCES, _SHARES = np.array([0.95, 0.8, 0.6]), [0.5, 0.3, 0.2]
_TRUTH = 60_000  # posts that the truth is taken from; known to a fifth of a point
ROOM = 0.002


class World(NamedTuple):
    """Stages: of each how often a verdict is right, by how sure it is (0.95, 0.8, 0.6), and what a post costs.

    Their errors are independent, unless all say the `same`: two that err apart and agree are right more often.
    """

    name: str
    stages: tuple[tuple[tuple[float, float, float], float], ...]
    same: bool = False


BETTER = World(
    "a look, a small model and a court, each better than the one before",
    (((0.949, 0.75, 0.7), 0.001), ((0.97, 0.9, 0.7), 0.01), ((0.99, 0.94, 0.8), 0.1)),
)
EDGE = World(
    "three that say the same, right in 0.9479 however sure they are",
    (((0.9479,) * 3, 0.001), ((0.9479,) * 3, 0.01), ((0.9479,) * 3, 0.1)),
    same=True,
)


def cascade(quick: bool) -> None:
    """Plans on posts drawn anew each time: how many are found, how many are false, and what people are left with."""
    fits = 20 if quick else 500
    random = np.random.default_rng(17)
    say(f"### cascade: {fits:,} plans each, agreement 0.95 at level 0.9, the first on their results\n", lines=True)
    rows = []
    cases = (
        (BETTER, CascadePromise(cost_person=1), 1),
        (BETTER, CascadePromise(of="models", cost_person=1), 1),
        (BETTER, CascadePromise(person_accuracy=0.98, cost_person=1), 1),
        (BETTER, CascadePromise(of="models", cost_person=1), 4),
        (EDGE, CascadePromise(of="models", cost_person=1), 1),
        (EDGE, CascadePromise(of="models", cost_person=1), 4),
    )
    for world, promise, copies in cases:
        for posts in (400, 1_200):
            made = [trial(world, posts, promise, random, copies) for _ in range(fits)]
            kept = [left for found, _, left in made if found]
            promised = f"of {promise.of}" + f", people right in {promise.person_accuracy:g}" * (
                promise.person_accuracy < 1
            )
            rows.append(
                [
                    world.name,
                    promised,
                    f"{posts:,}" + f", {copies} copies of each" * (copies > 1),
                    f"{np.mean([found for found, _, _ in made]):.0%}",
                    f"{np.mean([false for _, false, _ in made]):.1%}",
                    f"{np.mean(kept):.0%}" if kept else "-",
                ]
            )
    head = ("stages", "promised", "posts", "a plan is found", "a false one", "posts that people are left with")
    table(head, rows)
    say("False: less than 0.95 agrees in truth. At most 10 % is promised.\n", lines=True)


def stages_of(world: World, posts: int, random: np.random.Generator, copies: int = 1) -> list[CascadeStage]:
    """Stages over so many posts, copies included, that every stage treats alike."""
    # As many of hate as not, so that a verdict of either is right as often.
    hate = random.random(posts // copies) < 0.5
    found: list[CascadeStage] = []
    place, chance = random.choice(3, len(hate), p=_SHARES), random.random(len(hate))
    for accuracy, cost in world.stages:
        if not world.same:
            place, chance = random.choice(3, len(hate), p=_SHARES), random.random(len(hate))
        right = chance < np.array(accuracy)[place]
        own = (_CONFIDENCES[place], np.ones(len(hate), dtype=bool), np.where(right, hate, ~hate), ~right, ~right, hate)
        *columns, gold = (np.repeat(each, copies) for each in own)
        many = np.ones(len(gold))
        found.append(CascadeStage(f"stage {len(found) + 1}", LabelledPosts(*columns), gold, many, many, many * cost))
    return found


def trial(
    world: World, posts: int, promise: CascadePromise, random: np.random.Generator, copies: int = 1
) -> tuple[bool, bool, float]:
    """One plan on posts drawn anew: whether one is found, whether it is false, and the share that people are left."""
    made = planned(stages_of(world, posts, random, copies), promise, copies)
    if made is None:
        return False, False, 1.0
    walked = walk_posts(made, _truth(world))
    lost, counted = promise.count_lost_in(walked)
    return True, lost / counted > 1 - promise.agreement + ROOM, float((walked.by < 0).mean())


def planned(stages: list[CascadeStage], promise: CascadePromise, copies: int = 1) -> CascadePlan | None:
    """Return the first plan on these posts, if one is found."""
    posts = len(stages[0].hate)
    cluster: Ints = np.arange(posts) // copies
    costs = [stage.money for stage in stages if stage.money is not None]
    return find_plan(
        stages, [f"p{at}" for at in range(posts)], cluster, promise, costs, error_of_attempt(1, promise.level)
    ).plan


@cache
def _truth(world: World) -> list[CascadeStage]:
    return stages_of(world, _TRUTH, np.random.default_rng(99))
