"""Keys that end and keys that are rotated: what they open, what goes on, and what the operator is told."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from tests.service.at_desk import signed_in
from tests.service.batched import ended, posts, sent
from tests.service.conftest import opened, serving, write
from tests.service.live import key_of
from tests.service.test_batch_turns import Gate, gated
from tests.service.test_metrics import of, scraped
from tribunal.commands import app
from tribunal.store import audit as audit_log
from tribunal.store.tables import api_keys

GREETING = {"text": "Good morning!", "graph": "baseline"}
DAY = 86_400.0


async def run(*arguments: str) -> tuple[int, str, str]:
    """`tribunal service keys …`: its exit status, what it prints, and what it prints aside."""
    done = await asyncio.to_thread(CliRunner().invoke, app, ["service", "keys", *arguments])
    return done.exit_code, done.stdout.strip(), done.stderr.strip()


async def rotated(database: str, key: str, *options: str) -> str:
    code, made, aside = await run("rotate", id_of(key), *options, "--database", database)
    assert code == 0, aside
    assert id_of(made) == id_of(key) != made
    return made


def id_of(key: str) -> str:
    return key.split("_")[1]


async def changed(database: str, key: str, **values: Any) -> None:
    """Change the row of a key, as time does."""
    await write(database, update(api_keys).where(api_keys.c.id == id_of(key)).values(**values))


async def key_row(database: str, key: str) -> dict[str, Any]:
    async with opened(database) as store:
        return dict(
            await store.fetch_row(select(api_keys).where(api_keys.c.id == id_of(key))) or {}
        )


async def status(client: httpx.AsyncClient, key: str) -> int:
    return (
        await client.post("/v1/judge?wait=60", json=GREETING, headers={"X-API-Key": key})
    ).status_code


async def test_an_expired_key_is_refused_as_an_unknown_one_and_the_operator_is_told(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--scope", "judge", "--expires", "90d", "--priority", "2", "--database", database)
    code, key, _ = await run("add", "shop", *options)
    auditor = await key_of(database, "audit")
    assert code == 0
    row = await key_row(database, key)
    assert (row["expires"], row["priority"]) == (pytest.approx(time.time() + 90 * DAY, abs=600), 2)
    revoked = await key_of(database, "judge")
    await run("revoke", id_of(revoked), "--database", database)
    async with serving(database) as client:
        assert await status(client, key) == 200
        await changed(database, key, expires=time.time() - 1)
        caplog.set_level(logging.INFO, "tribunal.service")
        caplog.clear()
        refused = [
            await client.post("/v1/judge", json=GREETING, headers={"X-API-Key": each})
            for each in (key, revoked, f"{key}x", "tribunal_abc_def")
        ]
        lines: list[Any] = [each for each in caplog.records if each.getMessage() == "request"]
        seen = await scraped(client, auditor)
    assert {(each.status_code, each.text) for each in refused} == {(401, refused[0].text)}
    told = [(getattr(line, "key", None), line.key_refused) for line in lines]
    unknown = [(None, "unknown")] * 2
    assert told == [(id_of(key), "expired"), (id_of(revoked), "revoked"), *unknown]
    counted = {
        why: of(seen, "tribunal_keys_refused_total", reason=why)
        for why in ("expired", "revoked", "unknown")
    }
    assert counted == {"expired": 1, "revoked": 1, "unknown": 2}


async def test_a_rotated_key_keeps_all_but_its_secret(database: str) -> None:
    key = await key_of(database, "judge", "review", daily_calls=1, per_minute=50)
    async with serving(database, graph="baseline") as client:
        desk = await signed_in(client.app, key)  # type: ignore[attr-defined]
        first = await client.post("/v1/judge?wait=60", json=GREETING, headers={"X-API-Key": key})
        new = await rotated(database, key)
        case = await client.get(
            f"/v1/cases/{first.headers['tribunal-case']}", headers={"X-API-Key": new}
        )
        assert (case.status_code, (await desk.get("/desk/queue")).heading) == (200, "Queue")
        assert [await status(client, each) for each in (key, new)] == [429, 429], (
            "one budget, for both"
        )
        await changed(database, key, old_expires=time.time() - 1)
        assert [await status(client, each) for each in (key, new)] == [401, 429], (
            "the old secret has ended"
        )
        assert (await desk.get("/desk/queue")).heading == "Queue"
        await changed(database, key, expires=time.time() - 1)
        assert (await desk.get("/desk/queue")).heading == "Sign in", "a session ends with its key"
        await changed(database, key, expires=None)
    code, _, aside = await run("rotate", id_of(key), "--database", database)
    assert code == 0
    code, _, aside = await run("rotate", id_of(key), "--database", database)
    assert (code, "its old secret works until" in aside, "--overlap 0" in aside) == (2, True, True)
    async with opened(database) as store:
        kinds = [
            each["kind"] for each in await audit_log.page(store, subject=id_of(key), limit=100)
        ]
    assert [each for each in kinds if each.startswith("key.")] == [
        "key.made",
        "key.rotated",
        "key.rotated",
    ]


async def test_a_rotation_without_overlap_ends_the_old_secret_and_the_desk_sessions(
    database: str,
) -> None:
    key = await key_of(database, "judge", "review")
    async with serving(database, graph="baseline") as client:
        desk = await signed_in(client.app, key)  # type: ignore[attr-defined]
        older = await rotated(database, key)
        new = await rotated(database, key, "--overlap", "0")
        assert [await status(client, each) for each in (key, older, new)] == [401, 401, 200]
        assert (await desk.get("/desk/queue")).heading == "Sign in"


async def test_a_batch_goes_on_under_the_new_key_and_is_held_while_the_key_has_expired(
    database: str,
) -> None:
    key, gate = await key_of(database, "judge"), Gate()
    async with gated(database, gate, in_flight=1) as client:
        path = (
            f"/v1/batches/{(await sent(client, posts(3), headers={'X-API-Key': key})).json()['id']}"
        )
        await gate.come(1)
        await changed(database, key, expires=time.time() - 1)
        auditor = {"X-API-Key": await key_of(database, "audit")}
        gate.open()
        while (seen := (await client.get(path, headers=auditor)).json())["status"] != "held":
            await asyncio.sleep(0.05)
        assert (seen["rows"]["done"], "the key that asked for it is expired" in seen["held"]) == (
            1,
            True,
        )
        new = {"X-API-Key": await rotated(database, key, "--expires", "30d")}
        assert (await client.post(f"{path}/resume", headers=new)).json()["held"] is None
        seen = await ended(client, path, headers=new)
        assert (seen["status"], seen["rows"]["done"]) == ("done", 3)


async def test_a_key_that_ends_lives_as_long_again_after_a_rotation(database: str) -> None:
    key = await key_of(database, "judge")
    now = time.time()
    await changed(database, key, created=now - 80 * DAY, expires=now + 10 * DAY)
    await rotated(database, key, "--overlap", "30d")
    row = await key_row(database, key)
    assert row["expires"] == pytest.approx(now + 90 * DAY, abs=600)
    assert row["old_expires"] == now + 10 * DAY, "no rotation prolongs an old secret"


async def test_what_ends_soon_is_counted_and_listed(database: str) -> None:
    soon, later, gone = [await key_of(database, "judge") for _ in range(3)]
    auditor, now = await key_of(database, "audit"), time.time()
    for key, days in ((soon, 13), (later, 15), (gone, -1)):
        await changed(database, key, expires=now + days * DAY)
    async with serving(database) as client:
        assert of(await scraped(client, auditor), "tribunal_keys_ending") == 1
    await rotated(database, later)
    code, listed, _ = await run("list", "--database", database)
    lines = {line.split()[0]: line for line in listed.splitlines()}
    assert code == 0
    assert "active  ends " in lines[id_of(soon)]
    assert "its old secret works until " in lines[id_of(later)]
    assert "expired  ended " in lines[id_of(gone)]
    assert lines[id_of(auditor)].endswith("active")


async def test_no_key_of_that_id_can_be_rotated(database: str) -> None:
    key = await key_of(database, "judge")
    await run("revoke", id_of(key), "--database", database)
    for each in (id_of(key), "abc"):
        code, _, aside = await run("rotate", each, "--database", database)
        assert (code, "there is no such key in force" in aside) == (2, True)
