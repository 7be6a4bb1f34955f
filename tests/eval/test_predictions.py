"""Predictions of another model, imported as a run: every form of a file, its faults, and who reads the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tribunal.commands import app

Rows = list[dict[str, Any]]
GOLD = {"a": 0, "b": 1, "c": 0, "d": 1}
ROWS: Rows = [
    {"id": "a", "label": "0", "confidence": 0.9, "explanation": "It greets."},
    {"id": "b", "label": "1", "confidence": 0.8, "explanation": "It excludes."},
    {"id": "c", "label": "1", "confidence": 0.5, "explanation": "Not sure."},
    {"id": "d", "label": "1", "confidence": 0.7, "explanation": "It insults."},
]


def delimited(rows: Rows, delimiter: str = ",") -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join(delimiter.join(cells) for cells in table).encode()


def parquet(rows: Rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "p.csv": delimited,
    "p.tsv": lambda rows: delimited(rows, "\t"),
    "p.json": lambda rows: json.dumps(rows).encode(),
    "p.jsonl": lambda rows: "\n".join(map(json.dumps, rows)).encode(),
    "p.parquet": parquet,
}


def import_file(tmp_path: Path, file: Path, *options: str, out: str = "run") -> Result:
    posts = tmp_path / "posts.csv"
    posts.write_text(
        "id,text,label\n" + "".join(f"{id},word-{id}.,{label}\n" for id, label in GOLD.items())
    )
    command = ["eval", "--dataset", "table", "--data", str(posts), "--out", str(tmp_path / out)]
    return CliRunner().invoke(app, [*command, "--predictions", str(file), *options])


def import_rows(tmp_path: Path, rows: Rows, *options: str, name: str = "p.jsonl") -> Result:
    file = tmp_path / name
    file.write_bytes(FORMATS[name](rows))
    return import_file(tmp_path, file, "--scheme", "binary", *options)


def results(folder: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    return {line["post_id"]: line for line in lines}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_becomes_the_results_of_a_run_without_a_call(
    tmp_path: Path, name: str
) -> None:
    imported = import_rows(tmp_path, ROWS, "--json", name=name)
    assert imported.exit_code == 0, imported.output
    printed = json.loads(imported.stdout)
    assert (printed["done"], printed["outcomes"], printed["calls"]) == (
        4,
        {"negative": 1, "positive": 3},
        0,
    )
    assert printed["metrics"]["accuracy"] == 0.75
    found = results(tmp_path / "run")
    assert {
        id: (line["label"], line["confidence"], line["explanation"]) for id, line in found.items()
    } == {row["id"]: (int(row["label"]), row["confidence"], row["explanation"]) for row in ROWS}
    assert {id: line["gold"]["label"] for id, line in found.items()} == GOLD
    run = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert (run["graph"], run["predictions"]["file"], run["predictions"]["rows"]) == (
        "imported",
        name,
        4,
    )
    assert run["finished"]


@pytest.mark.parametrize(
    ("options", "labels", "expected"),
    [
        (["--scheme", "binary"], ["hate", "not", "YES", "false"], [1, 0, 1, 0]),
        (["--scheme", "binary"], ["Hateful", "nothate", "1.0", "0.0"], [1, 0, 1, 0]),
        (["--scheme", "binary", "--labels", "toxic=hate", "--labels", "ok=not"], ["toxic", "ok", "Toxic", "0"],
         [1, 0, 1, 0]),
        (["--scheme", "fine"], ["Racist", "nothate", "2", "OtherHate"], [1, 0, 2, 5]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", ["label", "category", "prediction"])
def test_a_label_is_a_name_a_number_or_a_plain_word(
    tmp_path: Path, options: list[str], labels: list[str], expected: list[int], column: str
) -> None:
    (tmp_path / "p.csv").write_bytes(
        delimited([{"post_id": id, column: label} for id, label in zip(GOLD, labels, strict=True)])
    )
    if "--labels" in options:  # they also say what the data set's own labels mean
        options = [*options, "--labels", "0=not", "--labels", "1=hate"]
    imported = import_file(tmp_path, tmp_path / "p.csv", *options)
    assert imported.exit_code == 0, imported.output
    found = results(tmp_path / "run")
    assert [found[id]["label"] for id in GOLD] == expected
    assert [found[id]["confidence"] for id in GOLD] == [None] * 4


def changed(place: int, **cells: Any) -> Rows:
    rows = [dict(row) for row in ROWS]
    rows[place].update(cells)
    return rows


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.parquet"])
@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        (changed(1, label="maybe"), ["row 2", "label", "'maybe'", "Hateful".casefold()]),
        (changed(1, label=""), ["row 2", "label", "empty"]),
        (changed(2, id=""), ["row 3", "id", "empty"]),
        (changed(2, confidence="87"), ["row 3", "confidence", "from 0 to 1"]),
        (changed(3, confidence="sure"), ["row 4", "confidence", "number"]),
        (changed(3, id="a"), ["row 4", "id", "row 1"]),
        ([{"label": "1"}], ["row 1", "no column 'id'", "has label"]),
        ([{"id": "a"}], ["row 1", "no column 'label'", "category", "has id"]),
        ([{"id": "x", "label": "1"}], ["'x'", "no row is of a post"]),
    ],
)
def test_a_bad_row_is_named_by_file_and_row_and_nothing_is_written(
    tmp_path: Path, rows: Rows, facts: list[str], name: str
) -> None:
    # a column of Parquet has one type
    texts = [{key: str(value) for key, value in row.items()} for row in rows]
    refused = import_rows(tmp_path, texts, name=name)
    assert refused.exit_code == 2, refused.output
    assert all(fact in refused.stderr for fact in [name, *facts]), refused.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (["--graph", "arcade"], "--graph"), (["--model", "openai:x"], "--model"), (["--set", "tau=0.2"], "--set tau"),
        (["--seat", "judge=openai:x"], "--seat"), (["--repeats", "2"], "--repeats"),
        (["--retry", "failures"], "--retry"), (["--protocol", "paper"], "--protocol"),
        (["--budget-from", "."], "--budget-from"),
    ],
)  # fmt: skip
def test_options_of_a_graph_are_refused(tmp_path: Path, options: list[str], flag: str) -> None:
    refused = import_rows(tmp_path, ROWS, *options)
    assert refused.exit_code == 2
    assert f"{flag}: has no effect with --predictions" in refused.stderr


def test_a_post_without_a_prediction_is_a_failure_and_other_rows_are_left_out_with_a_warning(
    tmp_path: Path,
) -> None:
    imported = import_rows(tmp_path, [*ROWS[:3], {"id": "elsewhere", "label": "1"}])
    assert imported.exit_code == 0
    assert "no row of 1 of 4 posts" in imported.stderr
    assert "1 of 4 rows of p.jsonl are of other posts" in imported.stderr
    missing = results(tmp_path / "run")["d"]
    assert (missing["outcome"], "p.jsonl" in missing["explanation"]) == ("failure", True)
    assert "--retry" not in imported.stdout


def test_an_import_that_was_cut_goes_on_and_another_file_is_refused(tmp_path: Path) -> None:
    import_rows(tmp_path, ROWS)
    written = tmp_path / "run" / "results.jsonl"
    whole = written.read_bytes()
    written.write_bytes(whole[: len(whole) // 2])
    again = import_rows(tmp_path, ROWS)
    assert (again.exit_code, written.read_bytes()) == (0, whole)
    other = import_rows(tmp_path, changed(0, label="1"))
    assert other.exit_code == 2
    assert "begun otherwise" in other.stderr


def test_results_of_a_run_are_predictions_too(tmp_path: Path) -> None:
    import_rows(tmp_path, ROWS)
    again = import_file(
        tmp_path, tmp_path / "run" / "results.jsonl", "--scheme", "binary", out="again"
    )
    assert again.exit_code == 0, again.output
    first, second = results(tmp_path / "run"), results(tmp_path / "again")
    for name in ("label", "category", "confidence", "explanation"):
        assert {id: line[name] for id, line in first.items()} == {
            id: line[name] for id, line in second.items()
        }


def test_report_names_the_file_and_gives_no_cost_and_a_cascade_has_it_as_a_stage(
    tmp_path: Path,
) -> None:
    import_rows(tmp_path, ROWS)
    (tmp_path / "q.csv").write_bytes(delimited(changed(2, label="0")))
    import_file(tmp_path, tmp_path / "q.csv", "--scheme", "binary", out="other")
    folders = [str(tmp_path / name) for name in ("run", "other")]
    written = CliRunner().invoke(app, ["report", *folders, "--out", str(tmp_path / "report")])
    assert written.exit_code == 0, written.output
    text = (tmp_path / "report" / "report.md").read_text()
    assert "imported from p.jsonl, table" in text
    assert "no model was asked here" in text
    figures = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert figures["fronts"] == []  # a run that cost nothing here isn't the cheapest
    assert len(figures["pairs"]) == 1
    planned = CliRunner().invoke(app, ["cascade", "plan", *folders, "--json"])
    assert planned.exit_code == 1, planned.output  # four posts show nothing
    assert "run alone" in CliRunner().invoke(app, ["cascade", "plan", *folders]).stdout
