"""The service over HTTP: one post in, its record out; keys, limits, and what no request may set."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import update

from tests.court import court_script
from tests.doubles import Reply, ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.conftest import get_json, serving, write
from tribunal.store.engine import Store
from tribunal.store.tables import idempotency

ABUSE = "Immigrants are vermin and should be deported."


async def test_a_post_is_decided_while_one_waits(database: str) -> None:
    async with serving(database) as client:
        got = await client.post(
            "/v1/judge?wait=60", json={"text": ABUSE, "graph": "arcade", "post_id": "p-1"}
        )
        assert got.status_code == 200, got.text
        record = got.json()
        assert (record["outcome"], record["post_id"], record["graph"]) == (
            "verdict",
            "p-1",
            "arcade",
        )
        case = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}")
        assert (case["status"], case["post"]["text"], case["record"]) == ("done", ABUSE, record)


async def test_a_post_is_taken_in_and_asked_for_later(database: str) -> None:
    async with serving(database) as client:
        got = await client.post("/v1/judge", json={"text": "Good morning!", "graph": "baseline"})
        assert got.status_code == 202
        case = await ended(client, got.headers["location"])
        assert (case["status"], case["record"]["outcome"]) == ("done", "verdict")
        listed = await get_json(client, "/v1/cases", params={"outcome": "verdict", "limit": 1})
        assert [each["id"] for each in listed["cases"]] == [case["id"]]
        assert await get_json(client, "/v1/cases", params={"before": listed["next"]}) == {
            "cases": [],
            "next": None,
        }


async def ended(client: Any, address: str, **more: Any) -> dict[str, Any]:
    while True:
        case: dict[str, Any] = (await client.get(address, **more)).json()
        if case["status"] in ("done", "cancelled"):
            return case
        await asyncio.sleep(0.05)


async def test_a_failure_is_not_what_an_idempotency_key_stands_for(database: str) -> None:
    """The same request makes a new trial after a failure; what was decided is found again."""
    once = {"Idempotency-Key": "a-1"}
    verdict = court_script()
    async with (
        OpenAIServer(lambda asked: verdict(asked) if asked.index > 1 else Reply("no form")),
        serving(database, graph="baseline", settings={"model": "openai:scripted"}) as client,
    ):
        asked = [
            await client.post("/v1/judge?wait=60", json={"text": "Good morning!"}, headers=once)
            for _ in range(3)
        ]
    assert [each.json()["outcome"] for each in asked] == ["failure", "verdict", "verdict"]
    assert asked[0].headers["tribunal-case"] != asked[1].headers["tribunal-case"]
    assert asked[1].json() == asked[2].json()


async def test_a_request_is_done_once(database: str) -> None:
    once = {"Idempotency-Key": "a-1"}
    post = {"text": "Good morning!", "graph": "baseline"}
    async with serving(database) as client:
        first, second = await asyncio.gather(
            *(client.post("/v1/judge?wait=60", json=post, headers=once) for _ in range(2))
        )
        assert first.json() == second.json()
        assert len(await get_json(client, "/v1/cases", "cases")) == 1
        other = await client.post("/v1/judge", json={**post, "text": "Good night!"}, headers=once)
        assert (other.status_code, other.json()["error"]["kind"]) == (409, "conflict")
    async with serving(database) as client:  # another process, later
        again = await client.post("/v1/judge?wait=60", json=post, headers=once)
        assert again.json() == first.json()


@pytest.mark.parametrize("release", ["this", "earlier"])
@pytest.mark.parametrize("path", ["/v1/judge", "/v1/batches"])
async def test_a_request_is_the_same_under_other_settings_of_the_operator(
    database: str, path: str, release: str
) -> None:
    """An idempotency key covers the client's request: a row of an earlier release, which covered the settings, too."""
    kind = {"Content-Type": "application/json" if path == "/v1/judge" else "application/x-ndjson"}
    requests: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("k-1", {"text": "Good morning!"}, {}),
        ("k-2", {"text": "Good morning!"}, {"graph": "arcade", "settings": {"rounds": 2}}),
    ]

    async def send(client: Any, number: int, **other: object) -> Any:
        key, post, options = requests[number]
        options = {**options, **other}
        headers = {**kind, "Idempotency-Key": key}
        if path == "/v1/judge":
            return await client.post(path, json={**post, **options}, headers=headers)
        query = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in options.items()
        }
        return await client.post(
            path, content=json.dumps({"id": "1", **post}), headers=headers, params=query
        )

    async with serving(database, graph="arcade", settings={"model": "rehearsal"}) as client:
        first = [(await send(client, number)).headers["location"] for number in range(2)]
    if release == "earlier":
        await write(database, update(idempotency).values(client_request=None))
    async with serving(
        database, graph="multiround", settings={"model": "rehearsal", "max_calls": 50}
    ) as client:
        for number in range(2):
            again = await send(client, number)
            case = again.headers.get("tribunal-case")
            got = f"/v1/cases/{case}" if case else again.headers.get("location")
            assert got == first[number], again.text
        others = [
            await send(client, 0, settings={"max_calls": 7}),
            await send(client, 1, graph="multiround"),
        ]
        assert [each.status_code for each in others] == [409, 409], [each.text for each in others]


async def test_a_trial_is_heard_as_it_happens(database: str) -> None:
    async with serving(database) as client:
        got = await client.post("/v1/judge", json={"text": ABUSE, "graph": "arcade"})
        events = []
        async with client.stream("GET", f"{got.headers['location']}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    events.append(value)
                if name == "data" and events[-1] == "end":
                    case = json.loads(value)
        assert events[-2:] == ["outcome", "end"]
        assert events.count("turn") == len(case["record"]["transcript"])


@pytest.mark.long
@pytest.mark.parametrize(
    "asked",
    [
        {"settings": {"model": "openai:gpt-4o"}},
        {"settings": {"cache": "/tmp/a.sqlite"}},
        {"settings": {"policy": "/etc/passwd"}},
        {"settings": {"searxng_url": "http://127.0.0.1:22"}},
        {"settings": {"rouns": 2}},
        {"image": "/etc/passwd"},
        {"graph": "nope"},
        {"text": ""},
        {"colour": "red"},
        {"keep": False},
    ],
    ids=lambda asked: json.dumps(asked),
)
async def test_what_no_request_may_ask_for(asked: dict[str, Any], tmp_path: Any) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        got = await client.post("/v1/judge", json={"text": "hi", "graph": "baseline", **asked})
        assert (got.status_code, got.json()["error"]["kind"]) == (400, "bad_input"), got.text
        assert await get_json(client, "/v1/cases", "cases") == []


async def test_what_must_not_be_kept_is_not(database: str) -> None:
    async with serving(database) as client:
        post = {"text": "Good morning!", "graph": "baseline", "keep": False}
        got = await client.post("/v1/judge?wait=60", json=post)
        assert got.json()["outcome"] == "verdict"
        case = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}")
        assert (case["status"], case["post"], case["record"]) == ("done", None, None)


async def test_a_case_of_a_dead_replica_is_tried_by_another(database: str) -> None:
    async with ScriptedServer(court_script(implicit=False)):
        pass
    store = await Store.open(database)
    from tribunal.docket.case_store import CaseStore
    from tribunal.docket.leases import NewCase

    dead = CaseStore(store, "dead", 3.0)
    new = NewCase(graph="baseline", post={"text": "Good morning!"}, settings={})
    case_id, *_ = await dead.take_in(new, "", here=True, most_waiting=1)
    async with serving(database) as client:
        case = await ended(client, f"/v1/cases/{case_id}")
        assert case["record"]["outcome"] == "verdict"
    await store.close()
