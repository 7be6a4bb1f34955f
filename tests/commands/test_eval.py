"""How `tribunal eval` ends, and what it says as it goes: over a server, in this process and in one of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.doubles import Fault, Reply, Request, ScriptedServer

ANSWER = Reply(
    {"category": "NotHate", "explanation": "words"}, prompt_tokens=1000, completion_tokens=100
)


def posts(tmp_path: Path, number: int) -> list[str]:
    """What `tribunal eval` is given for so many posts, of which every second is hateful."""
    rows = "".join(f"p{place},word-{place}.,{place % 2}\n" for place in range(number))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    return ["eval", "--dataset", "table", "--data", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run"),
            "--graph", "baseline", "--model", "openai:scripted"]  # fmt: skip


async def run(server: ScriptedServer, *arguments: str) -> Result:
    """The command, which has an event loop of its own, beside the server's."""
    from tribunal.commands import app

    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (tmp_path / "run" / "results.jsonl").read_text("utf-8").splitlines()
    ]


async def test_stopped_is_1_the_same_command_goes_on_to_0_and_json_is_one_object(
    tmp_path: Path,
) -> None:
    locked = {"yes": True}

    def script(request: Request) -> Reply | Fault:
        return (
            Fault(status=401, message="no such key")
            if locked["yes"] and request.index >= 2
            else ANSWER
        )

    command = [*posts(tmp_path, 6), "--concurrency", "1"]
    async with ScriptedServer(script) as server:
        stopped = await run(server, *command, "--json")
        assert stopped.exit_code == 1, stopped.output
        assert (
            "See to the key; 4 of 6 posts left. Run the same command again to go on"
            in stopped.stderr
        )
        printed = json.loads(stopped.stdout)
        assert stopped.stdout.count("\n") == 1
        assert (printed["done"], printed["metrics"]["n"], printed["metrics"]["missing"]) == (
            2,
            2,
            4,
        )
        assert "See to the key" in printed["stopped"]
        locked["yes"] = False
        with (tmp_path / "run" / "results.jsonl").open("ab") as results:
            results.write(b'{"place":2,"repeat":0,"sec')  # as a crash leaves it
        done = await run(server, *command)
        assert done.exit_code == 0, done.output
        assert "6 processed (4 now, 2 before): 6 negative, 6 calls, 6,600 tokens\n" in done.stdout
        again = await run(server, *command, "--json")
    printed = json.loads(again.stdout)
    assert (again.exit_code, printed["now"], printed["done"], printed["stopped"]) == (0, 0, 6, None)
    assert printed["metrics"] == json.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert (printed["metrics"]["accuracy"], printed["metrics"]["recall"]) == (0.5, 0.0)
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(6))
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["finished"] is not None


async def test_a_line_now_and_then_where_nobody_sees_a_bar_with_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tribunal.runner.tally.LINE_EVERY", 0.0)
    (tmp_path / "prices.toml").write_text('["openai:scripted"]\ninput = 2.0\noutput = 10.0\n')
    (tmp_path / "others.toml").write_text('["openai:other"]\ninput = 2.0\noutput = 10.0\n')
    command = [*posts(tmp_path, 3), "--concurrency", "1", "--prices"]
    async with ScriptedServer(lambda request: ANSWER) as server:
        done = await run(server, *command, str(tmp_path / "prices.toml"))
        assert done.exit_code == 0, done.output
        # 1,000 tokens at 2 a million and 100 at 10 are 0.003 a post.
        shown = [
            re.fullmatch(r"(.*), [\d.,]+/(?:s|min), \d:\d\d:\d\d left", line)
            for line in done.stderr.splitlines()
        ]
        assert [line[1] for line in shown if line][:2] == [
            "1 of 3: 1 negative, 1 call, 1,100 tokens, cost 0.0030",
            "2 of 3: 2 negative, 2 calls, 2,200 tokens, cost 0.0060",
        ]
        assert "3 calls, 3,300 tokens, cost 0.0090\n" in done.stdout
        done = await run(
            server, *command, str(tmp_path / "others.toml"), "--out", str(tmp_path / "run2")
        )
    assert "cost 0.0000 (3 calls without a price)" in done.stdout


@pytest.mark.slow
async def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import tribunal; tribunal.main()",
        *posts(tmp_path, 12),
        "--concurrency",
        "4",
    ]
    async with ScriptedServer(lambda request: ANSWER, latency=0.5) as server:
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        while len(server.requests) < 4:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, complaints = await process.communicate()
        assert process.returncode == 130, complaints.decode()
        assert complaints.decode().splitlines() == [
            "tribunal: finishing the posts in flight; press Ctrl-C again to stop at once",
            "tribunal: interrupted; 8 of 12 posts left. Run the same command again to go on",
        ]
        assert len(lines(tmp_path)) == len(server.requests) == 4
        assert json.loads((tmp_path / "run" / "run.json").read_bytes())["finished"] is None
        done = await run(server, *command[3:], "--json")
    assert (done.exit_code, json.loads(done.stdout)["now"], len(lines(tmp_path))) == (0, 8, 12)
