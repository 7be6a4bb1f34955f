"""The five Korean sets on small files in their form, and on the published ones where they are at hand."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.eval.datasets.published import labels, posts, shared, table, written
from tribunal.errors import BadInput
from tribunal.eval.datasets import open_dataset
from tribunal.retrievers.perspectives.perspective import PAPER


def test_k_haters(tmp_path: Path) -> None:
    names = ("normal", "offensive", "L1_hate", "2_hate")
    rows = [
        {"text": f"글 {name}", "label": name, "target_label": ["gender"] * (name != "normal")}
        for name in names
    ]
    (tmp_path / "test.jsonl").write_text(
        "\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8"
    )
    found = posts("k-haters", tmp_path)
    assert labels(found) == [
        ("test-1", 0, False),
        ("test-2", 1, True),
        ("test-3", 1, True),
        ("test-4", 1, True),
    ]
    assert found[1].fields == {"label": "offensive", "targets": ["gender"], "split": "test"}
    assert {post.language for post in found} == {"ko"}
    assert [post.gold.name for post in found[:2] if post.gold] == ["Not Offensive", "Offensive"]


def test_k_mhas(tmp_path: Path) -> None:
    (tmp_path / "kmhas_test.txt").write_text(
        '﻿document\tlabel\n좋은 글\t8\n"따옴표\t안"\t2,5\n', encoding="utf-8"
    )
    found = posts("k-mhas", tmp_path)
    assert labels(found) == [("test-1", 0, False), ("test-2", 1, True)]
    assert (found[1].text, found[1].fields["targets"]) == ("따옴표\t안", ["politics", "gender"])
    (tmp_path / "kmhas_test.txt").write_text("document\tlabel\n글\t9\n", encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"kmhas_test\.txt row 1: label = '9' is neither among the values of hate"
    ):
        posts("k-mhas", tmp_path)


def test_the_samples_that_predict_ships(tmp_path: Path) -> None:
    rows = [{"text": "글 하나", "label": "혐오"}, {"text": "글 둘", "label": "비혐오"}]
    table(tmp_path / "kold/kold_sample.csv", rows)
    found = posts("predict-samples", tmp_path, "kold")
    assert labels(found) == [("kold-1", 1, True), ("kold-2", 0, False)]
    assert [(post.text, post.language, post.fields) for post in found] == [
        ("글 하나", "ko", {"split": "kold"}),
        ("글 둘", "ko", {"split": "kold"}),
    ]


def test_kold(tmp_path: Path) -> None:
    rows = [
        {"guid": "kold-1", "source": "naver_news", "title": "제목", "comment": "글 하나", "OFF": True, "TGT": "group",
         "GRP": "others-x"},
        {"guid": "kold-2", "source": "youtube", "title": "제목", "comment": "글 둘", "OFF": False},
        {"guid": "kold-3", "title": None, "comment": "글 셋", "OFF": False},
    ]  # fmt: skip
    written(tmp_path / "kold_v1.json", rows)
    found = posts("kold", tmp_path)
    assert labels(found) == [("kold-1", 1, True), ("kold-2", 0, False), ("kold-3", 0, False)]
    thread = found[0].fields.pop("thread")
    assert found[0].fields == {
        "aimed_at": "group",
        "target": "others-x",
        "source": "naver_news",
        "split": "all",
    }
    assert (found[1].fields["target"], found[1].fields["thread"]) == (None, thread)
    assert (found[2].fields["thread"], found[2].earlier) == (None, ())
    # The title is no word of the comment's author, so it isn't in the text.
    assert [post.text for post in found] == ["글 하나", "글 둘", "글 셋"]
    assert found[0].earlier == ("Title of the article or video that this is a comment on: 제목",)
    assert {post.earlier for post in open_dataset("kold", tmp_path, extras=False)} == {()}


def test_kold_as_git_leaves_it_without_lfs_is_named_as_that(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:c11c\nsize 32791434\n"
    (tmp_path / "kold_v1.json").write_text(pointer)
    with pytest.raises(
        BadInput,
        match=r"kold_v1\.json: is a Git LFS pointer, not the file itself; run `git lfs pull`",
    ):
        open_dataset("kold", tmp_path)


def test_kodoli(tmp_path: Path) -> None:
    rows = [
        {
            "index": n,
            "sentences": f"글 {n}",
            "abuse": "NON",
            "sentiment": "NEU",
            "offensiveness": value,
        }
        for n, value in enumerate(("NOT", "LIKELY", "OFFEN", ""))
    ]
    table(tmp_path / "kodoli.csv", rows)
    opened = open_dataset("kodoli", tmp_path)
    found = list(opened)
    assert labels(found) == [("all-1", 0, False), ("all-2", 1, True), ("all-3", 1, True)]
    assert found[1].fields == {
        "offensiveness": "LIKELY",
        "abuse": "NON",
        "sentiment": "NEU",
        "split": "all",
    }
    assert opened.skipped == {"no label": 1}


def test_unsmile(tmp_path: Path) -> None:
    kinds = (
        "여성/가족",
        "남성",
        "성소수자",
        "인종/국적",
        "연령",
        "지역",
        "종교",
        "기타 혐오",
        "악플/욕설",
    )
    given: list[set[str]] = [set(), {"지역", "종교"}]
    rows = [
        {"문장": f"글 {len(has)}", **{kind: int(kind in has) for kind in kinds}, "clean": 0}
        for has in given
    ]
    table(tmp_path / "unsmile_valid_v1.0.tsv", rows, "\t")
    found = posts("unsmile", tmp_path)
    assert labels(found) == [("valid-1", 0, False), ("valid-2", 1, True)]
    assert found[1].fields["targets"] == ["지역", "종교"]
    del rows[1]["종교"], rows[0]["종교"]
    table(tmp_path / "unsmile_valid_v1.0.tsv", rows, "\t")
    with pytest.raises(
        BadInput, match=r"unsmile_valid_v1\.0\.tsv row 1: has no column '종교'; it has 문장, "
    ):
        posts("unsmile", tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "split", "hate", "not_hate"),
    [
        ("kodoli", "korean/kodoli.csv", "all", 13_284, 25_241),
        ("unsmile", "korean/unsmile_train.tsv", "train", 11_264, 3_741),
        ("k-mhas", "korean/kmhas_valid.txt", "valid", 3_889, 4_887),
    ],
)
def test_the_real_korean_files(name: str, file: str, split: str, hate: int, not_hate: int) -> None:
    opened = open_dataset(name, shared(file).parent, split=split)
    found = Counter(post.gold.positive for post in opened if post.gold)
    assert found == {True: hate, False: not_hate}
    assert opened.warnings == []


@pytest.mark.parametrize("name", PAPER)
def test_the_samples_that_predict_ships_are_tables(name: str) -> None:
    file = shared(f"korean/predict_{name}_sample.csv")
    found = list(open_dataset("table", file, labels={"혐오": "hate", "비혐오": "not"}))
    assert Counter(post.gold.positive for post in found if post.gold).keys() == {True, False}
