"""A batch's CSV, TSV or JSON Lines come while it goes on; whoever goes on after a kill writes what is missing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import Fault, Reply, Request
from tests.eval.runs.test_tables import HOSTILE, lines, read
from tests.openai_server import OpenAIServer
from tribunal.eval.batch import batch
from tribunal.eval.runs import tables as growing_table
from tribunal.eval.runs.tables import OutcomeTable
from tribunal.runner.job import RunOptions
from tribunal.runner.tally import RunTally

ROWS = 60


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_rows_come_as_they_are_decided_and_a_kill_in_the_middle_of_one_is_mended(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_table, "_ROWS", 7)
    given = [
        {"text": f"Good morning, {at}.", "note": HOSTILE[at % len(HOSTILE)]} for at in range(ROWS)
    ]
    posts, out = lines(tmp_path / "in.jsonl", *given), tmp_path / f"out{suffix}"
    growing, added, add_row = (
        out.with_name(f"{out.name}.run") / f"rows{suffix}",
        list[Any](),
        OutcomeTable.add_row,
    )

    def count_and_add(*row: Any) -> None:
        added.append(row)
        add_row(*row)

    monkeypatch.setattr(OutcomeTable, "add_row", count_and_add)

    def stop_halfway(tally: RunTally) -> None:
        if tally.done > ROWS // 2:
            raise KeyboardInterrupt

    def decide(watch: Any) -> RunTally:
        return batch(
            posts, out, RunOptions(in_flight=4, watch=watch), graph="baseline", settings={}
        )

    with pytest.raises(KeyboardInterrupt):
        decide(stop_halfway)
    before = growing.read_bytes()
    whole = len(read(growing))
    assert ROWS // 3 < whole == len(added) < ROWS
    growing.write_bytes(before + b'"a half line, "" and \n no end')
    sizes = list[int]()
    decide(lambda tally: sizes.append(growing.stat().st_size))
    assert len({*sizes}) > 2  # it grew while the run went on
    assert len(added) == ROWS  # no row was written twice
    assert out.read_bytes().startswith(before)
    rows = read(out)
    found = [
        row["input"] if suffix == ".jsonl" else {name: row[name] for name in ("text", "note")}
        for row in rows
    ]
    assert found == given
    assert {row["outcome"] for row in rows} == {"verdict"}
    assert not [*growing.parent.glob("rows*")]


async def test_rows_whose_results_are_replaced_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_table, "_ROWS", 1)
    posts = lines(tmp_path / "in.jsonl", *({"text": f"word-{at}."} for at in range(6)))
    out, settings, mended = tmp_path / "out.csv", {"model": "openai:s", "attempts": 1}, list[bool]()

    def script(request: Request) -> Reply | Fault:
        if "word-4." in request.text and not mended:
            return Fault(401, "no such key")
        wrong = "word-0." in request.text and not mended
        return Reply({"category": "Nothing" if wrong else "NotHate", "explanation": "words"})

    async with OpenAIServer(script):
        options = RunOptions(1, stop_after_failures=0)
        tally = await asyncio.to_thread(
            batch, posts, out, options, graph="baseline", settings=settings
        )
        assert "See to the key" in tally.stopped
        growing = tmp_path / "out.csv.run" / "rows.csv"
        note = json.loads(growing.with_name("rows.csv.json").read_bytes())
        assert note["rows"] == len(read(growing)) == tally.done
        assert read(growing)[0]["outcome"] == "failure"
        mended.append(True)
        options = RunOptions(1, retry=["failures"])
        await asyncio.to_thread(batch, posts, out, options, graph="baseline", settings=settings)
    assert [(row["text"], row["outcome"]) for row in read(out)] == [
        (f"word-{at}.", "verdict") for at in range(6)
    ]
