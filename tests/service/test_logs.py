"""The log of the real command: one JSON line a request and a case, no post and no key in it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.command import started
from tests.service.conftest import serving
from tests.service.live import key_of, sqlite
from tribunal.service.telemetry.metrics import log_to_stderr, logger

POST = "Immigrants: the weeds in our garden, said the Zanzibarian."
KEY = "sk-of-the-operator-0123456789"


@pytest.mark.long
async def test_a_request_and_its_case_are_a_line_each_and_hold_no_post_and_no_key(
    tmp_path: Path,
) -> None:
    key = await key_of(sqlite(tmp_path), "judge")
    sent = {"X-API-Key": key, "X-Request-ID": "of-mine.1"}
    async with started(f"sqlite:///{tmp_path}/service.sqlite", OPENAI_API_KEY=KEY) as service:
        post = {"text": POST, "graph": "baseline", "post_id": "p-1"}
        got = await service.client.post(f"/v1/judge?wait=60&key={key}", json=post, headers=sent)
        assert got.status_code == 200
        assert got.headers["x-request-id"] == "of-mine.1"
        await service.client.get(f"/v1/cases/{key}", headers=sent)
        await service.client.get(f"/{KEY}%1b[31m", headers={"X-Request-ID": "a\tb"})
    lines = service.log()
    case = next(line for line in lines if line["event"] == "case")
    assert case["case"] == got.headers["tribunal-case"]
    assert (case["graph"], case["end"], case["outcome"], case["calls"]) == (
        "baseline",
        "record",
        "verdict",
        1,
    )
    asked, _, odd = [line for line in lines if line["event"] == "request"]
    assert (asked["method"], asked["route"], asked["status"], asked["level"]) == (
        "POST",
        "/v1/judge",
        200,
        "info",
    )
    assert asked["request_id"] == case["request_id"] == "of-mine.1"
    assert odd["request_id"].isalnum()  # the one that was given may not stand in a log
    told = service.stderr()
    assert "Zanzibarian" not in told
    assert key not in told
    assert key.split("_", 2)[2] not in told
    assert KEY not in told
    assert "\x1b" not in told


@pytest.mark.long
async def test_an_operator_may_want_the_posts_and_the_level(tmp_path: Path) -> None:
    async with started(sqlite(tmp_path), "--log-posts", "--log-level", "debug") as service:
        await service.client.post("/v1/judge?wait=60", json={"text": POST, "graph": "baseline"})
        await service.client.post(
            "/v1/judge?wait=60", json={"text": "Not kept", "graph": "baseline", "keep": False}
        )
    assert [line.get("post") for line in service.log() if line["event"] == "case"] == [POST, None]
    assert "/healthz" in [line.get("path") for line in service.log()]
    assert "Not kept" not in service.stderr()
    assert "the log holds the words of posts" in service.stderr()


@pytest.mark.long
@pytest.mark.parametrize(
    "more", [(), ("--workers", "2", "--log-level", "debug"), ("--log-level", "error")]
)
async def test_every_line_is_json_from_the_first_to_the_last(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    async with started(sqlite(tmp_path), "--log-posts", *more) as service:
        await service.client.get("/nowhere")
    events = [(line["level"], line["event"]) for line in service.log()]
    assert f"listening on {service.url}" in [event for _, event in events]
    assert ("warning", "the log holds the words of posts") in events  # at every level


@asynccontextmanager
async def breaking(database: str) -> AsyncIterator[Any]:
    async with serving(database) as client:

        async def broken() -> None:
            raise ValueError(f"what was posted: {POST}")

        client.app.add_api_route("/broken", broken)  # type: ignore[attr-defined]
        yield client


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Any:
    """Sets the log up as the command does, and takes it down again."""
    root, ours = logging.getLogger(), [logging.getLogger(name) for name in ("tribunal", "uvicorn")]
    before = root.handlers[:], root.level, [each.level for each in ours]
    yield log_to_stderr
    logging.captureWarnings(False)
    root.handlers[:], root.level = before[0], before[1]
    for each, level in zip(ours, before[2], strict=True):
        each.setLevel(level)


async def test_a_fault_of_ours_has_one_shape_and_its_words_stay_out_of_the_log(
    tmp_path: Path, log: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log("info", posts=False, database=None)
    async with breaking(sqlite(tmp_path)) as client:
        got = await client.get("/broken")
    assert (got.status_code, got.json()["error"]["kind"]) == (500, "internal")
    assert got.headers["x-request-id"] in got.json()["error"]["message"]
    assert "Zanzibarian" not in got.text
    told = capsys.readouterr().err
    lines = [json.loads(line) for line in told.splitlines()]
    failed = next(line for line in lines if line["event"] == "a request failed")
    assert failed["error"] == ["ValueError"]
    assert failed["at"][-1].endswith(" broken")
    assert failed["request_id"] == got.headers["x-request-id"]
    assert next(line for line in lines if line["event"] == "request")["level"] == "error"
    assert "Zanzibarian" not in told


def test_other_libraries_lines_have_the_same_form(
    log: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log("debug", posts=False, database="postgresql://me:a-pass-word@host/name")
    logging.getLogger("uvicorn.error").info("job %s of postgresql://me:a-pass-word@host", 1)
    logging.getLogger("asyncio").error(
        "Task was never retrieved\nfuture: <Task exception=ValueError('Zanzibarian')>"
    )
    logging.getLogger("openai").debug("Zanzibarian")
    try:
        raise KeyError("inner Zanzibarian")
    except KeyError:
        logging.getLogger("uvicorn.error").exception(
            "Exception in ASGI application", exc_info=sys.exc_info()
        )
    told = capsys.readouterr().err
    job, task, failed = [json.loads(line) for line in told.splitlines()]
    assert (job["event"], job["logger"]) == ("job 1 of postgresql://me:[key]@host", "uvicorn.error")
    assert task["event"] == "Task was never retrieved"
    assert (failed["error"], failed["level"]) == (["KeyError"], "error")
    assert "Zanzibarian" not in told


def test_on_a_terminal_it_is_for_people(
    log: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tribunal.service.telemetry.metrics.is_watched", lambda aside: True)
    log("info", posts=False, database=None)
    logger("tribunal.service").info("request", path="/\x1b[2J\n{}", status=200)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "\x1b" not in told
    assert "request" in told
    assert "status=200" in told
