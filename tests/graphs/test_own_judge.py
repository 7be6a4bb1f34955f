"""A judge of one's own is checked on every way in: a wrong outcome is a failure that names it, never an acquittal."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tribunal
from tests.own_pipelines import JUDGE, RIGHT, WRONG, post_saying, write_pipeline
from tribunal.commands import app
from tribunal.schema import Record


def evaluated(tmp_path: Path, graph: str, *outcomes: Any, command: tuple[str, ...] = ()) -> Any:
    with (tmp_path / "posts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text", "label"])
        rows.writerows((f"p{place}", post_saying(each), 0) for place, each in enumerate(outcomes))
    arguments = ["eval", "--dataset", "table", "--data", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "run"),
                 "--graph", graph, "--in-order", *command]  # fmt: skip
    return CliRunner().invoke(app, arguments)


def results(tmp_path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (tmp_path / "run" / "results.jsonl").read_text("utf-8").splitlines()
    ]


@pytest.mark.parametrize(("outcome", "says"), WRONG)
async def test_a_wrong_outcome_is_a_failure_that_names_it(
    tmp_path: Path, outcome: Any, says: str
) -> None:
    record = await tribunal.ajudge(post_saying(outcome), graph=write_pipeline(tmp_path))
    assert (record.outcome, record.label, record.category, record.hateful) == (
        "failure",
        None,
        None,
        None,
    )
    assert record.fault is not None
    assert record.fault["kind"] == "wrong_outcome"
    assert record.explanation.startswith(says)
    wrote = "graph" if outcome is None else "node judge of"
    assert record.explanation.endswith(f"({wrote} {tmp_path / 'mine.py'}:graph)")
    assert "\n" not in record.explanation


async def test_a_right_outcome_stands(tmp_path: Path) -> None:
    graph = write_pipeline(tmp_path)
    record = await tribunal.ajudge(post_saying({**RIGHT, "confidence": 0.5}), graph=graph)
    assert (record.outcome, record.category, record.hateful, record.confidence) == (
        "verdict",
        "Sexist",
        True,
        0.5,
    )
    binary = {**RIGHT, "label": 1, "category": "Hateful"}
    assert (
        await tribunal.ajudge(post_saying(binary), graph=graph, scheme="binary")
    ).category == "Hateful"
    refused = {
        "outcome": "refusal",
        "seat": "judge",
        "role": "mine",
        "model": "m",
        "form": "mine",
        "explanation": "no",
    }
    assert (await tribunal.ajudge(post_saying(refused), graph=graph)).outcome == "refusal"


async def test_a_channel_that_no_record_can_hold_is_a_failure(tmp_path: Path) -> None:
    said = post_saying(RIGHT, transcript=[{"id": "mine/1", "text": "words"}])
    record = await tribunal.ajudge(said, graph=write_pipeline(tmp_path))
    assert record.fault is not None
    assert (record.outcome, record.fault["kind"], record.transcript) == (
        "failure",
        "wrong_state",
        (),
    )
    assert record.explanation.startswith("transcript.0.seat: is missing")


def test_the_command_ends_with_status_4_and_acquits_nobody(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["judge", post_saying(WRONG[1][0]), "--graph", write_pipeline(tmp_path)]
    )
    assert done.exit_code == 4
    assert "FAILED" in done.output
    assert "NOT HATE SPEECH" not in done.output
    assert "no verdict: wrong_outcome" in done.output


async def test_a_case_for_review_is_a_failure_too_and_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = write_pipeline(tmp_path)
    monkeypatch.setenv("TRIBUNAL_ALLOW", f"code={graph}")
    record = await tribunal.ajudge(post_saying(WRONG[1][0]), graph=graph, review=True)
    assert (record.outcome, record.thread) == ("failure", None)


@pytest.mark.long
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_run_counts_it_as_failed_and_goes_on(tmp_path: Path, workers: tuple[str, ...]) -> None:
    graph = write_pipeline(tmp_path)
    outcomes: tuple[Any, ...] = (
        {**RIGHT, "label": 1, "category": "Racist"},
        WRONG[0][0],
        WRONG[1][0],
        {},
        "Foo",
    )
    done = evaluated(tmp_path, graph, *outcomes, command=workers)
    assert done.exit_code == 0, done.output
    held = {each["post_id"]: each for each in results(tmp_path)}
    assert [held[f"p{place}"]["outcome"] for place in range(5)] == ["verdict", *["failure"] * 4]
    assert {held[f"p{place}"]["fault"]["kind"] for place in range(1, 5)} == {"wrong_outcome"}
    again = evaluated(tmp_path, graph, *outcomes)
    assert again.exit_code == 0, again.output  # its own file is read again
    report = CliRunner().invoke(app, ["report", str(tmp_path / "run")])
    assert report.exit_code == 0, report.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert (metrics["verdicts"], metrics["failures"]) == (1, 4)


BREAKING = JUDGE.replace(
    'builder.add_edge("receive", "judge")',
    'builder.add_node("last", court_judge)\nbuilder.add_edge("receive", "judge")\nbuilder.add_edge("judge", "last")',
).replace("Ruling, receive", "Ruling, court_judge, receive")


async def test_a_piece_of_ours_that_reads_it_says_the_same(tmp_path: Path) -> None:
    graph = write_pipeline(tmp_path, BREAKING)
    record: Record = await tribunal.ajudge(post_saying(WRONG[1][0]), graph=graph)
    assert record.outcome == "failure"
    assert record.explanation.startswith(WRONG[1][1])
    said = post_saying(None, transcript="words", cues=[])
    record = await tribunal.ajudge(said, graph=graph)
    assert record.outcome == "failure"
    assert "is no list of entries, each of which has an id" in record.explanation
