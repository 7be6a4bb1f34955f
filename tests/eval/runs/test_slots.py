"""A run of many posts in flight against a server that answers one request at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.doubles import Reply, Request, ScriptedServer
from tests.eval.runs.test_run import decided, lines
from tests.eval.runs.worker import job
from tribunal.runner.tally import describe_progress

ANSWER = Reply({"category": "NotHate", "explanation": "words"})


@pytest.mark.long
async def test_eight_in_flight_against_one_slot_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tribunal.models.keys.retry_delay", lambda attempt: 0.0)
    slot = asyncio.Lock()

    async def script(request: Request) -> Reply:
        async with slot:  # a client that has gone leaves the queue, as it does at llama.cpp's
            await asyncio.sleep(0.3)
        return ANSWER

    async with ScriptedServer(script) as server:
        tally = await decided(server, tmp_path, job(12, 8, timeout=1.2, attempts=6))
    assert (tally.done, tally.stopped) == (12, "")
    assert {line["outcome"] for line in lines(tmp_path)} == {"verdict"}
    assert 1 < server.peak <= 8
    said = describe_progress(tally, priced=False)
    assert "requests to openai:scripted timed out beside others, so it was sent as few as " in said


async def test_nothing_is_said_where_nothing_timed_out(tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: ANSWER) as server:
        tally = await decided(server, tmp_path, job(12, 8))
    assert tally.slowed == ""
    assert "timed out" not in describe_progress(tally, priced=False)
