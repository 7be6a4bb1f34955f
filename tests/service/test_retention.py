"""What is old is deleted by itself: whole cases where the operator wants it, and rows that nobody asks for any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text, update

from tests.service.batched import ended, posts, sent
from tests.service.conftest import get_json, opened, serving, write
from tests.service.decided_here import contested, courtroom, decided, judged, ran
from tribunal.core.text import parse_json
from tribunal.docket.erasure import is_alone
from tribunal.store.audit import page
from tribunal.store.tables import (
    METADATA,
    appeals,
    batches,
    cases,
    decisions,
    desk_sessions,
    desk_tries,
    idempotency,
    usage,
)

DAY = 86_400.0
REHEARSED = {"settings": {"model": "rehearsal"}}


async def made_older(database: str, days: float, *, but: Iterable[str] = ()) -> None:
    """Date all that came to rest so many days back; `but`: cases that stay as new as they are."""
    columns = (
        cases.c.finished,
        cases.c.created,
        batches.c.finished,
        decisions.c.at,
        appeals.c.decided,
    )
    async with opened(database) as store, store.transaction() as connection:
        for column in columns:
            case_id = column.table.c["case_id" if "case_id" in column.table.c else "id"]
            older = (
                update(column.table)
                .where(case_id.not_in(list(but)))
                .values({column.name: column - days * DAY})
            )
            await connection.execute(older)


async def without(client: httpx.AsyncClient, *gone: str) -> set[str]:
    """The cases that are left once these are gone."""
    while True:
        left = {each["id"] for each in await get_json(client, "/v1/cases?limit=200", "cases")}
        if not left & set(gone):
            return left
        await asyncio.sleep(0.05)


async def rows_of_cases(database: str, *case_ids: str) -> dict[str, int]:
    """How many rows of any table hang on these cases."""
    async with opened(database) as store:
        counted = {
            table.name: await store.fetch_value(
                select(func.count()).select_from(table).where(table.c.case_id.in_(case_ids))
            )
            for table in METADATA.tables.values()
            if "case_id" in table.c and table.name != "statements"
        }
        thread = text("SELECT count(*) FROM checkpoints WHERE thread_id = :it")
        counted["checkpoints"] = sum(
            [await store.fetch_value(thread.bindparams(it=each)) for each in case_ids]
        )
        return {name: number for name, number in counted.items() if number}


async def judged_by_rules(client: httpx.AsyncClient, words: str, **more: Any) -> str:
    got = await client.post("/v1/judge?wait=60", json={"text": words, "graph": "baseline", **more})
    assert got.status_code == 200, got.text
    return str(got.headers["tribunal-case"])


@pytest.mark.long
async def test_old_cases_go_whole_and_those_that_are_still_needed_stay(database: str) -> None:
    async with courtroom(database) as (client, _):
        old = {
            await decided(client, "NotHate", text="post-one"),
            await contested(client, None, text="post-two"),
        }
        waits = await judged(client, text="post-three")
        appealed = await decided(client, None, text="post-four")
        made = await client.post(
            f"/v1/cases/{appealed}/appeal", json={"appellant": "user-7", "reason": "It is a song."}
        )
        assert made.status_code == 201, made.text
        new = await decided(client, None, text="post-five")
        batch = await sent(client, posts(3), settings='{"model": "rehearsal"}')
        await ended(client, batch.headers["location"])
        rows = {each["id"] for each in await get_json(client, "/v1/cases", "cases")} - {
            *old,
            waits,
            appealed,
            new,
        }
    assert len(rows) == 3
    await made_older(database, 400, but=[new])
    async with serving(database, retain_cases="365d") as client:
        assert await without(client, *old, *rows) == {waits, appealed, new}
        while (await client.get(batch.headers["location"])).status_code != 404:
            await asyncio.sleep(0.05)
        assert (await client.get(f"/v1/cases/{min(old)}")).status_code == 404
    assert await rows_of_cases(database, *old, *rows) == {}
    async with opened(database) as store:
        told = [parse_json(entry["details"]) for entry in await page(store, kind="cases.retired")]
    assert {each for entry in told for each in entry["ids"]} == old | rows
    assert {entry["rule"] for entry in told} == {"all"}
    await ran("audit", "verify", "--database", database)


@pytest.mark.long
async def test_no_case_goes_while_its_decision_may_be_appealed(database: str) -> None:
    async with serving(database, **REHEARSED) as client:
        older, newer = [
            await judged_by_rules(client, f"Good morning, {number}!") for number in range(2)
        ]
    await made_older(database, 200)
    await made_older(database, -100, but=[older])
    async with serving(database, retain_cases="1d", appeal_days=184) as client:
        assert await without(client, older) == {newer}


@pytest.mark.long
async def test_dismissed_posts_go_and_those_that_a_person_had_or_that_are_hateful_stay(
    database: str,
) -> None:
    async with courtroom(database, appeal_days=400) as (client, _):
        by_person = await decided(client, "NotHate", text="post-one")
        hateful = await decided(client, None, text="post-two")
        dismissed = await judged_by_rules(client, "Good morning!", settings={"model": "rehearsal"})
        kept = await judged_by_rules(client, "Good evening!", settings={"model": "rehearsal"})
        made = await client.post(
            f"/v1/cases/{kept}/appeal", json={"appellant": "user-7", "reason": "It isn't."}
        )
        assert made.status_code == 201, made.text
        new = await judged_by_rules(client, "Good night!", settings={"model": "rehearsal"})
    await made_older(database, 40, but=[new])
    async with serving(database, retain_dismissed="30d") as client:
        assert await without(client, dismissed) == {by_person, hateful, kept, new}
    assert await rows_of_cases(database, dismissed) == {}


async def test_cases_stay_unless_the_operator_wants_them_gone(database: str) -> None:
    async with serving(database, **REHEARSED) as client:
        case = await judged_by_rules(client, "Good morning!")
        await made_older(database, 4000)
        await client.app.state.replica.retention.delete_old_rows()  # type: ignore[attr-defined]
        assert (await client.get(f"/v1/cases/{case}")).status_code == 200


async def test_rows_that_nobody_asks_for_any_more_are_deleted(database: str) -> None:
    now = time.time()
    counted = {"requests": 1, "calls": 0, "tokens": 0, "money": 0.0}
    request = {"key_id": "k", "request": "r", "made": "m"}
    session = {"seen": now, "hard": 0}
    old_and_new: dict[Any, list[dict[str, Any]]] = {
        idempotency: [
            {**request, "key": "old", "created": now - 8 * DAY},
            {**request, "key": "new", "created": now},
        ],
        usage: [
            {"key_id": "k", "period": "2020-01-01T09:30", **counted},
            {"key_id": "k", "period": "2020-01-01", **counted},
            {"key_id": "new", "period": time.strftime("%Y-%m-%d", time.gmtime(now)), **counted},
            {
                "key_id": "new",
                "period": time.strftime("%Y-%m-%dT%H:%M", time.gmtime(now)),
                **counted,
            },
        ],
        desk_tries: [
            {"address": "old", "minute": now // 60 - 1000, "number": 1},
            {"address": "new", "minute": now // 60, "number": 1},
        ],
        desk_sessions: [
            {"id": "old", "created": now - DAY, **session},
            {"id": "new", "created": now, **session},
        ],
    }
    async with opened(database) as store:
        async with store.transaction() as connection:
            for table, rows in old_and_new.items():
                await connection.execute(table.insert(), rows)
        async with serving(database):
            for table in old_and_new:
                while any(
                    "old" in row.values() or "2020" in str(row)
                    for row in await store.fetch_rows(select(table))
                ):
                    await asyncio.sleep(0.05)
        left = {table.name: len(await store.fetch_rows(select(table))) for table in old_and_new}
    assert left == {"idempotency": 1, "usage": 2, "desk_tries": 1, "desk_sessions": 1}


async def test_events_go_a_week_after_a_trial_and_the_record_stays(database: str) -> None:
    async with serving(database, **REHEARSED) as client:
        old, new = [
            await judged_by_rules(client, f"Good morning, {number}!") for number in range(2)
        ]
    assert (
        (await rows_of_cases(database, old))["events"]
        == (await rows_of_cases(database, new))["events"]
        > 0
    )
    await made_older(database, 8, but=[new])
    async with serving(database) as client:
        while "events" in await rows_of_cases(database, old):
            await asyncio.sleep(0.05)
        assert (await rows_of_cases(database, new))["events"] > 0
        heard = (await client.get(f"/v1/cases/{old}/events")).text
        assert [line for line in heard.splitlines() if line.startswith("event: ")] == ["event: end"]
        assert (await get_json(client, f"/v1/cases/{old}", "record"))["calls"]


async def test_a_request_is_never_answered_by_a_case_that_is_gone(database: str) -> None:
    asked: dict[str, Any] = {
        "json": {"text": "Good morning!", "graph": "baseline"},
        "headers": {"Idempotency-Key": "a"},
    }
    async with serving(database, **REHEARSED) as client:
        gone = (await client.post("/v1/judge?wait=60", **asked)).headers["tribunal-case"]
    await made_older(database, 2)
    await write(database, update(idempotency).values(created=idempotency.c.created - 2 * DAY))
    async with serving(database, retain_dismissed="1d", **REHEARSED) as client:
        await without(client, gone)
        again = await client.post("/v1/judge?wait=60", **asked)
        assert (again.status_code, again.json()["outcome"]) == (200, "verdict")
        assert again.headers["tribunal-case"] != gone


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_one_replica_at_a_time_deletes(database: str) -> None:
    async with opened(database) as store:
        async with store.transaction() as one, store.transaction() as other:
            assert await is_alone(one)
            assert not await is_alone(other)
        async with store.transaction() as next_one:
            assert await is_alone(next_one)
