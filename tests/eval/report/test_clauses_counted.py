"""Clauses in the measures of a run, and in what a new policy would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tribunal.commands import app

POSTS = ("Immigrants: the weeds in our garden.", "Good morning!", "Women are vermin.")
CASE = {
    "court_outcome": "verdict", "court_category": "NotHate", "court_hateful": False, "policy": "h-vli",
    "policy_sha": "x", "graph": "arcade", "models": "rehearsal", "calls": 4, "court_clause": "1.4",
}  # fmt: skip


@pytest.fixture
def tried(tmp_path: Path) -> Any:
    (tmp_path / "decided.jsonl").write_text(
        "".join(
            json.dumps(
                {"id": str(number), "text": text, "label": "hate", "category": "Racist", **CASE}
            )
            + "\n"
            for number, text in enumerate(POSTS)
        ),
        "utf-8",
    )
    command = [
        "policy",
        "try",
        "h-vli",
        "--on",
        str(tmp_path / "decided.jsonl"),
        "--out",
        str(tmp_path / "run"),
    ]
    command += ["--set", "policy_clauses=true", "--model", "rehearsal", "--yes"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return tmp_path / "run", done.output


def test_policy_try_says_which_clause_changed_which_verdict(tried: Any) -> None:
    folder, printed = tried
    changes = json.loads((folder / "changes.json").read_text("utf-8"))
    by_post = {
        each["post_id"]: (each["clauses_then"], each["clauses_now"]) for each in changes["changes"]
    }
    assert by_post == {"0": (["1.4"], ["1.5"]), "2": (["1.4"], ["1.2"])}
    counts = {each.pop("clause"): each for each in changes["by_clause"]}
    assert counts["1.4"] == {"then": 3, "now": 0, "changed": 2, "put_right": 2, "put_wrong": 0}
    assert counts["1.5"] == {"then": 0, "now": 1, "changed": 1, "put_right": 1, "put_wrong": 0}
    assert (
        "clause 1.5: cited by 0 verdicts then, 1 now; 1 that cite it would change, 1 put right"
        in printed
    )
    assert "| 1.5 | 0 | 1 | 1 | 1 | 0 |" in (folder / "changes.md").read_text("utf-8")
    assert "Which clause changes which verdicts" in (folder / "changes.html").read_text("utf-8")


def test_metrics_and_the_report_count_by_clause(tried: Any, tmp_path: Path) -> None:
    folder, _ = tried
    shown = CliRunner().invoke(app, ["report", str(folder), "--tables"])
    assert "clause 1.5: cited by 1 verdict, 1 of them hateful" in shown.output
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    assert "| 1.5 | 1 | 1 |" in (tmp_path / "report" / "report.md").read_text("utf-8")
