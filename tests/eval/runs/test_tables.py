"""What `tribunal batch` gives back: every cell of the input as it was, our columns beside them, in order."""

from __future__ import annotations

import asyncio
import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.doubles import Reply
from tests.openai_server import OpenAIServer
from tests.test_house import MODULES
from tribunal.core.text import make_visible
from tribunal.errors import BadInput
from tribunal.eval.batch import batch
from tribunal.eval.runs.tables import COLUMNS
from tribunal.retrievers.indexes.table_rows import read_rows

HOSTILE = ['two\nlines, "quoted"', "=1+1", "좋은 아침 🍵", "tab\there", "@note", "<b>&amp;</b>"]


def decided(posts: Path, out: Path, **more: Any) -> list[dict[str, Any]]:
    tally = batch(posts, out, graph="baseline", settings={}, **more)
    assert tally.stopped == ""
    return read(out)


def read(out: Path) -> list[dict[str, Any]]:
    if out.suffix == ".parquet":
        return list(pq.read_table(out).to_pylist())
    if out.suffix == ".jsonl":
        return [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return [dict(row.cells) for row in read_rows(out, "data set x")]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_cells_come_back_as_they_were_under_their_own_names(tmp_path: Path, suffix: str) -> None:
    """A column of another name is the text; later rows have columns that the first lacks; labels are no texts."""
    rows = [
        {
            "key": f"k{number}",
            "tweet": f"Good morning, {cell}",
            "text": cell,
            "lang": "ko",
            "label": number,
        }
        for number, cell in enumerate(HOSTILE)
    ]
    rows[1]["hateful"], rows[2]["more"] = True, {"a": [1, "나"]}
    posts = lines(tmp_path / "in.jsonl", *rows)
    columns = {"text": "tweet", "id": "key", "language": "lang"}
    found = decided(posts, tmp_path / f"out{suffix}", columns=columns)
    if suffix == ".jsonl":
        assert [line["input"] for line in found] == rows
        assert [line["place"] for line in found] == list(range(len(rows)))
        return
    for row, given in zip(found, rows, strict=True):
        for name in ("key", "tweet", "text", "lang"):
            assert row[name] == given[name]
        assert row["label"] == str(given["label"])
        assert (row["outcome"], row["category"], str(row["tribunal_label"])) == (
            "verdict",
            "NotHate",
            "0",
        )
        assert str(row["tribunal_hateful"]) == "False"
    assert [row["hateful"] for row in found[:2]] == ["" if suffix != ".parquet" else None, "True"]
    assert json.loads(found[2]["more"]) == {"a": [1, "나"]}
    if suffix == ".parquet":
        assert (found[0]["tribunal_label"], found[0]["tribunal_hateful"]) == (0, False)


def test_what_is_decided_twice_keeps_both_outcomes(tmp_path: Path) -> None:
    posts = lines(tmp_path / "in.jsonl", {"text": "Good morning."})
    decided(posts, tmp_path / "one.csv")
    decided(tmp_path / "one.csv", tmp_path / "two.csv")
    [row] = decided(tmp_path / "two.csv", tmp_path / "three.csv")
    prefixes = ("", "tribunal_", "tribunal_tribunal_")  # no column is ours but those
    assert list(row) == ["text", *(f"{prefix}{name}" for prefix in prefixes for name in COLUMNS)]
    assert {row[f"{prefix}category"] for prefix in prefixes} == {"NotHate"}


async def test_no_cell_is_a_formula_or_commands_a_terminal(tmp_path: Path) -> None:
    written = {
        "=1+1": "'=1+1", "'=1+1": "''=1+1", "-cmd": "'-cmd", "@note": "'@note", "＝1": "'＝1", "\t=1": "'\t=1",
        "-1.5": "-1.5", "'quoted'": "'quoted'", "좋은 아침 🍵": "좋은 아침 🍵", "a\u202eb": "a[U+202E]b",
        "\x1b[2J": "[U+001B][2J", "\x1b]8;;http://a\x07": "[U+001B]]8;;http://a[U+0007]", "\x9b1m": "[U+009B]1m",
    }  # fmt: skip
    rows = [{"text": f"post {number}", "=note": payload} for number, payload in enumerate(written)]
    posts = lines(tmp_path / "in.jsonl", *rows)
    model_text = "=1+1 \x1b[2J"
    async with OpenAIServer(
        lambda request: Reply({"category": "NotHate", "explanation": model_text})
    ):
        for suffix in (".csv", ".tsv", ".parquet", ".jsonl"):
            out = tmp_path / f"out{suffix}"
            await asyncio.to_thread(
                batch, posts, out, graph="baseline", settings={"model": "openai:s"}
            )
            if suffix in (".parquet", ".jsonl"):
                inputs = [(row.get("input", row)["=note"], row["explanation"]) for row in read(out)]
                assert inputs == [(payload, model_text) for payload in written]
            else:
                with out.open(encoding="utf-8", newline="") as file:
                    cells = list(
                        csv.DictReader(
                            file, delimiter="\t" if suffix == ".tsv" else ",", strict=True
                        )
                    )
                assert [(row["'=note"], row["explanation"]) for row in cells] == [
                    (cell, "'=1+1 [U+001B][2J") for cell in written.values()
                ]
                # Read again, only hidden characters are written out, as every model sees them.
                assert [row["=note"] for row in read(out)] == [
                    make_visible(payload) for payload in written
                ]


def test_every_csv_is_written_by_the_writer_that_escapes_cells() -> None:
    writing = re.compile(r"csv\.(?:writer|DictWriter)|to_csv|write_csv")
    users = {name for name, path in MODULES.items() if writing.search(path.read_text("utf-8"))}
    assert users == {"review.table_files"}


def test_a_table_of_others_keeps_its_quotation_marks(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("text,label\n'@you are kind,0\n", "utf-8")
    assert read(tmp_path / "theirs.csv") == [{"text": "'@you are kind", "label": "0"}]


def test_a_file_that_no_batch_has_written_is_left_alone(tmp_path: Path) -> None:
    posts, out = lines(tmp_path / "in.jsonl", {"text": "Good morning."}), tmp_path / "out.csv"
    out.write_text("precious")
    with pytest.raises(BadInput, match="is there already"):
        decided(posts, out)
    assert out.read_text() == "precious"
    out.unlink()
    # its own output it may write again
    assert len(decided(posts, out)) == len(decided(posts, out)) == 1
