"""The plan of a cascade: that its promise holds, what its figures are, and the search against trying each by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests.eval.cascade.simulated_plans import BETTER, planned, stages_of, trial
from tribunal.eval.cascade.report import CascadePromise, p_value_of_plan
from tribunal.eval.cascade.search import (
    ALL,
    CascadePlan,
    CascadeStage,
    rules_of_stage,
    stage_orders,
    try_order,
    walk_posts,
)
from tribunal.eval.measures.risk_control import AcceptanceRule, LabelledPosts

FITS = 12


@pytest.mark.parametrize(
    ("promise", "copies"),
    [
        (CascadePromise(cost_person=1), 1),
        (CascadePromise(of="models"), 3),
        (CascadePromise(person_accuracy=0.99, cost_person=1), 1),
        (CascadePromise(of="models", one_threshold=True), 1),
    ],
)
def test_a_promise_is_broken_no_more_often_than_stated(
    promise: CascadePromise, copies: int
) -> None:
    random = np.random.default_rng(5)
    made = [trial(BETTER, 600 * copies, promise, random, copies) for _ in range(FITS)]
    assert sum(false for _, false, _ in made) / FITS <= 0.1
    assert sum(found for found, _, _ in made) / FITS >= 0.4


def test_a_true_plan_is_found_and_spares_people_their_time() -> None:
    made = planned(
        stages_of(BETTER, 2_000, np.random.default_rng(1)), CascadePromise(cost_person=1)
    )
    assert made is not None
    # The first stage alone agrees too seldom for that, and a court about every post costs more.
    assert len(made.order) > 1
    assert made.order[0] in (0, 1)
    walked = walk_posts(made, stages_of(BETTER, 60_000, np.random.default_rng(2)))
    assert (walked.by < 0).mean() < 0.1


def test_every_plan_is_counted_as_one_that_is_walked() -> None:
    made = stages_of(BETTER, 160, np.random.default_rng(3))
    bare = np.arange(160) % 5 == 0  # a court dismisses these, and states no confidence
    posts = made[2].posts
    made[2] = CascadeStage(
        "court", LabelledPosts(np.where(bare, np.nan, posts.confidence), np.arange(160) % 7 > 0, posts.hateful,
        posts.wrong, posts.wrong_side), made[2].hate, *(np.ones(160),) * 3,
    )  # fmt: skip
    rules = [rules_of_stage(stage.posts) for stage in made]
    # 4 steps for each verdict; and twice, where some are bare
    assert [len(each) for each in rules] == [
        15,
        15,
        63,
    ]
    few = [rules_of_stage(stage.posts, few=True) for stage in made]
    assert [len(each) for each in few] == [8, 8, 17]
    assert all(rule in every for some, every in zip(few, rules, strict=True) for rule in some)
    assert [rule.hateful for rule in rules_of_stage(made[0].posts, alike=True)] == [0.95, 0.8, 0.5]
    costs: list[Any] = [np.arange(160) * 1.0, np.ones(160), np.ones(160) * 3]
    random = np.random.default_rng(0)
    for order in stage_orders(3):
        found = try_order(order, made, rules, costs)
        assert len(found.cost) == np.prod([len(rules[number]) for number in order])
        for at in random.integers(0, len(found.cost), 20).tolist():
            walked = walk_posts(found.plan_at(at, rules), made)
            assert found.wrong[at] == walked.wrong.sum()
            assert found.left[at] == (walked.by < 0).sum()
            paid = sum(
                costs[number][reached].sum()
                for number, reached in zip(order, walked.reached, strict=True)
            )
            assert found.cost[at] == pytest.approx(paid)


def test_posts_go_through_a_plan_one_stage_after_the_other() -> None:
    """Six posts by hand: a look that is trusted from 0.9 on where it says no hate, then a court at any confidence."""
    hate = np.array([False, False, True, True, False, True])

    def stage(says: str, confidence: list[float]) -> CascadeStage:
        hateful, stated = np.array([each == "1" for each in says]), np.array(confidence)
        wrong = hateful != hate
        posts = LabelledPosts(
            stated, np.array([each != "-" for each in says]), hateful, wrong, wrong
        )
        return CascadeStage("", posts, hate, *(np.ones(6),) * 3)

    look = stage("001011", [0.9, 0.8, 0.95, 0.9, 1.0, 0.9])
    court = stage("01110-", [0.9, 0.9, np.nan, 0.5, 0.9, 0.9])
    walked = walk_posts(CascadePlan((0, 1), (AcceptanceRule(None, 0.9, ()), ALL)), [look, court])
    assert walked.by.tolist() == [0, 1, 1, 0, 1, -1]
    assert walked.reached[1].tolist() == [False, True, True, False, True, True]
    assert walked.wrong.tolist() == [False, True, False, True, False, False]
    assert walked.missed_hate.tolist() == [False, False, False, True, False, False]
    assert walked.false_alarms.tolist() == [False, True, False, False, False, False]
    # Of its verdicts that state no confidence none counts, unless the rule says so.
    walked = walk_posts(CascadePlan((1,), (AcceptanceRule(0.0, 0.0, ()),)), [look, court])
    assert walked.by.tolist() == [0, 0, -1, 0, 0, -1]


def test_a_promise_is_tested_exactly_where_posts_are_right_or_wrong() -> None:
    [court] = stages_of(BETTER, 300, np.random.default_rng(2))[2:]
    rows = np.arange(300)
    whole = CascadePlan((0,), (ALL,))
    wrong = int(court.posts.wrong.sum())
    assert p_value_of_plan(whole, [court], rows, CascadePromise(0.9)) == pytest.approx(
        binom.cdf(wrong, 300, 0.1)
    )
    sure = CascadePlan((0,), (AcceptanceRule(0.95, 0.95, ()),))
    decides = court.posts.confidence == 0.95
    wrong = int(court.posts.wrong[decides].sum())
    assert p_value_of_plan(sure, [court], rows, CascadePromise(0.9)) == pytest.approx(
        binom.cdf(wrong, 300, 0.1)
    )
    models = p_value_of_plan(sure, [court], rows, CascadePromise(0.9, of="models"))
    assert models == pytest.approx(binom.cdf(wrong, decides.sum(), 0.1))
    # People who err make it less sure; who are nearly never wrong, hardly.
    for accuracy, other in product((0.99, 0.95), (1.0,)):
        assert p_value_of_plan(
            sure, [court], rows, CascadePromise(0.9, person_accuracy=accuracy)
        ) > p_value_of_plan(sure, [court], rows, CascadePromise(0.9, person_accuracy=other))
