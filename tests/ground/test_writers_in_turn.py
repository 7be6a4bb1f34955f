"""Two programs that write to one SQLite file: one waits for the other, and its event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tribunal.process.database import Database

INSERT = "INSERT INTO held VALUES (1)"


@pytest.mark.parametrize("alone", [True, False])
async def test_a_writer_waits_for_another_program(alone: bool, tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    ours = await Database.open(path, schema=["CREATE TABLE IF NOT EXISTS held (number INTEGER)"])
    with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
        theirs.execute("BEGIN IMMEDIATE")
        theirs.execute(INSERT)
        writing = asyncio.ensure_future(
            ours.write(INSERT)
            if alone
            else ours.run_in_transaction(lambda connection: connection.execute(INSERT))
        )
        await asyncio.sleep(0.1)
        assert not writing.done()
        theirs.execute("COMMIT")
        await writing
    assert len(await ours.rows("SELECT number FROM held")) == 2
    await ours.close()


async def test_a_write_that_is_cancelled_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    ours = await Database.open(path, schema=["CREATE TABLE IF NOT EXISTS held (number INTEGER)"])
    with closing(sqlite3.connect(path, isolation_level=None)) as theirs:
        theirs.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(ours.write_many("INSERT INTO held VALUES (?)", [(1,), (2,)]))
        await asyncio.sleep(0.1)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        theirs.execute("COMMIT")
    await ours.write("INSERT INTO held VALUES (3)")
    assert [row[0] for row in await ours.rows("SELECT number FROM held")] in ([3], [1, 2, 3])
    await ours.close()
