"""How long a server asks to wait: wherever it says so, the key rests for that long, and no longer than the timeout."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.doubles import Fault, Reply, Request
from tests.models.classified import GOOD, came_of, classify
from tribunal.models.waits import parse_duration, read_wait

SECONDS = {
    "7.9s": 7.9, "6m0s": 360.0, "350ms": 0.35, "1h2m3s": 3723.0, "2 minutes": 120.0, "1.5 seconds": 1.5, "1d": 86_400.0,
    "": None, "soon": None, "7": None, "-3s": None, "nans": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), SECONDS.items())
def test_a_duration(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


# Each way of asking for a hundred seconds: headers and body, made from the time that is a hundred seconds ahead.
ASKED: dict[str, Callable[[datetime], tuple[dict[str, str], str]]] = {
    "retry-after": lambda then: ({"Retry-After": "100"}, ""),
    "date": lambda then: ({"Retry-After": format_datetime(then, usegmt=True)}, ""),
    "retry-after-ms": lambda then: ({"retry-after-ms": "100000"}, ""),
    "x-ratelimit-reset-tokens": lambda then: ({"x-ratelimit-reset-tokens": "1m40s"}, ""),
    "the limit that is used up": lambda then: (
        {
            "x-ratelimit-reset-requests": "1m40s",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-tokens": "9h",
        },
        "",
    ),
    "seconds": lambda then: ({"x-ratelimit-reset": "100"}, ""),
    "epoch": lambda then: ({"X-RateLimit-Reset": f"{then.timestamp():.0f}"}, ""),
    "epoch in ms": lambda then: ({"X-RateLimit-Reset": f"{then.timestamp() * 1000:.0f}"}, ""),
    "time": lambda then: ({"anthropic-ratelimit-requests-reset": then.isoformat()}, ""),
    "RetryInfo": lambda then: (
        {},
        '{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "100s"}',
    ),
    "words": lambda then: ({}, "Rate limit reached. Please try again in 1m40s."),
    "words in seconds": lambda then: ({}, "Too many requests, retry after 100 seconds"),
}


@pytest.mark.parametrize("way", ASKED)
def test_a_rate_limit_says_how_long(way: str) -> None:
    headers, body = ASKED[way](datetime.now(UTC) + timedelta(seconds=100))
    wait = read_wait(headers, body, limited=True)
    assert wait is not None
    assert 50 < wait.seconds <= 101
    assert wait.source


@pytest.mark.parametrize(
    "headers",
    [{"Retry-After": "nan"}, {"Retry-After": "-5"}, {"Retry-After": "soon"}, {"X-RateLimit-Reset": "1e400"},
     {"X-RateLimit-Reset": "-1"}, {"X-RateLimit-Reset": "x" * 10_000}, {"retry-after-ms": "inf"},
     {"Retry-After": "inf"}],
)  # fmt: skip
def test_what_a_header_says_is_never_a_wait_that_breaks_anything(headers: dict[str, str]) -> None:
    wait = read_wait(headers, "", limited=True)
    assert wait is None or wait.seconds >= 0


SHORT: dict[str, dict[str, Any]] = {
    "retry-after-ms": {"headers": {"retry-after-ms": "50"}},
    "x-ratelimit-reset-requests": {"headers": {"x-ratelimit-reset-requests": "50ms"}},
    "x-ratelimit-reset": {"headers": {"X-RateLimit-Reset": "0.05"}},
    "RetryInfo": {
        "body": {"error": {"code": 429, "message": "Busy", "details": [{"retryDelay": "0.05s"}]}}
    },
    "words": {"body": {"error": {"message": "Limit reached. Please try again in 50ms."}}},
}


@pytest.mark.parametrize("way", SHORT)
async def test_a_key_rests_as_long_as_it_is_told_and_the_log_says_why(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tribunal")
    faults = [Fault(429, **SHORT[way])] * 3

    def script(request: Request) -> Reply | Fault:
        return faults.pop() if faults else Reply(GOOD)

    record, _ = await classify(script, attempts=4)
    assert came_of(record) == ("verdict", None, 4)
    rests = [each.getMessage() for each in caplog.records if "rests 0.05 s" in each.getMessage()]
    assert len(rests) == 3
    assert all(
        way.partition("-requests")[0] in each or "try again in 50ms" in each for each in rests
    )


@pytest.mark.parametrize("header", ["Retry-After", "x-ratelimit-reset-tokens"])
async def test_no_wait_is_longer_than_the_timeout(header: str) -> None:
    record, server = await classify(
        lambda request: Fault(429, headers={header: "3600"}), timeout=10
    )
    assert (record.outcome, (record.fault or {})["kind"]) == ("failure", "rate_limit")
    assert "3600 s" in record.explanation
    assert len(server.requests) == 1
