"""Two programs that write to one SQLite file, while one of them still reads for another of its tasks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tribunal.database import Database


@pytest.mark.parametrize("alone", [True, False])
async def test_a_writer_waits_for_what_its_own_program_still_reads(alone: bool, tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    ours = await Database.open(path, schema=["CREATE TABLE IF NOT EXISTS held (number INTEGER)"])
    theirs = await Database.open(path)
    await ours.write_many("INSERT INTO held VALUES (?)", [(1,), (2,), (3,)])
    reading = await ours.connection.execute("SELECT number FROM held")
    await reading.fetchone()
    await theirs.write("INSERT INTO held VALUES (4)")  # what is read is no longer the newest, and can't be written to
    insert = "INSERT INTO held VALUES (5)"
    writing = asyncio.ensure_future(
        ours.write(insert) if alone else ours.together(lambda connection: connection.execute(insert))
    )
    await asyncio.sleep(0.1)
    assert not writing.done()
    await reading.close()
    await writing
    assert [row[0] for row in await theirs.rows("SELECT number FROM held")] == [1, 2, 3, 4, 5]
    await ours.close()
    await theirs.close()
