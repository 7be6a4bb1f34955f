"""Real faults under `tribunal eval`, `batch` and `compare`: what is true at the end, what is kept, and the way on."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.court import cue, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.playing import Player
from tests.marked import first_then_long
from tribunal.graphs import GRAPHS

ANSWER = Reply({"category": "NotHate", "explanation": "words"})
DROP = Fault(drop=True)
# What a graph needs to be heard in few calls, and with no web.
SETTINGS: dict[str, tuple[str, ...]] = {
    "antihate": ("--set", "mode=zero-shot"),
    "predict": ("--perspectives", "example-harm"),
    "mv_debate": ("--rounds", "1"),
    "self_consistency": ("--set", "draws=2"),
    "symmetric_debate": ("--rounds", "1"),
}


def evaluation(tmp_path: Path, number: int, *more: str, graph: str = "baseline") -> list[str]:
    """What `tribunal eval` is given for so many posts, one at a time and in their order."""
    rows = "".join(f"p{place},word-{place}.,{place % 2}\n" for place in range(number))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    return ["eval", "--dataset", "table", "--data", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run"),
            "--graph", graph, "--model", "openai:scripted", "--set", "attempts=1", "--concurrency", "1",
            "--wait-for-server", "0", "--in-order", *more]  # fmt: skip


async def run(server: ScriptedServer, *arguments: str) -> Result:
    """The command, which has an event loop of its own, beside the server's."""
    from tribunal.commands import app

    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments))


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (tmp_path / "run" / "results.jsonl").read_text("utf-8").splitlines()
    ]


def held(tmp_path: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "run" / name).read_bytes())
    return found


def until(
    word: str, script: Callable[[Request], Reply | Fault]
) -> tuple[Callable[[Request], Any], dict[str, bool]]:
    """A network that is lost when a post with this word comes, and stays so until it is mended."""
    lost = {"yes": False, "mended": False}

    def scripted(request: Request) -> Reply | Fault:
        lost["yes"] = lost["yes"] or word in request.text
        return DROP if lost["yes"] and not lost["mended"] else script(request)

    return scripted, lost


# ------------------------------------------------------------------------------------------------------------ network


@pytest.mark.parametrize("graph", first_then_long(GRAPHS, shown=1))
async def test_a_network_lost_in_the_last_posts_is_no_outcome_of_theirs(
    graph: str, tmp_path: Path
) -> None:
    script, lost = until("word-2.", Player())
    command = evaluation(tmp_path, 5, *SETTINGS.get(graph, ()), "--json", graph=graph)
    async with ScriptedServer(script) as server:
        stopped = await run(server, *command)
        assert stopped.exit_code == 1, stopped.output
        assert "the last 3 posts had no answer: " in stopped.stderr
        assert (
            "See to the network; 3 of 5 posts left. Run the same command again to go on"
            in stopped.stderr
        )
        assert [line["outcome"] for line in lines(tmp_path)] == ["verdict", "verdict"]
        measured = json.loads(stopped.stdout)["metrics"]
        assert measured == held(tmp_path, "metrics.json")
        assert (measured["n"], measured["failures"], measured["missing"]) == (2, 0, 3)
        assert held(tmp_path, "run.json")["finished"] is None
        lost["mended"], before = True, len(server.requests)
        done = await run(server, *command)
        assert done.exit_code == 0, done.output
        assert not any(
            word in request.text
            for request in server.requests[before:]
            for word in ("word-0.", "word-1.")
        )
    assert json.loads(done.stdout)["now"] == 3
    assert sorted(line["place"] for line in lines(tmp_path)) == list(range(5))


async def test_a_last_post_that_is_never_answered_is_its_own_failure_where_the_model_answers_others(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Reply | Fault:
        return DROP if "word-3." in request.text else ANSWER

    async with ScriptedServer(script) as server:
        done = await run(server, *evaluation(tmp_path, 4))
        assert done.exit_code == 0, done.output
        assert len(server.requests) == 5  # one more, to an answered post, told whose fault it was
        again = await run(server, *evaluation(tmp_path, 4), "--retry", "failures")
    assert again.exit_code == 0, again.output
    assert [line["outcome"] for line in lines(tmp_path)] == ["verdict"] * 3 + ["failure"]
    assert held(tmp_path, "metrics.json")["failures"] == 1


async def test_a_judge_whose_server_is_gone_is_an_outage_though_another_model_answers(
    tmp_path: Path,
) -> None:
    gone = {"yes": False}

    def script(request: Request) -> Reply | Fault:
        gone["yes"] = gone["yes"] or "word-3." in request.text
        hateful = any(f"word-{place}." in request.text for place in (0, 3, 5, 7))
        match part(request):
            case "gatekeeper":
                return Reply({"cues": [cue("claim")] if hateful else []})
            case "investigation":
                return Reply({"cues": []})
            case "indictment":
                return Reply({"cues": [cue("claim")]})
            case "defence":
                return Reply({"arguments": []})
        return DROP if gone["yes"] else Reply({"category": "Religious", "explanation": "words"})

    models = ("--set", "aux_model=openai:aux", "--set", "judge_model=openai:judge")
    async with ScriptedServer(script) as server:
        stopped = await run(server, *evaluation(tmp_path, 9, *models, graph="arcade"))
    assert stopped.exit_code == 1, stopped.output
    assert "the last 3 posts had no answer" in stopped.stderr
    assert {line["outcome"] for line in lines(tmp_path)} == {"verdict"}
    assert sorted(line["place"] for line in lines(tmp_path)) == [0, 1, 2, 4, 6, 8]


@pytest.mark.parametrize(
    "fault", [DROP, Fault(status=503, message="overloaded")], ids=["no network", "overloaded"]
)
async def test_a_short_run_that_nobody_answers_has_no_results(fault: Fault, tmp_path: Path) -> None:
    async with ScriptedServer(lambda request: fault) as server:
        stopped = await run(server, *evaluation(tmp_path, 3))
    assert (stopped.exit_code, "no post had an answer" in stopped.stderr) == (1, True)
    assert lines(tmp_path) == []


# ---------------------------------------------------------------------------------------------------------- own graphs

OWN = """
from pathlib import Path
from langgraph.graph import END, START, StateGraph
from tribunal.pieces import Case, Context, PostInput, Ruling, receive
from tribunal.models.ask import ask
from tribunal.nodes.arcade.judge import CLASSIFIER
from tribunal.prompts.marks import operator_words

async def rule(state, runtime):
    if "word-2." in state["post"]["text"] and not Path("mended").exists():
        raise KeyError("cues")
    answer = await ask(CLASSIFIER, state, runtime, categories=operator_words("NotHate, Racist"))
    label = 0
    from tribunal.nodes.verdict import deliver
    return await deliver(label, "fine", answer.value.explanation, state, runtime, answer.log)

builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("rule", rule)
builder.add_edge(START, "receive")
builder.add_edge("receive", "rule")
builder.add_edge("rule", END)
graph = builder.compile(name="own")
"""


async def test_an_exception_of_a_graph_of_ones_own_says_where_and_keeps_what_is_done(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    command = evaluation(tmp_path, 4, "--json", graph=str(tmp_path / "own.py:graph"))
    async with ScriptedServer(lambda request: ANSWER) as server:
        stopped = await run(server, *command)
        assert stopped.exit_code == 1, stopped.output
        assert "post p2: KeyError: 'cues' (own.py, line 11, in rule)" in stopped.stderr
        assert "2 of 4 posts left. Run the same command again to go on" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        assert [line["post_id"] for line in lines(tmp_path)] == ["p0", "p1"]
        assert held(tmp_path, "metrics.json")["n"] == json.loads(stopped.stdout)["done"] == 2
        assert held(tmp_path, "run.json")["finished"] is None
        (tmp_path / "mended").touch()
        done = await run(server, *command)
    assert (done.exit_code, json.loads(done.stdout)["now"]) == (0, 2), done.output


async def test_a_graph_of_ones_own_that_lets_a_models_fault_out_is_as_any_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "mended").touch()
    script, _ = until("word-2.", lambda request: ANSWER)
    command = evaluation(tmp_path, 4, graph=str(tmp_path / "own.py:graph"))
    async with ScriptedServer(script) as server:
        stopped = await run(server, *command)
        assert (stopped.exit_code, "the last 2 posts had no answer" in stopped.stderr) == (
            1,
            True,
        ), stopped.output
        assert len(lines(tmp_path)) == 2
    async with ScriptedServer(lambda request: Reply(refusal="I won't")) as server:
        refused = await run(server, *command[:-1], "--out", str(tmp_path / "refused"), "--in-order")
    assert refused.exit_code == 0, refused.output
    results = (tmp_path / "refused" / "results.jsonl").read_text().splitlines()
    assert {json.loads(line)["outcome"] for line in results} == {"refusal"}
    assert {len(json.loads(line)["calls"]) for line in results} == {1}


def test_a_graph_of_ones_own_that_can_t_be_loaded_is_one_line(tmp_path: Path) -> None:
    from tribunal.commands import app

    (tmp_path / "own.py").write_text("import nothing_of_that_name\n")
    done = CliRunner().invoke(app, evaluation(tmp_path, 1, graph=str(tmp_path / "own.py:graph")))
    assert done.exit_code == 2, done.output
    assert (
        "own.py can't be loaded: ModuleNotFoundError: No module named 'nothing_of_that_name'"
        in done.stderr
    )
    assert done.stderr.count("\n") == 1


# ---------------------------------------------------------------------------------------------------------- full disks


def here(server: ScriptedServer, command: list[str], most: int | None = None) -> Result:
    """The command in this process, whose files can't grow beyond so many bytes meanwhile."""
    from tribunal.commands import app

    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if most is None else most, hard))
    # what is compiled here is cut off
    compiles, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )
    try:
        return CliRunner().invoke(app, command)
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def process(
    tmp_path: Path, server: ScriptedServer, command: list[str], stdout: Any
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which prints there."""
    return subprocess.run(
        [sys.executable, "-c", "import tribunal; tribunal.main()", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "OPENAI_BASE_URL": f"{server.url}/v1"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@contextmanager
def unwritable(file: Path) -> Iterator[None]:
    """A folder stands where a file is to be written."""
    file.unlink(missing_ok=True)
    file.mkdir()
    yield
    file.rmdir()


def test_a_summary_that_can_t_be_written_loses_nothing(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: ANSWER) as server:
        command = evaluation(tmp_path, 2, "--json")
        assert here(server, [*command, "--run-max-calls", "1"]).exit_code == 1
        with unwritable(tmp_path / "run" / "metrics.json"):
            stopped = here(server, command)
        assert stopped.exit_code == 1, stopped.stderr
        assert "metrics.json: can't be written: Is a directory" in stopped.stderr
        assert "all 2 results are saved. Run the same command again to finish" in stopped.stderr
        assert "Traceback" not in stopped.stderr
        assert json.loads(stopped.stdout)["metrics"]["n"] == 2
        assert not (tmp_path / "run" / "metrics.json").exists()
        assert held(tmp_path, "run.json")["finished"] is None
        done = here(server, command)
        assert (done.exit_code, len(server.requests)) == (0, 2), done.stderr
    assert held(tmp_path, "metrics.json") == json.loads(done.stdout)["metrics"]
    assert held(tmp_path, "run.json")["finished"] is not None


def test_measures_of_an_earlier_moment_are_never_printed_as_those_of_now(tmp_path: Path) -> None:
    lock = {"on": True}

    def script(request: Request) -> Reply | Fault:
        return (
            Fault(status=401, message="no such key")
            if lock["on"] and request.index >= 1
            else ANSWER
        )

    with ScriptedServer(script) as server:
        command = evaluation(tmp_path, 2, "--json")
        assert here(server, command).exit_code == 1
        assert held(tmp_path, "metrics.json")["n"] == 1
        lock["on"] = False
        with unwritable(tmp_path / "run" / "metrics.json"):
            stopped = here(server, command)
    assert stopped.exit_code == 1, stopped.stderr
    assert json.loads(stopped.stdout)["metrics"]["n"] == 2


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("what", ["eval --json", "batch", "compare"])
def test_a_summary_that_can_t_be_printed_is_said_and_can_be_had_again(
    what: str, tmp_path: Path
) -> None:
    command = evaluation(tmp_path, 2, *what.split()[1:])
    if what == "batch":
        command = [
            "batch",
            "posts.csv",
            "--out",
            "out.csv",
            "--graph",
            "baseline",
            "--model",
            "openai:scripted",
        ]
    if what == "compare":
        (tmp_path / "setups.toml").write_text('graph = "baseline"\n[entries.one]\n[entries.two]\n')
        command = [
            "compare",
            "setups.toml",
            "--on",
            "posts.csv",
            "--out",
            "runs",
            "--model",
            "openai:scripted",
            "--yes",
        ]
    with ScriptedServer(lambda request: ANSWER) as server, Path("/dev/full").open("w") as full:
        stopped = process(tmp_path, server, command, stdout=full)
        assert stopped.returncode == 1, stopped.stderr
        assert (
            "could not be printed: No space left on device; make room; all 2 results are saved"
            in stopped.stderr
        )
        assert "Traceback" not in stopped.stderr
        assert "Exception ignored" not in stopped.stderr
        done = here(server, command)
        assert (done.exit_code, len(server.requests)) == (0, 2), done.stderr
    assert done.stdout


def test_a_batch_whose_rows_can_t_be_written_keeps_its_results(tmp_path: Path) -> None:
    evaluation(tmp_path, 120)  # so that results take more room than run.json
    command = [
        "batch",
        "posts.csv",
        "--out",
        "out.jsonl",
        "--graph",
        "baseline",
        "--model",
        "openai:scripted",
    ]
    with ScriptedServer(lambda request: ANSWER) as server:
        probe = here(server, [*command[:3], "probe.jsonl", *command[4:]])
        assert probe.exit_code == 0, probe.stderr
        room = (tmp_path / "probe.jsonl.run" / "results.jsonl").stat().st_size
        assert (tmp_path / "probe.jsonl").stat().st_size > room + 20
        before = len(server.requests)
        stopped = here(server, command, most=room + 20)
        assert stopped.exit_code == 1, stopped.stderr
        assert (
            "out.jsonl: can't be written: File too large; make room; all 120 results are saved"
            in stopped.stderr
        )
        assert not (tmp_path / "out.jsonl").exists()
        assert here(server, command).exit_code == 0
        assert len(server.requests) == before + 120
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 120
