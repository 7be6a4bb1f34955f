"""Parts of a run: gathered into its results once each, whoever wrote them and however often that is begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.ray.kept import AsParts
from tribunal.eval.runs.engine import Job
from tribunal.eval.runs.journal import RESULTS
from tribunal.eval.runs.parts import SPOOL, Parts, Row, Shape, gather, part_name, part_of, ungathered


def line(place: int, repeat: int = 0, by: str = "first") -> bytes:
    head = f'{{"place":{place},"repeat":{repeat},"seconds":0.1000,"outcome":"verdict","explanation":"{by} é"}}\n'
    return head.encode()


def row(place: int, repeat: int = 0, by: str = "first") -> Row:
    return Row(place, repeat, line(place, repeat, by), {})


def held(folder: Path) -> list[tuple[int, int, str]]:
    found = [json.loads(each) for each in (folder / RESULTS).read_text("utf-8").splitlines()]
    return [(each["place"], each["repeat"], each["explanation"].removesuffix(" é")) for each in found]


async def test_parts_and_spools_end_in_the_results_once_each(tmp_path: Path) -> None:
    parts = Parts.of_run(tmp_path)
    attempt = parts.begin(4).attempt
    (tmp_path / RESULTS).write_bytes(line(0) + b'{"place":7,"rep')  # torn by a crash
    parts.write(part_name(attempt, 0), part_of([row(0, by="twice"), row(1), row(1, 1)], Shape()))
    parts.write(part_name(attempt, 1), part_of([row(1, by="twice"), row(3)], Shape()))
    spool = tmp_path / SPOOL / "00001-00000002-abc"
    spool.mkdir(parents=True)
    (spool / RESULTS).write_bytes(line(3, by="twice") + line(4) + b'{"place":5,')
    assert ungathered(tmp_path)
    assert await gather(tmp_path) == 4
    assert sorted(held(tmp_path)) == [
        (0, 0, "first"),
        (1, 0, "first"),
        (1, 1, "first"),
        (3, 0, "first"),
        (4, 0, "first"),
    ]
    assert not ungathered(tmp_path)
    assert await gather(tmp_path) == 0


async def test_gathering_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    """The results are in the file, and the parts not yet gone."""
    parts = Parts.of_run(tmp_path)
    parts.begin(4)
    content = part_of([row(place) for place in range(5)], Shape())
    parts.write(part_name(1, 0), content)
    await gather(tmp_path)
    parts.write(part_name(1, 0), content)
    assert await gather(tmp_path) == 0
    assert len(held(tmp_path)) == 5


def test_a_part_of_an_earlier_start_that_turns_up_late_does_not_count(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.begin(4)
    parts.write(part_name(1, 0), part_of([row(0)], Shape()))
    parts.begin(4, [parts.part(part_name(1, 0))])
    parts.write(part_name(1, 1), part_of([row(1, by="late")], Shape()))
    parts.write(part_name(2, 0), part_of([row(1)], Shape()))
    assert sorted(parts.counted()) == [part_name(1, 0), part_name(2, 0)]


def test_posts_that_were_under_way_when_workers_were_killed_are_remembered(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    assert parts.begin(16).lost == 0
    parts.join(1, "one")
    parts.join(1, "one-again")
    assert parts.begin(16).lost == 32  # the first start never ended
    parts.join(2, "one")
    parts.end(3)
    assert parts.begin(16).lost == 35


def test_a_part_with_the_cells_of_its_rows_is_read_by_anybody(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    shape = Shape((("text", "string"), ("record", "string"), ("likes", "int64")))
    result = json.dumps({"place": 3, "outcome": "verdict", "label": 0, "usage": {}, "calls": []}).encode()
    cells = {"text": "a post", "record": 7, "likes": 12}
    Parts(tmp_path).write(part_name(1, 0), part_of([Row(3, 0, result, cells)], shape))
    [told] = pq.read_table(tmp_path).to_pylist()
    assert (told["text"], told["record"], told["likes"]) == ("a post", "7", 12)
    assert (told["outcome"], told["label"], told["place"]) == ("verdict", 0, 3)
    assert json.loads(told["tribunal_record"])["outcome"] == "verdict"
    assert [each.place for each in Parts(tmp_path).lines(part_name(1, 0))] == [3]


def test_a_broken_part_is_named_and_not_passed_over(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.begin(4)
    (tmp_path / part_name(1, 0)).write_bytes(b"PAR1 torn")
    with pytest.raises(BadInput, match=r"part-00001-00000000\.parquet: can't be read.*remove it"):
        list(parts.lines(part_name(1, 0)))


async def test_a_driver_of_another_cluster_that_goes_on_with_the_run_is_noticed(tmp_path: Path) -> None:
    """Neither counts or removes what the other has written since."""
    job = Job(graph="baseline", context=context_from({"model": "rehearsal"}), samples=[], count=2)
    first, second = (AsParts(job, None, Parts(tmp_path), Shape(())) for _ in range(2))
    first.begin(4)
    first.parts.write(part_name(1, 0), part_of([row(0)], Shape()))
    second.begin(4)
    first.parts.write(part_name(1, 1), part_of([row(1)], Shape()))
    with pytest.raises(BadInput, match="another command has begun to go on with this run"):
        first.end(0, finished=True)
    assert second.parts.names() == [part_name(1, 0), part_name(1, 1)]
    tally, done = await second.taken_in()
    assert (tally.at, bytes(done)) == (1, b"\1\0")
