"""Statements that are put into words once do what SQLAlchemy's own execution of them does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import bindparam, delete, select, update

from tests.service.conftest import opened
from tribunal.schema import JSON
from tribunal.store.engine import Store
from tribunal.store.prepared import Prepared
from tribunal.store.tables import cases

ID = cases.c.id == bindparam("its_id")
PUT, FOUND, GONE = Prepared(cases.insert()), Prepared(select(cases).where(ID)), Prepared(delete(cases).where(ID))
CHANGED = Prepared(update(cases).where(ID, cases.c.status == "running"))


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with opened(database) as store:
        yield store


def _row(case_id: str, **more: object) -> JSON:
    settings = {"model": "m", "rounds": 2}
    return {"id": case_id, "created": time.time(), "graph": "arcade", "settings": settings, "status": "running", **more}


async def _deleted_and_never_done(store: Store) -> None:
    async with store.transaction() as connection:
        assert await GONE.write(connection, {"its_id": "a"}) == 1
        await asyncio.Event().wait()


async def _as_sqlalchemy_reads(store: Store, case_id: str) -> JSON:
    async with store.transaction() as connection:
        return dict((await connection.execute(select(cases).where(cases.c.id == case_id))).mappings().one())


async def test_what_is_written_and_read_is_what_sqlalchemy_writes_and_reads(store: Store) -> None:
    given = {"post": {"text": "ö \u2028 \x01"}, "keep": True, "hateful": False, "confidence": 0.5, "record": None}
    async with store.transaction() as connection:
        await PUT.write(connection, _row("a", **given))
        await connection.execute(cases.insert(), _row("b", **given))
    whole, other = await _as_sqlalchemy_reads(store, "a"), await _as_sqlalchemy_reads(store, "b")
    own = {"id", "created"}
    assert {k: v for k, v in whole.items() if k not in own} == {k: v for k, v in other.items() if k not in own}
    assert (whole["post"], whole["keep"], whole["via"], whole["attempts_before"]) == (given["post"], True, "service", 0)
    async with store.transaction() as connection:
        [read] = await FOUND.read(connection, {"its_id": "a"})
        assert await FOUND.read(connection, {"its_id": "none"}) == []
    assert read == whole


async def test_it_says_how_many_rows_it_changed(store: Store) -> None:
    async with store.transaction() as connection:
        await PUT.write_all(connection, [_row("a"), _row("b")])
        await PUT.write_all(connection, [])
        assert await CHANGED.write(connection, {"its_id": "a", "status": "done", "record": {"outcome": "verdict"}}) == 1
        assert await CHANGED.write(connection, {"its_id": "a", "status": "cancelled"}) == 0
        assert await CHANGED.write(connection, {"its_id": "b", "owner": "r1"}) == 1
        assert await GONE.write(connection, {"its_id": "b"}) == 1
    row = await _as_sqlalchemy_reads(store, "a")
    assert (row["status"], row["record"], row["owner"]) == ("done", {"outcome": "verdict"}, None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_deleted_and_never_done(store), 0.2)
    assert await _as_sqlalchemy_reads(store, "a") == row  # together, or not at all
