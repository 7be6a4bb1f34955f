"""The index beside a run: it grows with the results, and never tells of a file that was."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.eval.view.looking import SAMPLES, looking, sample, written
from tribunal.errors import BadInput
from tribunal.eval.view.index import FILE, SampleIndex


def posts(index: SampleIndex) -> list[str]:
    index.catch_up()
    table, _ = index.load()
    assert table.is_complete
    return list(table.posts)


def appended(run: Path, *lines: dict[str, object] | str) -> None:
    with (run / "results.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines)


def test_lines_that_come_are_there_at_the_next_look(tmp_path: Path) -> None:
    run = written(tmp_path / "run", [])
    (run / "results.jsonl").unlink()
    with looking(run) as browser:
        assert browser.posts() == []
        for number in range(3):
            appended(run, sample(f"p{number}", 1, 0))
            assert browser.posts() == [f"p{each}" for each in range(number + 1)]
            assert browser.counts("Against the gold", "kind=false-negative") == {"false negative": number + 1}
        whole = json.dumps(sample("p3", 1, 1)) + "\n"
        appended(run, whole[:40])
        assert browser.posts() == ["p0", "p1", "p2"]
        assert "being read" not in browser.page("/samples").text_content(), "a line that is being written is no line"
        appended(run, whole[40:])
        assert browser.posts() == ["p0", "p1", "p2", "p3"]


def test_a_second_start_reads_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = written(tmp_path / "run")
    assert len(posts(SampleIndex(run))) == len(SAMPLES)
    monkeypatch.setattr("tribunal.eval.view.index.sample_row", None)
    assert len(posts(SampleIndex(run))) == len(SAMPLES)


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    run = written(tmp_path / "run", [sample(each, 1, 0) for each in "abc"])
    results = run / "results.jsonl"
    assert posts(SampleIndex(run)) == ["a", "b", "c"]
    kept = results.read_text("utf-8").splitlines(keepends=True)
    results.with_suffix(".new").write_text("".join([kept[0], kept[2]]), "utf-8")
    results.with_suffix(".new").replace(results)
    assert posts(SampleIndex(run)) == ["a", "c"]
    changed = results.read_bytes().replace(b'"post_id": "c"', b'"post_id": "z"')
    with results.open("r+b") as file:  # in its place, of the same length, at the same time
        file.write(changed)
    os.utime(results, ns=(1, 1))
    assert posts(SampleIndex(run)) == ["a", "z"]
    copied = shutil.copytree(run, tmp_path / "copied")
    (copied / "results.jsonl").write_text(json.dumps(sample("x", 1, 0)) + "\n", "utf-8")
    assert posts(SampleIndex(copied)) == ["x"]


def test_a_page_of_a_line_that_isn_t_there_any_more_says_so(tmp_path: Path) -> None:
    run = written(tmp_path / "run", [sample(each, 1, 0) for each in "ab"])
    results = run / "results.jsonl"
    with looking(run) as browser:
        found = results.stat()
        lines = results.read_bytes().splitlines(keepends=True)
        with results.open("r+b") as file:
            file.write(b"".join(reversed(lines)))
        os.utime(results, ns=(found.st_atime_ns, found.st_mtime_ns))  # nothing tells that it changed
        assert "Its results changed" in browser.page("/sample?post=a", 409).text_content()


def test_broken_and_repeated_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    run = written(tmp_path / "run", SAMPLES[:2])
    appended(run, "no json\n", SAMPLES[0], '{"post_id": "of no outcome"}\n', SAMPLES[2])
    with looking(run) as browser:
        assert browser.posts() == ["a", "b", "c"]
        assert "3 lines of results.jsonl left out" in browser.page("/samples").text_content()


def test_an_index_that_is_damaged_or_another_file_is_made_anew(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    (run / FILE).write_bytes(b"no database at all" * 100)
    assert len(posts(SampleIndex(run))) == len(SAMPLES)


def test_a_folder_that_can_t_be_written(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    (run / FILE).mkdir()  # nobody can make a file there, not even root
    index = SampleIndex(run)
    assert len(posts(index)) == len(SAMPLES)
    assert index.path.parent != run
    index.close()
    assert not index.path.exists()


def test_an_index_that_came_with_a_stranger_s_run(tmp_path: Path) -> None:
    """It may lead to a file of the reader's, or hold statements that are carried out when it is written."""
    theirs = tmp_path / "mine.sqlite"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE samples(precious)")
        connection.execute("INSERT INTO samples VALUES (1)")
        connection.commit()
    before = theirs.read_bytes()
    linked, trap = written(tmp_path / "linked"), written(tmp_path / "trap")
    (linked / FILE).symlink_to(theirs)
    index = SampleIndex(linked)
    found = posts(index)
    index.close()
    assert len(found) == len(SAMPLES)
    assert theirs.read_bytes() == before
    with closing(sqlite3.connect(trap / FILE)) as connection:
        connection.execute("CREATE VIEW samples AS SELECT 'made up' AS post")
    assert posts(SampleIndex(trap)) == found


def test_two_that_read_one_run_at_once(tmp_path: Path) -> None:
    run = written(tmp_path / "run", [sample(f"p{number:04}", number % 2, 0) for number in range(1500)])
    both = [SampleIndex(run), SampleIndex(run)]
    threads = [threading.Thread(target=index.catch_up) for index in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in both:
        assert posts(index) == [f"p{number:04}" for number in range(1500)]


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not the folder of a run"):
        SampleIndex(tmp_path)
