"""A grid of evaluations: what it asks, what it shares, what it refuses before it asks anything."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tribunal.errors import BadInput
from tribunal.eval.runs.tally import RunTally
from tribunal.eval.sweep import name_of_cell, read_sweep, run_sweep
from tribunal.schema import JSON

HEAD = 'dataset = "table"\ndata = "posts.csv"\nout = "runs"\ngraph = "arcade"\n'


def written(tmp_path: Path, text: str, posts: int = 2) -> Path:
    rows = "".join(f"p{number},word-{number}.,{number % 2}\n" for number in range(posts))
    (tmp_path / "posts.csv").write_text(f"id,text,label\n{rows}")
    (tmp_path / "sweep.toml").write_text(HEAD + text)
    return tmp_path / "sweep.toml"


def swept(path: Path) -> list[tuple[str, JSON, RunTally]]:
    return run_sweep(read_sweep(path))


async def on(server: ScriptedServer, path: Path) -> list[tuple[str, JSON, RunTally]]:
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
    return await asyncio.to_thread(swept, path)


@pytest.mark.long
async def test_ten_judges_over_one_aux_model_pay_for_one_debate(tmp_path: Path) -> None:
    judges = json.dumps([f"openai:judge-{number}" for number in range(10)])
    path = written(tmp_path, f'[settings]\naux_model = "openai:aux"\n[grid]\njudge_model = {judges}\n')
    async with ScriptedServer(court_script(explicit=True)) as server:
        cells = await on(server, path)
        asked = Counter(request.model for request in server.requests)
        assert asked == {"aux": 2 * 3, **{f"judge-{number}": 2 for number in range(10)}}
        assert [tally.calls for _, _, tally in cells] == [2 * 4, *[2] * 9]
        again = await on(server, path)
        assert len(server.requests) == 26
    assert {(tally.before, tally.done) for _, _, tally in again} == {(2, 0)}
    measured = [json.loads((tmp_path / "runs" / name / "metrics.json").read_bytes()) for name, _, _ in cells]
    assert {(each["n"], each["cost"]["from_cache"]["total"]) for each in measured[1:]} == {(2, 2 * 3)}


async def test_rounds_by_temperatures_of_the_judge(tmp_path: Path) -> None:
    text = '[settings]\nmodel = "openai:s"\n[grid]\nrounds = [1, 2]\n"temperatures.judge" = [0.2, 0.9]\n'
    async with ScriptedServer(court_script()) as server:
        cells = await on(server, written(tmp_path, text, posts=1))
    assert [cell for _, cell, _ in cells] == [
        {"rounds": rounds, "temperatures.judge": heat} for rounds in (1, 2) for heat in (0.2, 0.9)
    ]
    assert cells[0][0] == "rounds=1_temperatures.judge=0.2"
    assert [request.temperature for request in server.requests if part(request) == "judge"] == [0.2, 0.9, 0.2, 0.9]
    run = json.loads((tmp_path / "runs" / cells[3][0] / "run.json").read_bytes())
    assert (run["settings"]["rounds"], run["settings"]["temperatures"]) == (2, {"judge": 0.9})


async def test_a_sweep_that_was_stopped_goes_on(tmp_path: Path) -> None:
    locked = {"yes": True}

    def script(request: Request) -> Reply | Fault:
        if locked["yes"] and request.model == "b":
            return Fault(status=401, message="no such key")
        return Reply({"category": "NotHate", "explanation": "words"})

    path = written(tmp_path, '[grid]\ngraph = ["baseline"]\nmodel = ["openai:a", "openai:b", "openai:c"]\n')
    async with ScriptedServer(script) as server:
        cells = await on(server, path)
        assert [tally.done for _, _, tally in cells] == [2, 0]  # the third wasn't begun
        assert "See to the key" in cells[-1][2].stopped
        locked["yes"] = False
        cells = await on(server, path)
        assert [(tally.before, tally.done, tally.stopped) for _, _, tally in cells] == [
            (2, 0, ""),
            (0, 2, ""),
            (0, 2, ""),
        ]
        assert Counter(request.model for request in server.requests)["a"] == 2


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ('graph = ["arcade", "nothing"]', "graph: 'nothing'"),
        ('model = ["rehearsal", "nobody:x"]', "model: 'nobody:x'"),
        ('"seats.judge" = ["nobody:x"]', "seats.judge: 'nobody:x'"),
        ('"seats.jury" = ["rehearsal"]', "there is no seat 'jury'"),
        ('"temperatures.judge" = [0.1, 3]', "3.* is not between 0 and 2"),
        ('samples = [1, "two"]', "grid.samples: 'two'"),
        ("seed = [-1]", "grid.seed: -1"),
        ("rounds = [2, 2]", "two cells would be the folder rounds=2"),
        ("colour = [1]", "colour: is no setting"),
    ],
)
async def test_what_is_wrong_in_a_later_cell_costs_no_call_of_an_earlier_one(
    tmp_path: Path, grid: str, says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        await asyncio.to_thread(swept, written(tmp_path, f"[grid]\n{grid}\n"))
    assert not (tmp_path / "runs").exists()


def test_cells_have_folders_of_their_own() -> None:
    cells: list[dict[str, Any]] = [
        {"model": "openai:a"}, {"model": "openai:a,openai:b"}, {"policy": "가.toml"}, {"policy": "나.toml"},
        {"model": "openai:" + "a" * 300}, {"model": "openai:" + "a" * 301},
    ]  # fmt: skip
    names = [name_of_cell(cell) for cell in cells]
    assert names[0] == "model=openai-a"
    assert len(set(names)) == len(names)
    assert max(len(name.encode()) for name in names) < 200
