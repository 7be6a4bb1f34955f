"""A case whose attempt was cut while several calls were under way: the next attempt makes only those that are left."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.doubles import Fault, Reply, Request
from tests.golden.playing import Player
from tests.openai_server import OpenAIServer
from tribunal.docket.case_store import CaseStore
from tribunal.docket.checkpoints import MOMENT
from tribunal.docket.leases import NewCase, held_case_from_row
from tribunal.docket.trials import Trials
from tribunal.schema import JSON, Record
from tribunal.store.engine import Store

DRAWS, ANSWERED = 5, 3  # of eight draws, five that agree settle the vote


class Draws:
    """Answers some draws, and sets `reached`; the others wait until `go_on` is set."""

    def __init__(self) -> None:
        self.requests = 0
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self._player = Player()

    async def __call__(self, request: Request) -> Reply | Fault:
        self.requests += 1
        if self.requests > ANSWERED:
            self.reached.set()
            await self.go_on.wait()
        return self._player(request)


async def never_hold(record: Record, calls: list[JSON]) -> bool:
    """Have the trial count its calls, and let it fail where no model answers."""
    return False


@pytest.mark.parametrize("moment", [0.0, MOMENT])
async def test_the_next_attempt_makes_only_the_calls_that_are_left(
    database: str, moment: float
) -> None:
    draws = Draws()
    store = await Store.open(database)
    first, second = CaseStore(store, "first", 3.0), CaseStore(store, "second", 3.0)
    settings = {"model": "openai:scripted", "draws": 8}
    new = NewCase(graph="self_consistency", post={"text": "post-words"}, settings=settings)
    case_id, *_ = await first.take_in(new, "", here=True, most_waiting=1)
    async with OpenAIServer(draws):
        calls_over = asyncio.Semaphore(0)

        def listen(event: JSON) -> None:
            if event["event"] == "call":
                calls_over.release()

        held = held_case_from_row(await first.case(case_id))
        cut = asyncio.create_task(Trials(store, first, moment).run(held, listen))
        await draws.reached.wait()
        for _ in range(ANSWERED):
            await calls_over.acquire()
        await asyncio.sleep(0.2)
        cut.cancel()
        with suppress(asyncio.CancelledError):
            await cut
        draws.go_on.set()
        taken = await second.take_up(case_id)  # no sign of life was ever given
        assert taken is not None
        result = await Trials(store, second, moment).run(taken, None, hold=never_hold)
        assert draws.requests == DRAWS + (DRAWS - ANSWERED)
        assert (result.record.outcome, result.record.usage.calls) == ("verdict", DRAWS)
        assert len(result.calls) == DRAWS - ANSWERED, "the calls of this attempt"
        assert await second.finish(taken, result.record)
    await store.close()
