"""Simulated cascade plans: stages whose true agreement is known, so that a false plan is recognised."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.eval.cascade.report import CascadePromise, find_plan
from tribunal.eval.cascade.search import CascadePlan, CascadeStage, walk_posts
from tribunal.eval.measures.risk_control import LabelledPosts, error_of_attempt

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


def stages_of(
    world: World, posts: int, random: np.random.Generator, copies: int = 1
) -> list[CascadeStage]:
    """Stages over so many posts, copies included, that every stage treats alike."""
    # As many of hate as not, so that a verdict of either is right as often.
    hate = random.random(posts // copies) < 0.5
    found: list[CascadeStage] = []
    place, chance = random.choice(3, len(hate), p=_SHARES), random.random(len(hate))
    for accuracy, cost in world.stages:
        if not world.same:
            place, chance = random.choice(3, len(hate), p=_SHARES), random.random(len(hate))
        right = chance < np.array(accuracy)[place]
        own = (
            _CONFIDENCES[place],
            np.ones(len(hate), dtype=bool),
            np.where(right, hate, ~hate),
            ~right,
            ~right,
            hate,
        )
        *columns, gold = (np.repeat(each, copies) for each in own)
        many = np.ones(len(gold))
        found.append(
            CascadeStage(
                f"stage {len(found) + 1}", LabelledPosts(*columns), gold, many, many, many * cost
            )
        )
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


def planned(
    stages: list[CascadeStage], promise: CascadePromise, copies: int = 1
) -> CascadePlan | None:
    """Return the first plan on these posts, if one is found."""
    posts = len(stages[0].hate)
    cluster: Ints = np.arange(posts) // copies
    costs = [stage.money for stage in stages if stage.money is not None]
    return find_plan(
        stages,
        [f"p{at}" for at in range(posts)],
        cluster,
        promise,
        costs,
        error_of_attempt(1, promise.level),
    ).plan


@cache
def _truth(world: World) -> list[CascadeStage]:
    return stages_of(world, _TRUTH, np.random.default_rng(99))
