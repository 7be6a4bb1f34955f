"""Texts and images that a run didn't keep, laid beside it from the data set, and written nowhere."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.eval.view.looking import looking, sample, written
from tribunal.errors import BadInput
from tribunal.eval.view.viewed_runs import ViewedRuns

ROWS = "id,text,image\np1,The weeds in our garden,a.png\np2,Rain all week,\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "posts.csv").write_text(ROWS, "utf-8")
    Image.new("RGB", (60, 40), (200, 30, 30)).save(folder / "a.png")
    return folder


def a_run(folder: Path, data: Path) -> Path:
    held = {
        "name": "table", "split": "all", "files": ["posts.csv"],
        "sha256": hashlib.sha256((data / "posts.csv").read_bytes()).hexdigest(),
    }  # fmt: skip
    shown: dict[str, Any] = {
        "image_sha256": hashlib.sha256((data / "a.png").read_bytes()).hexdigest(),
        "has_image": True,
    }
    return written(folder, [sample("p1", 1, 1, **shown), sample("p2", 0, 0)], dataset="table", data=held)


def test_words_are_shown_and_searched_and_not_written(tmp_path: Path, data: Path) -> None:
    run = a_run(tmp_path / "run", data)
    with looking(run, data=[str(data)]) as browser:
        assert "The weeds in our garden" in browser.page("/sample?post=p1").text_content()
        assert "Rain all week" in browser.page("/samples?read=yes").text_content()
        assert browser.posts("words=weeds") == ["p1"]
        assert browser.posts("words=weeds+why") == ["p1"], "one word in the text, one in the explanation"
        assert browser.counts("Gold label", "words=all+week") == {}
        assert browser.posts("words=%22all+week%22") == ["p2"]
    for file in run.iterdir():
        assert b"weeds" not in file.read_bytes(), file.name
    assert not (tmp_path / "data" / "images").exists()
    with looking(run) as browser:
        assert browser.posts("words=weeds") == []
        assert "Start with --data" in browser.page("/sample?post=p1").text_content()


@pytest.mark.parametrize("given", ["{data}", "{data}/posts.csv", "table={data}", "table={data}/posts.csv"])
def test_ways_to_name_the_data(tmp_path: Path, data: Path, given: str) -> None:
    with looking(a_run(tmp_path / "run", data), data=[given.format(data=data)]) as browser:
        assert browser.posts("words=weeds") == ["p1"]


def test_the_image_is_drawn_anew_and_only_when_it_is_asked_for(tmp_path: Path, data: Path) -> None:
    run = a_run(tmp_path / "run", data)
    with looking(run, data=[str(data)]) as browser:
        page = browser.page("/sample?post=p1")
        (image,) = page.xpath("//img")
        assert image.get("loading") == "lazy"
        assert image.xpath("ancestor::details[not(@open)]"), "it is covered"
        answer = browser.get(image.get("src"))
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.content.startswith(b"\xff\xd8")
        assert not browser.page("/sample?post=p2").xpath("//img")
        (data / "a.png").write_text("<script>alert(1)</script>", "utf-8")
        again = browser.get("/image/0/1")
        assert again.status_code in (200, 404)
        assert b"alert" not in again.content
    for address in ("/image/0/99", "/image/7/1", "/image/0/2", "/image/0/-1", "/image/0/..%2f..%2frun.json"):
        with looking(run, data=[str(data)]) as browser:
            assert browser.get(address).status_code == 404, address


def test_another_file_than_the_run_was_made_over_is_refused(tmp_path: Path, data: Path) -> None:
    run = a_run(tmp_path / "run", data)
    (data / "posts.csv").write_text(ROWS.replace("Rain", "Snow"), "utf-8")
    for given, said in (
        (str(data), r"posts\.csv: not the files that .*run was made over"),
        (f"hatecheck={data}", "no run here is over a set of that name"),
    ):
        with pytest.raises(BadInput, match=said):
            ViewedRuns([run], [given])


def test_a_set_that_can_t_be_read_is_told_on_the_page(tmp_path: Path, data: Path) -> None:
    (data / "posts.csv").write_text("id,text,image\np1,Rain,../outside.png\n", "utf-8")
    with looking(a_run(tmp_path / "run", data), data=[str(data)]) as browser:
        assert "The data set can't be read: " in browser.page("/samples").text_content()
        assert "lies outside" in browser.page("/sample?post=p1").text_content()
