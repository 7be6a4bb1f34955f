"""Faults of transport and accounts, over the wire: which are tried again, and what a failure says."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.court import court_script
from tests.doubles import Fault, ScriptedServer
from tests.models.classified import GOOD, came_of, classify
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.models.registry import PROVIDERS
from tribunal.settings.context import context_from

FAULTS: list[tuple[str, Any, str, int]] = [
    ("401", Fault(401, "Incorrect API key provided"), "authentication", 1),
    ("403", Fault(403, "Forbidden"), "authentication", 1),
    ("402", Fault(402, "Insufficient Balance"), "quota", 1),
    ("quota", Fault(429, "You exceeded your current quota", "insufficient_quota"), "quota", 1),
    ("429", Fault(429, "Rate limit reached"), "rate_limit", 2),
    (
        "429 for long",
        Fault(429, "Rate limit reached", headers={"Retry-After": "3600"}),
        "rate_limit",
        1,
    ),
    ("500", Fault(500, "internal error"), "server", 2),
    ("502 page", Fault(502, raw=b"<html>Bad gateway</html>"), "server", 2),
    ("503", Fault(503, "overloaded"), "server", 2),
    ("503 for long", Fault(503, "overloaded", headers={"Retry-After": "3600"}), "server", 1),
    ("408", Fault(408, "Request Timeout"), "timeout", 2),
    ("hangs", Fault(hang=True), "timeout", 2),
    ("drops", Fault(drop=True), "connection", 2),
    ("drops midway", Fault(drop="middle"), "connection", 2),
    ("404", Fault(404, "The model `scripted` does not exist"), "request", 1),
    ("model not allowed", Fault(403, "Project p does not have access to model `x`"), "request", 1),
    ("too long", Fault(400, "This model's maximum context length is 8192 tokens"), "too_long", 1),
    ("a page for 200", Fault(200, raw=b"<html>Welcome to the wifi</html>"), "server", 2),
    ("nothing for 200", Fault(200, raw=b""), "server", 2),
    ("null for 200", Fault(200, raw=b"null"), "server", 2),
    ("no choices", Fault(200, body={"id": "x", "choices": []}), "server", 2),
    (
        "an error for 200",
        Fault(200, body={"error": {"code": 503, "message": "upstream is down"}}),
        "server",
        2,
    ),
    (
        "a 401 for 200",
        Fault(200, body={"error": {"code": 401, "message": "who are you?"}}),
        "authentication",
        1,
    ),
]


@pytest.mark.parametrize(
    ("fault", "kind", "attempts"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS]
)
async def test_a_fault_that_stays_is_a_failure_of_its_kind(
    fault: Fault, kind: str, attempts: int
) -> None:
    record, server = await classify(fault, timeout=0.25 if fault.hang else 10)
    assert came_of(record) == ("failure", kind, attempts)
    assert len(server.requests) == attempts
    assert record.fault == {
        "seat": "classifier",
        "role": "classifier",
        "model": "openai:scripted",
        "kind": kind,
    }
    assert (record.label, record.category, record.hateful, record.track) == (None, None, None, None)
    assert [call.error for call in record.calls] == [kind]
    assert "\n" not in record.explanation


PASSING = [case for case in FAULTS if case[3] == 2]


@pytest.mark.parametrize("fault", [case[1] for case in PASSING], ids=[case[0] for case in PASSING])
async def test_a_fault_that_passes_costs_a_try_and_nothing_else(fault: Fault) -> None:
    record, server = await classify([fault, GOOD], timeout=0.5 if fault.hang else 10)
    assert came_of(record) == ("verdict", None, 2)
    assert record.category == "Sexist"
    assert server.requests[0].body == server.requests[1].body
    assert record.calls[0].format == "json_schema"
    assert record.calls[0].error is None
    assert record.warnings == ()


async def test_a_server_that_isn_t_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        record = await judge_post(
            "a post", graph="baseline", context=context_from({"model": "openai:x", "attempts": 3})
        )
    assert came_of(record) == ("failure", "connection", 3)
    assert "cannot connect to 127.0.0.1" in record.explanation
    assert (
        "(3 tries); is its server running? The address is that of OPENAI_BASE_URL"
        in record.explanation
    )


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8080/v1", "localhost/v1", "ftp://localhost/v1", "http:///v1"]
)
async def test_an_address_that_is_none(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(
        BadInput, match=r"^OPENAI_BASE_URL: '.*': not an http\(s\) address; begin it with http://"
    ):
        await judge_post("a post", graph="baseline", context=context_from({"model": "openai:x"}))


async def test_ollama_s_address_may_be_a_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(court_script()) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
        record = await judge_post(
            "a post", graph="baseline", context=context_from({"model": "ollama:x"})
        )
    assert record.outcome == "verdict"
    assert PROVIDERS["ollama"].base_url({"OLLAMA_HOST": "box"}) == "http://box:11434"


async def test_a_404_says_which_address_was_asked() -> None:
    record, server = await classify(
        Fault(404, "The model `scripted` does not exist", "model_not_found")
    )
    assert record.explanation == (
        "request: HTTP 404: The model `scripted` does not exist (model_not_found) "
        f"(asked: {server.url}/v1/chat/completions)"
    )


async def test_what_a_server_says_is_told_once_and_without_its_json() -> None:
    record, _ = await classify(
        Fault(400, body={"error": {"message": "no such thing", "type": "x", "param": None}})
    )
    assert record.explanation.startswith("request: HTTP 400: no such thing (also tried without ")
    assert '"' not in record.explanation


# Time


async def test_a_request_at_temperature_0_that_timed_out_is_not_sent_again_as_it_was() -> None:
    record, server = await classify(
        [Fault(hang=True), GOOD], timeout=0.5, temperatures={"classifier": 0}
    )
    assert came_of(record) == ("verdict", None, 2)
    assert [request.temperature for request in server.requests] == [0, 0.5]
    assert record.warnings == (
        "classifier: no answer in time at temperature 0, asked again at 0.5",
    )
    assert (record.calls[0].temperature, record.calls[0].wanted_temperature) == (0.5, 0)


async def test_what_may_be_behind_a_timeout_is_said() -> None:
    record, _ = await classify(Fault(hang=True), timeout=0.25)
    for words in (
        "no answer within 0.25 s",
        "slow",
        "circles",
        "--concurrency",
        "slots",
        "max_output_tokens",
    ):
        assert words in record.explanation


async def test_what_the_server_asks_to_wait_is_waited() -> None:
    slow = Fault(429, "slow down", headers={"Retry-After": "0.6"})
    record, server = await classify([slow, GOOD])
    assert came_of(record) == ("verdict", None, 2)
    assert server.requests[1].arrived - server.requests[0].arrived >= 0.6
    busy = Fault(503, "busy", headers={"retry-after-ms": "400"})
    record, server = await classify([busy, GOOD])
    assert came_of(record) == ("verdict", None, 2)
    assert server.requests[1].arrived - server.requests[0].arrived >= 0.4


async def test_no_longer_than_the_attempts_last() -> None:
    slow = Fault(429, "slow down", headers={"Retry-After": "0.05"})
    record, server = await classify(slow, attempts=5)
    assert came_of(record) == ("failure", "rate_limit", 5)
    assert len(server.requests) == 5
