"""Any table: columns, labels, what is refused, and 4chan, which is read as one."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tribunal.errors import BadInput
from tribunal.eval.compare.plan import find_test_split
from tribunal.eval.datasets import find_dataset, open_dataset
from tribunal.runner.results import Gold, Sample

ROWS = [
    {"tid": "a1", "tweet": "one, two", "class": "0", "site": "x"},
    {"tid": "a2", "tweet": "안녕\n하세요", "class": "1", "site": "y"},
]
NO = Gold(label=0, scheme="binary", positive=False, name="0")
YES = Gold(label=1, scheme="binary", positive=True, name="1")
COLUMNS = {"text": "tweet", "id": "tid", "label": "class"}


def saved(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(
                file, list(rows[0]), delimiter="," if path.suffix == ".csv" else "\t"
            )
            writer.writeheader()
            writer.writerows(rows)
    return path


def read(path: Path, **options: Any) -> list[Sample]:
    return list(open_dataset("table", path, **options))


def text_file(folder: Path, content: str, name: str = "t.csv") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.json", "t.parquet"])
def test_every_format_gives_the_same_posts(tmp_path: Path, name: str) -> None:
    assert read(saved(tmp_path, name, ROWS), columns=COLUMNS) == [
        Sample(id="a1", text="one, two", gold=NO, fields={"site": "x"}),
        Sample(id="a2", text="안녕\n하세요", gold=YES, fields={"site": "y"}),
    ]


def test_columns_that_are_called_as_they_are_need_no_mapping_and_none_is_labelled(
    tmp_path: Path,
) -> None:
    found = read(text_file(tmp_path, "﻿text,language\nhello,en\n좋아,ko\n"))
    assert [(post.id, post.text, post.language, post.gold) for post in found] == [
        ("1", "hello", "en", None),
        ("2", "좋아", "ko", None),
    ]


def test_a_blank_column_name_means_none(tmp_path: Path) -> None:
    path = text_file(tmp_path, "id,text,label\nx,a,spam\nx,b,ham\n")
    found = read(path, columns={"id": "", "label": ""})
    assert [(post.id, post.gold) for post in found] == [("1", None), ("2", None)]
    assert found[0].fields == {"id": "x", "label": "spam"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"text": "tweet"},
            r"columns: text = 'tweet': there is no such column; .*t\.csv has id, words, kind",
        ),
        ({}, r"columns: text: which column is the text\? .*t\.csv has id, words, kind"),
        ({"text": "words", "label": "class"}, "columns: label = 'class': there is no such column"),
        (
            {"text": "words", "colour": "kind"},
            "columns: 'colour': what a column can be is text, id, label, image",
        ),
    ],
)
def test_a_missing_column_is_named_with_those_there_are(
    tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        read(text_file(tmp_path, "id,words,kind\n1,a,b\n"), columns=columns)


def test_a_row_of_jsonl_may_lack_what_another_has(tmp_path: Path) -> None:
    path = text_file(
        tmp_path,
        '{"text": "a"}\n{"text": "b", "id": "x", "place": "here"}\n{"id": "y"}\n',
        "t.jsonl",
    )
    opened = open_dataset("table", path)
    assert [(post.id, post.fields) for post in opened] == [("1", {}), ("x", {"place": "here"})]
    assert opened.skipped == {"neither text nor image": 1}


def test_a_long_table_loses_no_row(tmp_path: Path) -> None:
    path = text_file(tmp_path, "text\n" + "".join(f"post {number}\n" for number in range(350)))
    assert [post.text for post in read(path)] == [f"post {number}" for number in range(350)]


# -------------------------------------------------------------------------------------------------------------- labels


def gold_of(folder: Path, labels: dict[str, str] | None, *values: str) -> list[tuple[int, str]]:
    rows = [{"text": f"post {number}", "label": value} for number, value in enumerate(values)]
    found = read(saved(folder, "t.csv", rows), labels=labels)
    return [(post.gold.label, post.gold.scheme) for post in found if post.gold]


def test_plain_words_for_yes_and_no_need_no_map(tmp_path: Path) -> None:
    values = ("hate", "Not_Hate", "1", "0", "TRUE", "no", "non-hate", "1.0", "0.0")
    assert gold_of(tmp_path, None, *values) == [
        (label, "binary") for label in (1, 0, 1, 0, 1, 0, 0, 1, 0)
    ]


def test_a_map_leads_to_hate_and_not(tmp_path: Path) -> None:
    labels = {"혐오": "hate", "비혐오": "not", "0": "hate"}
    assert gold_of(tmp_path, labels, "혐오", "비혐오", "0") == [
        (1, "binary"),
        (0, "binary"),
        (1, "binary"),
    ]


def test_a_map_leads_to_categories_by_number_or_name(tmp_path: Path) -> None:
    labels = {"race": "racist", "faith": "4", "Fine": "not", "ok": "NotHate"}
    assert gold_of(tmp_path, labels, "RACE", "faith", "fine", "ok") == [
        (n, "fine") for n in (1, 4, 0, 0)
    ]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            None,
            r"table: t\.csv row 2: label = 'spam': is not hate or not, 1 or 0, .*say with labels what",
        ),
        ({"ham": "not"}, r"t\.csv row 2: label = 'spam': is not ham; say with labels"),
        (
            {"ham": "not", "spam": "bad"},
            "labels: 'bad': a label is mapped to hate or not, or to a category, .*OtherHate",
        ),
        ({"ham": "sexist", "spam": "hate"}, "labels: 'sexist' is a category, and hate is none"),
    ],
)
def test_a_wrong_label_is_named_with_what_is_expected(
    tmp_path: Path, labels: dict[str, str] | None, said: str
) -> None:
    rows = [{"text": "a", "label": "ham" if labels else "not"}, {"text": "b", "label": "spam"}]
    with pytest.raises(BadInput, match=said):
        read(saved(tmp_path, "t.csv", rows), labels=labels)


# --------------------------------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "t.csv",
            b"text,label\na,1,surplus\n",
            "line 2: more cells than the 2 columns; put a cell that holds ','",
        ),
        (
            "t.csv",
            b'text,label\n"a,1\nb,0\n',
            "after line 1: not delimited by ',': unexpected end of data",
        ),
        (
            "t.csv",
            "text\n나\n".encode("cp949"),
            "row 1: can't be read as utf-8 .*--encoding cp1252.*, or save it as UTF-8",
        ),
        ("t.parquet", b"no parquet", "not Parquet"),
        ("t.xlsx", b"", "xlsx: not CSV, TSV, TXT, JSONL, JSON, Parquet or Arrow"),
        ("t.jsonl", b'{"text": "a"}\n{"text"', "line 2: not JSON"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said):
        read(tmp_path / name)


def test_the_fields_of_a_parquet_table_are_json(tmp_path: Path) -> None:
    row = {
        "text": "a", "id": float("nan"), "day": date(2025, 1, 2), "score": float("nan"), "raw": b"\xff", "ids": 2**40,
        "more": {"n": 1, "when": date(2025, 1, 3)}, "sure": True, "tags": ["x", "y"],
    }  # fmt: skip
    (post,) = read(saved(tmp_path, "t.parquet", [row]))
    assert post.id == "1", "not a number is blank"
    fields = post.fields
    assert json.loads(json.dumps(fields, allow_nan=False)) == {
        "day": "2025-01-02", "score": None, "tags": ["x", "y"], "more": {"n": 1, "when": "2025-01-03"}, "sure": True,
        "ids": 2**40,
    }  # fmt: skip


def test_images_of_a_table_lie_beside_it_or_on_the_web(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    path = text_file(tmp_path, "text,img\none,a.png\ntwo,https://example.org/b.png\nthree,\n")
    assert [post.image for post in read(path, columns={"image": "img"})] == [
        str(tmp_path / "a.png"), "https://example.org/b.png", None,
    ]  # fmt: skip
    text_file(tmp_path, "text,img\none,a.png\ntwo,c.png\n")
    with pytest.raises(
        BadInput,
        match=r"1 of its 2 images \(column 'img'\) are missing .*'c\.png'.*--columns image=",
    ):
        read(path, columns={"image": "img"})
    text_file(tmp_path, "text,img\none,../a.png\n")
    with pytest.raises(BadInput, match="is outside"):
        read(path, columns={"image": "img"})


TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t\",'"), max_size=40
)


@given(st.lists(TEXT, min_size=1, max_size=20))
def test_a_csv_gives_back_the_texts_that_were_written(texts: list[str]) -> None:
    from tempfile import TemporaryDirectory

    held = io.StringIO(newline="")
    writer = csv.DictWriter(held, ["text", "n"], quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows({"text": text, "n": number} for number, text in enumerate(texts, start=1))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text(held.getvalue(), encoding="utf-8", newline="")
        found = {post.id: post.text for post in read(path)}
    assert found == {
        str(number): text.strip() for number, text in enumerate(texts, start=1) if text.strip()
    }


# --------------------------------------------------------------------------------------------------------------- 4chan


def test_4chan_keeps_which_hate_is_implicit(tmp_path: Path) -> None:
    path = text_file(
        tmp_path, "text,label,type\na,hate,implicit\nb,hate,explicit\nc,nonhate,\n", "4chan.csv"
    )
    found = list(open_dataset("4chan", tmp_path))
    assert [(post.fields["implicit"], post.gold and post.gold.positive) for post in found] == [
        (True, True), (False, True), (False, False),
    ]  # fmt: skip
    path.write_text("t,class,kind\na,H,Implicit\nb,N,\n", encoding="utf-8")
    opened = open_dataset(
        "4chan",
        path,
        columns={"text": "t", "label": "class", "type": "kind"},
        labels={"H": "hate", "N": "not"},
    )
    assert [post.fields for post in opened] == [{"implicit": True}, {"implicit": False}]


def test_a_column_names_the_split_of_each_row(tmp_path: Path) -> None:
    rows = [
        {"id": f"p{number}", "text": "words", "part": part}
        for number, part in enumerate(("Train", "test", ""))
    ]
    table, columns = saved(tmp_path, "t.csv", rows), {"split": "part"}
    assert [post.id for post in read(table, columns=columns, split="train")] == ["p0"]
    assert [post.fields["part"] for post in read(table, columns=columns)] == ["Train", "test", ""]
    with pytest.raises(
        BadInput, match=r"split: 'dev': no row of .* is of it \(there are Train, test\)"
    ):
        read(table, columns=columns, split="dev")
    with pytest.raises(
        BadInput, match="has no column called split; name it with --columns split=NAME"
    ):
        read(table, split="train")


@pytest.mark.parametrize(
    ("name", "split", "locked"),
    [
        ("h-vli", "train", False), ("h-vli", "test", True), ("sbic", "all", True), ("sbic", "dev", False),
        ("fhm", "train", False), ("fhm", "dev", True), ("unsmile", "valid", True), ("hatecheck", "suite", True),
    ],
)  # fmt: skip
def test_a_published_split_is_a_test_unless_it_is_for_tuning(
    tmp_path: Path, name: str, split: str, locked: bool
) -> None:
    for names in find_dataset(name).splits[split]:
        text_file(tmp_path, "id\n", names[0])
    assert (find_test_split(open_dataset(name, tmp_path, split=split), ()) is not None) == locked


@pytest.mark.parametrize(
    ("file", "part", "locked"),
    [
        ("test-posts.csv", "", True),
        ("latest.csv", "", False),
        ("test.csv", "train", False),
        ("a.csv", "Test2", True),
    ],
)
def test_a_table_is_a_test_by_its_column_or_else_by_its_name(
    tmp_path: Path, file: str, part: str, locked: bool
) -> None:
    table = open_dataset("table", saved(tmp_path, file, [{"text": "words", "split": part}]))
    assert (find_test_split(table, table) is not None) == locked
