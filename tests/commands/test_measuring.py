"""`tribunal fit` and `report`: what is printed and written, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.result_lines import answers, line, write_run
from tribunal.commands import app
from tribunal.core.text_similarity import text_signature
from tribunal.eval.measures.metrics import measure_run
from tribunal.nodes.threshold import read_threshold


def run(*arguments: str, ends: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == ends, result.output
    return result.stdout, result.stderr


def test_tables_and_json_are_printed_and_not_written(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("0011", "011R"))
    files = {path.name for path in folder.iterdir()}
    out, _ = run("report", str(folder), "--tables")
    assert "4 results: 3 verdicts, 1 refusals" in out
    assert next(row.split()[:2] for row in out.splitlines() if row.startswith("accuracy")) == [
        "accuracy",
        "66.7%",
    ]
    out, _ = run("report", str(folder), "--json")
    (measured,) = (each["measured"] for each in json.loads(out)["runs"])
    assert measured["counting_errors"]["accuracy"] == 0.5
    assert measured == measure_run(folder)
    assert {path.name for path in folder.iterdir()} == files
    other = write_run(tmp_path / "other", answers("0011", "0110"))
    out, _ = run("report", str(folder), str(other), "--json")
    assert [each["name"] for each in json.loads(out)["runs"]] == ["run", "other"]
    out, err = run("report", str(folder), str(other), "--tables", "--out", str(tmp_path / "out"))
    assert f"{other}:" in out.splitlines()
    assert str(tmp_path / "out" / "report.html") in err
    assert (tmp_path / "out" / "report.html").exists()
    run("report", str(folder), "--tables", "--json", ends=2)


def test_fit_writes_the_file_that_a_run_names(tmp_path: Path) -> None:
    lines = [line(f"p{i}", 1, 1, confidence=0.9) for i in range(200)]
    folder = write_run(tmp_path / "run", lines)
    out, _ = run(
        "fit",
        str(folder),
        "--agreement",
        "0.9",
        "--level",
        "0.9",
        "--out",
        str(tmp_path / "mine.json"),
    )
    assert out.splitlines() == [
        "Threshold 0.9: verdicts with this confidence or more are accepted.",
        "Dismissed posts have no confidence and did not pass the test, so all go to review.",
        "Fitted on 200 posts: at least 90.0% agreement, at confidence level 0.9.",
        "Attempt 1 on these results, tested at an error of 0.0750. Each further attempt is tested at a quarter of the "
        "error before, so that all of them together keep the confidence level.",
        "On the fitting posts (optimistic): 100.0% (98.1% to 100.0%) accepted, 100.0% (98.1% to 100.0%) of those agree "
        "with the gold.",
        "Cross-validated: 100.0% accepted, 100.0% agree.",
        "Expected calibration error: 0.100 as stated, 0.006 after calibration (cross-validated).",
        str(tmp_path / "mine.json"),
    ]
    held = read_threshold(tmp_path / "mine.json")
    assert (held.threshold, held.agreement, held.level, held.coverage) == (0.9, 0.9, 0.9, 1.0)
    out, err = run("fit", str(folder), "--missed-hate", "0.1", "--cluster", "post")
    assert err == ""
    held = read_threshold(folder / "threshold.json")
    assert (held.agreement, held.missed_hate, held.attempt) == (0.95, 0.1, 2)
    assert held.by_verdict is not None
    assert (held.by_verdict.hateful, held.by_verdict.harmless) == (0.9, None)
    assert (
        "No confidence was shown to be high enough for verdicts of no hate, so all go to review."
        in out
    )
    assert len((folder / "fits.jsonl").read_text().splitlines()) == 2


def test_fit_warns_of_texts_that_recur_with_other_labels(tmp_path: Path) -> None:
    """As memes do, whose words stand under other images: of a hundred texts, ten have both labels."""
    texts = [
        text_signature(" ".join(chr(97 + (i * at + at) % 26) * 5 + str(i * at) for at in range(9)))
        for i in range(100)
    ]
    lines = [
        line(f"p{i}", int(i >= 10), 1, confidence=0.9, likeness=texts[i % 100]) for i in range(400)
    ]
    folder = write_run(tmp_path / "run", lines)
    out, err = run("fit", str(folder), "--agreement", "0.8", "--cluster", "post")
    assert "of 100 texts that occur more than once, 10 have more than one label" in err
    assert read_threshold(folder / "threshold.json").warnings[0].startswith("of 100 texts")
    out, _ = run("fit", str(folder), "--agreement", "0.8")
    assert "Fitted on 400 posts, which count as 100 (clusters by near-duplicates)" in out


def test_what_goes_wrong_is_one_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("01", "01"))
    for arguments in (
        ("report", str(tmp_path / "none"), "--tables"),
        ("fit", str(folder)),
        ("fit", str(folder), "--level", "95"),
        ("report", str(tmp_path / "none"), "--out", str(tmp_path / "out")),
    ):
        out, err = run(*arguments, ends=2)
        assert out == ""
        assert err.startswith("tribunal: error: ")
        assert len(err.strip().splitlines()) == 1
    assert not (folder / "threshold.json").exists()


@pytest.mark.long
def test_report_says_where_it_lies(tmp_path: Path) -> None:
    folders = [str(write_run(tmp_path / name, answers("0011", "0110"))) for name in ("a", "b")]
    out, _ = run("report", *folders, "--out", str(tmp_path / "out"), "--transcripts", "1")
    assert out.startswith(("a can't be told from b", "b can't be told from a")), (
        "the answer comes first"
    )
    assert out.splitlines()[-5:] == [
        str(tmp_path / "out" / name)
        for name in ("report.html", "report.md", "report.tex", "report.json", "samples.html")
    ]
    assert "2 in all; 1 shown (at most 1)" in (tmp_path / "out" / "report.md").read_text()
    # A folder with runs in it stands for them.
    runs = tmp_path / "runs"
    for name in ("a", "b"):
        write_run(runs / name, answers("0011", "0110"))
    out, _ = run("report", str(runs))
    assert str(runs / "report.html") in out.splitlines()
    assert "Report on 2 runs" in (runs / "report.html").read_text()
    out, _ = run("export", str(runs), "--to", "csv")
    assert out.startswith(f"{runs / 'export'}")
