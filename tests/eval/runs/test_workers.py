"""A run by several processes: the files of one process, whoever is killed, limited or interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests import PROJECT
from tests.commands.test_run_faults import OWN
from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.eval.runs.test_run import decided, lines, word
from tests.eval.runs.worker import job
from tribunal.commands import app
from tribunal.docket.keeping import KeepOptions
from tribunal.errors import BadInput
from tribunal.runner.decider import PostDecider
from tribunal.runner.job import RunJob, RunOrder, order_of_job
from tribunal.runner.pins import collect_pins, describe_surroundings, pins_of_run
from tribunal.settings.context import context_from

ANSWER = Reply({"category": "NotHate", "explanation": "words"})
MODEL = ("--graph", "baseline", "--model", "openai:scripted", "--scheme", "binary")


def command(folder: Path, number: int, *more: str) -> list[str]:
    """`tribunal batch` over so many posts, to out.jsonl."""
    posts = folder / "posts.csv"
    posts.write_text("id,text\n" + "".join(f"{place},word-{place}.\n" for place in range(number)))
    return ["batch", str(posts), "--out", str(folder / "out.jsonl"), *MODEL, *more]


@contextmanager
def started(server: ScriptedServer, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own, as a shell begins it; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import tribunal; tribunal.main()", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "OPENAI_BASE_URL": f"{server.url}/v1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def children(process: subprocess.Popen[str]) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout
    return [int(each) for each in found.split()]


def lives(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(server: ScriptedServer, requests: int) -> None:
    while len(server.requests) < requests:
        time.sleep(0.01)


def places(folder: Path) -> list[int]:
    return sorted(line["place"] for line in lines(folder / "out.jsonl.run"))


def on(server: ScriptedServer, *arguments: str) -> Any:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.slow
def test_a_cap_stops_two_processes_and_one_goes_on_to_the_same_results(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with ScriptedServer(lambda request: ANSWER, latency=0.02) as server:
        own = command(tmp_path, 30, "--concurrency", "6")
        with started(server, *own, "--workers", "2", "--run-max-calls", "12") as process:
            _, complaints = process.communicate(timeout=60)
        assert process.returncode == 1, complaints
        assert complaints.splitlines()[-1] == (
            "tribunal: 12 of at most 12 calls are spent; to go on, give --run-max-calls more than 12; 18 of 30 "
            "posts left. Run the same command again to go on"
        )
        assert len(server.requests) == len(lines(tmp_path / "out.jsonl.run")) == 12
        again = on(server, *own, "--run-max-calls", "12")
        assert (again.exit_code, len(server.requests)) == (1, 12), again.output
        assert on(server, *own).exit_code == 0
        assert on(server, *command(tmp_path / "one", 30)).exit_code == 0
    texts = ((folder / "out.jsonl").read_text("utf-8") for folder in (tmp_path, tmp_path / "one"))
    both = [json.loads(line) for text in texts for line in text.splitlines()]
    for each in both:
        # the hash of another run's line
        del (
            each["seconds"],
            each["usage"]["seconds"],
            each["previous"],
        )
        for call in each["calls"]:
            del call["seconds"], call["id"]
    assert both[:30] == both[30:]


@pytest.mark.long
def test_a_killed_process_costs_no_post(tmp_path: Path) -> None:
    with (
        ScriptedServer(lambda request: ANSWER, latency=0.1) as server,
        started(
            server, *command(tmp_path, 60, "--concurrency", "8", "--workers", "2", "--json")
        ) as process,
    ):
        wait_for(server, 16)
        os.kill(children(process)[0], signal.SIGKILL)
        said, complaints = process.communicate(timeout=60)
        assert process.returncode == 0, complaints
        assert json.loads(said)["outcomes"] == {"negative": 60}
        assert len(server.requests) <= 60 + 8
    assert places(tmp_path) == list(range(60))


@pytest.mark.slow
def test_a_post_that_ends_its_process_time_and_again_is_a_failure_of_its_own(
    tmp_path: Path,
) -> None:
    with ScriptedServer(lambda request: ANSWER, latency=0.05) as server:
        (tmp_path / "own.py").write_text(OWN)
        raised = on(
            server,
            *command(tmp_path, 12, "--workers", "2"),
            "--graph",
            str(tmp_path / "own.py:graph"),
        )
        assert (raised.exit_code, "Traceback" in raised.stderr) == (1, False)
        assert "post 2: KeyError: 'cues' (own.py, line 11, in rule)" in raised.stderr
        shutil.rmtree(tmp_path / "out.jsonl.run")
        (tmp_path / "own.py").write_text(
            OWN.replace('raise KeyError("cues")', "import os; os.kill(os.getpid(), 9)")
        )
        own = [
            *command(tmp_path, 12, "--concurrency", "4", "--workers", "2"),
            "--graph",
            str(tmp_path / "own.py:graph"),
        ]
        done = on(server, *own)
        assert done.exit_code == 0, done.output
        [failed] = [
            line for line in lines(tmp_path / "out.jsonl.run") if line["outcome"] != "verdict"
        ]
        assert (failed["post_id"], failed["fault"]["kind"], failed["calls"]) == ("2", "crash", [])
        assert failed["explanation"] == (
            "the process that decided it ended, 3 times, and at last with no other post in it (killed by SIGKILL)"
        )
        (tmp_path / "mended").touch()
        assert on(server, *own, "--retry", "failures").exit_code == 0
    assert {line["outcome"] for line in lines(tmp_path / "out.jsonl.run")} == {"verdict"}


@pytest.mark.slow
def test_cache_docket_and_database_are_those_of_every_process(tmp_path: Path) -> None:
    with ScriptedServer(court_script(implicit=False), latency=0.05) as server:
        asked = command(
            tmp_path, 12, "--set", f"cache={tmp_path / 'cache.sqlite'}", "--workers", "2", "--json"
        )
        asked += ["--graph", "tribunal", "--scheme", "fine"]
        assert on(server, *asked).exit_code == 0
        paid = len(server.requests)
        again = [
            *asked,
            "--out",
            str(tmp_path / "reviewed.jsonl"),
            "--review",
            "--set",
            "review_rule=all",
            "--keep",
        ]
        waiting = on(server, *again)
        assert waiting.exit_code == 0, waiting.output
        printed = json.loads(waiting.stdout)
        assert (printed["outcomes"], printed["calls"], printed["unkept"]) == ({"pending": 12}, 0, 0)
        assert len(server.requests) == paid
        kept = json.loads(on(server, "cases", "list", "--outcome", "pending", "--json").stdout)
        assert len(kept) == 12
        decided = on(server, "review", "decide", kept[0]["id"], "--accept", "--reviewer", "me")
        assert decided.exit_code == 0, decided.output
        assert json.loads(on(server, *again).stdout)["rejoined"] == 1


@pytest.mark.slow
def test_a_killed_run_leaves_no_process_and_goes_on_by_itself(tmp_path: Path) -> None:
    own = command(tmp_path, 60, "--concurrency", "8")
    with ScriptedServer(lambda request: ANSWER, latency=0.2) as server:
        with started(server, *own, "--workers", "2") as process:
            wait_for(server, 24)
            theirs = children(process)
            process.kill()
            _, complaints = process.communicate()
        assert (len(theirs), "Traceback" in complaints) == (2, False), complaints
        while any(map(lives, theirs)):
            time.sleep(0.01)
        assert on(server, *own).exit_code == 0
        asked = Counter(word(request) for request in server.requests)
        assert sum(asked.values()) <= 60 + 8
    assert places(tmp_path) == list(range(60))


@pytest.mark.long
def test_ctrl_c_finishes_what_is_in_flight_in_every_process(tmp_path: Path) -> None:
    own = command(tmp_path, 50, "--concurrency", "4", "--workers", "2")
    with ScriptedServer(lambda request: ANSWER, latency=1.5) as server:
        with started(server, *own) as process:
            wait_for(server, 4)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            _, complaints = process.communicate(timeout=60)
        assert process.returncode == 130, complaints
        assert "interrupted; 46 of 50 posts left" in complaints
        assert len(server.requests) == len(places(tmp_path)) == 4


@pytest.mark.slow
def test_a_second_ctrl_c_stops_every_process_at_once(tmp_path: Path) -> None:
    own = command(tmp_path, 50, "--concurrency", "4", "--workers", "2")
    with ScriptedServer(lambda request: ANSWER, latency=60) as server:
        with started(server, *own) as process:
            wait_for(server, 4)
            os.killpg(process.pid, signal.SIGINT)
            while "finishing the posts in flight" not in (
                process.stderr.readline() if process.stderr else ""
            ):
                pass
            os.killpg(process.pid, signal.SIGTERM)
            _, complaints = process.communicate(timeout=60)
        assert process.returncode == 130, complaints
        assert "stopped at once; 50 of 50 posts left" in complaints


@pytest.mark.slow
async def test_a_rest_that_one_process_is_told_rests_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one key")
    monkeypatch.setenv("OPENAI_API_KEY_1", "another key")
    rested: list[str] = []  # the key that is to rest, and of every request after

    def script(request: Request) -> Reply | Fault:
        key = request.headers["authorization"]
        if rested:
            rested.append(key)
        elif len(server.requests) >= 12:
            rested.append(key)
            return Fault(status=429, headers={"Retry-After": "600"})
        return ANSWER

    async with ScriptedServer(script, latency=0.05) as server:
        tally = await decided(server, tmp_path, job(120, 4, attempts=4), workers=2)
    assert (tally.done, tally.stopped) == (120, "")
    assert len(rested) > 100
    # Those that were on their way. A process that isn't told of it sends every second request of its half by this key.
    assert rested[1:].count(rested[0]) < 13


async def test_a_process_that_finds_another_policy_than_the_run_was_begun_with_says_so(
    tmp_path: Path,
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text((PROJECT / "prompts/policies/h-vli.toml").read_text("utf-8"))
    context = context_from({"model": "rehearsal", "policy": str(policy)})
    here = pins_of_run(
        {**describe_surroundings("baseline", context), **await collect_pins("baseline", context)}
    )
    order, _ = order_of_job(RunJob("baseline", context, samples=(), count=0), None, here)
    there = RunOrder.model_validate_json(order.model_dump_json())
    await PostDecider.from_order(there).check_before_run()
    policy.write_text(policy.read_text("utf-8") + "\n# changed\n")
    with pytest.raises(BadInput, match=r"sha: then .*, now .*, in a process that decides posts"):
        await PostDecider.from_order(there).check_before_run()


def test_an_order_holds_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    context = context_from(
        {"search": "searxng", "searxng_url": "http://me:hidden@localhost:1", "web": True}
    )
    keep = KeepOptions(via="batch", database="postgresql://me:hidden@localhost/name")
    order, secret = order_of_job(
        RunJob("tribunal", context, samples=(), count=0, keep=keep), None, None
    )
    assert "hidden" not in order.model_dump_json()
    assert secret == {"SEARXNG_URL": context.searxng_url, "TRIBUNAL_DATABASE": keep.database}
    with pytest.raises(BadInput, match="SEARXNG_URL: is not set"):
        PostDecider.from_order(order)
