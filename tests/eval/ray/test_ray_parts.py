"""The parts of a batch: every result once, on whichever machine the run goes on, and whoever else is at it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tribunal.errors import BadInput
from tribunal.eval.datasets.locations import Location, Unreachable, parse_location, write_whole_at
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.runs.parts import FOLDER_RUN, MANIFEST, PartColumns, PartsFolder, ResultRow
from tribunal.runner.journal import RESULTS, RUN
from tribunal.runner.tally import RunTally
from tribunal.schema import JSON

WANTED: JSON = {"graph": "baseline", "n": 6}


def line(place: int, by: str = "first") -> bytes:
    rest = '"label":0,"usage":{},"calls":[]'
    head = f'{{"place":{place},"repeat":0,"seconds":0.1000,"outcome":"verdict",{rest},"explanation":"{by} é"}}\n'
    return head.encode()


def parts(folder: Path, machine: str) -> tuple[PartsFolder, Path]:
    """The parts of a run over six posts, and the run's folder on a machine."""
    run, posts = folder / machine, folder / "posts.jsonl"
    run.mkdir(exist_ok=True)
    posts.write_text(
        "".join(json.dumps({"text": f"word-{place}", "likes": place}) + "\n" for place in range(6))
    )
    return PartsFolder(parse_location(folder / "out"), run, PostTable(posts), 6), run


def decide(run: Path, *places: int) -> None:
    with (run / RESULTS).open("ab") as results:
        results.writelines(map(line, places))


def found(folder: Path) -> list[tuple[int, str, str]]:
    rows = pq.read_table(folder / "out").to_pylist()
    return sorted((row["place"], row["text"], row["likes"]) for row in rows)


def rows(*places: int) -> list[tuple[int, str, str]]:
    return [(place, f"word-{place}", str(place)) for place in places]


async def test_a_run_goes_on_from_its_parts_on_another_machine(tmp_path: Path) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    decide(run, 2, 0, 5)
    first.finish(whole=False)
    assert found(tmp_path) == rows(0, 2, 5)
    second, other = parts(tmp_path, "two")
    await second.begin(WANTED)
    assert [json.loads(each)["place"] for each in (other / RESULTS).read_bytes().splitlines()] == [
        2,
        0,
        5,
    ]
    assert json.loads((other / RUN).read_text()) == WANTED
    decide(other, 4, 1, 3)
    second.finish(whole=True)
    assert found(tmp_path) == rows(*range(6))
    assert (
        sum(part["rows"] for part in json.loads((tmp_path / "out" / MANIFEST).read_text())["parts"])
        == 6
    )
    assert json.loads((tmp_path / "out" / FOLDER_RUN).read_text())["finished"]


async def test_what_was_decided_and_not_yet_written_is_written_by_the_next_start(
    tmp_path: Path,
) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    decide(run, 0, 1)  # and it was killed
    again, run = parts(tmp_path, "one")
    await again.begin(WANTED)
    decide(run, 2)
    again.finish(whole=False)
    assert found(tmp_path) == rows(0, 1, 2)


async def test_parts_are_written_while_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tribunal.eval.runs.parts._ROWS", 2)
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    watch = first.watching(lambda tally: None)
    for done, place in enumerate((3, 1, 0), start=1):
        decide(run, place)
        watch(RunTally(total=6, done=done))
    assert found(tmp_path) == rows(1, 3)


async def test_results_whose_part_could_not_be_listed_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    watch = first.watching(lambda tally: None)
    decide(run, 0, 1)

    def write_parts_alone(place: Location, content: bytes) -> None:
        if place.name == MANIFEST:
            raise Unreachable(f"{place}: took too long")
        write_whole_at(place, content)

    monkeypatch.setattr("tribunal.eval.runs.parts._SECONDS", -1.0)
    with monkeypatch.context() as slow:
        slow.setattr("tribunal.eval.runs.parts.write_whole_at", write_parts_alone)
        watch(RunTally(total=6, done=2))
    decide(run, 2)
    watch(RunTally(total=6, done=3))
    first.finish(whole=False)
    assert found(tmp_path) == rows(0, 1, 2)
    assert (
        sum(part["rows"] for part in json.loads((tmp_path / "out" / MANIFEST).read_text())["parts"])
        == 3
    )


async def test_a_part_that_was_written_and_not_yet_listed_counts(tmp_path: Path) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    begun = (tmp_path / "out" / MANIFEST).read_bytes()
    decide(run, 0, 1)
    first.finish(whole=False)
    (tmp_path / "out" / MANIFEST).write_bytes(begun)
    second, other = parts(tmp_path, "two")
    await second.begin(WANTED)
    assert len((other / RESULTS).read_bytes().splitlines()) == 2


async def test_a_command_that_another_has_taken_over_from_is_ended_and_its_late_part_removed(
    tmp_path: Path,
) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    second, other = parts(tmp_path, "two")
    await second.begin(WANTED)
    decide(run, 0)
    with pytest.raises(BadInput, match="another command has begun to go on with this run"):
        first.finish(whole=False)
    late = tmp_path / "out" / "part-00001-00000007.parquet"
    late.write_bytes(
        PartColumns({"text": "string"}).encode_part([ResultRow(1, 0, line(1, "late"), {})])
    )
    decide(other, *range(6))
    second.finish(whole=True)
    assert not late.exists()
    assert found(tmp_path) == rows(*range(6))


async def test_a_folder_that_was_begun_otherwise_is_refused(tmp_path: Path) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    decide(run, 0)
    first.finish(whole=False)
    other, _ = parts(tmp_path, "two")
    with pytest.raises(BadInput, match="its run was begun otherwise: graph: then"):
        await other.begin({**WANTED, "graph": "arcade"})
    (tmp_path / "out" / FOLDER_RUN).unlink()
    with pytest.raises(BadInput, match=r"has parts and no _run\.json; take another folder"):
        await other.begin(WANTED)


def test_a_part_with_the_cells_of_its_rows_is_read_by_anybody(tmp_path: Path) -> None:
    shape = PartColumns({"text": "string", "record": "string", "likes": "int64"})
    cells = {"text": "a post", "record": 7, "likes": 12}
    (tmp_path / "part-00001-00000000.parquet").write_bytes(
        shape.encode_part([ResultRow(3, 0, line(3), cells)])
    )
    [told] = pq.read_table(tmp_path).to_pylist()
    assert (told["text"], told["record"], told["likes"]) == ("a post", "7", 12)
    assert (told["outcome"], told["label"], told["place"]) == ("verdict", 0, 3)
    assert json.loads(told["tribunal_record"])["outcome"] == "verdict"


async def test_a_broken_part_is_named_and_not_passed_over(tmp_path: Path) -> None:
    first, run = parts(tmp_path, "one")
    await first.begin(WANTED)
    decide(run, 0)
    first.finish(whole=False)
    (tmp_path / "out" / "part-00001-00000000.parquet").write_bytes(b"PAR1 torn")
    other, _ = parts(tmp_path, "two")
    with pytest.raises(BadInput, match=r"part-00001-00000000\.parquet: can't be read.*remove it"):
        await other.begin(WANTED)
