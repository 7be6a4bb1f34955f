"""What a clock that ran ahead, or a machine that is gone, keeps from others: leases that are released, and claims."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

import tribunal
from tests.openai_server import OpenAIServer
from tests.service.at_desk import signed_in
from tests.service.conftest import get_json, opened, serving
from tests.service.decided_here import courtroom, judged
from tribunal.commands import app
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import NewCase
from tribunal.docket.waiting_cases import WaitingCases
from tribunal.store.audit import page
from tribunal.store.engine import Store
from tribunal.store.tables import batches, cases

TAKEOVER = 30.0
NEW = NewCase(graph="baseline", post={"text": "Good morning!"}, settings={"model": "rehearsal"})


async def release(database: str, case: str, ends: int = 0) -> str:
    arguments = ["cases", "retry", case, "--release", "--database", database]
    done = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert done.exit_code == ends, done.output
    return done.output


async def case_row(store: Store, case: str) -> dict[str, Any]:
    return (await store.fetch_row(select(cases).where(cases.c.id == case))) or {}


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"graph": "baseline"}, "queued"),
        ({"batch_id": "batch-1"}, "waiting"),
        ({"batch_id": "batch-1", "answer": {"answer": {}}}, "queued"),
        ({"via": "command"}, "running"),
        ({"via": "command", "appeal_id": "appeal-1"}, "queued"),
    ],
    ids=["service", "batch", "answered", "terminal", "appeal"],
)
async def test_a_released_case_is_anybody_s_and_its_process_writes_nothing_more(
    database: str, values: dict[str, Any], status: str
) -> None:
    async with opened(database) as store:
        gone, here = (CaseStore(store, name, TAKEOVER) for name in ("gone", "here"))
        await gone.send_heartbeat()
        batch = {
            "created": 1.0,
            "status": "running",
            "file": "f",
            "graph": "baseline",
            "settings": {},
            "keep": True,
        }
        async with store.transaction() as connection:
            await connection.execute(
                batches.insert().values(
                    id="batch-1", **batch, columns={}, given=[], rows=1, left_out={}
                )
            )
        case, *_ = await gone.take_in(NEW, "", here=False, most_waiting=1)
        held = await gone.take_up(case)
        assert held is not None
        async with store.transaction() as connection:
            await connection.execute(update(cases).where(cases.c.id == case).values(**values))
        assert await here.take_up(case, any_way_in=True) is None, (
            "it is alive, as far as anybody can tell"
        )
        assert await release(database, case) == f"{case}: taken from gone\n"
        row = await case_row(store, case)
        assert (row["status"], row["owner"], row["attempt"]) == (status, None, 1)
        record = await tribunal.ajudge("Good morning!", graph="baseline", model="rehearsal")
        assert not await gone.finish(held, record), "its attempt counts no more"
        [entry] = await page(store, subject=case, kind="case.released")
        assert (entry["who"], '"owner":"gone"' in entry["details"]) == ("operator", True)
        if status == "running":
            assert await here.take_up(case) is None, "somebody resumes it"
        else:
            assert "no process tries it" in await release(database, case, ends=2)
        if status != "waiting":
            again = await here.take_up(case, any_way_in=True)
            assert again is not None
            assert again.attempt == 2


@pytest.mark.long
async def test_a_claim_that_is_dated_far_ahead_holds_no_case(database: str) -> None:
    async with courtroom(database) as (client, _):
        case = await judged(client)
        async with opened(database) as store:
            waiting = WaitingCases(store)
            await waiting.claim(case, "kim", 86_400.0)
            assert (await get_json(client, f"/v1/cases/{case}", "claim"))["by"] == "kim"
            async with store.transaction() as connection:
                ahead = update(cases).where(cases.c.id == case)
                await connection.execute(ahead.values(claimed_until=time.time() + 365 * 86_400.0))
            assert await get_json(client, f"/v1/cases/{case}", "claim") is None
            desk = await signed_in(client.app, named="lee")  # type: ignore[attr-defined]
            assert "Unassigned" in (await desk.get("/desk/queue")).response.text
            assert (await waiting.claim(case, "lee", 60.0))["claimed_by"] == "lee"


@pytest.mark.long
async def test_a_replica_may_try_a_case_again_that_was_taken_from_it(database: str) -> None:
    answers = [asyncio.Event(), asyncio.Event()]
    asked = asyncio.Queue[int]()

    async def script(request: Any) -> Any:
        number = len(server.requests) - 1
        asked.put_nowait(number)
        await answers[number].wait()
        return {"category": "NotHate", "explanation": f"attempt {number}", "confidence": 0.9}

    async with (
        OpenAIServer(script) as server,
        serving(database, graph="baseline", settings={"model": "openai:scripted"}) as client,
    ):
        worker = client.app.state.replica.worker  # type: ignore[attr-defined]
        got = await client.post("/v1/judge?wait=0", json={"text": "Good morning!"})
        case = got.headers["location"].rpartition("/")[2]
        await asked.get()
        first = worker.trials[case]
        await release(database, case)
        await asked.get()
        answers[0].set()
        assert await first is None
        assert case in worker.case_ids, "else it would be given back as an orphan"
        answers[1].set()
        done = await get_json(client, f"/v1/cases/{case}?wait=30")
        while done["status"] != "done":
            done = await get_json(client, f"/v1/cases/{case}")
            await asyncio.sleep(0.05)
        assert done["record"]["explanation"] == "attempt 1"
