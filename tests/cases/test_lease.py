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
from sqlalchemy import select

from tests import PROJECT
from tests.cases.forked import Done, Forked
from tests.court import PATIENCE, court_script
from tests.doubles import Reply, ScriptedServer
from tests.openai_server import OpenAIServer
from tribunal.commands.judge import expect_stop
from tribunal.docket.docket import Docket
from tribunal.store.tables import replicas

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
LATER = {**UNSURE, "explanation": "words-of-the-first"}


@asynccontextmanager
async def judging(*arguments: str) -> AsyncIterator[Process]:
    """A trial that is under way in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", "import tribunal; tribunal.main()", *(arguments or JUDGE),
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
    date_heartbeats(-31)


def date_heartbeats(seconds: float) -> None:
    """Date every heartbeat so much later."""
    with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite") as held:
        held.execute("UPDATE replicas SET seen = seen + ?", (seconds,))
    held.close()


JUDGE = ("judge", "post-words", "--model", "openai:scripted", "--review", "--json")


@pytest.mark.long
async def test_the_live_trial_of_another_process_is_no_case_to_resume(forked: Forked) -> None:
    answered = asyncio.Event()

    async def script(request: Any) -> Any:
        if len(server.requests) == 4:
            await answered.wait()
        return play(request)

    play = court_script(explicit=True, judge=UNSURE)
    async with OpenAIServer(script) as server, judging() as trial:
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


@pytest.mark.long
async def test_a_heartbeat_of_a_clock_that_ran_a_year_ahead_holds_no_case(forked: Forked) -> None:
    answers = [Reply(LATER, delay=PATIENCE), UNSURE]
    async with OpenAIServer(court_script(explicit=True, judge=answers)) as server:
        async with judging() as trial:
            await calls(server, 4)
            trial.kill()
            await trial.wait()
        date_heartbeats(365 * 86_400)
        case = await the_only_case(forked, "cut_off")
        resumed = await ran(forked, "resume", case["thread"])
        assert resumed.status == 5, resumed.err
    await the_only_case(forked, "pending")


@pytest.mark.slow
async def test_a_process_that_slept_too_long_replaces_no_decision(forked: Forked) -> None:
    async with (
        OpenAIServer(court_script(explicit=True, judge=[Reply(LATER, delay=2), UNSURE])) as server,
        judging() as sleeper,
    ):
        await calls(server, 4)
        sleeper.send_signal(signal.SIGSTOP)
        half_a_minute_passes()
        case = await the_only_case(forked, "cut_off")
        resumed = await ran(forked, "resume", case["thread"])
        assert resumed.status == 5, resumed.err
        decided = await ran(
            forked, "decide", case["thread"], "--category", "Sexist", "--reviewer", "kim"
        )
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
    """Every row of the cases, and of their checkpoints."""
    with sqlite3.connect(Path(os.environ["TRIBUNAL_DATA"]) / "service.sqlite") as held:
        rows = [
            held.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("cases", "checkpoints", "writes")
        ]
    held.close()
    return rows


async def test_a_lease_is_renewed_while_its_process_works(monkeypatch: Any) -> None:
    monkeypatch.setattr("tribunal.docket.docket.LEASE", 0.6)
    docket = await Docket.open()

    async def last_heartbeat() -> float:
        async with docket.store.reading() as connection:
            return float(await connection.scalar(select(replicas.c.seen)) or 0)

    async with docket._heartbeats():
        first = await last_heartbeat()
        async with asyncio.timeout(PATIENCE):
            while await last_heartbeat() <= first:
                await asyncio.sleep(0.05)
    assert await last_heartbeat() == 0, "it says so when it is done"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stopped_trial_says_what_became_of_its_case(
    forked: Forked, number: signal.Signals
) -> None:
    answers = [Reply(LATER, delay=PATIENCE), UNSURE]
    async with OpenAIServer(court_script(explicit=True, judge=answers)) as server:
        async with judging() as trial:
            await calls(server, 4)
            trial.send_signal(number)
            out, told = await trial.communicate()
        case = await the_only_case(forked, "cut_off")
        resumed = await ran(forked, "resume", case["thread"])
        assert resumed.status == 5, resumed.err
    kept = f"case {case['thread']} is kept as far as it came; tribunal review resume {case['thread']} goes on"
    assert (trial.returncode, out) == (128 + number, b"")
    assert told.decode() == f"tribunal: stopped by {number.name}: {kept}\n"


def test_a_stop_before_the_trial_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    expect_stop()
    try:
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143
    assert capsys.readouterr().err == "tribunal: stopped by SIGTERM: nothing was begun\n"


@pytest.mark.long
async def test_a_stopped_trial_that_nobody_has_to_see_leaves_nothing(forked: Forked) -> None:
    async with (
        OpenAIServer(court_script(explicit=True, judge=[Reply(LATER, delay=PATIENCE)])) as server,
        judging(*JUDGE[:4], "--keep") as trial,
    ):
        await calls(server, 4)
        trial.terminate()
        _, told = await trial.communicate()
    assert trial.returncode == 143
    assert told.splitlines()[-1] == (
        b"tribunal: stopped by SIGTERM: nothing was kept; to judge the post, run the command again"
    )
    assert json.loads((await ran(forked, "list", "--json")).out) == []


@pytest.mark.long
async def test_an_operator_takes_a_case_from_a_process_that_still_has_it(forked: Forked) -> None:
    answers = [Reply(LATER, delay=2), UNSURE]
    async with (
        OpenAIServer(court_script(explicit=True, judge=answers)) as server,
        judging() as trial,
    ):
        await calls(server, 4)
        trial.send_signal(signal.SIGSTOP)
        date_heartbeats(20)  # its clock is a little ahead
        case = (await the_only_case(forked, "running"))["thread"]
        released = await asyncio.to_thread(forked.run, "cases", "retry", case, "--release")
        assert (released.status, released.out.startswith(f"{case}: taken from ")) == (0, True), (
            released.err
        )
        await the_only_case(forked, "cut_off")
        again = await asyncio.to_thread(forked.run, "cases", "retry", case, "--release")
        assert (again.status, "no process tries it: it is interrupted" in again.err) == (2, True)
        resumed = await ran(forked, "resume", case)
        assert resumed.status == 5, resumed.err
        before = everything()
        trial.send_signal(signal.SIGCONT)
        out, told = await trial.communicate()
    assert (trial.returncode, out, everything() == before) == (2, b"", True)
    assert b"another process has taken this case over" in told
    log = await asyncio.to_thread(forked.run, "audit", "show", "--case", case)
    assert "case.released" in log.out
    unknown = await asyncio.to_thread(forked.run, "cases", "retry", "case-none", "--release")
    assert (unknown.status, unknown.err.count("\n")) == (2, 1)
