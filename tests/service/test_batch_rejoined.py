"""What people decide flows back into the table of a batch, and nothing is paid again."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import serving

UNSURE = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}


def run(*arguments: str) -> Result:
    from tribunal.commands import app

    return CliRunner().invoke(app, list(arguments))


def rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
async def test_the_same_command_puts_in_what_people_decided(tmp_path: Path, suffix: str) -> None:
    posts, out = tmp_path / "posts.csv", tmp_path / f"out{suffix}"
    posts.write_text("id,text,note\na,post-one,x\nb,post-two,=1+1\nc,post-three,z\n")
    async with OpenAIServer(court_script(explicit=True, judge=UNSURE)) as server:
        asked = (
            "batch", str(posts), "--out", str(out), "--graph", "tribunal", "--review", "--model", "openai:scripted",
        )  # fmt: skip
        first = await asyncio.to_thread(run, *asked)
        assert first.exit_code == 0, first.output
        assert "Waiting for a moderator: 3" in first.output
        paid = len(server.requests)
        before = rows(out)
        threads = {
            row.get("post_id") or row["id"]: row.get("case") or row["thread"] for row in before
        }
        assert {row["outcome"] for row in before} == {"pending"}
        for decided in (
            (threads["a"], "--accept", "--reviewer", "kim"),
            (
                threads["b"],
                "--category",
                "NotHate",
                "--note",
                "quoted to condemn it",
                "--reviewer",
                "kim",
            ),
        ):
            done = await asyncio.to_thread(run, "review", "decide", *decided)
            assert done.exit_code == 0, done.output
        again = await asyncio.to_thread(run, *asked)
        assert again.exit_code == 0, again.output
        assert "Updated with moderators' decisions: 2" in again.output
        assert "Waiting for a moderator: 1" in again.output
        assert len(server.requests) == paid, "a decision asks no model"
    after = {row.get("post_id") or row["id"]: row for row in rows(out)}
    said = [(after[each]["outcome"], after[each]["category"] or None) for each in "abc"]
    assert said == [("verdict", "Religious"), ("verdict", "NotHate"), ("pending", None)]
    assert after["b"]["explanation"] == "quoted to condemn it"
    told = [
        tuple(after[each][name] or None for name in ("decided_by", "reviewer")) for each in "abc"
    ]
    assert told == [("person", "kim"), ("person", "kim"), (None, None)]
    assert [str(after[each]["uncertain"]) for each in "abc"] == ["False", "False", "True"]
    if suffix == ".jsonl":
        assert after["b"]["input"] == {"id": "b", "text": "post-two", "note": "=1+1"}
        assert after["b"]["review"]["court"]["category"] == "Religious"
    else:
        assert (after["b"]["note"], after["b"]["hateful"]) in [("'=1+1", "False"), ("=1+1", False)]
        assert [after[each]["review"] for each in "abc"] == ["accept", "edit", "waits"]
        assert {each: after[each]["case"] for each in "abc"} == threads
    third = await asyncio.to_thread(run, *asked)
    assert "Updated with moderators" not in third.output
    assert len((tmp_path / f"{out.name}.run" / "superseded.jsonl").read_text().splitlines()) == 2


async def test_the_services_results_carry_what_people_decided(database: str) -> None:
    async with (
        OpenAIServer(court_script(explicit=True, judge=UNSURE)) as server,
        serving(database, settings={"model": "openai:scripted"}) as client,
    ):
        posts = lines({"id": "a", "text": "post-one"}, {"id": "b", "text": "post-two"})
        made = await sent(client, posts, graph="tribunal", settings='{"review": true}')
        assert made.status_code == 202, made.text
        batch = await ended(client, made.headers["location"])
        before = await table(client, batch["id"], "csv")
        assert [(row["outcome"], row["review"]) for row in before] == [("pending", "waits")] * 2
        paid = len(server.requests)
        answer = {
            "action": "change",
            "category": "NotHate",
            "note": "a quotation",
            "reviewer": "kim",
        }
        done = await client.post(f"/v1/cases/{before[0]['case']}/decision", json=answer)
        assert done.status_code == 200, done.text
        for form in ("csv", "jsonl", "parquet"):
            [first, second] = await table(client, batch["id"], form)
            assert (first["outcome"], first["category"], first["case"]) == (
                "verdict",
                "NotHate",
                before[0]["case"],
            )
            assert second["outcome"] == "pending"
            assert (first["decided_by"], first["reviewer"]) == ("person", "kim (operator)")
            assert [str(each["uncertain"]) for each in (first, second)] == ["False", "True"]
        assert len(server.requests) == paid
