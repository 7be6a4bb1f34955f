"""A key's daily budget bounds what is sent to models, to the call: in a burst, over replicas, and on every way in."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, Script, ScriptedServer
from tests.service.batched import ended, posts, sent
from tests.service.conftest import get_json, opened, serving, write
from tests.service.fleet import fleet
from tests.service.live import key_of
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import NewCase
from tribunal.docket.reservations import calls_of_trial
from tribunal.errors import Problem
from tribunal.models.budget import Spending
from tribunal.schema import JSON
from tribunal.settings.context import context_from
from tribunal.store.tables import api_keys, cases, usage

POST = {"text": "post-words"}
FAST = court_script(explicit=True)  # four calls a post


class HeldBack:
    """A model that answers once it is let; attributes: `come`, set when the first call has come."""

    def __init__(self, script: Script = FAST) -> None:
        self.script, self.free, self.come = script, asyncio.Event(), asyncio.Event()

    async def __call__(self, request: Request) -> Reply | Fault:
        self.come.set()
        await self.free.wait()
        answer: Any = self.script(request)
        return answer  # type: ignore[no-any-return]


@asynccontextmanager
async def court(
    database: str, script: Any = FAST, replicas: int = 1, **options: Any
) -> AsyncIterator[tuple[ScriptedServer, list[httpx.AsyncClient]]]:
    """Replicas on one database, and the model that they ask."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer(script))
        os.environ["OPENAI_BASE_URL"] = (
            f"{server.url}/v1"  # taken away again before the next test (conftest)
        )
        settings = {"model": "openai:scripted", **options.pop("settings", {})}
        chosen: JSON = {"graph": "arcade", "settings": settings, "takeover": 120.0, **options}
        clients = [
            await stack.enter_async_context(serving(database, **chosen)) for _ in range(replicas)
        ]
        yield server, clients


async def account(database: str) -> JSON:
    """What all keys have spent and reserved."""
    async with opened(database) as store:
        rows = await store.fetch_rows(select(usage).where(usage.c.period.not_like("%T%")))
    names = ("calls", "tokens", "reserved_calls", "reserved_tokens", "reserved_money")
    return {name: sum(row[name] for row in rows) for name in names}


async def at_rest(client: httpx.AsyncClient, database: str) -> None:
    """Wait until nothing is queued or under way."""
    under_way = select(cases.c.id).where(cases.c.status.in_(("queued", "running")))
    async with opened(database) as store:
        while await store.fetch_rows(under_way):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("wait", ["", "?wait=60"])
@pytest.mark.parametrize("own", [{}, {"max_calls": 4}])
async def test_a_burst_buys_no_call_more_than_the_days_budget(
    database: str, wait: str, own: JSON
) -> None:
    key = {"X-API-Key": await key_of(database, "judge", daily_calls=10)}
    async with court(database, replicas=2, settings=own) as (server, clients):
        answers = await asyncio.gather(
            *(clients[n % 2].post(f"/v1/judge{wait}", json=POST, headers=key) for n in range(60))
        )
        await at_rest(clients[0], database)
        assert server.served <= 10
        taken = [each for each in answers if each.status_code in (200, 202)]
        refused = [each for each in answers if each.status_code == 429]
        assert (len(taken) + len(refused), bool(taken)) == (60, True)
        assert all(each.json()["error"]["kind"] == "spent" for each in refused), refused[0].text
        assert "reserved for cases under way" in refused[0].text
        assert int(refused[0].headers["retry-after"]) > 0
        spent = await account(database)
        assert (spent["calls"], spent["reserved_calls"]) == (server.served, 0)


async def test_retries_and_re_asks_are_calls_of_the_budget(database: str) -> None:
    def broken(request: Request) -> Reply | Fault:
        return Fault(status=503)

    key = {"X-API-Key": await key_of(database, "judge", daily_calls=3)}
    async with court(database, broken, graph="baseline", settings={"attempts": 20}) as (
        server,
        [client],
    ):
        case = (await client.post("/v1/judge", json=POST, headers=key)).headers["location"]
        while not (held := await get_json(client, case, "held", headers=key)):
            await asyncio.sleep(0.02)
        assert server.served == 3
        assert (await client.post("/v1/judge", json=POST, headers=key)).status_code == 429
        assert server.served == 3
    assert "daily budget" in held


async def test_tokens_are_bounded_by_what_a_call_may_take(database: str) -> None:
    """The most that a call may take is counted before it is sent, so what calls took stays within the limit."""
    limit = 30_000
    key = {"X-API-Key": await key_of(database, "judge", daily_tokens=limit)}
    async with court(database, settings={"max_output_tokens": 1000}) as (server, [client]):
        for _ in range(3):
            answers = await asyncio.gather(
                *(client.post("/v1/judge?wait=60", json=POST, headers=key) for _ in range(20))
            )
        assert any(each.status_code == 200 for each in answers) or server.served
        spent = await account(database)
        assert 0 < spent["tokens"] <= limit
        assert spent["reserved_tokens"] == 0


async def test_money_is_reserved_by_the_dearest_token(database: str, tmp_path: Any) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["openai:scripted"]\ninput = 1000\noutput = 1000\n')
    key = {"X-API-Key": await key_of(database, "judge", "admin", daily_money=30.0)}
    options: JSON = {"prices": prices, "settings": {"max_output_tokens": 500}}
    async with court(database, **options) as (server, [client]):
        answers = await asyncio.gather(
            *(client.post("/v1/judge?wait=60", json=POST, headers=key) for _ in range(20))
        )
        refused = [each for each in answers if each.status_code == 429]
        assert server.served
        assert refused
        assert "this key's money of today are spent" in refused[0].text
        seen = await get_json(client, "/v1/usage", headers=key)
        [today] = seen["days"]
        assert 0 < today["spent"]["money"] <= 30
        assert (today["reserved"]["money"], seen["limits"]["money"]) == (
            pytest.approx(0, abs=1e-6),
            30,
        )


async def test_a_batch_and_a_drop_in_pay_from_the_same_budget(database: str) -> None:
    key = {"X-API-Key": await key_of(database, "judge", daily_calls=5)}
    async with court(database, graph="baseline", in_flight=8, batch_share=1) as (server, [client]):
        path = f"/v1/batches/{(await sent(client, posts(12), headers=key)).json()['id']}"
        several = {"input": [f"post {n}" for n in range(8)]}
        await asyncio.gather(
            *(client.post("/v1/moderations", json=several, headers=key) for _ in range(3))
        )
        while (seen := await get_json(client, path, headers=key))["status"] != "held":
            await asyncio.sleep(0.02)
        assert seen["held_until"] > time.time()
        assert server.served <= 5
        spent = await account(database)
        assert (spent["calls"], spent["reserved_calls"]) == (server.served, 0)
        await write(database, update(api_keys).values(daily_calls=None))
        await client.post(f"{path}/resume", headers=key)
        assert (await ended(client, path, headers=key))["rows"]["done"] == 12


async def test_a_killed_attempt_counts_in_full_and_the_case_waits_for_tomorrow(
    database: str,
) -> None:
    key = (await key_of(database, "judge", daily_calls=10)).split("_")[1]
    new = NewCase(graph="arcade", post=POST, settings={"max_calls": 6})
    async with opened(database) as store:
        dead, living = CaseStore(store, "dead", 30.0), CaseStore(store, "living", 30.0)
        # it never gives a heartbeat
        case_id, *_ = await dead.take_in(new, key, here=True, most_waiting=1)
        with pytest.raises(Problem, match="0 of 10, and 6 reserved"):
            await living.take_in(new, key, here=True, most_waiting=1)
        assert await living.take_next() is None
        assert await account(database) | {"tokens": 0} == {
            "calls": 6, "tokens": 0, "reserved_calls": 0, "reserved_tokens": 0, "reserved_money": 0,
        }  # fmt: skip
        row = await living.case(case_id)
        assert (row["status"], row["attempt"], row["reserved_day"]) == ("queued", 1, None)
        assert "are spent: 6 of 10" in row["held"]
        assert row["held_until"] > time.time()
        assert await living.list_free(5) == []
        async with store.transaction() as connection:  # tomorrow
            await connection.execute(update(usage).values(period="2020-01-01"))
            await connection.execute(update(cases).values(held_until=time.time() - 1))
        held = await living.take_next()
        assert held is not None
        assert (held.attempt, held.reserved and held.reserved.calls) == (2, 6)
        await living.give_back(held, Spending(calls=2))
    assert (await account(database))["calls"] == 6 + 2
    assert (await account(database))["reserved_calls"] == 0


async def test_a_case_counts_on_the_day_that_it_was_reserved_of(database: str) -> None:
    key = (await key_of(database, "judge", daily_calls=10)).split("_")[1]
    new = NewCase(graph="arcade", post=POST, settings={"max_calls": 6})
    async with opened(database) as store:
        mine = CaseStore(store, "mine", 30.0)
        await mine.send_heartbeat()
        await mine.take_in(new, key, here=False, most_waiting=1)
        async with store.transaction() as connection:  # it was yesterday
            await connection.execute(update(usage).values(period="2020-01-01"))
            await connection.execute(update(cases).values(reserved_day="2020-01-01"))
        held = await mine.take_next()
        assert held is not None
        await mine.cancel(held, "why", Spending(calls=5))
        rows = {row["period"]: row for row in await store.fetch_rows(select(usage))}
    assert [(day, row["calls"], row["reserved_calls"]) for day, row in rows.items()] == [
        ("2020-01-01", 5, 0)
    ]


async def test_a_persons_question_pays_and_their_decision_does_not(database: str) -> None:
    key = {"X-API-Key": await key_of(database, "judge", "review", daily_calls=4)}
    settings = {"review": True, "review_rule": ["all"]}
    async with court(database, graph="tribunal", settings=settings) as (server, [client]):
        got = await client.post("/v1/judge?wait=60", json=POST, headers=key)
        assert (got.json()["outcome"], server.served) == ("pending", 4)
        at = f"/v1/cases/{got.headers['tribunal-case']}/decision"
        asked = await client.post(
            at, json={"action": "ask", "question": "Who is meant?"}, headers=key
        )
        assert (asked.status_code, asked.json()["error"]["kind"]) == (429, "spent")
        done = await client.post(at, json={"action": "change", "category": "NotHate"}, headers=key)
        assert done.status_code == 200, done.text
        assert server.served == 4
    assert await account(database) | {"tokens": 0} == {
        "calls": 4, "tokens": 0, "reserved_calls": 0, "reserved_tokens": 0, "reserved_money": 0,
    }  # fmt: skip


async def test_a_client_that_goes_away_gives_back_what_its_case_did_not_spend(
    database: str,
) -> None:
    model = HeldBack()
    key = {"X-API-Key": await key_of(database, "judge", daily_calls=40)}
    async with court(database, model) as (_, [client]):
        asked = asyncio.create_task(
            client.post("/v1/judge?wait=60", json={**POST, "keep": False}, headers=key)
        )
        await model.come.wait()
        assert (await account(database))["reserved_calls"] == 40
        replica = client.app.state.replica  # type: ignore[attr-defined]
        [trial] = replica.worker.trials.values()
        trial.cancel()  # as when the client hangs up
        await asyncio.gather(trial, asked, return_exceptions=True)
        model.free.set()
        spent = await account(database)
        assert (spent["calls"], spent["reserved_calls"]) == (1, 0)


async def test_a_key_sees_what_it_has_spent_and_an_admin_sees_everybodys(database: str) -> None:
    key, admin = await key_of(database, "judge", daily_calls=30), await key_of(database, "admin")
    model = HeldBack()
    async with court(database, model) as (server, [client]):
        asked = asyncio.create_task(
            client.post("/v1/judge?wait=60", json=POST, headers={"X-API-Key": key})
        )
        await model.come.wait()
        [today] = await get_json(client, "/v1/usage", "days", headers={"X-API-Key": key})
        assert (today["spent"]["calls"], today["reserved"]["calls"]) == (0, 30)
        model.free.set()
        assert (await asked).status_code == 200
        async with opened(database) as store, store.transaction() as connection:
            yesterday = {
                "key_id": key.split("_")[1],
                "period": "2020-01-01",
                "calls": 3,
                "requests": 0,
            }
            await connection.execute(usage.insert().values(**yesterday))
        whose = f"key={key.split('_')[1]}&days=400"
        seen = await get_json(client, f"/v1/usage?{whose}", headers={"X-API-Key": admin})
        assert seen["limits"] == {"calls": 30, "tokens": None, "money": None}
        [today] = seen["days"]
        assert (today["spent"]["calls"], today["reserved"]["calls"]) == (server.served, 0)


def test_the_calls_of_a_trial_are_those_of_the_docs() -> None:
    """As the table of the README has them, which the benchmark counts."""
    calls = {
        graph: calls_of_trial(graph, context_from({"rounds": 3}))
        for graph in (
            "tribunal",
            "arcade",
            "multiround",
            "mv_debate",
            "baseline",
            "self_consistency",
            "predict",
        )
    }
    assert calls == {
        "tribunal": 8, "arcade": 8, "multiround": 7, "mv_debate": 28, "baseline": 1, "self_consistency": 5,
        "predict": None,
    }  # fmt: skip
    assert calls_of_trial("tribunal", context_from({"web": True})) is None


@pytest.mark.slow
@pytest.mark.long
async def test_a_replica_that_is_killed_buys_no_call_over_the_budget(database: str) -> None:
    """Half of the replicas are killed in the middle of their trials, and others go on with the cases."""
    key = await key_of(database, "judge", daily_calls=60)
    slow = asyncio.Event()

    async def script(request: Request) -> Reply | Fault:
        if model.served > 12:
            slow.set()
        await asyncio.sleep(0.05)
        return FAST(request)

    async with ScriptedServer(script) as model:
        told = {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        options = (
            "--graph",
            "arcade",
            "--set",
            "max_calls=6",
            "--in-flight",
            "4",
            "--takeover",
            "6",
        )
        async with fleet(database, 2, *options, **told) as replicas:
            first, second = replicas.replicas
            headers = {"X-API-Key": key}
            sending = [
                asyncio.create_task(each.client.post("/v1/judge", json=POST, headers=headers))
                for each in (first, second)
                for _ in range(20)
            ]
            await slow.wait()
            replicas.kill(first)
            await asyncio.gather(*sending, return_exceptions=True)
            running = select(cases.c.id).where(cases.c.status == "running")
            async with opened(database) as store:
                while await store.fetch_rows(running):
                    await asyncio.sleep(0.1)
            while (
                await second.client.post("/v1/judge?wait=60", json=POST, headers=headers)
            ).status_code != 429:
                pass
    spent = await account(database)
    assert (model.served <= spent["calls"] <= 60, replicas.kills) == (True, 1)
