"""An experiment that is killed, interrupted or locked out keeps what it has, says what is missing, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import PROJECT
from tests.court import PATIENCE
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.eval.experiments.commanded import arguments, called, cells, scripted, told
from tests.eval.experiments.played import played
from tests.eval.experiments.small_sets import write_small

IN_FLIGHT = 2
POSTS = 8


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("sets"))


def line(sets: Path) -> list[str]:
    more = ("--samples", str(POSTS), "--concurrency", str(IN_FLIGHT), "--yes")
    return arguments("run", "arcade-table4", sets, *more)


def begun(sets: Path, server: ScriptedServer, requests: int) -> subprocess.Popen[str]:
    """The command in a process of its own, once the model has been asked so often."""
    command = [sys.executable, "-m", "tribunal", *line(sets)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + PATIENCE
    while len(server.requests) < requests:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    return process


def lines_of(name: str) -> list[dict[str, Any]]:
    path = Path("runs") / name / "results.jsonl"
    return (
        [json.loads(each) for each in path.read_text("utf-8").splitlines()] if path.exists() else []
    )


BASELINE, COURT = "arcade-table4_baseline_fhm_openai-m", "arcade-table4_arcade_fhm_openai-m"


@pytest.mark.long
def test_a_killed_experiment_asks_again_only_what_was_in_flight(sets: Path) -> None:
    with scripted(latency=0.05) as server:
        process = begun(sets, server, POSTS + 8)  # the first run is done, the second has begun
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert len(lines_of(BASELINE)) == POSTS
        assert len(lines_of(COURT)) < POSTS
        assert not Path("runs/table.md").exists()
        done = called(*line(sets))
        assert done.exit_code == 0, done.output
        with_a_kill = len(server.requests)
    with scripted() as server:
        told("run", "arcade-table4", sets, "--samples", str(POSTS), "--out", "whole", "--yes")
        whole = len(server.requests)
    assert with_a_kill - whole <= IN_FLIGHT  # what a process had answered stands in its cache
    assert [sorted(each["place"] for each in lines_of(name)) for name in (BASELINE, COURT)] == [
        list(range(POSTS))
    ] * 2
    assert {key: cell["measured"] for key, cell in cells().items()} == {
        key: cell["measured"] for key, cell in cells("whole").items()
    }


@pytest.mark.long
def test_an_interrupted_experiment_writes_the_table_of_what_there_is(sets: Path) -> None:
    with scripted(latency=0.05) as server:
        process = begun(sets, server, POSTS + 8)
        process.send_signal(signal.SIGTERM)
        said, aside = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, aside
        assert "interrupted" in aside
        assert "Run the same command again to go on" in aside
        found, left = cells(), len(lines_of(COURT))
        assert 0 < left < POSTS
        assert found["your model (openai:m) ✗", "Acc"]["measured"]
        assert (
            found["your model (openai:m) w/ Ours ✗", "Acc"]["gap"]
            == f"run unfinished: {left} of {POSTS}"
        )
        assert "run unfinished" in said
        done = called(*line(sets))
    assert done.exit_code == 0, done.output
    assert not any(cell["gap"] for (row, _), cell in cells().items() if "your model" in row)


@pytest.mark.long
def test_a_key_that_is_refused_stops_it_in_its_run(sets: Path) -> None:
    """The status is that of a stopped run; the run after it isn't begun, and its cells say so."""

    def locked(request: Request) -> Reply | Fault:
        return Fault(status=401, message="no such key")

    with scripted(locked):
        done = called(*line(sets))
    assert done.exit_code == 1
    assert "See to the key" in done.stderr
    assert not (Path("runs") / COURT).exists()
    assert cells()["your model (openai:m) w/ Ours ✗", "Acc"]["gap"] == f"not run: {COURT}"
    with scripted(played):
        assert called(*line(sets)).exit_code == 0
