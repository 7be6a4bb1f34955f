"""The queue holds as many cases as it may, and no more; who came first is tried first, and before them a higher key."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
from sqlalchemy import func, select, update

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.service.conftest import opened, serving
from tests.service.live import key_of
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import PRIORITY_SECONDS, NewCase
from tribunal.service.replica.keys import KeyLimits, add_key
from tribunal.store.tables import cases


class Gate:
    """A model that keeps everybody waiting until it is opened, and says in which order posts were asked about."""

    def __init__(self) -> None:
        self.open, self.asked = asyncio.Event(), list[str]()
        self._script = court_script()

    async def __call__(self, request: Request) -> Reply | Fault:
        self.asked += [word for word in request.text.split() if word.startswith("post-")][:1]
        await self.open.wait()
        return self._script(request)


@asynccontextmanager
async def gated(
    database: str, replicas: int = 1, **options: Any
) -> AsyncIterator[tuple[Gate, list[httpx.AsyncClient]]]:
    gate = Gate()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer(gate))
        os.environ["OPENAI_BASE_URL"] = (
            f"{server.url}/v1"  # taken away again before the next test (conftest)
        )
        chosen = {
            "graph": "baseline",
            "settings": {"model": "openai:scripted"},
            "takeover": 120.0,
            **options,
        }
        clients = [
            await stack.enter_async_context(serving(database, **chosen)) for _ in range(replicas)
        ]
        stack.callback(gate.open.set)
        yield gate, clients


async def count(database: str, *conditions: Any) -> int:
    async with opened(database) as store:
        return int(
            await store.fetch_value(select(func.count()).select_from(cases).where(*conditions))
        )


async def post(client: httpx.AsyncClient, name: str, key: str = "") -> httpx.Response:
    return await client.post(
        "/v1/judge", json={"text": name}, headers={"X-API-Key": key} if key else {}
    )


async def test_a_burst_fills_the_places_and_the_queue_and_no_more(database: str) -> None:
    """None of these waits for the model, which answers nobody: those that are refused are refused at once."""
    async with gated(database, replicas=2, in_flight=4, queue=10) as (gate, clients):
        answers = await asyncio.gather(*(post(clients[n % 2], f"post-{n}") for n in range(60)))
        statuses = sorted(each.status_code for each in answers)
        taken = statuses.count(202)
        assert statuses == [202] * taken + [429] * (60 - taken)
        assert all(each.headers["retry-after"] for each in answers if each.status_code == 429)
        # Of those that are queued while a place is free a replica takes some up, and then as many more may wait.
        assert 10 < taken <= 10 + 8
        assert await count(database, cases.c.status == "queued") <= 10
        assert await count(database, cases.c.status == "running") <= 8
        while len(gate.asked) < 8:
            await asyncio.sleep(0.02)
        while (late := await post(clients[0], "post-late")).status_code == 202:
            pass
        assert (late.status_code, late.json()["error"]["kind"]) == (429, "busy")
        assert await count(database, cases.c.status == "queued") == 10
        assert len(gate.asked) == 8
        gate.open.set()
        while await count(database, cases.c.status != "done"):
            await asyncio.sleep(0.05)


async def test_a_new_post_goes_behind_those_that_wait(database: str) -> None:
    async with gated(database, in_flight=1, queue=10) as (gate, [client]):
        for name in ("post-1", "post-2", "post-3"):
            assert (await post(client, name)).status_code == 202
        # A place is free here, and another replica has left a case in the queue.
        async with opened(database) as store:
            other = CaseStore(store, "other", 120.0)
            new = NewCase(
                graph="baseline", post={"text": "post-4"}, settings={"model": "openai:scripted"}
            )
            await other.take_in(new, "", here=False, most_waiting=10)
            last = new.model_copy(update={"post": {"text": "post-5"}})
            assert (await other.take_in(last, "", here=True, most_waiting=10)).held is None
        gate.open.set()
        while await count(database, cases.c.status != "done"):
            await asyncio.sleep(0.05)
        assert gate.asked == [f"post-{n}" for n in range(1, 6)]


async def test_a_higher_key_goes_first_and_a_lower_one_is_not_kept_waiting_for_ever(
    database: str,
) -> None:
    usual = await key_of(database, "judge")
    async with opened(database) as store:
        low, high = [
            await add_key(store, "a", ["judge"], KeyLimits(), priority=each) for each in (-1, 3)
        ]
    async with gated(database, in_flight=1, queue=10) as (gate, [client]):
        await post(client, "post-first", usual)
        while not gate.asked:
            await asyncio.sleep(0.02)
        for name, key in (("low", low), ("usual", usual), ("high", high), ("old", low)):
            assert (await post(client, f"post-{name}", key)).status_code == 202
        async with opened(database) as store, store.transaction() as connection:
            waited = cases.c.created - 5 * PRIORITY_SECONDS
            newest = select(func.max(cases.c.created)).scalar_subquery()
            await connection.execute(
                update(cases).where(cases.c.created == newest).values(created=waited)
            )
        gate.open.set()
        while await count(database, cases.c.status != "done"):
            await asyncio.sleep(0.05)
        assert gate.asked == ["post-first", "post-old", "post-high", "post-usual", "post-low"]
