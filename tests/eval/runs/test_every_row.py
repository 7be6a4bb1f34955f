"""What `tribunal batch` makes of rows that are no posts: each comes back in its place, says why, and costs no call."""

from __future__ import annotations

import csv
import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from tribunal.commands import app
from tribunal.errors import BadInput
from tribunal.eval.batch import batch
from tribunal.eval.runs.tables import COLUMNS


def decided(posts: Path, out: Path, **more: Any) -> list[dict[str, Any]]:
    batch(posts, out, graph="baseline", settings={}, **more)
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def failed(rows: list[dict[str, Any]]) -> dict[int, str]:
    return {
        place: row["explanation"] for place, row in enumerate(rows) if row["outcome"] == "failure"
    }


def test_every_row_comes_back_in_its_place_and_every_column_in_its_order(tmp_path: Path) -> None:
    """By the command. A column after the text, one before it, empty ones, ends that aren't trimmed."""
    posts, out = tmp_path / "in.csv", tmp_path / "out.csv"
    posts.write_text(
        "likes,text,id,note\n"
        "3,  Good morning.  ,a,\n"
        ",,,\n"
        '4,"",b,empty\n'
        "5,Good evening.,a,again\n"
        "6,one,c,two,three\n"
        "7,short\n"
    )
    done = CliRunner().invoke(app, ["batch", str(posts), "--out", str(out), "--graph", "baseline"])
    assert done.exit_code == 0, done.output
    assert (
        "table: 3 rows can't be judged, and end as failures without a call: more cells than columns 1, neither text "
        "nor image 2"
    ) in " ".join(done.stderr.split())
    assert "1 rows repeat the id of an earlier one" in done.stderr
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert list(rows[0]) == ["likes", "text", "id", "note", *COLUMNS]
    assert [[row[name] for name in ("likes", "text", "id", "note")] for row in rows] == [
        ["3", "  Good morning.  ", "a", ""], ["", "", "", ""], ["4", "", "b", "empty"],
        ["5", "Good evening.", "a", "again"], ["6", "one", "c", "two"], ["7", "short", "", ""],
    ]  # fmt: skip
    assert failed(rows) == {
        1: "text: there is neither a text nor an image; give one or both",
        2: "text: there is neither a text nor an image; give one or both",
        4: "text: the row has 1 more cells than there are columns (three); put a cell that holds a separator into "
        "double quotes",
    }
    assert {row["calls"] for row in rows if row["outcome"] == "failure"} == {"0"}
    kept = [
        json.loads(line)
        for line in (tmp_path / "out.csv.run" / "results.jsonl").read_text().splitlines()
    ]
    by_place = {line["place"]: line for line in kept}
    assert [by_place[place]["post_id"] for place in range(6)] == [
        "a",
        "2",
        "b",
        "a (row 4)",
        "c",
        "6",
    ]
    assert {line["fault"]["kind"] for line in kept if line["outcome"] == "failure"} == {"input"}
    # The same command again decides nothing anew.
    again = CliRunner().invoke(
        app, ["batch", str(posts), "--out", str(out), "--graph", "baseline", "--json"]
    )
    assert json.loads(again.stdout)["done"] == 6


def test_an_image_that_is_missing_is_its_own_row_s_failure(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "here.png")
    posts = tmp_path / "in.csv"
    posts.write_text(
        "text,image\nhello,here.png\nhello,gone.png\nhello,../out.png\nhello,\n,gone.png\n"
    )
    rows = decided(posts, tmp_path / "out.csv")
    said = failed(rows)
    assert [row["image"] for row in rows] == ["here.png", "gone.png", "../out.png", "", "gone.png"]
    assert sorted(said) == [1, 2, 4]
    assert (said[1][:28], "is outside" in said[2]) == ("image: gone.png: isn't in /t", True)
    # Where none is there, posts are judged by their texts only if that is asked for.
    posts.write_text("text,image\nhello,gone.png\n,gone.png\n")
    with pytest.raises(
        BadInput,
        match=r"2 of its 2 images \(column 'image'\) are missing .*'gone.png'.*--columns image=",
    ):
        decided(posts, tmp_path / "texts.csv")
    assert list(failed(decided(posts, tmp_path / "texts.csv", columns={"image": ""}))) == [1]


def test_parquet_keeps_its_types_and_its_order(tmp_path: Path) -> None:
    columns = {
        "seen": pa.array(
            [datetime.datetime(2026, 1, 2, 3, 4), None, datetime.datetime(2026, 1, 3)],
            pa.timestamp("us"),
        ),
        "text": pa.array(["Good morning.", None, " Good evening. "]),
        "price": pa.array([Decimal("1.50"), Decimal("2.25"), None], pa.decimal128(5, 2)),
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
        "label": pa.array([1, None, 0], pa.int8()),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
    given = pa.table(columns)
    pq.write_table(given, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    batch(tmp_path / "in.parquet", out, graph="baseline", settings={})
    found = pq.read_table(out)
    assert found.select(given.column_names).equals(given)
    assert found.column_names[: len(columns)] == list(columns)
    assert found.column("outcome").to_pylist() == ["verdict", "failure", "verdict"]
    assert found.column("tribunal_label").to_pylist() == [0, None, 0]
    text = decided(tmp_path / "in.parquet", tmp_path / "out.csv")
    assert [row["seen"] for row in text] == ["2026-01-02 03:04:00", "", "2026-01-03 00:00:00"]
    assert [row["tags"] for row in text] == ['["a", "b"]', "[]", ""]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text,a,a\nhello,1,2\n", "the column 'a' is there twice"),
        ("words\nhello\n", "columns: text"),
        ("text\n", "columns: text"),
        ("", "columns: text"),
    ],
)
def test_a_file_whose_columns_are_wrong_is_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(BadInput, match=says):
        decided(tmp_path / "in.csv", tmp_path / "out.csv")
