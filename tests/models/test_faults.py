"""Faults of transport and accounts, over the wire: which are tried again, and what a failure says."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.models.classified import GOOD, came_of, classify
from tribunal.cases.session import hear
from tribunal.context import context_from
from tribunal.eval.doubles.scripted import Fault

FAULTS: list[tuple[str, Any, str, int]] = [
    ("401", Fault(401, "Incorrect API key provided"), "authentication", 1),
    ("403", Fault(403, "Forbidden"), "authentication", 1),
    ("402", Fault(402, "Insufficient Balance"), "quota", 1),
    ("quota", Fault(429, "You exceeded your current quota", "insufficient_quota"), "quota", 1),
    ("429", Fault(429, "Rate limit reached"), "rate_limit", 2),
    ("429 for long", Fault(429, "Rate limit reached", headers={"Retry-After": "3600"}), "rate_limit", 1),
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
    ("an error for 200", Fault(200, body={"error": {"code": 503, "message": "upstream is down"}}), "server", 2),
    ("a 401 for 200", Fault(200, body={"error": {"code": 401, "message": "who are you?"}}), "authentication", 1),
]


@pytest.mark.parametrize(("fault", "kind", "attempts"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
async def test_a_fault_that_stays_is_a_failure_of_its_kind(fault: Fault, kind: str, attempts: int) -> None:
    record, server = await classify(fault, timeout=0.25 if fault.hang else 10)
    assert came_of(record) == ("failure", kind, attempts)
    assert len(server.requests) == attempts
    assert record.fault == {"seat": "classifier", "role": "classifier", "model": "openai:scripted", "kind": kind}
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
        record = await hear("a post", graph="baseline", context=context_from({"model": "openai:x", "attempts": 3}))
    assert came_of(record) == ("failure", "connection", 3)
    assert "Cannot connect to host 127.0.0.1" in record.explanation
    assert "(3 tries)" in record.explanation


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
