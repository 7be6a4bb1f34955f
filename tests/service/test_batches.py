"""Batches over HTTP: a file of posts in, the same rows with their outcomes out."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.service.batched import ended, lines, posts, sent, table
from tests.service.conftest import get_json, serving
from tests.service.live import key_of
from tribunal.eval.batch import batch as by_command

ROWS = [
    {"key": "a", "body": "Good morning!", "lang": "en", "likes": 3, "tags": ["x", "y"]},
    {
        "key": "b",
        "body": "Immigrants are vermin and should be deported.",
        "likes": None,
        "outcome": "mine",
    },
    {"key": "c", "body": "=1+1"},
]
COLUMNS = {"text": "body", "id": "key", "language": "lang"}


async def test_rows_come_back_as_the_command_writes_them(database: str, tmp_path: Path) -> None:
    async with serving(database) as client:
        form = {"graph": "arcade", "columns": json.dumps(COLUMNS)}
        got = await client.post(
            "/v1/batches", files={"file": ("day 1.jsonl", lines(*ROWS))}, data=form
        )
        assert got.status_code == 202, got.text
        made = await ended(client, got.headers["location"])
        assert (made["status"], made["file"], made["posts"]) == ("done", "day 1.jsonl", 3)
        assert (made["rows"]["done"], made["outcomes"]) == (3, {"verdict": 3})
        (tmp_path / "in.jsonl").write_bytes(lines(*ROWS))
        for form_of in ("jsonl", "csv", "parquet"):
            out = tmp_path / f"out.{form_of}"
            await asyncio.to_thread(
                by_command, tmp_path / "in.jsonl", out, graph="arcade", settings={}, columns=COLUMNS
            )
            found = await table(client, made["id"], form_of)
            if form_of == "jsonl":
                assert [line["input"] for line in found] == ROWS
                assert [line["place"] for line in found] == [0, 1, 2]
                ids = [line["case"] for line in found]
                wanted = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
                assert [line["label"] for line in found] == [line["label"] for line in wanted]
                case = await get_json(client, f"/v1/cases/{found[1]['case']}")
                assert (case["record"]["outcome"], case["batch_id"]) == ("verdict", made["id"])
                continue
            assert [row.pop("case") for row in found] == ids, "by the command, no case is kept here"
            if form_of == "csv":
                with out.open(encoding="utf-8", newline="") as file:
                    assert found == [without(row, "case") for row in csv.DictReader(file)]
            else:
                assert found == [without(row, "case") for row in pq.read_table(out).to_pylist()]


def without(row: dict[str, Any], name: str) -> dict[str, Any]:
    assert not row[name]
    return {key: value for key, value in row.items() if key != name}


async def test_rows_that_can_t_be_judged_are_failures_among_the_others_as_by_the_command(
    database: str, tmp_path: Path
) -> None:
    """Empty, with an id that was there, with a cell too many, with a conversation that is none."""
    content = 'lang,text,earlier,id\nen, Hello ,,a\n,,,\nen,Bye,,a\nen,"One","[]",b,two\nen,Yes,no list,c\n'
    (tmp_path / "in.csv").write_text(content)
    await asyncio.to_thread(by_command, tmp_path / "in.csv", tmp_path / "out.csv", graph="baseline", settings={},
                            columns={"language": "lang"})  # fmt: skip
    with (tmp_path / "out.csv").open(newline="") as file:
        wanted = list(csv.DictReader(file))
    async with serving(database) as client:
        got = await sent(client, content.encode(), "text/csv", columns='{"language": "lang"}')
        made = await ended(client, got.headers["location"])
        found = await table(client, made["id"], "csv")
    assert [list(row) for row in found] == [list(row) for row in wanted]
    assert [{**row, "case": ""} for row in found] == wanted
    assert [row["outcome"] for row in found] == [
        "verdict",
        "failure",
        "verdict",
        "failure",
        "failure",
    ]
    assert [row["text"] for row in found] == [" Hello ", "", "Bye", "One", "Yes"]
    assert made["left_out"] == {
        "more cells than columns": 1,
        "neither text nor image": 1,
        "wrong earlier posts": 1,
    }


@pytest.mark.parametrize("image", ["/etc/hostname", "posts.jsonl"])
async def test_a_row_that_names_a_file_of_the_server_is_a_failure(
    image: str, tmp_path: Path
) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        made = (await sent(client, lines({"text": "a", "image": image}, {"text": "b"}))).json()
        await ended(client, f"/v1/batches/{made['id']}")
        first, second = await table(client, made["id"], "jsonl")
        assert (first["outcome"], first["fault"]["kind"], second["outcome"]) == (
            "failure",
            "input",
            "verdict",
        )
        assert first["explanation"].startswith(f"image: '{image}'")
        assert first["input"] == {"text": "a", "image": image}


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "more", "says"),
    [
        (b'{"text": "hi"}\n{"text": \n', {}, "line 2: not JSON"),
        (b'{"words": "hi"}\n', {}, "columns: text"),
        (b"", {}, "no row"),
        (b'{"text": "\xff"}\n', {}, "utf-8"),
        (b'{"text": "hi"}\n', {"columns": '{"text": "body"}'}, "no such column"),
        (b'{"text": "hi"}\n', {"settings": '{"model": "openai:gpt-4o"}'}, "TRIBUNAL_ALLOW"),
        (lines({f"c{number}": 1 for number in range(1001)} | {"text": "hi"}), {}, "columns"),
    ],
)
async def test_a_wrong_file_is_refused_whole(
    content: bytes, more: dict[str, str], says: str, tmp_path: Path
) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        got = await sent(client, content, **more)
        assert (got.status_code, got.json()["error"]["kind"]) == (400, "bad_input"), got.text
        assert says in got.json()["error"]["message"]
        assert "tmp" not in got.text
        assert await get_json(client, "/v1/batches", "batches") == []
        assert await get_json(client, "/v1/cases", "cases") == []


async def test_limits_are_named(tmp_path: Path) -> None:
    async with serving(
        f"sqlite:///{tmp_path / 'a.sqlite'}", batch_rows=2, batch_bytes=4_000_000
    ) as client:
        for got, status, says in (
            (await sent(client, posts(3)), 413, "2 rows (batch_rows)"),
            (await sent(client, b" " * 4_000_001), 413, "4,000,000 bytes (batch_bytes)"),
            (
                await client.post("/v1/batches", files={"file": ("a.csv", b" " * 4_000_001)}),
                413,
                "batch_bytes",
            ),
            (await client.post("/v1/batches", files={"file": ("a.xlsx", b"hi")}), 415, "a.xlsx"),
            (await sent(client, b"hi", "application/pdf"), 415, "application/pdf"),
            (
                await client.post("/v1/batches", files={"other": ("a.csv", b"hi")}),
                400,
                "file: there is none",
            ),
            (
                await client.post(
                    "/v1/batches", data={"graph": "arcade"}, files={"settings": b"{}"}
                ),
                400,
                "file: there",
            ),
        ):
            assert (got.status_code, says in got.json()["error"]["message"]) == (status, True), (
                got.text
            )
        assert await get_json(client, "/v1/batches", "batches") == []


async def test_an_upload_is_taken_in_once(database: str) -> None:
    once = {"Idempotency-Key": "u-1"}
    async with serving(database) as client:
        first, second = await asyncio.gather(
            *(sent(client, posts(3), headers=once) for _ in range(2))
        )
        assert first.json()["id"] == second.json()["id"]
        assert len(await get_json(client, "/v1/batches", "batches")) == 1
        other = await sent(client, posts(2), headers=once)
        assert (other.status_code, other.json()["error"]["kind"]) == (409, "conflict")
        assert len(await get_json(client, "/v1/cases", "cases")) == 3


async def test_a_key_sees_its_own_and_an_auditor_all(database: str) -> None:
    mine, other, auditor = [
        {"X-API-Key": await key_of(database, each)} for each in ("judge", "judge", "audit")
    ]
    async with serving(database) as client:
        first, second = [
            (await sent(client, posts(1), headers=mine)).json()["id"] for _ in range(2)
        ]
        for each in (first, second):
            await ended(client, f"/v1/batches/{each}", headers=mine)
        page = await get_json(client, "/v1/batches?limit=1", headers=mine)
        assert [each["id"] for each in page["batches"]] == [second]
        rest = await get_json(client, "/v1/batches", params={"before": page["next"]}, headers=mine)
        assert ([each["id"] for each in rest["batches"]], rest["next"]) == ([first], None)
        counts = [
            len(await get_json(client, "/v1/batches", "batches", headers=each))
            for each in (other, auditor)
        ]
        assert counts == [0, 2]
