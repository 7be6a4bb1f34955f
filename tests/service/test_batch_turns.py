"""When rows of batches are decided: after single posts, within their key's budget, and until they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from tests.court import PATIENCE, court_script
from tests.doubles import Fault, Reply, Request, Script
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, posts, sent, table
from tests.service.conftest import get_json, serving
from tests.service.live import key_of
from tribunal.docket.case_store import CaseStore
from tribunal.schema import Record
from tribunal.service.replica.batches import BatchStore, NewBatch
from tribunal.service.replica.keys import revoke_key
from tribunal.store.engine import Store
from tribunal.store.tables import api_keys


class Gate:
    """A model that answers at once, but for posts of a batch: these wait until the gate is opened."""

    def __init__(self) -> None:
        self._open, self._script = asyncio.Event(), court_script()
        self._come = asyncio.Semaphore(0)

    def open(self) -> None:
        self._open.set()

    async def come(self, count: int) -> None:
        """Returns when so many more posts of a batch were asked about."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(count):
                await self._come.acquire()

    async def __call__(self, request: Request) -> Reply | Fault:
        if "morning, number" in request.text:
            self._come.release()
            await self._open.wait()
        return self._script(request)


@asynccontextmanager
async def gated(
    database: str, gate: Script | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    async with OpenAIServer(gate or court_script()) as server:
        settings = {"model": "openai:scripted", **options.pop("settings", {})}
        async with serving(database, settings=settings, graph="baseline", **options) as client:
            client.model = server  # type: ignore[attr-defined]
            yield client


async def test_single_posts_come_first(database: str) -> None:
    gate = Gate()
    async with gated(database, gate, in_flight=4, batch_share=0.5) as client:
        made = (await sent(client, posts(6))).json()
        await gate.come(2)
        single = await client.post("/v1/judge?wait=30", json={"text": "Good night!"})
        assert (single.status_code, single.json()["outcome"]) == (200, "verdict")
        seen = await get_json(client, f"/v1/batches/{made['id']}")
        assert seen["rows"] == {"waiting": 4, "running": 2, "done": 0, "cancelled": 0}
        early = await client.get(f"/v1/batches/{made['id']}/results")
        assert (early.status_code, early.json()["error"]["kind"]) == (409, "conflict")
        assert "0 of 6 rows" in early.json()["error"]["message"]
        for row in await table(client, made["id"], "csv", partial=True):
            assert (row["outcome"], row["explanation"]) == ("", "not decided yet")
        assert len(await table(client, made["id"], "parquet", partial=True)) == 6
        gate.open()
        assert (await ended(client, f"/v1/batches/{made['id']}"))["outcomes"] == {"verdict": 6}
        assert client.model.peak <= 3  # type: ignore[attr-defined]


async def test_what_waits_is_cancelled_and_what_is_decided_stays(database: str) -> None:
    gate = Gate()
    async with gated(database, gate, in_flight=2, batch_share=1) as client:
        path = f"/v1/batches/{(await sent(client, posts(5))).json()['id']}"
        await gate.come(2)
        seen = (await client.post(f"{path}/cancel")).json()
        assert (seen["status"], seen["finished"]) == ("cancelled", None)
        assert seen["rows"] == {"waiting": 0, "running": 2, "done": 0, "cancelled": 3}
        assert (await client.delete(path)).status_code == 409
        gate.open()
        seen = await ended(client, path)
        assert (seen["status"], seen["outcomes"]) == ("cancelled", {"verdict": 2})
        again = (await client.post(f"{path}/cancel")).json()
        assert again == seen
        found = await table(client, seen["id"], "jsonl")
        assert [row["outcome"] for row in found] == ["verdict", "verdict", None, None, None]
        assert all("cancelled" in row["explanation"] for row in found[2:])
        assert (await client.delete(path)).status_code == 204
        assert (await client.get(f"{path}/results")).status_code == 404
        assert await get_json(client, "/v1/cases", "cases") == []


async def test_a_batch_stops_when_its_keys_budget_is_spent(database: str) -> None:
    key = await key_of(database, "judge", daily_calls=2)
    mine = {"X-API-Key": key}
    async with gated(database, in_flight=1) as client:
        path = f"/v1/batches/{(await sent(client, posts(4), headers=mine)).json()['id']}"
        while (seen := await get_json(client, path, headers=mine))["status"] != "held":
            await asyncio.sleep(0.05)
        assert "this key's calls of today are spent: 2 of 2" in seen["held"]
        assert seen["held_until"] > seen["created"]
        assert (seen["rows"]["done"], seen["rows"]["waiting"]) == (2, 2)
        refused = await sent(client, posts(1), headers=mine)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "spent")
        store = await Store.open(database)
        async with store.transaction() as connection:
            await connection.execute(update(api_keys).values(daily_calls=10))
        await store.close()
        assert (await client.post(f"{path}/resume", headers=mine)).json()["held"] is None
        seen = await ended(client, path, headers=mine)
        assert (seen["status"], seen["rows"]["done"], seen["held"]) == ("done", 4, None)


async def test_a_batch_of_a_revoked_key_stops(database: str) -> None:
    key, auditor = await key_of(database, "judge"), await key_of(database, "audit")
    gate = Gate()
    async with gated(database, gate, in_flight=1) as client:
        path = (
            f"/v1/batches/{(await sent(client, posts(3), headers={'X-API-Key': key})).json()['id']}"
        )
        await gate.come(1)
        store = await Store.open(database)
        await revoke_key(store, key.split("_")[1])
        await store.close()
        gate.open()
        while (seen := await get_json(client, path, headers={"X-API-Key": auditor}))[
            "status"
        ] != "held":
            await asyncio.sleep(0.05)
        assert (seen["rows"]["done"], seen["rows"]["waiting"], "revoked" in seen["held"]) == (
            1,
            2,
            True,
        )


@pytest.mark.long
async def test_rows_of_a_dead_replica_are_tried_by_another(database: str) -> None:
    """One died with two rows in its hands, another while it read a file."""
    new = NewBatch(
        file="a.csv", sha256="", graph="baseline", settings={"model": "openai:scripted"}, keep=True, columns={},
        given=["id", "text"], left_out={},
    )  # fmt: skip
    rows = [
        {"post": {"post_id": f"p{place}", "text": f"Good morning, {place}!"}, "fields": {}}
        for place in range(5)
    ]
    store = await Store.open(database)
    dead = BatchStore(store, "dead", 3.0)
    batch_id, unread = await dead.begin(new, ""), await dead.begin(new, "")
    await dead.add_rows(batch_id, new, "", rows, 0)
    await dead.add_rows(unread, new, "", rows, 0)
    await dead.commit(batch_id, new, "", len(rows), None)
    held = await dead.take_rows(batch_id, 2)
    async with gated(database) as client:
        assert (await ended(client, f"/v1/batches/{batch_id}"))["outcomes"] == {"verdict": 5}
        late = CaseStore(store, "dead", 3.0)
        found = await table(client, batch_id, "jsonl")
        record = Record.model_validate(
            {name: found[0][name] for name in Record.model_fields if name in found[0]}
        )
        assert not await late.finish(held[0], record)  # what it still writes doesn't count
        assert [each["id"] for each in await get_json(client, "/v1/batches", "batches")] == [
            batch_id
        ]
        assert len(await get_json(client, "/v1/cases", "cases")) == 5
    await store.close()


async def test_too_many_rows_wait(database: str) -> None:
    gate = Gate()
    async with gated(database, gate, in_flight=1, batch_queue=2) as client:
        made = (await sent(client, posts(3))).json()
        await gate.come(1)
        refused = await sent(client, posts(1))
        assert (refused.status_code, refused.json()["error"]["kind"]) == (429, "busy")
        assert int(refused.headers["retry-after"]) > 0
        gate.open()
        await ended(client, f"/v1/batches/{made['id']}")
        assert (await sent(client, posts(1))).status_code == 202


async def test_what_is_not_to_be_kept_goes_after_a_while(database: str) -> None:
    async with gated(database, batch_forgotten=0) as client:
        kept = (await sent(client, posts(1))).json()
        path = f"/v1/batches/{(await sent(client, posts(2), keep=False)).json()['id']}"
        async with asyncio.timeout(PATIENCE):
            while (await client.get(path)).status_code != 404:
                await asyncio.sleep(0.05)
        await ended(client, f"/v1/batches/{kept['id']}")
        assert [case["batch_id"] for case in await get_json(client, "/v1/cases", "cases")] == [
            kept["id"]
        ]
