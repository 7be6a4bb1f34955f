"""Cases that people decided as a data set: every format, read back by `tribunal eval`."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image
from sqlalchemy import select, update

from tests.service.conftest import opened
from tests.service.decided_here import contested, courtroom, decided, judged, ran, run
from tribunal.eval.datasets import open_dataset
from tribunal.store.audit import verify
from tribunal.store.tables import cases


def picture() -> str:
    held = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(held, "PNG")
    return f"data:image/png;base64,{base64.b64encode(held.getvalue()).decode()}"


@pytest.mark.long
async def test_decided_cases_are_a_data_set_that_eval_reads(database: str, tmp_path: Path) -> None:
    async with courtroom(database) as (client, _):
        kept = await decided(
            client, "NotHate", text='=post-one,\n"quoted"', post_id="p1", language="en"
        )
        agreed = await decided(client, None, text="post-two", image=picture(), earlier=["before"])
        gone = await decided(client, None, text="post-three")
        await judged(client, text="post-four")
        won = await contested(client, "NotHate", text="post-five")
    async with opened(database) as store, store.transaction() as connection:
        post = (
            await connection.execute(select(cases.c.post).where(cases.c.id == agreed))
        ).scalar_one()
        # half a pair of surrogates, as JSON can hold it
        half = {
            **post,
            "text": "post-two 좋은 \ud83d",
        }
        await connection.execute(update(cases).where(cases.c.id == agreed).values(post=half))
    await ran("cases", "forget", "--case", gone, "--yes", "--database", database)
    for form in ("jsonl", "csv", "parquet"):
        out = tmp_path / f"month.{form}"
        done = await ran("review", "export", "--out", str(out), "--database", database, "--json")
        assert json.loads(done.stdout) == {
            "out": str(out), "rows": 3, "left_out": {"erased, or never kept": 1}, "images_lost": 0,
        }  # fmt: skip
        first, second, third = open_dataset("table", out)
        assert (first.id, first.text, first.language) == (kept, '=post-one,\n"quoted"', "en")
        assert [each.gold and each.gold.positive for each in (first, second)] == [False, True]
        assert (second.id, second.text, second.earlier) == (
            agreed,
            "post-two 좋은 \ufffd",
            ("before",),
        )
        assert second.image is not None
        with Image.open(second.image) as image:
            assert image.size == (8, 8)
        told = first.fields
        assert (told["post_id"], told["category"], told["court_category"]) == (
            "p1",
            "NotHate",
            "Religious",
        )
        told = third.fields
        assert (third.id, third.gold and third.gold.positive) == (won, False)
        assert (told["action"], told["category"], told["court_category"]) == (
            "reversed",
            "NotHate",
            "Religious",
        )
        assert "kim" not in out.read_bytes().decode("latin-1"), "no reviewer is named"
    evaluated = await ran(
        "eval", "--dataset", "table", "--data", str(tmp_path / "month.parquet"), "--out", str(tmp_path / "run"),
        "--graph", "baseline", "--model", "rehearsal", "--json",
    )  # fmt: skip
    assert json.loads(evaluated.stdout)["done"] == 3
    async with opened(database) as store:
        assert (await verify(store)).fault is None


async def test_all_cases_as_parquet(database: str, tmp_path: Path) -> None:
    async with courtroom(database) as (client, _):
        case = await decided(client, "NotHate", text="post-one", post_id="p1")
        waits = await judged(client, text="post-two")
    out = tmp_path / "cases.parquet"
    await ran("cases", "export", "--out", str(out), "--database", database)
    rows = {row["id"]: row for row in pq.read_table(out).to_pylist()}
    assert rows.keys() == {case, waits}
    assert (rows[case]["outcome"], rows[case]["category"], rows[case]["court_category"]) == (
        "verdict", "NotHate", "Religious",
    )  # fmt: skip
    assert (rows[case]["calls"], rows[case]["models"], rows[case]["hateful"]) == (
        4,
        "openai:scripted",
        False,
    )
    assert rows[waits]["review"] == "waits"
    assert "text" not in rows[case], "no words without --posts"
    await run("cases", "export", "--out", str(out), "--database", database, "--posts")
    assert {row["text"] for row in pq.read_table(out).to_pylist()} == {"post-one", "post-two"}
