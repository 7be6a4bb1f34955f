"""Replicas are killed while they judge: every post has one outcome, nothing is lost, and every webhook comes.

Who is killed, and when, comes from a seed (TRIBUNAL_TEST_SEED). A moment is a number of outcomes, and no time.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.command import Service
from tests.service.fleet import Fleet, fleet
from tests.service.live import key_of
from tests.service.receiving import Receiver, receiving
from tribunal.schema import JSON
from tribunal.store.engine import Store
from tribunal.store.tables import usage

IN_FLIGHT = 8
TAKEOVER = "8"  # seconds; a machine that is busy must not make a replica look dead
OPTIONS = (
    *(
        "--in-flight",
        str(IN_FLIGHT),
        "--takeover",
        TAKEOVER,
        "--webhook-http",
        "--limit",
        "webhook_timeout=3",
    ),
    *("--limit", "webhook_retries=1,1,1,1,1,1,1,1", "--log-level", "warning"),
)
Strike = Callable[[Fleet, Service], Awaitable[None]]


def kill_a_replica(replicas: Fleet, one: Service) -> Awaitable[None]:
    """Kill a whole one; to wait for what is given is to start another in its place."""
    replicas.kill(one)
    return replicas.again(one)


def kill_a_process(replicas: Fleet, one: Service) -> Awaitable[None]:
    """Kill the last process of several on one port; its parent starts another."""
    begun = [line["pid"] for line in one.log() if line["event"] == "worker process started"]
    os.kill(begun[-1], signal.SIGKILL)
    replicas.kills += 1
    return asyncio.sleep(0)


async def judged(
    database: str, posts: int, number: int, strike: Strike, *options: str, kills: bool = True
) -> None:
    """Judge so many posts by so many replicas, each of which is struck once, and see that all is as it should be."""
    seed = int(os.environ.get("TRIBUNAL_TEST_SEED") or secrets.randbelow(10**6))
    print(f"TRIBUNAL_TEST_SEED={seed}")  # noqa: T201 (pytest shows it when the test fails)
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(posts // 10, posts - posts // 10), number))
    headers = {"X-API-Key": await key_of(database, "judge", "audit", "admin")}
    async with ScriptedServer(court_script(), latency=0.1) as model, receiving() as receiver:
        told = {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        async with fleet(database, number, *OPTIONS, *options, **told) as replicas:
            hook = await replicas.ask(
                chance, "POST", "/v1/webhooks", json={"url": receiver.url}, headers=headers
            )
            found = await _decided(replicas, chance, posts, moments, strike, headers)
            listed = await _listed(replicas, chance, headers)
            told_of = await _told_of(receiver, hook.json()["secret"], posts)
        asked = Counter(line for request in model.requests for line in _numbers(request.text))
    assert replicas.kills == (number if kills else 0)
    ids = {post: case for post, (case, _) in found.items()}
    assert len(ids) == len(set(ids.values())) == posts
    assert all(
        record["outcome"] == "verdict" and record["post_id"] == post
        for post, (_, record) in found.items()
    )
    assert Counter(ids.values()) == Counter(case["id"] for case in listed), (
        "a post has two cases, or none"
    )
    assert all(case["status"] == "done" for case in listed)
    assert told_of.keys() == set(ids.values())
    assert all(len(messages) == 1 for messages in told_of.values()), "one id a case"
    assert len(asked) == posts
    assert max(asked.values()) <= 1 + replicas.kills
    assert sum(asked.values()) - posts <= replicas.kills * IN_FLIGHT, (
        "only what a kill found in flight is asked again"
    )
    assert await _accounted(database) == posts


async def cut_off(replicas: Fleet, one: Service) -> None:
    """Close every connection to the database and let nobody in until a client was told so."""
    server, _, name = replicas.database.rpartition("/")
    async with await psycopg.AsyncConnection.connect(
        f"{server}/postgres", autocommit=True
    ) as connection:
        await connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            await connection.execute(gone, [name])
            await replicas.unavailable.wait()
        finally:
            await connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


async def _decided(
    replicas: Fleet,
    chance: random.Random,
    posts: int,
    moments: list[int],
    strike: Strike,
    headers: JSON,
) -> dict[str, tuple[str, JSON]]:
    """The posts' cases and records, by their ids."""
    found: dict[str, tuple[str, JSON]] = {}
    waiting, victims = iter(range(posts)), chance.sample(replicas.replicas, len(moments))
    starting: list[asyncio.Future[None]] = []

    async def client() -> None:
        for number in waiting:
            post = {
                "text": f"Good morning, number {number}!",
                "post_id": f"p-{number}",
                "graph": "baseline",
            }
            once = {**headers, "Idempotency-Key": f"post-{number}"}
            found[f"p-{number}"] = await replicas.decided(chance, post, once)
            while moments and len(found) >= moments[0]:
                moments.pop(0)
                starting.append(asyncio.ensure_future(strike(replicas, victims.pop())))

    await asyncio.gather(*(client() for _ in range(3 * IN_FLIGHT)))
    await asyncio.gather(*starting)
    return found


async def _listed(replicas: Fleet, chance: random.Random, headers: JSON) -> list[JSON]:
    """Every case there is."""
    listed: list[JSON] = []
    before: dict[str, str] = {}
    while True:
        query = {"limit": 200, **before}
        page = (
            await replicas.ask(chance, "GET", "/v1/cases", params=query, headers=headers)
        ).json()
        listed += page["cases"]
        if page["next"] is None:
            return listed
        before = {"before": page["next"]}


async def _told_of(receiver: Receiver, secret: str, posts: int) -> dict[str, set[str]]:
    """Of each case the ids of the messages that came, once every case was told of."""
    told: dict[str, set[str]] = {}
    read = 0
    async with asyncio.timeout(60):
        while len(told) < posts:
            await receiver.wait(read + 1)
            for at in range(read, len(receiver.came)):
                message: dict[str, Any] = receiver.read(at, secret)
                told.setdefault(message["data"]["id"], set()).add(receiver.came[at].id)
            read = len(receiver.came)
    return told


def _numbers(text: str) -> list[str]:
    return [line for line in text.splitlines() if "morning, number" in line]


async def _accounted(database: str) -> int:
    """How many calls the key's account holds."""
    store = await Store.open(database)
    try:
        async with store.transaction() as connection:
            return int((await connection.execute(select(func.sum(usage.c.calls)))).scalar_one())
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("number", "posts"), [(2, 60), pytest.param(3, 500, marks=pytest.mark.slow)]
)
async def test_replicas_each_killed_once(database: str, number: int, posts: int) -> None:
    await judged(database, posts, number, kill_a_replica)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("posts", [60, 500])
async def test_a_replica_on_sqlite_that_is_killed_and_started_again(
    database: str, posts: int
) -> None:
    await judged(database, posts, 1, kill_a_replica)


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
async def test_processes_on_one_port_that_are_killed(database: str) -> None:
    await judged(database, 300, 1, kill_a_process, "--workers", "2", "--log-level", "info")


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("posts", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_the_database_goes_away_and_comes_back(database: str, posts: int) -> None:
    """No trial is lost over it: each post is asked about once."""
    await judged(database, posts, 1, cut_off, kills=False)
