"""A bug of this program ends the case that met it, at once; what another attempt may do better is tried again."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError, StatementError

from tests.service.batched import ended as batch_ended
from tests.service.conftest import get_json, serving
from tests.service.test_service import ended
from tribunal.docket import trials
from tribunal.docket.records import make_record

SECRET = "sk-words-of-the-post"
OWN = [
    TypeError(SECRET),
    KeyError(SECRET),
    RecursionError(SECRET),
    StatementError(SECRET, "INSERT", {}, TypeError(SECRET)),
    ExceptionGroup(SECRET, [TypeError(SECRET)]),
]
OTHERS = [
    OperationalError("SELECT", {}, Exception("closed")),
    OSError(24, "Too many open files"),
    MemoryError(),
]


def fail_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the first trial end with an error when its record is made."""
    left = [error]

    def make(*given: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return make_record(*given, **more)

    monkeypatch.setattr(trials, "make_record", make)


@pytest.mark.parametrize("way", ["post", "unkept", "batch"])
@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
async def test_a_bug_ends_its_case_as_a_failure(
    sqlite: str,
    error: Exception,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if way == "unkept":
        monkeypatch.setattr("tribunal.docket.trials.judge_unreviewed", _raising(error))
    fail_once(monkeypatch, error)
    async with serving(sqlite, graph="baseline", settings={"model": "rehearsal"}) as client:
        post = {"text": "Good morning!", "post_id": "t-1"}
        if way == "batch":
            rows = json.dumps({"id": "t-1", "text": "Good morning!"})
            kind = {"Content-Type": "application/x-ndjson"}
            batch = (await client.post("/v1/batches", content=rows, headers=kind)).headers[
                "location"
            ]
            await batch_ended(client, batch)
        else:
            await client.post("/v1/judge?wait=60", json={**post, "keep": way == "post"})
        [case] = await get_json(client, "/v1/cases", "cases")
        await ended(client, f"/v1/cases/{case['id']}")
        case = await client.app.state.replica.case_store.case(case["id"])  # type: ignore[attr-defined]
        metrics = (await client.get("/metrics")).text
    name = type(error).__name__
    assert (case["status"], case["outcome"], case["attempt"]) == ("done", "failure", 1)
    if way != "unkept":
        assert case["record"]["fault"]["kind"] == "internal"
        explanation = case["record"]["explanation"]
        assert (name in explanation, "Traceback" in explanation, SECRET in json.dumps(case)) == (
            True,
            False,
            False,
        )
        assert case["record"]["post_id"] == "t-1"
    if way == "post":
        assert case["record"]["usage"]["calls"] == 1, "it was made, and is paid"
    assert f'tribunal_trial_errors_total{{error="{name}"}} 1.0' in metrics
    [logged] = [
        each
        for each in caplog.records
        if each.levelno == logging.ERROR and case["id"] in each.getMessage()
    ]
    assert logged.exc_info is not None
    assert logged.exc_info[1] is error


def _raising(error: Exception) -> Any:
    async def judge(*given: Any, **more: Any) -> Any:
        raise error

    return judge


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
async def test_a_failure_of_the_machine_is_tried_again(
    sqlite: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, error)
    async with serving(sqlite, graph="baseline", settings={"model": "rehearsal"}) as client:
        location = (await client.post("/v1/judge", json={"text": "Good morning!"})).headers[
            "location"
        ]
        await ended(client, location)
        case = await client.app.state.replica.case_store.case(location.rpartition("/")[2])  # type: ignore[attr-defined]
        metrics = (await client.get("/metrics")).text
    assert (case["status"], case["outcome"], case["attempt"]) == ("done", "verdict", 2)
    assert "tribunal_trial_errors_total{" not in metrics
