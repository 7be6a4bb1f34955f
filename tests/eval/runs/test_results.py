"""A run's folder as it is read: line by line, whatever a crash left at its end."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.result_lines import answers, line, write_run
from tribunal.errors import BadInput
from tribunal.runner.journal import RESULTS, Journal, read_line_starts
from tribunal.runner.results import read_full_line, read_results, read_run_file


def test_results_come_in_the_order_of_the_file_and_can_be_read_again_in_full(
    tmp_path: Path,
) -> None:
    folder = write_run(
        tmp_path / "run", [line("ä", 1, 1), line("b", 0, "refusal", text="the words")]
    )
    first, second = read_results(folder)
    assert (first.result.post_id, first.result.label) == ("ä", 1)
    assert (second.result.outcome, second.result.label) == ("refusal", None)
    assert read_full_line(folder, second.offset)["text"] == "the words"


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int) -> None:
    folder = write_run(tmp_path / "run", answers("010", "010"))
    whole = (folder / "results.jsonl").read_bytes()
    (folder / "results.jsonl").write_bytes(whole[:-cut])
    # Without its line break alone the last line is whole.
    assert len(list(read_results(folder))) == (3 if cut == 1 else 2)


def test_a_broken_line_elsewhere_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", answers("010", "010"))
    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text("\n".join([lines[0], lines[1][:50], lines[2]]) + "\n")
    with pytest.raises(BadInput, match=r"results\.jsonl: line 2: "):
        list(read_results(folder))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"label": None}, "a verdict has a label"),
        ({"outcome": "maybe"}, "outcome"),
        ({"confidence": 1.5}, "confidence: 1.5"),
        ({"gold": {"label": 1}}, "gold"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(
    tmp_path: Path, changed: dict[str, object], says: str
) -> None:
    folder = write_run(tmp_path / "run", [{**line("a", 1, 1), **changed}, line("b", 1, 1)])
    with pytest.raises(BadInput, match=f"line 1: .*{says}"):
        list(read_results(folder))


def test_a_post_stands_once_in_each_repeat(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [line("a", 1, 1), line("a", 1, 1, repeat=1)])
    assert len(list(read_results(folder))) == 2
    write_run(folder, [line("a", 1, 1), line("b", 1, 1), line("a", 1, 0)])
    with pytest.raises(BadInput, match="line 3: post 'a' occurs twice in repeat 0"):
        list(read_results(folder))


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"not the folder of a run: run\.json"):
        read_run_file(tmp_path)
    for broken in ("{", "[]"):
        (tmp_path / "run.json").write_text(broken)
        with pytest.raises(BadInput, match=r"run\.json: broken"):
            read_run_file(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"graph": "arcade"}))
    assert list(read_results(tmp_path)) == []


async def test_a_torn_line_is_cut_and_nothing_else(tmp_path: Path) -> None:
    whole = b'{"place":0,"repeat":0,"seconds":0.1,"outcome":"verdict"}\n'
    for torn in (b"", b'{"pla', b"x" * 200_000):
        (tmp_path / RESULTS).write_bytes(whole + torn)
        with closing(Journal(tmp_path)) as journal:
            await journal.append(whole.replace(b":0,", b":1,", 1))
        assert [start.place for start in read_line_starts(tmp_path / RESULTS)] == [0, 1]
