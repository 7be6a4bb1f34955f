"""Everything at once: three replicas killed, one while the model's server is down, connections ended, too small a
budget. Each post has one outcome or an honest refusal, and the model is never asked more often than was allowed.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable

import httpx
import psycopg
import pytest

from tests.doubles import ScriptedServer
from tests.service.command import Service
from tests.service.fleet import Fleet, fleet
from tests.service.live import key_of
from tests.service.test_outage import FlakyModel
from tests.service.test_replicas import OPTIONS, kill_a_replica
from tribunal.schema import JSON

REPLICAS, CLIENTS = 3, 24
CALLS = 4  # that a post takes, which the gatekeeper dismisses


async def _end_connections(replicas: Fleet) -> None:
    """End every connection to the database, whatever is under way on it."""
    server, _, name = replicas.database.rpartition("/")
    async with await psycopg.AsyncConnection.connect(
        f"{server}/postgres", autocommit=True
    ) as connection:
        gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        await connection.execute(gone, [name])


async def _break_the_model(replicas: Fleet, model: FlakyModel, victim: Service) -> None:
    """Let the model fail until a replica says so on `/readyz` and, in the midst of it, another one is killed."""
    model.up = False
    while not any([await _is_degraded(each) for each in list(replicas.replicas)]):
        await asyncio.sleep(0.1)
    await kill_a_replica(replicas, victim)
    model.up = True


async def _is_degraded(one: Service) -> bool:
    try:
        return bool((await one.client.get("/readyz")).json().get("degraded"))
    except httpx.TransportError:
        return False


async def _send_post(
    replicas: Fleet, chance: random.Random, number: int, headers: JSON
) -> str | None:
    """The case of a post; None where it was refused since the day's budget is spent."""
    post = {
        "text": f"[[track=none]] Good morning, number {number}!",
        "post_id": f"p-{number}",
        "graph": "arcade",
    }
    once = {**headers, "Idempotency-Key": f"post-{number}"}
    while True:
        try:
            got = await replicas.client(chance).post("/v1/judge", json=post, headers=once)
        except httpx.TransportError:
            await asyncio.sleep(0.2)
            continue
        if got.status_code == 202:
            return str(got.json()["id"])
        error, pause = got.json()["error"], float(got.headers["Retry-After"])
        if error["kind"] == "spent" and pause > 60:
            return None
        assert error["kind"] in ("spent", "busy", "unavailable"), got.text
        await asyncio.sleep(min(pause, 0.5))


async def _outcome(replicas: Fleet, chance: random.Random, case_id: str, headers: JSON) -> str:
    """What became of a case: its outcome, or that it is held till there is a budget again."""
    while True:
        case = (await replicas.ask(chance, "GET", f"/v1/cases/{case_id}", headers=headers)).json()
        if case["status"] == "done":
            record = case["record"]
            return str(
                record["explanation"] if record["outcome"] == "failure" else record["outcome"]
            )
        assert case["status"] in ("queued", "running"), case
        if case["held"] and "of today are spent" in case["held"]:
            return "held"
        await asyncio.sleep(0.2)


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("posts", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_a_storm_loses_no_post_and_pays_for_no_call_over_the_budget(
    database: str, posts: int
) -> None:
    seed = int(os.environ.get("TRIBUNAL_TEST_SEED") or secrets.randbelow(10**6))
    print(f"TRIBUNAL_TEST_SEED={seed}")  # noqa: T201 (pytest shows it when the test fails)
    chance, budget = random.Random(seed), posts * CALLS // 2
    key = await key_of(database, "judge", "audit", daily_calls=budget)
    headers, model = {"X-API-Key": key}, FlakyModel(after=0)
    model.up = True
    found: dict[int, str | None] = {}
    async with ScriptedServer(model, latency=0.1) as server:
        told = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        async with fleet(
            database, REPLICAS, *OPTIONS, "--in-flight", "3", "--set", "max_calls=8", **told
        ) as replicas:
            victims = chance.sample(replicas.replicas, REPLICAS)
            strikes: list[Callable[[], Awaitable[None]]] = [
                lambda: kill_a_replica(replicas, victims[0]),
                lambda: _break_the_model(replicas, model, victims[1]),
                lambda: _end_connections(replicas),
                lambda: kill_a_replica(replicas, victims[2]),
            ]
            # By the calls that came, so that each strikes while there is a budget to be lost.
            moments = sorted(chance.sample(range(1, budget // 2), len(strikes)))

            async def strike_in_turn() -> None:
                striking = []
                for moment, strike in zip(moments, strikes, strict=True):
                    while len(server.requests) < moment:
                        await asyncio.sleep(0.05)
                    striking.append(asyncio.ensure_future(strike()))
                await asyncio.gather(*striking)

            numbers = iter(range(posts))

            async def client() -> None:
                for number in numbers:
                    found[number] = await _send_post(replicas, chance, number, headers)

            await asyncio.gather(strike_in_turn(), *(client() for _ in range(CLIENTS)))
            cases = [case for case in found.values() if case is not None]
            outcomes = Counter([await _outcome(replicas, chance, case, headers) for case in cases])
            spent = (await replicas.ask(chance, "GET", "/v1/usage", headers=headers)).json()
    assert replicas.kills == REPLICAS
    assert model.failed > 0
    assert len(found) == posts
    assert len(set(cases)) == len(cases), "two posts have one case"
    assert outcomes.keys() <= {"verdict", "held"}
    assert outcomes["verdict"] > 0
    assert len(server.requests) <= budget, "calls over the budget"
    assert len(server.requests) <= spent["days"][0]["spent"]["calls"] <= budget


@pytest.mark.long
async def test_who_is_killed_in_an_outage_costs_no_post_no_call_and_no_reservation(
    database: str,
) -> None:
    """The posts that are held are nobody's in particular: whoever is there when the model is back decides them once."""
    posts, chance = 8, random.Random(1)
    budget = 3 * 8 * posts  # what a killed attempt had reserved counts as spent
    headers = {"X-API-Key": await key_of(database, "judge", "audit", daily_calls=budget)}
    model = FlakyModel(after=posts)
    async with ScriptedServer(model) as server:
        told = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        number = 2 if database.startswith("postgresql") else 1
        async with fleet(database, number, *OPTIONS, "--set", "max_calls=8", **told) as replicas:
            cases = [await _send_post(replicas, chance, each, headers) for each in range(posts)]
            while not await _is_degraded(replicas.replicas[0]):
                await asyncio.sleep(0.1)
            await kill_a_replica(replicas, replicas.replicas[0])
            model.up = True
            outcomes = Counter(
                [await _outcome(replicas, chance, str(case), headers) for case in cases]
            )
            listed = (await replicas.ask(chance, "GET", "/v1/cases", headers=headers)).json()[
                "cases"
            ]
            records = [(await replicas.ask(chance, "GET", f"/v1/cases/{each}", headers=headers)).json()["record"]
                       for each in cases]  # fmt: skip
            [today] = (await replicas.ask(chance, "GET", "/v1/usage", headers=headers)).json()[
                "days"
            ]
    assert model.failed > 0
    assert outcomes == {"verdict": posts}
    assert Counter(each["id"] for each in listed) == Counter(cases), "each post has one case"
    paid = [call["id"] for record in records for call in record["calls"] if call["error"] is None]
    assert len(set(paid)) == len(paid) <= model.answered
    assert len(server.requests) <= today["spent"]["calls"] <= budget
    assert set(today["reserved"].values()) == {0}, "nothing stays reserved"
