"""A task that is cancelled while it writes to SQLite: clients go away, and replicas stop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from tribunal.store import engine
from tribunal.store.engine import Store


async def test_a_write_that_is_cancelled_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WAIT", 1.0)
    store = await Store.open(f"sqlite:///{tmp_path / 'a.sqlite'}")
    begun, gone = threading.Event(), threading.Event()

    def hold() -> float:
        begun.set()
        gone.wait(30)
        return 1.0

    async def write() -> None:
        async with store.transaction() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            await raw.create_function("hold", 0, hold)
            await connection.execute(text("INSERT INTO replicas VALUES ('a', hold()), ('b', 1) RETURNING id"))

    writing = asyncio.create_task(write())
    await asyncio.to_thread(begun.wait, 30)
    writing.cancel()
    gone.set()
    with pytest.raises(asyncio.CancelledError) as error:
        await writing
    async with store.transaction() as connection:
        await connection.execute(text("INSERT INTO replicas VALUES ('c', 1)"))
        rows = (await connection.execute(text("SELECT id FROM replicas"))).scalars().all()
    assert (rows, error.type) == (["c"], asyncio.CancelledError)
    await store.close()
