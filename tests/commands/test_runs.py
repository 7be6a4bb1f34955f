"""`tribunal eval` and `batch` as a person runs them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

POSTS = [
    ("a", "Immigrants are vermin and should be deported.", "1", "x"),
    ("b", "Good morning, everybody.", "0", "=1+1"),
    ("c", 'I love my dog,\n"truly" – 좋은 아침.', "0", "z"),
]


def table(path: Path, rows: Sequence[tuple[str, ...]] = POSTS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "text", "label", "note"))
        writer.writerows(rows)
    return path


def run(*arguments: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text("utf-8").splitlines()]


def evaluate(tmp_path: Path, *more: str, out: str = "run") -> Result:
    data = tmp_path / "posts.csv"
    if not data.exists():
        table(data)
    return run(
        "eval",
        "--dataset",
        "table",
        "--data",
        str(data),
        "--out",
        str(tmp_path / out),
        "--graph",
        "arcade",
        *more,
    )


def test_a_run_its_files_and_going_on(tmp_path: Path) -> None:
    done = evaluate(tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["total"], printed["done"], printed["stopped"]) == (3, 3, None)
    assert printed["metrics"]["accuracy"] == 1.0
    assert json.loads((tmp_path / "run" / "metrics.json").read_bytes()) == printed["metrics"]
    held = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert (held["graph"], held["dataset"], held["n"], held["repeats"]) == ("arcade", "table", 3, 1)
    assert held["finished"] is not None
    assert sorted(line["post_id"] for line in lines(tmp_path / "run")) == ["a", "b", "c"]
    assert {line["fields"]["note"] for line in lines(tmp_path / "run")} == {"x", "=1+1", "z"}
    again = evaluate(tmp_path, "--json", "--concurrency", "2")
    assert json.loads(again.stdout)["now"] == 0
    # A torn last line is decided again, and nothing else.
    results = tmp_path / "run" / "results.jsonl"
    os.truncate(results, results.stat().st_size - 7)
    assert json.loads(evaluate(tmp_path, "--json").stdout)["now"] == 1
    assert len(lines(tmp_path / "run")) == 3
    shown = evaluate(tmp_path)
    assert "3 before" in shown.stdout
    assert "the rehearsal model took part" in shown.stdout


def test_a_changed_setting_is_refused_with_the_difference(tmp_path: Path) -> None:
    evaluate(tmp_path)
    changed = evaluate(tmp_path, "--rounds", "2", "--repeats", "2")
    assert changed.exit_code == 2
    assert "rounds: then the default, now 2" in changed.stderr
    assert "repeats: then 1, now 2" in changed.stderr
    table(tmp_path / "posts.csv", POSTS[:2])
    assert evaluate(tmp_path).exit_code == 2


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_a_batch_gives_the_rows_back_in_order(tmp_path: Path, suffix: str) -> None:
    table(tmp_path / "posts.csv")
    out = tmp_path / f"decided{suffix}"
    done = run("batch", str(tmp_path / "posts.csv"), "--out", str(out), "--graph", "arcade")
    assert done.exit_code == 0, done.stderr
    if suffix == ".parquet":
        rows = pq.read_table(out).to_pylist()
    elif suffix == ".jsonl":
        rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        assert [row["input"]["text"] for row in rows] == [text for _, text, _, _ in POSTS]
        assert rows[0]["transcript"]
        return
    else:
        with out.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert [row["text"] for row in rows] == [text for _, text, _, _ in POSTS]
    formula = "=1+1" if suffix == ".parquet" else "'=1+1"  # a spreadsheet would run it
    assert [row["note"] for row in rows] == ["x", formula, "z"]
    assert [row["label"] for row in rows] == ["1", "0", "0"]  # theirs; ours has another name
    assert [str(row["tribunal_label"]) for row in rows] == ["5", "0", "0"]
    assert {row["outcome"] for row in rows} == {"verdict"}
    again = run(
        "batch", str(tmp_path / "posts.csv"), "--out", str(out), "--graph", "arcade", "--json"
    )
    assert json.loads(again.stdout)["calls"] == 0


def test_an_output_of_no_known_form_is_refused_before_any_call(tmp_path: Path) -> None:
    table(tmp_path / "posts.csv")
    done = run("batch", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "o.xlsx"))
    assert (done.exit_code, "its suffix is none of" in done.stderr) == (2, True)
