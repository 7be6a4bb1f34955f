"""Writers to a SQLite file that somebody else has locked: they hold nobody up, and may be cancelled."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as TimedOut

from tests.service.conftest import opened, serving
from tribunal.store import engine, on_loop
from tribunal.store.engine import Store


@pytest.fixture
async def store(sqlite: str) -> AsyncIterator[Store]:
    async with opened(sqlite) as store:
        yield store


@pytest.fixture
def other(store: Store, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, which has the lock."""
    connection = sqlite3.connect(tmp_path / "service.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


async def _write(store: Store, name: str, tried: asyncio.Event | None = None) -> None:
    async with store.transaction() as connection:
        if tried is not None:
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            await raw.set_trace_callback(lambda said: tried.set() if "INSERT" in said else None)
        await connection.execute(text("INSERT INTO replicas VALUES (:name, 1)"), {"name": name})


async def _names(store: Store) -> list[str]:
    async with store.reading() as connection:
        return list((await connection.execute(text("SELECT id FROM replicas ORDER BY id"))).scalars())


async def _waiting(store: Store) -> asyncio.Task[None]:
    tried = asyncio.Event()
    writing = asyncio.create_task(_write(store, "a", tried))
    await tried.wait()
    assert await _names(store) == []
    return writing


async def test_a_write_waits_for_the_lock(store: Store, other: sqlite3.Connection) -> None:
    writing = await _waiting(store)
    other.execute("ROLLBACK")
    await writing
    assert await _names(store) == ["a"]


async def test_a_write_that_is_cancelled_holds_nobody_up(store: Store, other: sqlite3.Connection) -> None:
    writing = await _waiting(store)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    other.execute("ROLLBACK")
    await _write(store, "b")
    assert await _names(store) == ["b"]


async def test_a_lock_that_is_never_let_go_is_an_error(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "WAIT", 0.1)
    async with opened(sqlite) as store:
        other = sqlite3.connect(tmp_path / "service.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="database is locked"):
            await _write(store, "a")
        other.close()
        await _write(store, "b")
        assert await _names(store) == ["b"]


async def test_a_transaction_that_never_ends_is_an_error_to_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WAIT", 0.1)
    async with store.transaction():
        with pytest.raises(TimedOut):
            await asyncio.create_task(_write(store, "a"))
    await _write(store, "b")
    assert await _names(store) == ["b"]


async def test_a_post_is_told_to_come_again_while_the_file_is_locked(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "WAIT", 0.1)
    async with serving(sqlite) as client:
        other = sqlite3.connect(tmp_path / "service.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        got = await client.post("/v1/judge?wait=20", json={"text": "Good morning!"})
        assert (got.status_code, got.json()["error"]["kind"]) == (503, "unavailable")
        other.close()
        got = await client.post("/v1/judge?wait=20", json={"text": "Good morning!"})
        assert got.status_code == 200, got.text


async def test_the_log_goes_back_to_the_file_while_it_is_written(store: Store, tmp_path: Path) -> None:
    for number in range(2 * on_loop._BETWEEN + 1):
        await _write(store, f"{number:03}")
    # The file alone, as a copy of it without its log would hold it.
    alone = sqlite3.connect(f"file:{tmp_path / 'service.sqlite'}?immutable=1", uri=True)
    [(there,)] = alone.execute("SELECT count(*) FROM replicas").fetchall()
    alone.close()
    assert on_loop._BETWEEN < there <= 2 * on_loop._BETWEEN + 1
    assert len(await _names(store)) == 2 * on_loop._BETWEEN + 1
