"""The texts that a run did not keep, from the files of its data set."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tribunal.errors import BadInput
from tribunal.eval.export.results import parse_data_paths, words_by_post

ROWS = "id,text\np1,The weeds in our garden\np2,Rain all week\n"


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    file = tmp_path / "data" / "posts.csv"
    file.parent.mkdir()
    file.write_text(ROWS, "utf-8")
    return file


def run_json(posts: Path) -> dict[str, Any]:
    digest = hashlib.sha256(posts.read_bytes()).hexdigest()
    data = {"name": "table", "split": "all", "files": [posts.name], "sha256": digest}
    return {"dataset": "table", "data": data}


@pytest.mark.parametrize(
    "value", ["{folder}", "{folder}/posts.csv", "table={folder}", "table={folder}/posts.csv"]
)
def test_ways_to_name_the_data(posts: Path, value: str) -> None:
    paths = parse_data_paths([value.format(folder=posts.parent)])
    words = words_by_post(run_json(posts), *paths, posts.parent)
    post = words("p1")
    assert post is not None
    assert post.text == "The weeds in our garden"
    assert words("p3") is None


def test_other_files_than_the_run_was_made_over_are_refused(posts: Path) -> None:
    run = run_json(posts)
    posts.write_text(ROWS.replace("Rain", "Snow"), "utf-8")
    with pytest.raises(BadInput, match=r"posts\.csv: not the files that"):
        words_by_post(run, *parse_data_paths([str(posts)]), posts.parent)
    assert words_by_post(run, *parse_data_paths([f"hatecheck={posts}"]), posts.parent)("p1") is None


def test_two_paths_need_names() -> None:
    with pytest.raises(BadInput, match="SET=PATH"):
        parse_data_paths(["one.csv", "two.csv"])
