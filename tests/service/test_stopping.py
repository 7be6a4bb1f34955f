"""How the real command stops: no case is lost, and none is decided twice. And several processes on one port."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.service.command import Service, started
from tests.service.conftest import get_json, serving
from tests.service.live import sqlite
from tribunal.service.replica.case_queries import count_under_way

POST = {"text": "Good morning!", "graph": "baseline"}


class Gate:
    """A model that answers once it is opened."""

    def __init__(self) -> None:
        self.open, self.asked = asyncio.Event(), asyncio.Event()
        self._script = court_script()

    async def __call__(self, request: Request) -> Reply | Fault:
        self.asked.set()
        await self.open.wait()
        return self._script(request)


@asynccontextmanager
async def at_work(database: str, *options: str) -> AsyncIterator[tuple[Service, Gate]]:
    """The command, with a model that waits."""
    gate = Gate()
    async with ScriptedServer(gate) as model:
        told = {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        try:
            async with started(database, "--in-flight", "1", *options, **told) as service:
                yield service, gate
        finally:
            gate.open.set()


async def unready(service: Service) -> httpx.Response:
    """What it says once it has begun to stop."""
    while (got := await service.client.get("/readyz")).status_code == 200:
        await asyncio.sleep(0.02)
    return got


async def statuses(database: str) -> dict[str, int]:
    """How the next replica finds the cases, which it decides by rehearsal."""
    async with serving(database) as client:
        store = client.app.state.replica.store  # type: ignore[attr-defined]
        while (await count_under_way(store)) != {}:
            await asyncio.sleep(0.05)
        listed = await get_json(client, "/v1/cases", "cases")
    return {
        each["id"]: each["record"]["usage"]["calls"] if each["status"] == "done" else 0
        for each in listed
    }


@pytest.mark.long
async def test_what_is_in_flight_ends_and_nothing_new_begins(database: str) -> None:
    async with at_work(database) as (service, gate):
        begun = asyncio.create_task(service.client.post("/v1/judge?wait=60", json=POST))
        await gate.asked.wait()
        waiting = (await service.client.post("/v1/judge", json=POST)).json()
        assert waiting["status"] == "queued"
        service.signal()
        assert (await unready(service)).json()["trouble"] == "stopping"
        refused = await service.client.post("/v1/judge", json=POST)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "unavailable")
        assert await get_json(service.client, f"/v1/cases/{waiting['id']}", "status") == "queued"
        gate.open.set()
        record = (await begun).json()
        assert record["outcome"] == "verdict"
        await service.process.wait()
    ended = [line for line in service.log() if line["event"] == "case"]
    assert [line["end"] for line in ended] == ["record"]
    assert waiting["id"] in await statuses(database)


@pytest.mark.long
async def test_what_takes_too_long_is_handed_back(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with at_work(database, "--graceful", "0.2") as (service, gate):
        begun = asyncio.create_task(service.client.post("/v1/judge?wait=60", json=POST))
        await gate.asked.wait()
        service.signal()
        got = await begun
        assert got.status_code == 202
        case = got.json()
        assert case["status"] == "queued"
    assert [line["end"] for line in service.log() if line["event"] == "case"] == ["handed_back"]
    assert await statuses(database) == {case["id"]: 1}


@pytest.mark.long
async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    async with at_work(database, "--graceful", "3600") as (service, gate):
        case = (await service.client.post("/v1/judge", json=POST)).json()
        await gate.asked.wait()
        service.signal(signal.SIGINT)
        await unready(service)
        service.signal(signal.SIGTERM)
        assert await service.process.wait() == 0
    assert await statuses(database) == {case["id"]: 1}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
async def test_several_processes_are_one_service(database: str) -> None:
    """On one port, one database and one page of metrics; one that dies is started again; they stop together."""
    async with started(database, "--workers", "2", "--takeover", "2") as service:
        assert (
            next(line for line in service.log() if line["event"].startswith("listening on"))[
                "processes"
            ]
            == 2
        )
        assert service.stderr().count("listening on") == 1
        clients = [httpx.AsyncClient(base_url=service.url, timeout=60) for _ in range(8)]
        posts = [{**POST, "post_id": f"p-{number}"} for number in range(24)]
        got = await asyncio.gather(
            *(clients[at % 8].post("/v1/judge?wait=60", json=post) for at, post in enumerate(posts))
        )
        assert {each.json()["post_id"] for each in got} == {post["post_id"] for post in posts}
        assert [await counted(each) for each in clients] == [24] * 8
        _, second = processes(service)
        os.kill(second, signal.SIGKILL)
        while len(processes(service)) < 3:
            await asyncio.sleep(0.1)
        assert [
            line["pid"] for line in service.log() if line["event"] == "worker process died"
        ] == [second]
        fresh = [httpx.AsyncClient(base_url=service.url, timeout=60) for _ in range(4)]
        assert all(
            [(await each.post("/v1/judge?wait=60", json=POST)).status_code == 200 for each in fresh]
        )
        for each in (*clients, *fresh):
            await each.aclose()
    assert len({line["case"] for line in service.log() if line["event"] == "case"}) == 28


def processes(service: Service) -> list[int]:
    """Every process that has been started."""
    return [line["pid"] for line in service.log() if line["event"] == "worker process started"]


async def counted(client: httpx.AsyncClient) -> int:
    """How many verdicts the metrics tell of."""
    page = (await client.get("/metrics")).text
    return int(
        float(
            re.findall(
                r'(?m)^tribunal_posts_total{graph="baseline",outcome="verdict"} (\S+)$', page
            )[0]
        )
    )
