"""A metric of one's own, by name: its value, its interval, the paired test, and what goes wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.eval.report.test_report_answer import noisy
from tribunal.commands import app
from tribunal.eval.report import measure_runs

ACCURACY = "sklearn.metrics:accuracy_score"


@pytest.mark.parametrize(("accuracy", "differs"), [(0.9, True), (0.75, False)])
def test_it_agrees_with_our_own_measure_where_it_is_the_same(
    tmp_path: Path, accuracy: float, differs: bool
) -> None:
    runs = [noisy(tmp_path / "weak", 0.75, 2), noisy(tmp_path / "strong", accuracy, 1, 0.02)]
    figures = measure_runs(runs, metrics=[ACCURACY])
    [metric] = figures["own_metrics"]
    assert metric["name"] == ACCURACY
    for run, ours, truth in zip(metric["runs"], figures["runs"], (0.75, accuracy), strict=True):
        assert run["value"] == pytest.approx(ours["measured"]["accuracy"])
        low, high = run["interval"]
        assert low < truth < high
        our_low, our_high = ours["measured"]["intervals"]["accuracy"]
        assert (low, high) == (pytest.approx(our_low, abs=0.02), pytest.approx(our_high, abs=0.02))
    [pair], [ours] = metric["pairs"], figures["pairs"]
    assert (pair["first"], pair["second"], pair["n"]) == ("weak", "strong", ours["n"])
    assert pair["difference"] == pytest.approx(ours["differences"]["accuracy"]["difference"])
    assert ((pair["p_holm"] < 0.05), (ours["p_holm"] < 0.05)) == (differs, differs)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("no_such_module:score", "no_such_module"),
        ("sklearn.metrics:no_such_score", "no_such_score"),
        ("sklearn.metrics:__all__", "no function"),
        ("accuracy", "no function"),
        ("json:loads", "TypeError"),
    ],
)
def test_what_is_no_metric_is_named(tmp_path: Path, name: str, fact: str) -> None:
    run = noisy(tmp_path / "run", 0.75, 2)
    outcome = CliRunner().invoke(app, ["report", str(run), "--metric", name])
    assert outcome.exit_code == 2
    assert [words for words in ("--metric", name, fact) if words not in outcome.stderr] == [], (
        outcome.stderr
    )
    assert not (run / "report.html").exists()


def test_it_is_shown_in_every_form(tmp_path: Path) -> None:
    run = noisy(tmp_path / "run", 0.75, 2)
    outcome = CliRunner().invoke(app, ["report", str(run), "--metric", ACCURACY])
    assert outcome.exit_code == 0, outcome.output
    [metric] = json.loads((run / "report.json").read_text("utf-8"))["own_metrics"]
    for form in ("report.html", "report.md"):
        page = (run / form).read_text("utf-8")
        assert ACCURACY in page
        assert f"{metric['runs'][0]['value']:.3f}" in page
