"""Simulated fits: posts whose true agreement is known, so that a false threshold is recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tribunal.eval.measures.fit import first_of_each_cluster
from tribunal.eval.measures.risk_control import (
    AcceptanceRule,
    AgreementPromise,
    LabelledPosts,
    error_of_attempt,
    find_acceptance_rule,
)

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Floats, Ints


class World(NamedTuple):
    """Posts as they may come: `drawn` gives confidences, `right` how often a verdict of each agrees."""

    name: str
    drawn: Callable[[np.random.Generator, int], Floats]
    right: Callable[[Floats], Floats]


def stated(random: np.random.Generator, n: int) -> Floats:
    """Confidences as language models state them: few values, most of them high."""
    return random.choice(
        [0.98, 0.95, 0.92, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6],
        n,
        p=[0.1, 0.25, 0.1, 0.2, 0.12, 0.1, 0.06, 0.05, 0.02],
    )


def spread(random: np.random.Generator, n: int) -> Floats:
    """Confidences all over, 0.73 in the mean."""
    return random.beta(4, 1.5, n)


def _from(edge: float, above: float, below: float) -> Callable[[Floats], Floats]:
    return lambda confidence: np.where(confidence >= edge, above, below)


FOUND = (
    World("stated, 0.98 whatever is stated", stated, _from(0, 0.98, 0.98)),
    World("spread, 0.98 whatever is stated", spread, _from(0, 0.98, 0.98)),
    World("stated, 0.98 from 0.9 on, else 0.8", stated, _from(0.9, 0.98, 0.8)),
    World("spread, 0.98 from 0.7 on, else 0.7", spread, _from(0.7, 0.98, 0.7)),
)
FALSE = (
    World("on the edge: 0.95 less a hair", stated, _from(0, 0.9499, 0.9499)),
    World("right from 0.9 on, wrong below", stated, _from(0.9, 0.951, 0.93)),
    World("worse where it is surer", spread, _from(0.9, 0.94, 0.97)),
)


def sample(
    world: World, n: int, copies: int, random: np.random.Generator
) -> tuple[LabelledPosts, Ints]:
    """So many posts, each with its copies, which are judged as it is; and the number of each one's cluster."""
    cluster = np.arange(n) // copies
    confidence = world.drawn(random, int(cluster[-1]) + 1)
    wrong = random.random(len(confidence)) >= world.right(confidence)
    return _posts(confidence[cluster], wrong[cluster]), cluster


def _posts(confidence: Floats, wrong: Bools, hateful: Bools | None = None) -> LabelledPosts:
    every = np.ones(len(wrong), dtype=bool)
    return LabelledPosts(confidence, every, every if hateful is None else hateful, wrong, wrong)


def found_on(posts: LabelledPosts, cluster: Ints, wanted: AgreementPromise) -> AcceptanceRule:
    """Return what the first fit on these posts accepts."""
    drawn = posts.take_rows(first_of_each_cluster(np.arange(len(posts)), cluster))
    return find_acceptance_rule(drawn, wanted, error_of_attempt(1, wanted.level))


def false_fit(
    world: World, n: int, copies: int, random: np.random.Generator, *, torn: bool = False
) -> bool:
    """Whether a fit accepts verdicts that agree too seldom in truth; `torn` takes copies for posts of their own."""
    posts, cluster = sample(world, n, copies, random)
    made = found_on(posts, np.arange(n) if torn else cluster, AgreementPromise())
    return made.hateful is not None and _agreement(world, made.hateful) < 0.95


_TRUE: dict[tuple[str, float], float] = {}


def _agreement(world: World, threshold: float) -> float:
    """How often verdicts of a threshold or more agree in truth."""
    key = world.name, threshold
    if key not in _TRUE:
        confidence = world.drawn(np.random.default_rng(1), 500_000)
        _TRUE[key] = float(world.right(confidence[confidence >= threshold]).mean())
    return _TRUE[key]


def false_alarm(n: int, random: np.random.Generator) -> bool:
    """Whether a fit for each verdict accepts verdicts of hate, which are rare, and of which too few agree."""
    hateful = random.random(n) < 0.05
    wrong = random.random(n) >= np.where(hateful, 0.9499, 0.99)
    made = found_on(
        _posts(stated(random, n), wrong, hateful), np.arange(n), AgreementPromise(false_alarms=0.05)
    )
    return made.hateful is not None
