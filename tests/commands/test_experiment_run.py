"""Every experiment end to end through the command: what it asks, what it plans, and the table that it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eval.experiments.commanded import arguments, called, cells, scripted, told
from tests.eval.experiments.small_sets import write_small
from tribunal.eval.protocols.protocol import load_protocols

# One of each paper; the others are slow.
IN_CI = ("arcade-table8", "predict-table2", "antihate-table2", "mv-debate-table1")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("sets"))


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow)
        for name in load_protocols()
    ],
)
def test_an_experiment_end_to_end(name: str, sets: Path) -> None:
    """As many calls as were planned, no failure, no cell that lacks what is at hand; and nothing is asked again."""
    more = ["--repeats", "1"] if name.startswith("predict") else []
    with scripted() as server:
        plan = told("plan", name, sets, *more)
        assert not server.requests
        assert not plan["gaps"]
        ran = told("run", name, sets, "--yes", *more)
        asked = len(server.requests)
        by_run = {each["run"]: each for each in ran["runs"]}
        assert by_run.keys() == {each["run"] for each in plan["runs"]}
        for planned in plan["runs"]:
            run = by_run[planned["run"]]
            assert run["done"] == planned["left"] == run["total"]
            assert not run["outcomes"].get("failure")
            paid, shared = planned["calls"], planned["shared_calls"]
            made = run["calls"] + run["metrics"]["cost"]["from_cache"]["total"]
            assert run["calls"] <= paid[1], planned["run"]
            assert paid[0] + shared[0] <= made <= paid[1] + shared[1], planned["run"]
        assert sum(run["calls"] for run in by_run.values()) == asked
        assert asked <= plan["sum"]["calls"][1]
        told("run", name, sets, *more)  # nothing is left, so nobody is asked whether to spend
        assert len(server.requests) == asked
    lacking = {cell["gap"] for cell in cells().values() if cell["gap"]}
    known = {row.not_run for row in load_protocols()[name].shape.rows}
    assert {
        gap for gap in lacking - known if not gap.startswith(("model not at hand", "no post is"))
    } == set()
    assert any(cell["measured"] for cell in cells().values())
    for file in ("table.md", "table.html", "table.csv"):
        assert (
            "your model" in Path("runs", file).read_text("utf-8")
            or not load_protocols()[name].shape.asks
        )


def test_the_table_is_printed_with_where_it_lies(sets: Path) -> None:
    with scripted():
        done = called(*arguments("run", "arcade-table4", sets, "--yes"))
    assert done.exit_code == 0, done.output
    assert "your model (openai:m) w/ Ours" in done.stdout
    assert (
        "table.md, runs/table.html, runs/table.csv, runs/table.tex, runs/table.json; the runs: runs"
        in done.stdout
    )
    assert "samples is 4, in the paper 500" in done.stderr
    assert "81.40" in done.stdout  # GPT-4o with ARCADE, in the paper
