"""A case that can't be kept: its verdict is printed all the same, and line and status say that nobody is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.cases.forked import Forked
from tests.court import court_script
from tests.openai_server import OpenAIServer

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
JUDGE = ("judge", "post-words", "--model", "openai:scripted", "--review")
pytestmark = pytest.mark.long  # a process or two for each
UNKEPT = "this case could not be kept for a person to review"


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(20_000, marks=pytest.mark.slow),
        50_000,
        pytest.param(100_000, marks=pytest.mark.slow),
    ],
)
async def test_a_full_disk_loses_no_verdict(forked: Forked, room: int) -> None:
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)) as server:
        done = await asyncio.to_thread(forked.run, *JUDGE, "--json", room=room)
        assert (done.status, done.err.count("\n")) == (4, 1)
        assert done.err.startswith(
            f"tribunal: not kept, so no person will be asked: {UNKEPT} (database: "
        )
        record = json.loads(done.out)
        assert (record["outcome"], record["category"], record["thread"]) == (
            "verdict",
            "Religious",
            None,
        )
        assert [UNKEPT in each for each in record["warnings"]].count(True) == 1
        assert len(server.requests) == 4
        shown = await asyncio.to_thread(forked.run, *JUDGE, room=room)
        assert (shown.status, "HATE SPEECH" in shown.out, f"note: {UNKEPT}" in shown.out) == (
            4,
            True,
            True,
        )
        whole = await asyncio.to_thread(forked.run, *JUDGE)
        assert whole.status == 5  # there is room again


async def test_a_folder_that_can_t_be_made_loses_no_verdict(forked: Forked) -> None:
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)):
        done = await asyncio.to_thread(
            forked.run, *JUDGE, "--json", "--set", "review_rule=all", folder=Path("/proc/none")
        )
        listed = await asyncio.to_thread(forked.run, "review", "list", folder=Path("/proc/none"))
    assert (done.status, json.loads(done.out)["category"]) == (4, "Religious")
    assert "not kept, so no person will be asked" in done.err
    assert (listed.status, listed.err.count("\n")) == (2, 1)
    assert "/proc/none/service.sqlite: can't be written" in listed.err


async def test_a_disk_that_is_full_in_the_middle_of_a_second_trial(forked: Forked) -> None:
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)):
        first = await asyncio.to_thread(forked.run, *JUDGE, "--json")
        thread = json.loads(first.out)["thread"]
        asked = await asyncio.to_thread(
            forked.run, "review", "decide", thread, "--ask", "why?", room=90_000
        )
        assert (asked.status, asked.err.count("\n")) == (2, 1)
        assert "can't be written" in asked.err
        assert "make room" in asked.err
        with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite") as held:
            held.execute("UPDATE replicas SET seen = seen - 31")  # half a minute passes
        held.close()
        [case] = json.loads((await asyncio.to_thread(forked.run, "review", "list", "--json")).out)
        ways = {"pending": ("decide", thread, "--accept"), "cut_off": ("resume", thread)}
        done = await asyncio.to_thread(forked.run, "review", *ways[case["status"]])
    assert done.status in (0, 5), done.err
