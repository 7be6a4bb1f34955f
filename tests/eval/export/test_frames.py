"""`tribunal export --to parquet|csv`: a row for everything that a run holds, with the types that the docs name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests import PROJECT
from tests.result_lines import line, write_run
from tribunal.commands import app
from tribunal.eval.export.results import ExportColumn, export_tables

PRICES = '["openai:big"]\ninput = 2.0\noutput = 10.0\n'


def call(number: int, seat: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"c{number}", "role": seat, "seat": seat, "model": "openai:big", "temperature": 0.0, "prompt_sha": "aa",
        "prompt_tokens": 1000, "completion_tokens": 100, "seconds": 0.5, "shown": ["text", "policy"], **more,
    }  # fmt: skip


CUE = {
    "id": "C1", "type": "Direct", "target_group": "neighbours", "characteristic": "origin", "claim": "“go home”",
    "justification": "It sends them away.", "category": "Racist",
}  # fmt: skip


def argued(stance: str) -> list[dict[str, Any]]:
    return [
        {
            "cue_id": "C1",
            "target_group": "neighbours",
            "claim": "“go home”",
            "stance": stance,
            "argument": "So.",
        }
    ]


TURNS = [
    {"id": "prosecutor/1", "seat": "prosecutor", "stage": "indictment", "round": 1, "cues": [CUE]},
    {
        "id": "defender/1",
        "seat": "defender",
        "stage": "rebuttal",
        "round": 1,
        "arguments": argued("refute"),
    },
    {
        "id": "prosecutor/2",
        "seat": "prosecutor",
        "stage": "argument",
        "round": 2,
        "arguments": argued("press"),
    },
    {
        "id": "defender/2",
        "seat": "defender",
        "stage": "rebuttal",
        "round": 2,
        "arguments": argued("concede"),
    },
]
OPINION = {
    "id": "kold",
    "title": "KOLD",
    "language": "ko",
    "stance": "hate",
    "label_name": "Offensive",
    "reason": "Why.",
}


def a_run(folder: Path, **run: Any) -> Path:
    calls = [call(1, "prosecutor"), call(2, "judge"), call(3, "judge", cached=True, draw=1)]
    usage = {"calls": 2, "prompt_tokens": 2000, "completion_tokens": 200, "cached_tokens": 0}
    court = line(
        "p1", 1, 1, confidence=0.75, fields={"topic": "=tea", "n": 1, "tags": ["a", "b"]}, place=0, seconds=1.5,
        calls=calls, usage=usage, cues=[CUE], transcript=TURNS, opinions=[OPINION], text="They should go home.",
        explanation="=HYPERLINK(1)", warnings=["one", "two"], has_image=True,
    )  # fmt: skip
    refused = line(
        "p2", 0, "refusal", gold_scheme="binary", fields={"topic": None, "n": 2.5}, place=1,
        fault={"kind": "content_filter", "seat": "judge", "role": "judge", "model": "openai:big"},
    )  # fmt: skip
    folded = line(
        "p1", 1, 5, repeat=1, gold_scheme="binary", fields={"topic": "sea", "n": 3}, place=0
    )
    return write_run(folder, [court, refused, folded], n=2, repeats=2, **run)


def exported(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_a_run_is_rows_of_stated_types(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    run = a_run(tmp_path / "run")
    done = exported(run, "--to", "parquet", "--prices", tmp_path / "prices.toml")
    assert done.exit_code == 0, done.output
    assert f"{run / 'export' / 'posts.parquet'}: 3 rows" in done.stdout
    assert {path.stem for path in (run / "export").iterdir()} == export_tables().keys()
    kinds = {"text": "string", "whole": "int64", "number": "double", "yes/no": "bool"}
    for name, columns in export_tables().items():
        schema = pq.read_schema(run / "export" / f"{name}.parquet")
        held = [(each.name, str(each.type)) for each in schema]
        assert held[: len(columns)] == [(each.name, kinds[each.kind]) for each in columns], name
    posts = rows(run / "export/posts.parquet")
    assert [(each["post_id"], each["repeat"], each["outcome"]) for each in posts] == [
        ("p1", 0, "verdict"), ("p2", 0, "refusal"), ("p1", 1, "verdict"),
    ]  # fmt: skip
    # The fine label 5 is not the label 1, but hate as the binary gold is.
    assert [each["correct"] for each in posts] == [True, None, True]
    assert (posts[1]["fault"], posts[1]["fault_seat"]) == ("content_filter", "judge")
    assert posts[0]["warnings"] == "one\ntwo"
    assert [posts[0][f"field_{name}"] for name in ("topic", "n", "tags")] == [
        "=tea",
        1.0,
        '["a", "b"]',
    ]
    # Two calls that were paid for: 2 × (1,000 at 2 + 100 at 10 a million); the third came from the cache.
    assert posts[0]["cost"] == pytest.approx(0.006)
    assert [each["cost"] for each in rows(run / "export/calls.parquet")] == pytest.approx(
        [0.003, 0.003, 0.0]
    )
    cost = rows(run / "export/cost.parquet")
    assert [(each["seat"], each["calls"], each["cached_calls"], each["prompt_tokens"]) for each in cost] == [
        ("prosecutor", 1, 0, 1000), ("judge", 1, 1, 1000),
    ]  # fmt: skip
    turns = rows(run / "export/turns.parquet")
    assert [(each["number"], each["seat"], each["cues"]) for each in turns] == [
        (0, "prosecutor", "C1"), (1, "defender", "C1"), (2, "prosecutor", "C1"), (3, "defender", "C1"),
    ]  # fmt: skip
    assert "It sends them away." in turns[0]["words"]
    (cue,) = rows(run / "export/cues.parquet")
    assert (cue["characteristic"], cue["prosecution"], cue["defence"]) == (
        "origin",
        "press",
        "concede",
    )
    assert rows(run / "export/opinions.parquet")[0]["label_name"] == "Offensive"


def test_csv_has_the_same_cells_and_no_formula(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    assert exported(run, "--to", "csv").exit_code == 0
    with (run / "export/posts.csv").open(encoding="utf-8", newline="") as file:
        posts = list(csv.DictReader(file))
    assert posts[0]["explanation"] == "'=HYPERLINK(1)"
    assert posts[0]["field_topic"] == "'=tea"
    assert [each["correct"] for each in posts] == ["true", "", "true"]
    assert (posts[0]["cost"], posts[0]["confidence"]) == ("", "0.75")


def test_several_runs_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    one, other = a_run(tmp_path / "one"), a_run(tmp_path / "other")
    done = exported(one, other, "--to", "csv", "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["files"]["posts.csv"] == 6
    with (tmp_path / "out/posts.csv").open(encoding="utf-8", newline="") as file:
        assert [each["run"] for each in csv.DictReader(file)] == ["one"] * 3 + ["other"] * 3
    assert "give one with --out" in exported(one, other, "--to", "csv").stderr
    again = a_run(tmp_path / "deeper/one")
    assert (
        "two runs are called 'one'"
        in exported(one, again, "--to", "csv", "--out", tmp_path / "out").stderr
    )


def test_texts_are_there_where_they_were_kept_or_are_given(tmp_path: Path) -> None:
    posts = tmp_path / "posts.csv"
    posts.write_text("id,text,label\na,good day,not\nb,good night,not\n")
    command = [
        "eval",
        "--dataset",
        "table",
        "--data",
        str(posts),
        "--graph",
        "baseline",
        "--model",
        "rehearsal",
    ]
    assert CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")]).exit_code == 0
    assert exported(tmp_path / "run", "--to", "parquet").exit_code == 0
    file = tmp_path / "run/export/posts.parquet"
    assert {each["text"] for each in rows(file)} == {None}
    assert {each["rehearsed"] for each in rows(file)} == {True}
    assert exported(tmp_path / "run", "--to", "parquet", "--data", posts).exit_code == 0
    assert {each["post_id"]: each["text"] for each in rows(file)} == {
        "a": "good day",
        "b": "good night",
    }
    posts.write_text("id,text,label\na,bad day,not\nb,good night,not\n")
    refused = exported(tmp_path / "run", "--to", "parquet", "--data", posts)
    assert (refused.exit_code, "not the files that" in refused.stderr) == (2, True)
    assert {each["post_id"]: each["text"] for each in rows(file)} == {
        "a": "good day",
        "b": "good night",
    }


def test_a_broken_line_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [line("a", 1, 1), line("b", 1, 1, transcript=[{"id": "x"}])])
    done = exported(run, "--to", "parquet")
    assert done.exit_code == 2
    assert "results.jsonl: line 2: " in done.stderr
    assert list((run / "export").iterdir()) == []


def test_a_run_without_a_result_is_tables_without_a_row(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [])
    assert exported(run, "--to", "parquet").exit_code == 0
    assert rows(run / "export/posts.parquet") == []


def schema_in_markdown() -> str:
    """Return every table with its columns, as docs/export.md holds them; a column of several tables stands once."""
    tables = export_tables()
    places = {
        column: [name for name, columns in tables.items() if column in columns]
        for columns in tables.values()
        for column in columns
    }
    rows = [
        f"{_row_in_markdown(column)} {'all' if len(names) == len(tables) else ', '.join(names)} |"
        for column, names in places.items()
        if len(names) > 1
    ]
    head = "### In several tables\n\n| column | type | content | tables |\n|---|---|---|---|\n"
    parts = [head + "\n".join(rows) + "\n"]
    for name, columns in tables.items():
        own = "\n".join(_row_in_markdown(column) for column in columns if len(places[column]) == 1)
        parts.append(f"### {name}\n\n| column | type | content |\n|---|---|---|\n{own}\n")
    return "\n".join(parts)


def _row_in_markdown(column: ExportColumn) -> str:
    return f"| `{column.name}` | {column.kind} | {column.says} |"


def test_the_docs_name_every_column() -> None:
    assert schema_in_markdown() in (PROJECT / "docs/export.md").read_text("utf-8")
