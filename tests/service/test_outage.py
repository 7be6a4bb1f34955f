"""An outage of the model's server while single posts are judged: each is held, goes on, and is paid once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.conftest import get_json, opened, serving
from tests.service.live import key_of
from tests.service.receiving import receiving
from tests.service.test_service import ended
from tribunal.docket import reservations
from tribunal.docket.case_store import CaseStore
from tribunal.docket.leases import NewCase
from tribunal.runner import outages
from tribunal.store.tables import usage

SETTINGS = {"model": "openai:scripted", "attempts": 1}


class FlakyModel:
    """A court that answers so many requests, and then fails until it is `up` again.

    Attributes:
        answered: the requests that it answered, each a call of some record.
        failed: how many it didn't.
    """

    def __init__(
        self, after: int, fault: Callable[[], Fault] = lambda: Fault(503), **instead: Any
    ) -> None:
        self.up, self.answered, self.failed = False, 0, 0
        self.after, self._fault, self._script = after, fault, court_script(**instead)
        self.never = "\0"  # a post that it never answers

    def __call__(self, request: Request) -> Reply | Fault:
        if self.never in request.text or (not self.up and self.answered >= self.after):
            self.failed += 1
            return self._fault()
        self.answered += 1
        return self._script(request)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAUSES", (0.05, 0.1))


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    while not await found():
        await asyncio.sleep(0.02)


async def taken_in(client: httpx.AsyncClient, count: int, **more: Any) -> list[str]:
    """The addresses of so many posts."""
    given = [
        {"text": f"Good morning, number {each}!", "graph": "arcade", **more}
        for each in range(count)
    ]
    got = await asyncio.gather(*(client.post("/v1/judge", json=each) for each in given))
    assert {each.status_code for each in got} == {202}
    return [each.headers["location"] for each in got]


async def held(client: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """A case, once it is held."""
    while True:
        case: dict[str, Any] = await get_json(client, address)
        assert case["status"] in ("queued", "running"), str(case)
        if case["held"] is not None:
            return case
        await asyncio.sleep(0.02)


async def decided(client: httpx.AsyncClient, addresses: list[str]) -> list[dict[str, Any]]:
    return [(await ended(client, each))["record"] for each in addresses]


@pytest.mark.parametrize(
    ("fault", "posts"),
    [
        pytest.param(lambda: Fault(503), 5, id="503"),
        pytest.param(lambda: Fault(503), 40, id="503, many", marks=pytest.mark.long),
        pytest.param(
            lambda: Fault(429, headers={"retry-after": "0"}), 40, id="429", marks=pytest.mark.long
        ),
        pytest.param(lambda: Fault(401), 40, id="401", marks=pytest.mark.long),
        pytest.param(lambda: Fault(hang=True), 5, id="hangs", marks=pytest.mark.long),
    ],
)
async def test_no_post_is_lost_to_an_outage_and_none_of_its_calls_is_paid_twice(
    database: str, fault: Callable[[], Fault], posts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FlakyModel(after=posts // 2, fault=fault)
    settings = {**SETTINGS, **({"timeout": 3} if fault().hang else {})}
    monkeypatch.setenv("OPENAI_API_KEY", "sk-words-of-a-test")
    key = await key_of(database, "judge", "audit")
    async with OpenAIServer(model):
        async with serving(database, settings=settings) as client:
            client.headers["X-API-Key"] = key
            addresses = await taken_in(client, posts)
            case = await held(client, addresses[-1])
            assert case["held"].startswith("no answer: ")
            assert case["held_until"] <= case["deadline"]
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["degraded"]) == (200, True)
            assert ready.json()["providers"]["openai"]["state"] in ("open", "half-open")
            assert (
                'tribunal_provider_open{provider="openai"} 1.0'
                in (await client.get("/metrics")).text
            )
            model.up = True
            records = await decided(client, addresses)
            ready = await client.get("/readyz")
            assert (ready.json()["degraded"], ready.json()["providers"]["openai"]["state"]) == (
                False,
                "closed",
            )
            metrics = (await client.get("/metrics")).text
            assert 'tribunal_provider_open{provider="openai"} 0.0' in metrics
            assert 'tribunal_cases_held_total{provider="openai"}' in metrics
        async with opened(database) as store:
            paid = await store.fetch_value(select(usage.c.calls).where(usage.c.calls > 0))
    assert [record["explanation"] for record in records if record["outcome"] != "verdict"] == []
    calls = [call for record in records for call in record["calls"]]
    assert sum(call["error"] is None for call in calls) == model.answered
    assert len({call["id"] for call in calls}) == len(calls)
    # calls to a retired key ask nobody
    assert model.answered <= paid <= model.answered + model.failed + posts * 3


async def test_a_server_that_is_not_there_yet_is_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    async with serving(database, settings=SETTINGS) as client:
        addresses = await taken_in(client, 3)
        for each in addresses:
            await held(client, each)
        async with ScriptedServer(court_script(), port=port):
            records = await decided(client, addresses)
    assert [record["outcome"] for record in records] == ["verdict"] * 3


@pytest.mark.long
async def test_one_case_at_a_time_asks_whether_it_answers_again(database: str) -> None:
    model = FlakyModel(after=0)
    async with OpenAIServer(model) as server, serving(database, settings=SETTINGS) as client:
        addresses = await taken_in(client, 6)
        for each in addresses:
            await held(client, each)
        server.peak = server.in_flight = 0
        before = model.failed
        await until(lambda: _is(model.failed > before + 4))
        assert server.peak == 1
        more = await taken_in(client, 3)
        for each in more:
            await held(client, each)
        assert server.peak == 1
        model.up = True
        records = await decided(client, [*addresses, *more])
    assert [record["outcome"] for record in records] == ["verdict"] * 9


async def _is(value: bool) -> bool:
    return value


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"hold_seconds": 0.2}, {"deadline_s": 1000}),
        ({}, {"deadline_s": 0.2}),
        ({"hold_seconds": 0}, {}),
    ],
    ids=["the operator's", "the caller's", "never"],
)
async def test_at_its_deadline_a_post_is_a_failure_and_webhooks_are_told(
    database: str, options: dict[str, Any], asked: dict[str, Any]
) -> None:
    model = FlakyModel(after=0)
    async with (
        OpenAIServer(model),
        receiving() as receiver,
        serving(database, settings=SETTINGS, webhook_http=True, **options) as client,
    ):
        await client.post("/v1/webhooks", json={"url": receiver.url})
        [address] = await taken_in(client, 1, **asked)
        case = await ended(client, address)
        [message] = await receiver.wait(1)
    assert (case["status"], case["record"]["outcome"]) == ("done", "failure")
    assert case["record"]["fault"]["kind"] == "server"
    assert case["held"] is case["deadline"] is None
    assert b'"failure"' in message.body


async def test_a_request_that_waits_is_told_that_its_case_is_held(database: str) -> None:
    model = FlakyModel(after=0)
    once = {"Idempotency-Key": "a-1"}
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:
        post = {"text": "Good morning!", "graph": "baseline"}
        got = await client.post("/v1/judge?wait=0.5", json=post, headers=once)
        assert got.status_code == 202
        case = await held(client, got.headers["location"])
        again = await client.post("/v1/judge", json=post, headers=once)
        assert again.json()["id"] == case["id"]
        model.up = True
        assert (await ended(client, got.headers["location"]))["record"]["outcome"] == "verdict"


async def test_a_drop_in_answers_in_time_in_its_own_form(database: str) -> None:
    sure = {"category": "NotHate", "explanation": "classifier-words", "confidence": 0.9}
    model = FlakyModel(after=0, classifier=sure)
    async with (
        OpenAIServer(model),
        serving(database, settings=SETTINGS, graph="baseline", longest_wait=0.5) as client,
    ):
        got = await client.post("/v1/moderations", json={"input": "Good morning!"})
        assert (got.status_code, got.json()["error"]["code"]) == (504, "late")
        model.up = True
        while (
            got := await client.post("/v1/moderations", json={"input": "Good morning!"})
        ).status_code == 504:
            pass
        assert got.status_code == 200, got.text
        assert got.json()["results"][0]["flagged"] is False
        assert len(await get_json(client, "/v1/cases", "cases")) == 1


@pytest.mark.parametrize("comes_back", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_post_that_is_not_kept_is_held_while_its_caller_waits(
    database: str, comes_back: bool
) -> None:
    model = FlakyModel(after=0)
    post = {"text": "Good morning!", "graph": "baseline", "keep": False}
    async with OpenAIServer(model), serving(database, settings=SETTINGS, in_flight=1) as client:
        asked = asyncio.create_task(
            client.post(f"/v1/judge?wait={60 if comes_back else 5}", json=post)
        )
        await until(lambda: _is(model.failed >= 2 or asked.done()))
        model.up = comes_back
        got = await asked
        assert (got.status_code, got.json()["outcome"]) == (
            200,
            "verdict" if comes_back else "failure",
        )
        model.up = True
        # its place is free again
        other = await client.post("/v1/judge?wait=60", json={**post, "keep": True})
        assert other.json()["outcome"] == "verdict"
        assert await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}", "post") is None


async def test_a_post_that_nobody_ever_answers_fails_by_itself_and_stops_no_other(
    database: str,
) -> None:
    model = FlakyModel(after=10**6)
    model.never = "number 2!"
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:
        addresses = await taken_in(client, 4)
        one = addresses.pop(2)
        while await get_json(client, one, "status") != "done":
            addresses += await taken_in(client, 1)  # the service goes on being used
            await asyncio.sleep(0.05)
        lost, *records = await decided(client, [one, *addresses])
    assert lost["outcome"] == "failure"
    assert {record["outcome"] for record in records} == {"verdict"}


@pytest.mark.long
async def test_cases_that_are_held_hold_up_no_others(database: str) -> None:
    model = FlakyModel(after=0)
    async with (
        OpenAIServer(model),
        serving(database, settings=SETTINGS, in_flight=2) as client,
        opened(database) as store,
    ):
        addresses = await taken_in(client, 8)
        for each in addresses:
            await held(client, each)
        asked = NewCase(
            graph="baseline", post={"text": "Good morning!"}, settings={"model": "rehearsal"}
        )
        case, *_ = await CaseStore(store, "another", 60).take_in(
            asked, "", here=False, most_waiting=100
        )
        assert (await ended(client, f"/v1/cases/{case}"))["record"]["outcome"] == "verdict"
        model.up = True
        assert {record["outcome"] for record in await decided(client, addresses)} == {"verdict"}


async def test_a_hold_outlives_a_restart(database: str) -> None:
    model = FlakyModel(after=5)
    async with OpenAIServer(model):
        async with serving(database, settings=SETTINGS) as client:
            addresses = await taken_in(client, 4)
            for each in addresses:
                before = await held(client, each)
        model.up = True
        async with serving(database, settings=SETTINGS) as client:
            assert await get_json(client, addresses[-1], "deadline") in (None, before["deadline"])
            records = await decided(client, addresses)
    assert {record["outcome"] for record in records} == {"verdict"}
    calls = [call for record in records for call in record["calls"]]
    assert sum(call["error"] is None for call in calls) == model.answered


@pytest.mark.long
async def test_what_a_person_has_sent_back_and_the_trial_of_an_appeal_are_held_too(
    database: str,
) -> None:
    unsure = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
    model = FlakyModel(after=10**6, explicit=True, judge=unsure)
    async with OpenAIServer(model), serving(database, settings=SETTINGS) as client:
        post = {"text": "post-words", "graph": "tribunal", "settings": {"review": True}}
        back, accepted = [
            f"/v1/cases/{(await client.post('/v1/judge?wait=60', json=post)).headers['tribunal-case']}"
            for _ in range(2)
        ]
        await client.post(f"{accepted}/decision", json={"action": "accept", "reviewer": "kim"})
        said = {"appellant": "user-7", "reason": "It is a line of a song."}
        appeal = (await client.post(f"{accepted}/appeal", json=said)).headers["location"]
        model.after = 0
        ask = {"action": "ask", "question": "is it a quotation?", "reviewer": "kim"}
        assert (await client.post(f"{back}/decision", json=ask)).status_code == 202
        ordered = await client.post(
            f"{appeal}/decision", json={"action": "retry", "reviewer": "lee"}
        )
        trial = f"/v1/cases/{ordered.json()['trial_id']}"
        for each in (back, trial):
            assert (await held(client, each))["held"].startswith("no answer: ")
        model.up = True
        assert (await ended(client, back))["record"]["outcome"] == "pending"
        assert (await ended(client, trial))["record"]["outcome"] == "verdict"
        assert await get_json(client, appeal, "status") == "tried"


@pytest.mark.long
async def test_a_post_whose_tries_used_up_its_part_of_the_budget_is_held_and_tried_with_a_new_part(
    database: str,
) -> None:
    model, key = FlakyModel(after=0), await key_of(database, "judge", "audit", daily_calls=50)
    async with OpenAIServer(model):
        settings = {**SETTINGS, "attempts": 6, "max_calls": 5}
        async with serving(database, settings=settings) as client:
            client.headers["X-API-Key"] = key
            [address] = await taken_in(client, 1)
            assert "its key's daily budget was spent" in (await held(client, address))["held"]
            model.up = True
            [record] = await decided(client, [address])
    assert record["outcome"] == "verdict"


async def test_a_post_that_its_key_cannot_pay_now_keeps_no_other_from_being_the_probe(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "PAUSES", (0.5, 1.0))
    monkeypatch.setattr(reservations, "MOMENT", 0.1)
    model, key = FlakyModel(after=0), await key_of(database, "judge", "audit", daily_calls=30)
    async with (
        OpenAIServer(model),
        serving(database, settings={**SETTINGS, "max_calls": 5}) as client,
    ):
        client.headers["X-API-Key"] = key
        addresses = await taken_in(client, 1)
        # it has paid for a call, and has nothing reserved any more
        await held(client, addresses[0])
        post = {"text": "Good morning!", "graph": "arcade"}
        while (got := await client.post("/v1/judge", json=post)).status_code == 202:
            addresses.append(got.headers["location"])
        assert got.json()["error"]["kind"] == "spent"
        model.up = True
        [record] = await decided(client, addresses[-1:])
    assert record["outcome"] == "verdict"
