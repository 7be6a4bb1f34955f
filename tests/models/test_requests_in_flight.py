"""How many requests to a model are under way at a time: lowered where they time out beside each other, and raised."""

from __future__ import annotations

import asyncio

from tribunal.models.waits import ConcurrencyLimit


async def crowd(turns: ConcurrencyLimit, number: int) -> list[tuple[int, int]]:
    """So many requests, all under way."""
    return [await turns.acquire_slot() for _ in range(number)]


async def test_a_crowd_that_times_out_is_halved_once() -> None:
    turns = ConcurrencyLimit()
    taken = await crowd(turns, 8)
    for each in taken[:3]:
        turns.release_slot(each, answered=True)
    for each in taken[3:]:
        turns.release_slot(each, timed_out=True)
    assert (turns.limit, turns.lowered, turns.lowest) == (2, 1, 2)


async def test_down_to_one_and_no_further() -> None:
    turns = ConcurrencyLimit()
    for number, limit in ((8, 4), (4, 2), (2, 1), (1, 1)):
        for each in await crowd(turns, number):
            turns.release_slot(each, timed_out=True)
        assert turns.limit == limit
    assert turns.lowest == 1


async def test_one_that_is_slow_by_itself_slows_nobody_down() -> None:
    turns = ConcurrencyLimit()
    alone = await turns.acquire_slot()
    turns.release_slot(alone, timed_out=True)
    slow, *others = await crowd(turns, 4)
    for each in [*others, *await crowd(turns, 3)]:
        turns.release_slot(each, answered=True)
    turns.release_slot(slow, timed_out=True)
    assert (turns.limit, turns.lowered) == (None, 0)


async def answered(turns: ConcurrencyLimit, number: int) -> None:
    for _ in range(number):
        turns.release_slot(await turns.acquire_slot(), answered=True)


async def test_answers_raise_it_step_by_step_to_any_number() -> None:
    turns = ConcurrencyLimit()
    for each in await crowd(turns, 6):
        turns.release_slot(each, timed_out=True)
    seen = [turns.limit]
    while turns.limit is not None:
        await answered(turns, 1)
        if turns.limit != seen[-1]:
            seen.append(turns.limit)
    assert seen == [3, 4, 5, None]
    assert turns.lowest == 3


async def test_slowly_where_it_was_too_many_before() -> None:
    turns = ConcurrencyLimit()
    for each in await crowd(turns, 6):
        turns.release_slot(each, timed_out=True)
    await answered(turns, 3 + 4)
    assert turns.limit == 5
    await answered(turns, 49)
    assert turns.limit == 5
    await answered(turns, 1)
    assert turns.limit is None


async def test_who_waits_gets_the_next_turn_and_one_who_leaves_gives_it_on() -> None:
    turns = ConcurrencyLimit()
    for each in await crowd(turns, 2):
        turns.release_slot(each, timed_out=True)
    assert turns.limit == 1
    held = await turns.acquire_slot()
    first, second, third = (asyncio.ensure_future(turns.acquire_slot()) for _ in range(3))
    await asyncio.sleep(0)
    assert not any(each.done() for each in (first, second, third))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    turns.release_slot(held)
    second.cancel()  # it has just been given its turn
    await asyncio.gather(second, return_exceptions=True)
    turns.release_slot(await third)
    assert await asyncio.wait_for(turns.acquire_slot(), 5) == (1, 0)
