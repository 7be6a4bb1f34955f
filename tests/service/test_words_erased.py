"""Words that are erased: over HTTP, by their age, and from the terminal; the audit log stays whole."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from sqlalchemy import text, update
from typer.testing import CliRunner, Result

from tests.court import court_script, cue
from tests.doubles import ScriptedServer
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import check_exit, get_json, opened, serving
from tests.service.test_checkpoints import COURT
from tribunal.commands import app
from tribunal.schema import Record
from tribunal.service.replica import keys
from tribunal.store.audit import page, verify
from tribunal.store.tables import METADATA, batches, cases
from tribunal.testing import ScriptedModel

WORD = "zwetschgen"  # of every text here, and of nothing else
UNSURE = {"category": "Religious", "explanation": f"because of {WORD}", "confidence": 0.4}
DAY = 86_400.0


def picture(colour: str) -> str:
    out = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(out, "PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


async def cells(database: str) -> str:
    """Every cell of every table, checkpoints among them."""
    held = []
    async with opened(database) as store:
        of_checkpoints = ["checkpoint_blobs", "checkpoint_writes"] if store.postgres else ["writes"]
        async with store.transaction() as connection:
            for name in [*METADATA.tables, "checkpoints", *of_checkpoints]:
                rows = (await connection.execute(text(f"SELECT * FROM {name}"))).all()
                held += [
                    repr(
                        tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row)
                    )
                    for row in rows
                ]
    return "\n".join(held)


def on_disk(folder: Path) -> list[str]:
    """The files in which the word stands."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and WORD.encode() in path.read_bytes()
    ]


async def kinds(database: str, subject: str | None = None) -> list[str]:
    async with opened(database) as store:
        assert (await verify(store)).fault is None
        return [row["kind"] for row in await page(store, subject=subject)]


def script() -> Any:
    claim, said = f"the {WORD}", {"arguments": [{
        "cue_id": "C1", "target_group": WORD, "claim": WORD, "argument": f"argued: {WORD}", "stance": "press",
    }]}  # fmt: skip
    return court_script(
        explicit=True,
        judge=UNSURE,
        indictment={"cues": [cue(claim)]},
        prosecution=said,
        gatekeeper={"cues": [cue(claim)]},
    )


async def judged(client: httpx.AsyncClient, server: ScriptedServer, **more: Any) -> str:
    os.environ["OPENAI_BASE_URL"] = (
        f"{server.url}/v1"  # taken away again before the next test (conftest)
    )
    asked = {"text": f"these {WORD}", "graph": "tribunal", "settings": {"review": True}, **more}
    got = await client.post("/v1/judge?wait=60", json=asked)
    assert (got.status_code, got.json()["outcome"]) == (200, "pending"), got.text
    return got.headers["tribunal-case"]


async def aged(database: str, case: str, days: float) -> None:
    async with opened(database) as store, store.transaction() as connection:
        earlier = cases.c.finished - days * DAY
        await connection.execute(update(cases).where(cases.c.id == case).values(finished=earlier))
        await connection.execute(update(batches).values(finished=batches.c.finished - days * DAY))


@pytest.mark.long
async def test_a_case_s_words_are_erased_over_http(database: str, tmp_path: Path) -> None:
    images = tmp_path / "data" / "images"
    async with (
        ScriptedServer(script()) as server,
        serving(database, webhook_http=True, **COURT) as client,
    ):
        hook = {"url": "http://127.0.0.1:9/", "with_record": True}
        assert (await client.post("/v1/webhooks", json=hook)).is_success
        decided = await judged(client, server, image=picture("teal"))
        other = await judged(client, server, image=picture("red"), text="another")
        waits = await judged(client, server, post_id="p-1", earlier=[f"earlier {WORD}"])
        said = {"action": "ask", "question": f"is it {WORD}?"}
        again = await client.post(f"/v1/cases/{decided}/decision?wait=60", json=said)
        assert again.json()["outcome"] == "pending", again.text
        said = {
            "action": "change",
            "category": "NotHate",
            "note": f"noted {WORD}",
            "reviewer": "kim",
        }
        done = (await client.post(f"/v1/cases/{decided}/decision?wait=60", json=said)).json()
        assert len(list(images.iterdir())) == 2

        for case in (decided, waits):
            assert (await client.delete(f"/v1/cases/{case}/words")).json() == {
                "id": case,
                "erased": 1,
            }
        shown = await get_json(client, f"/v1/cases/{decided}")
        left = Record.model_validate(shown["record"])
        assert (left.outcome, left.category, left.image_sha256) == (
            "verdict",
            "NotHate",
            done["image_sha256"],
        )
        shown = await get_json(client, f"/v1/cases/{waits}")
        assert shown["cancelled"] == "its words were erased before anybody had decided"
        assert (shown["post"], shown["question"]) == ({"post_id": "p-1"}, None)
        assert [path.stem for path in images.iterdir()] == [
            (await get_json(client, f"/v1/cases/{other}", "record"))["image_sha256"]
        ], "an image goes with the last case that has it"
        assert (await client.delete(f"/v1/cases/{other}/words")).is_success
    assert WORD not in await cells(database)
    assert (await kinds(database, decided))[-1] == "case.erased"
    assert (await kinds(database)).count("words.erased") == 3


async def test_another_scope_erases_nothing(sqlite: str) -> None:
    async with serving(sqlite, settings={"model": "rehearsal"}) as client:
        got = await client.post("/v1/judge?wait=60", json={"text": WORD})
        async with opened(sqlite) as store:
            client.headers["X-API-Key"] = await keys.add_key(
                store, "desk", ["judge", "review", "audit"], keys.KeyLimits()
            )
        refused = await client.delete(f"/v1/cases/{got.headers['tribunal-case']}/words")
        assert refused.status_code == 403
    assert WORD in await cells(sqlite)


@pytest.mark.long
async def test_a_replica_erases_by_itself_what_is_old(database: str, tmp_path: Path) -> None:
    async with ScriptedServer(script()) as server:
        async with serving(database, **COURT) as client:
            old = await judged(client, server)
            await client.post(f"/v1/cases/{old}/decision?wait=60", json={"action": "accept"})
            new = await judged(client, server, text="of today")
            await client.post(f"/v1/cases/{new}/decision?wait=60", json={"action": "accept"})
            waits = await judged(client, server, text="still to be decided")
            batch = (
                await sent(client, lines({"id": "r", "text": "a row", "column": WORD}))
            ).json()["id"]
            await ended(client, f"/v1/batches/{batch}")
            [row] = await get_json(client, "/v1/cases", "cases", params={"batch_id": batch})
        for case in (old, waits, row["id"]):
            await aged(database, case, 31)
        async with serving(database, retain_words="30d", **COURT) as client:
            while True:  # it looks as soon as it is there
                found = {
                    case: await get_json(client, f"/v1/cases/{case}")
                    for case in (old, row["id"], new, waits)
                }
                if all(found[case]["erased"] for case in (old, row["id"])):
                    break
                await asyncio.sleep(0.02)
            assert found[old]["record"]["outcome"] == "verdict"
            assert (found[new]["erased"], found[waits]["erased"]) == (None, None)
            [line] = await table(client, batch, "jsonl")
            assert (line["post_id"], line["outcome"]) == (
                "r",
                found[row["id"]]["record"]["outcome"],
            )
            for case in (new, waits):
                assert (await client.delete(f"/v1/cases/{case}/words")).json()["erased"] == 1
            # The file of a database that runs holds nothing of it either, nor does the log beside it.
            assert on_disk(tmp_path) == []
    assert WORD not in await cells(database)
    assert "words.erased" in await kinds(database, "cases")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


@pytest.mark.long
def test_from_the_terminal(tmp_path: Path, scripted_model: ScriptedModel) -> None:
    data = tmp_path / "tribunal-data"
    scripted_model.answer("arcade/judge", {**UNSURE, "reasoning": WORD, "cue": None})
    asked = ("judge", f"these {WORD}", "--review", "--set", "review_rule=all", "--json", "--id")
    first, second = (json.loads(run(*asked, name).stdout)["thread"] for name in ("p-1", "p-2"))
    assert (
        run(
            "review", "decide", first, "--accept", "--note", f"noted {WORD}", "--reviewer", "kim"
        ).exit_code
        == 0
    )
    assert {"service.sqlite"} == {path.partition("-wal")[0] for path in on_disk(data)}

    assert json.loads(run("cases", "forget", "--older-than", "0", "--dry-run", "--json").stdout) == {
        "cases": 1, "left": 1, "erased": False,
    }  # fmt: skip

    done = json.loads(run("cases", "forget", "--post", "p-1", "--yes", "--json").stdout)
    assert done == {"cases": 1, "left": 0, "erased": True, "wiped": True}
    gone = run("review", "show", first)
    check_exit(gone, 2, "its words were erased")
    left = json.loads(run("cases", "show", first, "--json").stdout)
    assert (left["reviewer"], left["category"], left["record"]["explanation"]) == (
        "kim",
        "Religious",
        "",
    )
    assert WORD in run("review", "show", second).stdout

    assert run("cases", "forget", "--case", second, "--yes").exit_code == 0
    for chosen in (
        ("--post", "p-1"),
        ("--post", "nope"),
        ("--case", "nope"),
        ("--older-than", "90d"),
    ):
        for more in (("--yes",), ("--yes", "--json"), ("--dry-run",), ()):
            nothing = run("cases", "forget", *chosen, *more)
            assert nothing.exit_code == 1, (chosen, more)
            assert (
                "--json" in more
                or f"matches {' '.join(chosen)}; nothing was erased" in nothing.stdout
            )
    assert run("review", "decide", second, "--accept").exit_code == 2
    assert on_disk(data) == []
    verified = run("audit", "verify")
    check_exit(verified, 0, "each follows from the one before")
