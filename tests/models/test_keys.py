"""Several keys for one provider: used in turn, retired, rested, and never told."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD, PROSE, came_of, classify
from tribunal.docket.session import judge_post
from tribunal.errors import ModelError
from tribunal.nodes import agents, state
from tribunal.schema import JSON
from tribunal.settings.context import context_from

KEYS = ["key-zero-aaaaaaaa", "key-one-bbbbbbbb", "key-two-cccccccc"]


@pytest.fixture
def three_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in zip(
        ("OPENAI_API_KEY", "OPENAI_API_KEY_1", "OPENAI_API_KEY_2"), KEYS, strict=True
    ):
        monkeypatch.setenv(name, key)


def used(server: ScriptedServer) -> list[int]:
    return [
        KEYS.index(request.headers["authorization"].removeprefix("Bearer "))
        for request in server.requests
    ]


@pytest.mark.usefixtures("three_keys")
async def test_keys_are_used_in_turn() -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, rounds=2)
    assert used(server) == [0, 1, 2, 0, 1, 2]
    assert [call.key for call in record.calls] == [0, 1, 2, 0, 1, 2]


def by_key(faults: dict[int, Fault]) -> Callable[[Request], Reply | Fault]:
    def script(request: Request) -> Reply | Fault:
        number = KEYS.index(request.headers["authorization"].removeprefix("Bearer "))
        return faults.get(number) or court_script(classifier=GOOD)(request)

    return script


@pytest.mark.usefixtures("three_keys")
async def test_a_refused_key_is_retired() -> None:
    async with ScriptedServer(
        by_key({0: Fault(401, "no"), 1: Fault(429, "spent", "insufficient_quota")})
    ) as server:
        records = [await decide(server, graph="baseline", attempts=1) for _ in range(3)]
    assert [came_of(record) for record in records] == [
        ("verdict", None, 3),
        ("verdict", None, 1),
        ("verdict", None, 1),
    ]
    assert used(server) == [0, 1, 2, 2, 2]
    assert [record.calls[0].key for record in records] == [2, 2, 2]


@pytest.mark.usefixtures("three_keys")
async def test_when_every_key_is_refused() -> None:
    async with ScriptedServer(
        by_key(dict.fromkeys(range(3), Fault(401, "about your quota: no")))
    ) as server:
        first = await decide(server, graph="baseline")
        second = await decide(server, graph="baseline")
    assert came_of(first) == ("failure", "authentication", 3)
    assert came_of(second) == ("failure", "authentication", 0)  # known by now: nothing is sent
    assert "all 3 keys" in first.explanation
    assert used(server) == [0, 1, 2]


@pytest.mark.usefixtures("three_keys")
async def test_a_limited_key_rests_and_another_is_used_at_once() -> None:
    slow = Fault(429, "slow down", headers={"Retry-After": "30"})
    async with ScriptedServer(by_key({0: slow, 1: slow})) as server:
        records = [await decide(server, graph="baseline", attempts=1) for _ in range(3)]
    assert [came_of(record)[0] for record in records] == ["verdict"] * 3
    assert used(server) == [0, 1, 2, 2, 2]


@pytest.mark.usefixtures("three_keys")
async def test_when_all_keys_rest_the_first_to_be_back_is_waited_for() -> None:
    def script(request: Request) -> Reply | Fault:
        number = KEYS.index(request.headers["authorization"].removeprefix("Bearer "))
        waits = {0: "30", 1: "0.4", 2: "30"}
        return (
            Reply(GOOD)
            if request.index >= 3
            else Fault(429, "slow down", headers={"Retry-After": waits[number]})
        )

    async with ScriptedServer(script) as server:
        record = await decide(server, graph="baseline", attempts=2)
    assert came_of(record) == ("verdict", None, 4)
    assert used(server) == [0, 1, 2, 1]
    assert server.requests[3].arrived - server.requests[1].arrived >= 0.4


async def test_a_key_set_late_is_taken_and_the_old_one_is_still_kept_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEYS[0])
    async with ScriptedServer(lambda request: Fault(401, f"no: {KEYS[0]}, {KEYS[1]}")) as server:
        first = await decide(server, graph="baseline")
        monkeypatch.setenv("OPENAI_API_KEY", KEYS[1])
        second = await decide(server, graph="baseline")
    assert used(server) == [0, 1]
    assert KEYS[0] not in first.explanation + second.explanation
    assert KEYS[1] not in second.explanation


ECHOES = [
    Fault(401, f"Incorrect API key provided: {KEYS[0]}; {KEYS[1]}; {KEYS[2]}"),
    Fault(500, f"upstream got {KEYS[0]} {KEYS[1]} {KEYS[2]}"),
    Fault(429, " ".join(KEYS), headers={"Retry-After": "0"}),
    Fault(400, f"response_format: {KEYS[0]}"),
    Fault(404, raw=f"<html>Bearer {KEYS[0]}</html>".encode()),
    Fault(
        400, body={"error": {"message": "x", "code": "content_filter", "headers": {"k": KEYS[0]}}}
    ),
    Fault(200, raw=KEYS[0].encode()),
    Fault(200, body={"error": KEYS[0]}),
]


@pytest.mark.usefixtures("three_keys")
@pytest.mark.parametrize("echo", ECHOES, ids=str)
async def test_no_key_is_ever_told(
    echo: Fault, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    events: list[Any] = []
    async with ScriptedServer(court_script(defence=echo)) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        context = context_from({"model": "openai:a,openai:b", "attempts": 2, "trace": True})
        record = await judge_post("a post", graph="arcade", context=context, listen=events.append)
    assert record.outcome in ("failure", "refusal")
    everything = [
        record.model_dump_json(),
        json.dumps(events),
        caplog.text,
        *capfd.readouterr(),
        repr(record),
    ]
    for key in KEYS:
        assert all(key not in text and key[4:] not in text for text in everything)


@pytest.mark.usefixtures("three_keys")
@pytest.mark.parametrize("echo", [*ECHOES, Reply(PROSE)], ids=str)
async def test_no_key_is_in_an_exception_or_what_led_to_it(
    echo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BaseException] = []
    outcome_of = state.outcome_of

    def overheard(fault: ModelError) -> JSON:
        seen.append(fault)
        return outcome_of(fault)

    monkeypatch.setattr(agents, "outcome_of", overheard)
    await classify(echo)
    assert len(seen) == 1
    text = "".join(traceback.format_exception(seen[0]))
    links, known = [seen[0]], set()
    while links:
        link = links.pop()
        if id(link) in known:
            continue
        known.add(id(link))
        text += repr(link) + str(vars(link))
        links += [each for each in (link.__cause__, link.__context__) if each]
    assert not any(key in text for key in KEYS)
