"""Writers to a SQLite file that somebody else has locked: they hold nobody up, and may be cancelled."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as TimedOut

from tests.service.conftest import opened, serving
from tribunal.store import engine
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


async def _write(store: Store, name: str) -> None:
    async with store.transaction() as connection:
        await connection.execute(text("INSERT INTO replicas VALUES (:name, 1)"), {"name": name})


async def _names(store: Store) -> list[str]:
    async with store.reading() as connection:
        return list(
            (await connection.execute(text("SELECT id FROM replicas ORDER BY id"))).scalars()
        )


async def _waiting(store: Store) -> asyncio.Task[None]:
    """Begin a write that has to wait for the lock, and see that the event loop and readers go on meanwhile."""
    writing = asyncio.create_task(_write(store, "a"))
    for _ in range(20):
        assert await _names(store) == []
        await asyncio.sleep(0.005)
    assert not writing.done()
    return writing


async def test_a_write_waits_for_the_lock(store: Store, other: sqlite3.Connection) -> None:
    writing = await _waiting(store)
    other.execute("ROLLBACK")
    await writing
    assert await _names(store) == ["a"]


async def test_a_write_that_is_cancelled_holds_nobody_up(
    store: Store, other: sqlite3.Connection
) -> None:
    writing = await _waiting(store)
    writing.cancel()
    other.execute("ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await writing
    await _write(store, "b")
    assert await _names(store) == ["b"]


async def test_the_file_and_those_beside_it_are_their_owner_s_alone(
    store: Store, tmp_path: Path
) -> None:
    await _write(store, "a")
    held = {
        each.name: oct(each.stat().st_mode & 0o777) for each in tmp_path.glob("service.sqlite*")
    }
    assert {"service.sqlite", "service.sqlite-wal", "service.sqlite-shm"} <= held.keys()
    assert set(held.values()) == {"0o600"}


@pytest.mark.parametrize("statement", ["SELECT 1", "INSERT INTO replicas VALUES ('c', 1)"])
async def test_a_task_that_is_cancelled_in_a_transaction_leaves_nothing_half_done(
    store: Store, tmp_path: Path, statement: str
) -> None:
    begun = asyncio.Event()

    async def write_for_ever() -> None:
        async with store.transaction() as connection:
            await connection.execute(text("INSERT INTO replicas VALUES ('a', 1)"))
            begun.set()
            while True:
                await connection.execute(text(statement.replace("INSERT", "INSERT OR REPLACE")))

    writing = asyncio.create_task(write_for_ever())
    await begun.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    with closing(
        sqlite3.connect(tmp_path / "service.sqlite", timeout=0, isolation_level=None)
    ) as another:
        another.execute("BEGIN IMMEDIATE")  # another process needn't wait
    await _write(store, "b")
    assert await _names(store) == ["b"]


async def test_writers_in_two_processes_wait_for_each_other(sqlite: str) -> None:
    async with opened(sqlite) as here, opened(sqlite) as there:
        await asyncio.gather(*(_write(each, f"{name}{number}") for number in range(20) for name, each in
                               (("a", here), ("b", there))))  # fmt: skip
        assert len(await _names(here)) == len(await _names(there)) == 40


async def test_several_processes_may_open_a_new_file_at_once(sqlite: str) -> None:
    async with AsyncExitStack() as stack:
        stores = await asyncio.gather(
            *(stack.enter_async_context(opened(sqlite)) for _ in range(4))
        )
        await asyncio.gather(*(_write(each, str(number)) for number, each in enumerate(stores)))
        assert await _names(stores[0]) == ["0", "1", "2", "3"]


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
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WAIT", 0.1)
    async with opened(sqlite) as store:
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


async def test_the_log_goes_back_to_the_file_while_it_is_written(
    store: Store, tmp_path: Path
) -> None:
    for number in range(3):
        await _write(store, f"{number}" + 2_000_000 * ".")
    # The file alone, as a copy of it without its log would hold it.
    with closing(
        sqlite3.connect(f"file:{tmp_path / 'service.sqlite'}?immutable=1", uri=True)
    ) as alone:
        [(there,)] = alone.execute("SELECT count(*) FROM replicas").fetchall()
    assert 0 < there <= 3
    assert len(await _names(store)) == 3
