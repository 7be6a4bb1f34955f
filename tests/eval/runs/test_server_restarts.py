"""A model's server that is restarted under a run: the run pauses, no post fails by it, and no answer is asked twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.commands.test_run_faults import evaluation, held, lines, run
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.playing import Player

POSTS, KILLS = 36, 5


class Restarted:
    """A server whose answers take a while, that is killed now and then, and says 503 while it loads its model."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.loading = self.dying = False
        self._play = Player()

    async def script(self, request: Request) -> Reply | Fault:
        if self.loading:
            return Fault(503, "Loading model")
        await asyncio.sleep(3600 if self.dying else 0.02)
        self.answered[json.dumps(request.body["messages"])] += 1
        return self._play(request)

    async def serve(self, port: int, killed: asyncio.Event) -> None:
        """Serve at this port, killed `KILLS` times with answers under way, until the run is over."""
        for life in range(KILLS + 1):
            served = self.answered.total()
            async with ScriptedServer(self.script, port=port):
                self.loading = life > 0
                await asyncio.sleep(0.3)
                self.loading = False
                while life < KILLS and self.answered.total() < served + 20 and not killed.is_set():
                    await asyncio.sleep(0.01)
                self.dying = life < KILLS  # what comes now is under way when it ends
                await asyncio.sleep(0.1)
                if life == KILLS:
                    await killed.wait()
            self.dying = False
            await asyncio.sleep(0.3)


@pytest.mark.long
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_run_outlives_five_restarts_of_its_server(workers: str, tmp_path: Path) -> None:
    restarted, over = Restarted(), asyncio.Event()
    async with ScriptedServer(restarted.script) as first:
        port = first.port
    serving = asyncio.ensure_future(restarted.serve(port, over))
    command = evaluation(
        tmp_path, POSTS, "--concurrency", "4", "--workers", workers, graph="arcade"
    )
    command[command.index("--wait-for-server") + 1] = "5m"
    done = await run(first, *command)
    over.set()
    await serving
    assert done.exit_code == 0, done.output
    assert {line["outcome"] for line in lines(tmp_path)} == {"verdict"}
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(POSTS))
    assert {each: count for each, count in restarted.answered.items() if count > 1} == {}
    assert done.stderr.count("the run pauses until its server is back, for 5 min at most") == KILLS
    assert done.stderr.count("its server answers again since") == KILLS


async def test_a_run_whose_server_stays_away_ends_in_order_and_goes_on(tmp_path: Path) -> None:
    command = evaluation(tmp_path, 6)
    command[command.index("--wait-for-server") + 1] = "1s"
    answered = 0

    def script(request: Request) -> Reply | Fault:
        nonlocal answered
        answered += 1
        return (
            Reply({"category": "NotHate", "explanation": "words"})
            if answered <= 2
            else Fault(503, "Loading model")
        )

    async with ScriptedServer(script) as server:
        stopped = await run(server, *command)
        assert stopped.exit_code == 6, stopped.output
        assert (
            "the model's server didn't come back: openai: server: HTTP 503: Loading model"
            in stopped.stderr
        )
        assert "4 of 6 posts left. Run the same command again to go on" in stopped.stderr
        assert [line["outcome"] for line in lines(tmp_path)] == ["verdict"] * 2
        answered = -10
        assert (await run(server, *command)).exit_code == 0
    assert held(tmp_path, "metrics.json")["n"] == 6


async def test_a_post_that_ends_its_server_each_time_is_a_failure_of_its_own(
    tmp_path: Path,
) -> None:
    command = evaluation(tmp_path, 6, "--concurrency", "3")
    # by default a server that has answered is waited for
    del command[command.index("--wait-for-server") :][:2]

    def script(request: Request) -> Reply | Fault:
        ended = "word-3." in request.text
        return Fault(drop=True) if ended else Reply({"category": "NotHate", "explanation": "words"})

    async with ScriptedServer(script) as server:
        done = await run(server, *command)
    assert done.exit_code == 0, done.output
    assert Counter(line["outcome"] for line in lines(tmp_path)) == {"verdict": 5, "failure": 1}
    assert "with --retry failures" in done.stdout


async def test_judge_waits_for_a_server_that_is_starting(tmp_path: Path) -> None:
    def script(request: Request) -> Reply | Fault:
        starting = Fault(503, "Loading model")
        return (
            starting
            if request.index < 2
            else Reply({"category": "NotHate", "explanation": "words"})
        )

    command = [
        "judge",
        "Good morning.",
        "--graph",
        "baseline",
        "--model",
        "openai:scripted",
        "--set",
        "attempts=1",
    ]
    async with ScriptedServer(script) as server:
        done = await run(server, *command, "--wait-for-server", "1m")
    assert done.exit_code == 0, done.output
    assert "openai: no answer since" in done.stderr
