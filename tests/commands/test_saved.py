"""What was saved: by a run's shortcuts (`tribunal report --tables`), and by runs that differ in one setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_1samp
from typer.testing import CliRunner

from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.measures.metrics import measure_run

PRICES = '["openai:m"]\ninput = 10\noutput = 0\ncached = 1\n'


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def call(seat: str, tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "id": "1", "role": seat, "seat": seat, "model": "openai:m", "temperature": 0.0, "prompt_sha": "0",
        "prompt_tokens": tokens, **more,
    }  # fmt: skip


def decided(
    post: str, gold: int, answer: int, *calls: dict[str, Any], **more: Any
) -> dict[str, Any]:
    paid = [each for each in calls if not each.get("cached")]
    usage = {"calls": len(paid), "prompt_tokens": sum(each["prompt_tokens"] for each in paid)}
    return line(
        post,
        gold,
        answer,
        scheme="binary",
        gold_scheme="binary",
        calls=list(calls),
        usage=usage,
        **more,
    )


def spared(id_: str, calls: int = 0, tokens: int = 0) -> dict[str, Any]:
    return {"id": id_, "calls": calls, "tokens": tokens, "how": "why"}


def shortened(folder: Path) -> Path:
    """Eight posts: two end early, three votes are settled early, one is seen by a first look, one is cached twice."""
    judge = call("judge", 600)
    lines = [
        decided("p0", 1, 1, call("prosecutor", 100), judge, saved=[spared("early_exit", 4)]),
        decided("p1", 0, 1, call("prosecutor", 300), judge, saved=[spared("early_exit", 3)]),
        decided("p2", 1, 1, judge, judge, saved=[spared("judge_draws", 1)]),
        decided("p3", 0, 0, judge, judge, saved=[spared("judge_draws", 1)]),
        decided(
            "p4",
            0,
            0,
            judge,
            judge,
            saved=[spared("judge_draws", 1), spared("prompt_cache", tokens=500)],
        ),
        decided("p5", 0, 0, call("triage", 50), saved=[spared("triage", 1)]),
        decided("p6", 1, 0, call("judge", 600, cached=True), call("defender", 200, cached=True)),
        decided("p7", 1, 1, call("judge", 600, cached_tokens=500), call("defender", 200)),
    ]
    return write_run(folder, lines, dataset="mine")


def test_what_shortcuts_spared_is_measured(tmp_path: Path) -> None:
    folder = shortened(tmp_path / "run")
    printed = run("report", folder, "--tables")
    held = measure_run(folder)["saved"]
    assert sorted(held) == ["cache", "early_exit", "judge_draws", "prompt_cache", "triage"]
    # Seven calls of the two sides, which take (100 + 300 + 200) / 3 tokens here; the cached one is no part of that.
    assert held["early_exit"] == {
        "results": 2, "share": 0.25, "calls": 7, "tokens": pytest.approx(7 * 200), "estimated": True,
        "accuracy": 0.5, "accuracy_interval": pytest.approx([0.0945, 0.9055], abs=1e-3),
        "accuracy_elsewhere": pytest.approx(5 / 6),
        "accuracy_elsewhere_interval": pytest.approx([0.4365, 0.9699], 1e-3),
    }  # fmt: skip
    assert (held["judge_draws"]["calls"], held["judge_draws"]["tokens"]) == (3, 1800)
    # What a first look spares would have gone to all the others: 600 nine times, 100, 300 and 200.
    assert held["triage"]["tokens"] == pytest.approx((9 * 600 + 600) / 12)
    assert (held["prompt_cache"]["calls"], held["prompt_cache"]["tokens"]) == (0, 500)
    assert (held["prompt_cache"]["estimated"], held["prompt_cache"]["accuracy"]) == (False, None)
    assert (held["cache"]["calls"], held["cache"]["tokens"], held["cache"]["results"]) == (
        2,
        800,
        1,
    )
    said = [each for each in printed.splitlines() if each.startswith("saved by ")]
    assert "saved by cache: 2 calls and 800 tokens, in 1 results" in said
    assert any(
        each.startswith("saved by early_exit: at least 7 calls and about 1,400 tokens")
        for each in said
    )


def test_a_report_says_it_in_money(tmp_path: Path) -> None:
    folder = shortened(tmp_path / "run")
    (tmp_path / "prices.toml").write_text(PRICES)
    run("report", folder, "--prices", tmp_path / "prices.toml")
    text = (folder / "report.md").read_text()
    rows = {
        cells[2]: cells
        for row in text.splitlines()
        if len(cells := [each.strip() for each in row.split("|")]) > 11
    }
    assert "## What was saved" in text
    # 1,400 tokens at 10 a million; 500 that cost 1 and not 10.
    assert rows["early exit"][6:8] == ["about 1,400", "about 0.0140"]
    assert rows["the provider's prompt cache"][6:8] == ["500", "0.00450"]
    assert rows["our own cache of answers"][6:8] == ["800", "0.00800"]
    page = (folder / "report.html").read_text()
    assert "What shortcuts saved within each run" in page
    assert "about 0.0140" in page
    assert "What each setting saved" not in page


def test_a_run_without_shortcuts_saved_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [decided("p0", 1, 1, call("judge", 100))])
    assert "saved by" not in run("report", folder, "--tables")
    run("report", folder)
    assert "What was saved" not in (folder / "report.md").read_text()


def pair(folder: Path, *, gold: bool = True, cached: bool = False) -> list[Path]:
    """The same 200 posts, tried with five draws of the judge and with one, which errs four times more."""
    many, one = [], []
    for at in range(200):
        truth = at % 2
        votes = [call("judge", 100)] * (5 if at % 4 == 0 else 3)
        many.append(decided(f"p{at}", truth, truth, *votes))
        answer = 1 - truth if at < 4 else truth
        one.append(decided(f"p{at}", truth, answer, call("judge", 100, cached=cached)))
    if not gold:
        many, one = ([{**each, "gold": None} for each in lines] for lines in (many, one))
    settings = {"model": "openai:m"}
    return [
        write_run(folder / "one", one, dataset="mine", settings=settings),
        write_run(
            folder / "many",
            many,
            dataset="mine",
            settings={**settings, "judge_draws": 5, "draw_temperature": 1},
        ),
    ]


def told(folder: Path, *runs: Path) -> list[list[str]]:
    """The rows of the table of settings."""
    run("report", *runs, "--out", folder, "--prices", folder / "prices.toml")
    text = (folder / "report.md").read_text()
    if "differ in one setting" not in text:
        return []
    table = text.split("differ in one setting")[1].split("\n\n| setting")[1].split("\n\n")[0]
    return [[each.strip() for each in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


@pytest.mark.long
@pytest.mark.parametrize("cached", [False, True])
def test_runs_that_differ_in_one_switch_say_what_it_saved_and_cost(
    tmp_path: Path, *, cached: bool
) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    [row] = told(tmp_path, *pair(tmp_path, cached=cached))
    assert row[:4] == ["`judge_draws`", "many (5)", "one (default)", "200"]
    # Four calls for a quarter of the posts and two for the rest, whether or not a cache has the answers.
    saved, _, interval = row[4].partition(" (")
    assert saved == "2.50"
    low, high = (float(each) for each in interval.removesuffix(")").split(" to "))
    exact = ttest_1samp([4] * 50 + [2] * 150, 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=0.02)
    assert row[5] == row[7] == row[9] == "below 0.001"
    assert row[6].startswith("250 (")
    assert row[8].startswith("0.00250 (")
    # Four errors more of 200, all on one side: 2 × 0.5⁴, half of which counts.
    assert (row[10].partition(" ")[0], row[11]) == ("-2.0", "0.062")
    assert row[12].partition(" ")[0] == "-2.0"
    page = (tmp_path / "report.html").read_text()
    assert "What each setting saved" in page


@pytest.mark.long
def test_runs_that_differ_in_more_are_not_compared_so(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    one, many = pair(tmp_path)
    held = json.loads((many / "run.json").read_text())
    (many / "run.json").write_text(
        json.dumps({**held, "settings": {**held["settings"], "rounds": 2}})
    )
    lines = [json.loads(each) for each in (one / "results.jsonl").read_text().splitlines()]
    settings = {"model": "openai:m", "rounds": 2}
    other = write_run(
        tmp_path / "other",
        lines,
        dataset="mine",
        settings=settings,
        policy={"name": "own", "sha": "a"},
    )
    assert told(tmp_path, one, many, other) == []
