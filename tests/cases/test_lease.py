"""One process at a time works on a case; another is told so, and one that has lost its lease writes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.cases.forked import Done, Forked
from tests.court import PATIENCE, court_script
from tribunal.cases.docket import Docket
from tribunal.eval.doubles.scripted import Reply, ScriptedServer

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
LATER = {**UNSURE, "explanation": "words-of-the-first"}


@asynccontextmanager
async def judging() -> AsyncIterator[Process]:
    """A trial that is under way in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()", *JUDGE,
        env={**os.environ, "PYTHONPATH": str(PROJECT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def the_only_case(forked: Forked, status: str) -> dict[str, Any]:
    listed = await ran(forked, "list", "--json", "--decided")
    [case] = json.loads(listed.out)
    assert case["status"] == status
    found: dict[str, Any] = case
    return found


async def ran(forked: Forked, *arguments: str) -> Done:
    """A `tribunal review` of another process."""
    return await asyncio.to_thread(forked.run, "review", *arguments)


async def calls(server: ScriptedServer, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(server.requests) < number:
            await asyncio.sleep(0.02)


def half_a_minute_passes() -> None:
    with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "cases.sqlite") as held:
        held.execute("UPDATE leases SET until = until - 31")
    held.close()


JUDGE = ("judge", "post-words", "--model", "openai:scripted", "--review", "--json")


async def test_the_live_trial_of_another_process_is_no_case_to_resume(forked: Forked) -> None:
    answered = asyncio.Event()

    async def script(request: Any) -> Any:
        if len(server.requests) == 4:
            await answered.wait()
        return play(request)

    play = court_script(explicit=True, judge=UNSURE)
    async with ScriptedServer(script) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        async with judging() as trial:
            await calls(server, 4)
            case = await the_only_case(forked, "running")
            table = (await ran(forked, "list")).out
            assert "is being tried" in table
            assert "resume" not in table
            for arguments in (("resume",), ("decide", "--accept"), ("show",)):
                done = await ran(forked, arguments[0], case["thread"], *arguments[1:])
                assert (done.status, "is being tried right now" in done.err) == (2, True), done.err
            answered.set()
            await trial.communicate()
            assert trial.returncode == 5
    assert len(server.requests) == 4
    await the_only_case(forked, "pending")


@pytest.mark.slow
async def test_a_process_that_slept_too_long_replaces_no_decision(forked: Forked) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=[Reply(LATER, delay=2), UNSURE])) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        async with judging() as sleeper:
            await calls(server, 4)
            sleeper.send_signal(signal.SIGSTOP)
            half_a_minute_passes()
            case = await the_only_case(forked, "cut_off")
            resumed = await ran(forked, "resume", case["thread"])
            assert resumed.status == 5, resumed.err
            decided = await ran(forked, "decide", case["thread"], "--category", "Sexist", "--reviewer", "kim")
            assert decided.status == 0, decided.err
            before = everything()
            sleeper.send_signal(signal.SIGCONT)
            out, told = await sleeper.communicate()
    assert (sleeper.returncode, out) == (2, b"")
    assert b"another process has taken this case over" in told
    assert b"Traceback" not in told
    assert everything() == before
    record = json.loads((await ran(forked, "show", case["thread"], "--json")).out)
    assert (record["category"], record["review"]["reviewer"]) == ("Sexist", "kim")
    assert record["review"]["court"]["explanation"] == "judge-words"


def everything() -> list[Any]:
    """Every row of the docket."""
    with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "cases.sqlite") as held:
        rows = [held.execute(f"SELECT * FROM {table}").fetchall() for table in ("cases", "checkpoints", "writes")]
    held.close()
    return rows


async def test_a_lease_is_renewed_while_its_process_works(monkeypatch: Any) -> None:
    monkeypatch.setattr("tribunal.cases.lease.LEASE", 0.6)
    docket, other = await Docket.open(), await Docket.open()
    async with docket._leases.held("a-case", "is being tried"):
        first = await other._db.rows("SELECT until FROM leases")
        await asyncio.sleep(1.5)
        second = await other._db.rows("SELECT until FROM leases")
    assert second[0]["until"] - first[0]["until"] > 0.9
    await docket.close()
    await other.close()
