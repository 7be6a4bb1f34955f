"""A vote is settled with as few draws as it takes, whatever they say."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tribunal.errors import CallFailed
from tribunal.nodes.poll import Poll, poll


async def drawn(answers: list[str | None]) -> tuple[list[int], Poll[str]]:
    asked: list[int] = []

    async def draw(number: int) -> str:
        asked.append(number)
        answer = answers[number]
        if answer is None:
            raise CallFailed("no answer", kind="timeout")
        return answer

    return asked, await poll(len(answers), draw, lambda answer: answer)


async def test_three_of_five_that_agree_settle_it() -> None:
    asked, result = await drawn(["a", "a", "a", "b", "b"])
    assert (asked, result.winner, result.spared, result.tie) == ([0, 1, 2], "a", 2, False)


async def test_a_draw_is_added_only_where_the_vote_can_still_turn() -> None:
    asked, result = await drawn(["a", "b", "a", "a", "b"])
    assert (len(asked), result.winner, result.spared) == (4, "a", 1)


async def test_a_tie_goes_to_the_first_choice_and_is_marked() -> None:
    _, result = await drawn(["b", "a"])
    assert (result.winner, result.tie, result.spared) == ("b", True, 0)


async def test_a_failed_draw_abstains() -> None:
    _, result = await drawn([None, "a", "a"])
    assert result.winner == "a"
    assert len(result.faults) == 1
    _, nothing = await drawn([None])
    assert nothing.winner is None


async def test_the_draws_of_a_wave_are_made_at_the_same_time() -> None:
    under_way = asyncio.Barrier(3)

    async def draw(number: int) -> str:
        await under_way.wait()
        return "a"

    async with asyncio.timeout(5):
        assert (await poll(5, draw, lambda answer: answer)).drawn == ("a", "a", "a")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=15))
def test_stopping_early_never_changes_the_winner(answers: list[str]) -> None:
    asked, result = asyncio.run(drawn(list(answers)))
    counts = Counter(answers).most_common()
    best = counts[0][1]
    first = next(
        answer for answer in answers if counts[0][1] == best and Counter(answers)[answer] == best
    )
    assert result.winner == first
    assert result.tie == (len(counts) > 1 and counts[1][1] == best)
    assert len(asked) + result.spared == len(answers)


@pytest.mark.parametrize("most", range(1, 8))
async def test_an_even_agreement_asks_a_bare_majority(most: int) -> None:
    asked, _ = await drawn(["a"] * most)
    assert len(asked) == most // 2 + 1
