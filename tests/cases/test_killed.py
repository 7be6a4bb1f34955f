"""A case whose process is killed at any of its writes comes back to one that a person can act on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.forked import Done, Forked
from tests.court import court_script
from tests.doubles import ScriptedServer

# dozens of processes, on a machine that may be busy
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
]
# Every write with the slow tests, every twelfth in CI: each costs a process or three.
steps = pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
SURE = {**UNSURE, "confidence": 0.9}
JUDGE = ("judge", "post-words", "--model", "openai:scripted", "--review", "--json")
TRIAL = 4  # calls: scan, indictment, defence, judgement
PENDING, VERDICT, REFUSED, KILLED = 5, 0, 2, -9


class Desk:
    """A reviewer before a docket, who does what the command tells them."""

    def __init__(self, forked: Forked, server: ScriptedServer, folder: Path) -> None:
        self._forked, self._server, self.folder = forked, server, folder

    async def run(self, *arguments: str, kill_at: int = 0) -> Done:
        os.environ["OPENAI_BASE_URL"] = (
            f"{self._server.url}/v1"  # taken away again before the next test (conftest)
        )
        done = await asyncio.to_thread(
            self._forked.run, *arguments, kill_at=kill_at, folder=self.folder
        )
        assert "Traceback" not in done.err, done.err
        return done

    @property
    def calls(self) -> int:
        return len(self._server.requests)

    def half_a_minute_passes(self) -> None:
        file = self.folder / "service.sqlite"
        if file.exists():
            with sqlite3.connect(file) as held:
                if held.execute("SELECT 1 FROM sqlite_master WHERE name = 'replicas'").fetchone():
                    held.execute("UPDATE replicas SET seen = seen - 31")
            held.close()

    async def listed(self, *options: str) -> list[dict[str, Any]]:
        done = await self.run("review", "list", "--json", *options)
        assert done.status == 0, done.err
        found: list[dict[str, Any]] = json.loads(done.out)
        return found

    async def to_a_decision(self, thread: str) -> dict[str, Any]:
        """Resume what was cut off, accept what waits, and give the case as it then is."""
        [case] = await self.listed("--decided")
        done, status = None, case["status"]
        if status == "cut_off":
            done = await self.run("review", "resume", thread, "--json")
            assert done.status in (PENDING, VERDICT), done.err
            status = "pending" if done.status == PENDING else "decided"
        if status == "pending":
            done = await self.run(
                "review", "decide", thread, "--accept", "--reviewer", "lee", "--json"
            )
            assert done.status == VERDICT, done.err
        if done is None:
            done = await self.run("review", "show", thread, "--json")
        record: dict[str, Any] = json.loads(done.out)
        assert record["outcome"] == "verdict"
        return record


async def killed_at_each_write(
    forked: Forked,
    server: ScriptedServer,
    folder: Path,
    start: Path | None,
    *arguments: str,
    first: int = 1,
    step: int = 1,
) -> AsyncIterator[tuple[Desk, int]]:
    """The command, killed at its first write, its second, … until it has no more; each time half a minute later.

    Args:
        forked: the process that forks.
        server: who answers.
        folder: where the dockets are made.
        start: the docket that each begins with; None: none.
        arguments: the command's.
        first: at which write to begin.
        step: how many writes to go on by.

    Gives the reviewer's desk, and how many calls there had been before the command.
    """
    for number in range(first, 200, step):
        desk = Desk(forked, server, folder / str(number))
        if start:
            shutil.copytree(start, desk.folder)
        before = desk.calls
        done = await desk.run(*arguments, kill_at=number)
        if done.status != KILLED:
            assert number > first + 2, "it wrote hardly anything"
            return
        desk.half_a_minute_passes()
        yield desk, before
    pytest.fail("it never ended")


async def pending(forked: Forked, server: ScriptedServer, folder: Path) -> str:
    """A case that waits, in the docket of this folder; gives its thread."""
    stopped = await Desk(forked, server, folder).run(*JUDGE)
    assert stopped.status == PENDING, stopped.err
    thread: str = json.loads(stopped.out)["thread"]
    return thread


@steps
async def test_a_trial(forked: Forked, tmp_path: Path, step: int) -> None:
    found = 0
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        async for desk, before in killed_at_each_write(
            forked, server, tmp_path / "at", None, *JUDGE, step=step
        ):
            cases = await desk.listed()
            if not cases:
                assert desk.calls == before, "a trial was paid for and nothing of it is left"
                continue
            found += 1
            # that it is kept, too, is noted at last
            assert cases[0]["status"] in (
                "cut_off",
                "pending",
            )
            record = await desk.to_a_decision(cases[0]["thread"])
            assert (record["review"]["action"], record["category"]) == ("accept", "Religious")
            assert desk.calls - before <= TRIAL + 1, (
                "more was paid for again than what was in flight"
            )
    assert found > 10 // step


@pytest.mark.slow
async def test_a_trial_that_nobody_has_to_see(forked: Forked, tmp_path: Path) -> None:
    async with ScriptedServer(court_script(explicit=True, judge=SURE)) as server:
        whole = await Desk(forked, server, tmp_path / "whole").run(*JUDGE)
        last = whole.writes - 4  # until here it is a trial as any other
        async for desk, before in killed_at_each_write(
            forked, server, tmp_path / "at", None, *JUDGE, first=last
        ):
            for case in await desk.listed():
                resumed = await desk.run("review", "resume", case["thread"], "--json")
                assert (resumed.status, json.loads(resumed.out)["thread"]) == (VERDICT, None)
            assert await desk.listed("--decided") == []
            assert desk.calls - before <= TRIAL + 1


@pytest.mark.parametrize(
    ("answer", "action", "step"),
    [
        pytest.param(("--accept",), "accept", 1, marks=pytest.mark.slow),
        pytest.param(("--category", "Sexist"), "edit", 1, marks=pytest.mark.slow),
        (("--category", "Sexist"), "edit", 2),
    ],
)
async def test_a_decision(
    forked: Forked, tmp_path: Path, answer: tuple[str, ...], action: str, step: int
) -> None:
    actions, start = set(), tmp_path / "start"
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        thread = await pending(forked, server, start)
        decide = ("review", "decide", thread, *answer, "--reviewer", "kim")
        async for desk, before in killed_at_each_write(
            forked, server, tmp_path / "at", start, *decide, step=step
        ):
            record = await desk.to_a_decision(thread)
            by = {"kim": action, "lee": "accept"}[record["review"]["reviewer"]]
            assert record["review"]["action"] == by
            assert record["category"] == ("Sexist" if by == "edit" else "Religious")
            assert desk.calls == before, "a decision asks no model"
            actions.add(record["review"]["reviewer"])
        again = await desk.run("review", "decide", thread, "--category", "NotHate")
        assert (again.status, "was decided already" in again.err) == (REFUSED, True)
    # before it was taken in the other's counts, and from then on nobody else's
    assert actions == {
        "kim",
        "lee",
    }


@pytest.mark.slow
@pytest.mark.parametrize("step", [1])
async def test_a_question_and_the_accept_that_follows_it(
    forked: Forked, tmp_path: Path, step: int
) -> None:
    ends = set()
    async with ScriptedServer(court_script(explicit=True, judge=UNSURE)) as server:
        thread = await pending(forked, server, tmp_path / "start")
        ask = ("review", "decide", thread, "--ask", "is it a quotation?", "--reviewer", "kim")
        async for desk, before in killed_at_each_write(
            forked, server, tmp_path / "at", tmp_path / "start", *ask, step=step
        ):
            accepted = await desk.run("review", "decide", thread, "--accept", "--reviewer", "lee")
            if accepted.status != VERDICT:
                assert accepted.status == REFUSED
                assert (
                    f"its trial is not over; tribunal review resume {thread} goes on with it"
                    in accepted.err
                )
            record = await desk.to_a_decision(thread)
            assert (record["review"]["action"], record["review"]["reviewer"]) == ("accept", "lee")
            # The accept was of the trial that was there, or there was one more trial, and the accept is of that.
            assert len(record["trials"]) == (accepted.status != VERDICT or desk.calls > before)
            assert desk.calls - before <= len(record["trials"]) * TRIAL
            ends.add((accepted.status, len(record["trials"])))
    every = {(VERDICT, 0), (REFUSED, 1), (VERDICT, 1)}
    assert ends == every if step == 1 else len(ends) > 1 and ends <= every
