"""A full disk is named as such, with the way out, wherever it is met; nothing else is called so."""

from __future__ import annotations

import asyncio
import errno
import sqlite3

import pytest
from psycopg.errors import AdminShutdown, DiskFull, OutOfMemory
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from tests.service.conftest import check_exit, check_refusal, get_json, opened, serving
from tests.service.test_full_disk import SmallDisk, disk
from tribunal.commands import app
from tribunal.store.table_versions import database_problem, explain_error, is_full

__all__ = ["disk"]


def _sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode = code
    return error


def _chained(cause: Exception) -> Exception:
    error = RuntimeError("words")
    error.__cause__ = cause
    return error


ERRORS = [
    (DiskFull("could not extend file: No space left on device"), True),
    (OutOfMemory("words"), False),
    (AdminShutdown("words"), False),
    (_sqlite_error(sqlite3.SQLITE_FULL), True),
    (_sqlite_error(sqlite3.SQLITE_BUSY), False),
    (_sqlite_error(sqlite3.SQLITE_IOERR_WRITE), False),
    (OSError(errno.ENOSPC, "No space left on device"), True),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
    (OSError(errno.EACCES, "Permission denied"), False),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), False),
]


@pytest.mark.parametrize("address", ["sqlite:///a.sqlite", "postgresql://127.0.0.1/a"])
@pytest.mark.parametrize(("error", "full"), ERRORS, ids=lambda each: type(each).__name__)
def test_a_full_disk_is_told_from_other_errors(
    error: Exception, address: str, *, full: bool
) -> None:
    for each in (error, OperationalError("INSERT", {}, error), _chained(error)):
        assert is_full(each) is full
        assert ("the disk is full" in explain_error(each)) is full
    assert ("make room on the disk" in str(database_problem(address, error))) is full


async def test_requests_readyz_and_commands_name_the_full_disk_of_postgresql(database: str) -> None:
    if database.startswith("sqlite"):
        pytest.skip("SQLite: see the test with a file system of its own")
    full = """
        CREATE FUNCTION full_disk() RETURNS trigger AS $$
        BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END
        $$ LANGUAGE plpgsql
    """
    async with serving(database, takeover=1.2, settings={"model": "rehearsal"}) as client:
        async with opened(database) as store, store.transaction() as connection:
            await connection.execute(text(full))
            for table in ("cases", "replicas", "api_keys"):
                trigger = (
                    f"BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION full_disk()"
                )
                await connection.execute(text(f"CREATE TRIGGER full_disk {trigger}"))
        refused = await client.post("/v1/judge", json={"text": "Good morning!"})
        check_refusal(refused, 503, "the disk of the service is full")
        assert refused.headers["retry-after"] == "10"
        while (got := await client.get("/readyz")).status_code == 200:
            await asyncio.sleep(0.05)
        assert got.json()["trouble"] == "disk"
        command = ["service", "keys", "add", "shop", "--scope", "judge", "--database", database]
        check_exit(
            await asyncio.to_thread(CliRunner().invoke, app, command), 2, "make room on the disk"
        )
        async with opened(database) as store, store.transaction() as connection:
            await connection.execute(text("DROP FUNCTION full_disk CASCADE"))
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        assert (
            await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
        ).status_code == 200


@pytest.mark.long
async def test_requests_and_readyz_name_the_full_disk_of_sqlite(disk: SmallDisk) -> None:
    database = f"sqlite:///{disk.folder / 'service.sqlite'}"
    async with serving(database, takeover=1.2, settings={"model": "rehearsal"}) as client:
        disk.fill()
        refused = await client.post("/v1/judge", json={"text": "Good morning! " * 10_000})
        check_refusal(refused, 503, "the disk of the service is full")
        while (got := await client.get("/readyz")).status_code == 200:
            await asyncio.sleep(0.05)
        assert got.json()["trouble"] == "disk"
        disk.make_room()
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)
        assert (
            await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
        ).status_code == 200
    assert await get_json_of(database) == ["done"]


async def get_json_of(database: str) -> list[str]:
    """The status of every case, once another replica has the database."""
    async with serving(database) as client:
        return [each["status"] for each in await get_json(client, "/v1/cases", "cases")]
