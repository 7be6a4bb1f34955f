"""One reader of tables with one set of rules: a fault in any format is refused by every command, before any call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.eval.datasets.test_table_forms import COMMANDS
from tests.eval.experiments.commanded import called, scripted
from tribunal.commands import app

Pairs = list[tuple[str, Any]]
FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")
ROWS: list[Pairs] = [
    [("id", "a"), ("text", "Weeds."), ("label", "1"), ("category", "Racist")],
    [("id", "b"), ("text", "Roses."), ("label", "0"), ("category", "No Hate")],
]


def as_object(pairs: Pairs) -> str:
    """A JSON object, in which a name may stand twice."""
    return (
        "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs) + "}"
    )


def write_table(file: Path, rows: list[Pairs]) -> None:
    if file.suffix in (".csv", ".tsv"):
        separator = "," if file.suffix == ".csv" else "\t"
        lines = [[name for name, _ in rows[0]], *([str(value) for _, value in row] for row in rows)]
        file.write_text("".join(separator.join(line) + "\n" for line in lines), "utf-8")
    elif file.suffix == ".parquet":
        columns = [pa.array([row[at][1] for row in rows]) for at in range(len(rows[0]))]
        pq.write_table(pa.Table.from_arrays(columns, names=[name for name, _ in rows[0]]), file)
    else:
        objects = [as_object(row) for row in rows]
        file.write_text(
            "\n".join(objects) if file.suffix == ".jsonl" else f"[{', '.join(objects)}]", "utf-8"
        )


def with_text(value: Any) -> Callable[[Pairs], Pairs]:
    return lambda row: [(name, value if name == "text" else cell) for name, cell in row]


def renamed(old: str, new: str) -> Callable[[Pairs], Pairs]:
    return lambda row: [(new if name == old else name, cell) for name, cell in row]


STRUCTURED = ("jsonl", "json", "parquet")
# By fault: what becomes of a row, the formats that can have it, and what the error names.
FAULTS: dict[str, tuple[Callable[[Pairs], Pairs], tuple[str, ...], str]] = {
    "a column twice": (lambda row: [*row, ("text", "Other.")], FORMATS, "twice"),
    "a list as text": (with_text(["Weeds."]), STRUCTURED, "text = "),
    "an object as text": (with_text({"en": "Weeds."}), STRUCTURED, "text = "),
    "no text column": (renamed("text", "Text"), FORMATS, "Text"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_by_every_command_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, fault: str
) -> None:
    change, formats, named = FAULTS[fault]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    monkeypatch.setenv("TRIBUNAL_MODEL", "openai:m")
    with scripted() as server:
        for suffix in formats:
            write_table(Path(f"posts.{suffix}"), [change(row) for row in ROWS])
            line = COMMANDS[command](f"posts.{suffix}")
            before = sorted(tmp_path.rglob("*"))
            done = CliRunner().invoke(app, line)
            assert (done.exit_code, done.stdout) == (2, ""), (suffix, done.output, done.exception)
            assert named in done.stderr, suffix
            assert sorted(tmp_path.rglob("*")) == before, suffix
        assert not server.requests


@pytest.mark.parametrize("name", ["Label", "lable", "hate", "toxic", "class"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_no_evaluation_without_gold_by_accident(tmp_path: Path, suffix: str, name: str) -> None:
    rows = [[(name if each == "label" else each, cell) for each, cell in row[:3]] for row in ROWS]
    write_table(tmp_path / f"posts.{suffix}", rows)
    line = [
        "eval",
        "--dataset",
        "table",
        "--data",
        str(tmp_path / f"posts.{suffix}"),
        "--out",
        str(tmp_path / "run"),
    ]
    done = called(*line, "--graph", "baseline")
    assert done.exit_code == 2
    for fact in ("--unlabelled", f"id, text, {name}", f"did you mean --columns label={name}"):
        assert fact in done.stderr
    assert not (tmp_path / "run").exists()
    assert called(*line, "--graph", "baseline", "--unlabelled").exit_code == 0
    run = json.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert (run["unlabelled"], run["accuracy"]) == (2, None)


@pytest.mark.parametrize("name", ["tweet", "comment", "content", "Text", "post"])
def test_the_usual_names_of_a_text_column_are_suggested(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / "posts.csv", [[("id", "a"), (name, "Roses."), ("label", "0")]])
    for line in (
        ["batch", str(tmp_path / "posts.csv"), "--out", str(tmp_path / "out.jsonl")],
        [
            "eval",
            "--dataset",
            "table",
            "--data",
            str(tmp_path / "posts.csv"),
            "--out",
            str(tmp_path / "run"),
        ],
    ):
        assert f"did you mean --columns text={name}" in called(*line).stderr


@pytest.mark.parametrize(
    ("labels", "texts", "warned"),
    [
        (("1", "0"), ("Weeds.", "Roses."), (False, False)),
        (("1", "0"), ("Weeds.", "Weeds."), (True, False)),
        (("1", "1"), ("Weeds.", "Roses."), (False, True)),
        (("1", "1"), ("Weeds.", "Weeds."), (False, True)),
    ],
)
def test_doubtful_gold_is_a_warning(
    tmp_path: Path, labels: tuple[str, str], texts: tuple[str, str], warned: tuple[bool, bool]
) -> None:
    rows: list[Pairs] = [
        [("id", str(at)), ("text", text), ("label", label)]
        for at, (label, text) in enumerate(zip(labels, texts, strict=True))
    ]
    write_table(tmp_path / "posts.csv", rows)
    line = [
        "eval",
        "--dataset",
        "table",
        "--data",
        str(tmp_path / "posts.csv"),
        "--out",
        str(tmp_path / "run"),
    ]
    done = called(*line, "--graph", "baseline")
    assert done.exit_code == 0, done.output
    assert ("another label" in done.stderr, "both classes" in done.stderr) == warned


def test_a_published_set_has_its_gold(tmp_path: Path) -> None:
    done = called(
        "eval",
        "--dataset",
        "fhm",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "run"),
        "--unlabelled",
    )
    assert (done.exit_code, "--unlabelled" in done.stderr) == (2, True)
