"""The clerk of a run on a cluster: one budget, one rest and one word on going on, for all workers."""

from __future__ import annotations

import asyncio

import pytest

from tribunal.eval.ray import clerk as office
from tribunal.eval.ray.clerk import Clerk
from tribunal.eval.runs.outage import LOST_IN_A_ROW
from tribunal.eval.runs.spending import Ledger, Limits, Spent


async def test_two_workers_share_one_budget() -> None:
    clerk = Clerk(LOST_IN_A_ROW)
    await clerk.fund(Ledger(Limits(calls=10), [Spent(calls=2, tokens=100)]))
    assert await clerk.take("one", 3, []) == (3, False)
    assert await clerk.take("two", 3, []) == (1, False)  # 2 are spent, and 4 under way may take 2 each
    assert await clerk.take("two", 3, []) == (0, False)
    assert await clerk.take("one", 0, [Spent(calls=1)] * 3) == (0, False)
    assert await clerk.take("two", 3, [Spent(calls=1)]) == (2, False)
    assert await clerk.take("two", 3, [Spent(calls=2)] * 2) == (0, True)
    standing = await clerk.standing()
    assert standing.stopped.startswith("10 of at most 10 calls are spent; to go on, give --run-max-calls")
    assert not standing.bad_input


async def test_what_a_killed_worker_had_under_way_counts_as_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    clerk = Clerk(LOST_IN_A_ROW)
    await clerk.fund(Ledger(Limits(calls=6), [Spent(calls=2)]))
    assert await clerk.take("killed", 2, []) == (2, False)
    assert await clerk.take("other", 1, []) == (0, False)
    monkeypatch.setattr(office, "_GONE_AFTER", -1.0)
    assert await clerk.take("other", 1, []) == (0, True)
    assert (await clerk.standing()).lost == 2


async def test_a_rest_is_told_to_whoever_waits_for_news() -> None:
    clerk = Clerk(LOST_IN_A_ROW)
    waiting = asyncio.ensure_future(clerk.news("two", 0))
    await asyncio.sleep(0)
    await clerk.rest("openai", 1, 20.0)
    [(provider, number, seconds)] = (await asyncio.wait_for(waiting, 2)).rests
    assert (provider, number) == ("openai", 1)
    assert 19 < seconds <= 20


async def test_posts_without_an_answer_in_a_row_stop_the_run_and_an_answer_breaks_the_row() -> None:
    clerk = Clerk(LOST_IN_A_ROW)
    for _ in range(LOST_IN_A_ROW - 1):
        await clerk.lost("openai:a", "nobody is there. See to the network")
    assert (await clerk.news("one", 0)).outage
    await clerk.answered(["openai:a"])
    for _ in range(LOST_IN_A_ROW - 1):
        await clerk.lost("openai:a", "nobody is there. See to the network")
    assert not (await clerk.standing()).stopped
    await clerk.lost("openai:a", "nobody is there. See to the network")
    assert (await clerk.standing()).stopped == "10 posts in a row had no answer: nobody is there. See to the network"
