"""Perspectives: the shipped ones, what a spec may say, and how rows are read from files in the published formats."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tables import table
from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.perspective import (
    EXAMPLES,
    PAPER,
    LabelledText,
    Perspective,
    find_perspective,
    find_source_files,
    list_spec_files,
    load_perspective,
    perspectives_folder,
    read_labelled_texts,
)

SPEC = """
name = "mine"
language = "en"
criterion = "Rude: it is rude."
[labels]
hate = "Rude"
not_hate = "Fine"
[source]
files = ["rows.csv"]
text = "text"
obtain = "the office"
[source.label]
column = "label"
hate = ["1"]
not_hate = ["0"]
"""


def spec(**source: object) -> Perspective:
    base = {
        "files": ["rows.csv"],
        "text": "text",
        "obtain": "the office",
        "label": {"column": "label", "hate": ["1"]},
    }
    return Perspective.model_validate(
        {"name": "mine", "language": "en", "criterion": "Rude.", "source": {**base, **source}}
    )


def rows_of(perspective: Perspective, folder: Path) -> list[LabelledText]:
    return list(read_labelled_texts(perspective, find_source_files(perspective, folder)))


# ------------------------------------------------------------------------------------------------------------ shipped


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_five_are_shipped_with_their_label_names_and_no_data(name: str) -> None:
    found = find_perspective(name)
    hate = "Offensive" if name in ("k-haters", "kold", "kodoli") else "Hate Speech"
    assert (found.labels.hate, found.labels.not_hate) == (hate, f"Not {hate}")
    assert found.language == "ko"
    assert found.texts is None
    assert found.source is not None
    assert found.source.obtain.startswith("https://")
    assert hate in found.criterion


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_hold_their_own_texts_and_need_nothing(name: str) -> None:
    found = find_perspective(name)
    assert found.language == "en"
    assert found.texts is not None
    assert 12 <= len(found.texts.hate) + len(found.texts.not_hate) <= 16
    assert found.labels.hate in found.criterion
    assert found.labels.not_hate in found.criterion


# --------------------------------------------------------------------------------------------------------------- specs


def test_a_perspective_of_ones_own_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    perspectives_folder().mkdir(parents=True)
    (perspectives_folder() / "mine.toml").write_text(SPEC)
    (tmp_path / "other.toml").write_text(SPEC.replace('"mine"', '"other"'))
    assert find_perspective("mine").label_name("hate") == "Rude"
    assert find_perspective(str(tmp_path / "other.toml")).name == "other"
    assert {"mine", *PAPER, *EXAMPLES} == set(list_spec_files())


def test_ones_own_hides_a_shipped_one() -> None:
    perspectives_folder().mkdir(parents=True)
    (perspectives_folder() / "kodoli.toml").write_text(SPEC.replace('"mine"', '"kodoli"'))
    assert find_perspective("kodoli").labels.hate == "Rude"


def test_a_file_is_called_after_its_perspective() -> None:
    perspectives_folder().mkdir(parents=True)
    (perspectives_folder() / "other.toml").write_text(SPEC)
    with pytest.raises(BadInput, match="name: 'mine': a file is called after its perspective"):
        find_perspective("other")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    table(__file__, "a_wrong_spec_is_one_line_with_file_and_field"),
)
def test_a_wrong_spec_is_one_line_with_file_and_field(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in SPEC
    path = tmp_path / "mine.toml"
    path.write_text(SPEC.replace(old, new, 1))
    with pytest.raises(BadInput, match=said) as caught:
        load_perspective(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------- rows


RECORDS = [{"text": "a, b", "label": "1"}, {"text": "안녕", "label": "0"}]


def _write(folder: Path, name: str) -> None:
    path = folder / name
    match path.suffix:
        case ".csv":
            path.write_text('text,label\n"a, b",1\n안녕,0\n', encoding="utf-8")
        case ".tsv" | ".txt":
            path.write_text("text\tlabel\na, b\t1\n안녕\t0\n", encoding="utf-8")
        case ".jsonl":
            path.write_text(
                "\n".join(json.dumps(each) for each in RECORDS) + "\n\n", encoding="utf-8"
            )
        case ".json":
            path.write_text(json.dumps(RECORDS), encoding="utf-8")
        case ".parquet":
            pq.write_table(pa.table({"text": ["a, b", "안녕"], "label": [1, 0]}), path)


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.txt", "r.jsonl", "r.json", "r.parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    _write(tmp_path, name)
    assert rows_of(spec(files=[name]), tmp_path) == [
        LabelledText("a, b", True, ("1",)),
        LabelledText("안녕", False),
    ]


def test_several_files_are_read_in_order_and_a_pattern_takes_all_that_match(tmp_path: Path) -> None:
    for name, text in (
        ("b.csv", "two"),
        ("part-1.csv", "three"),
        ("part-2.csv", "four"),
        ("a.csv", "one"),
    ):
        (tmp_path / name).write_text(f"text,label\n{text},1\n")
    found = rows_of(spec(files=["a.csv", "b.csv", "part-*.csv"]), tmp_path)
    assert [row.text for row in found] == ["one", "two", "three", "four"]


def test_of_several_names_for_a_file_the_first_that_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("text,label\nx,1\n")
    assert find_source_files(spec(files=[["old.csv", "new.csv"]]), tmp_path) == [
        tmp_path / "new.csv"
    ]


def test_any_of_several_columns(tmp_path: Path) -> None:
    (tmp_path / "r.tsv").write_text(
        "문장\t여성/가족\t남성\tclean\n가\t0\t1\t0\n나\t0\t0\t1\n", encoding="utf-8"
    )
    found = rows_of(
        spec(files=["r.tsv"], text="문장", label={"any_of": ["여성/가족", "남성"]}), tmp_path
    )
    assert found == [LabelledText("가", True, ("남성",)), LabelledText("나", False)]


def test_several_values_in_one_cell(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("text\tlabel\na\t8\nb\t0, 2\nc\t8,3\n")
    pq.write_table(pa.table({"text": ["d", "e"], "label": [[8], [1, 8]]}), tmp_path / "r.parquet")
    label = {"column": "label", "separator": ",", "hate": ["0", "1", "2", "3"], "not_hate": ["8"]}
    found = rows_of(spec(files=["r.txt", "r.parquet"], label=label), tmp_path)
    assert [row.hate for row in found] == [False, True, True, False, True]


@pytest.mark.parametrize(
    ("rule", "hate"), [({"hate": ["x"]}, [True, False]), ({"not_hate": ["X"]}, [False, True])]
)
def test_one_list_alone_leaves_the_rest_to_the_other(
    tmp_path: Path, rule: dict[str, object], hate: list[bool]
) -> None:
    (tmp_path / "rows.csv").write_text("text,label\na,X\nb,whatever\n")
    assert [row.hate for row in rows_of(spec(label={"column": "label", **rule}), tmp_path)] == hate


def test_json_booleans_whole_floats_and_nulls_compare_as_text(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('[{"text": "a", "OFF": true}, {"text": null, "OFF": false}]')
    (tmp_path / "s.jsonl").write_text('{"text": "b", "OFF": 1.0}\n')
    label = {"column": "OFF", "hate": ["True", "1"], "not_hate": ["False"]}
    found = rows_of(spec(files=["r.json", "s.jsonl"], label=label), tmp_path)
    assert found == [
        LabelledText("a", True, ("True",)),
        LabelledText("", False),
        LabelledText("b", True, ("1",)),
    ]


def test_a_byte_order_mark_and_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "bom.csv").write_bytes("\ufefftext,label\n가,1\n".encode())
    (tmp_path / "old.csv").write_bytes("text,label\n나,1\n".encode("cp949"))
    assert rows_of(spec(files=["bom.csv"]), tmp_path) == [LabelledText("가", True, ("1",))]
    assert rows_of(spec(files=["old.csv"], encoding="cp949"), tmp_path) == [
        LabelledText("나", True, ("1",))
    ]
    with pytest.raises(
        BadInput, match=r"old\.csv: row 1: can't be read as utf-8 .*set source\.encoding"
    ):
        rows_of(spec(files=["old.csv"]), tmp_path)


def test_a_missing_file_says_where_the_set_is_obtained(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput,
        match=r"perspective kodoli: no kodoli\.csv in .*obtained from https://github\.com/",
    ):
        find_source_files(find_perspective("kodoli"), tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sentence,label\na,1\n", r"rows\.csv row 1: has no column 'text'; it has sentence, label"),
        ("text,kind\na,1\n", r"rows\.csv row 1: has no column 'label'; it has text, kind"),
        (
            "text,label\na,1\nb,maybe\n",
            r"rows\.csv row 2: label = 'maybe' is neither among the values of hate \(1\)",
        ),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(BadInput, match=said):
        rows_of(spec(label={"column": "label", "hate": ["1"], "not_hate": ["0"]}), tmp_path)


# ------------------------------------------------------------------------------------------------ the published files
