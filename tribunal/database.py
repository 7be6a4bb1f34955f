"""The one way to SQLite: a connection with a thread of its own, asked from async code."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from tribunal.files import check_regular

WAIT = 30.0  # seconds that one writer waits for another
Written = TypeVar("Written")


class DatabaseError(OSError):
    """A database can't be read or written: the disk is full or gone, or the file is damaged."""


class Unwritable(DatabaseError):
    """Not the file is at fault: the disk is full or gone, it may not be written, or another process keeps it locked."""


_OUTSIDE = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
}  # fmt: skip


def database_error(path: Path, error: Exception) -> DatabaseError:
    """What an error of SQLite or of the system means."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # As `check_regular` has it of what is no file.
        outside = isinstance(error, OSError) and error.errno not in (errno.EISDIR, errno.EINVAL)
    else:
        outside = code & 0xFF in _OUTSIDE
    return (Unwritable if outside else DatabaseError)(f"{path}: {error}")


class Database:
    """An open SQLite file. All methods may be called at the same time; what they ask is done one after another.

    Attributes:
        path: the file.
        connection: for a library that works on one, such as LangGraph's checkpoint saver.
    """

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        """Use `open`."""
        self.path, self.connection = path, connection

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        prepare: Callable[[sqlite3.Connection], None] | None = None,
        schema: Sequence[str] = (),
        mode: str = "",
    ) -> Self:
        """Open a file, and make it and its folder if they aren't there.

        Several processes may open it at once; it is in write-ahead mode, so that readers don't wait for a writer. A new
        file, and a new folder, are their owner's alone; SQLite gives the files that it keeps beside it the same rights.

        Args:
            path: the file.
            prepare: is given the connection before anything is written: the place to refuse a foreign file.
            schema: the statements that make its tables where they aren't there; done as one.
            mode: `mode=ro` and the like, in which nothing is made or written.

        Raises:
            DatabaseError: it can't be opened.
        """
        try:
            await asyncio.to_thread(_regular, path)
            if mode:
                target = f"{(await asyncio.to_thread(path.absolute)).as_uri()}?{mode}"
                opening = aiosqlite.connect(target, uri=True, timeout=WAIT, isolation_level=None)
            else:
                await asyncio.to_thread(_made, path)
                opening = aiosqlite.connect(path, timeout=WAIT, isolation_level=None)
            opening._thread.daemon = True  # one that nobody closed must not keep the program from ending
            connection = await opening
        except (sqlite3.Error, OSError) as error:
            raise database_error(path, error) from error
        database = cls(path, connection)
        connection.row_factory = sqlite3.Row
        try:
            if prepare:
                await database.together(prepare)
            if not mode:
                await _in_turn(lambda: connection.execute("PRAGMA journal_mode=WAL"))
                # What is committed outlives the process; a power cut may cost the last moments, and nothing else.
                await connection.execute("PRAGMA synchronous=NORMAL")
                # What is deleted is overwritten: posts and what was said of them lie here.
                await connection.execute_fetchall("PRAGMA secure_delete=ON")
            if schema:
                await database.together(lambda made: [made.execute(statement) for statement in schema])
        except BaseException as error:
            await connection.close()
            if isinstance(error, sqlite3.Error):
                raise database_error(path, error) from error
            raise
        return database

    async def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """What a query finds.

        Raises:
            DatabaseError: it can't be read.
        """
        try:
            return list(await self.connection.execute_fetchall(statement, values))
        except (sqlite3.Error, ValueError) as error:
            raise database_error(self.path, error) from error

    async def write(self, statement: str, *values: Any) -> int:
        """Carry out one statement; gives the number of rows it changed.

        Raises:
            DatabaseError: it can't be written.
        """

        async def written() -> int:
            async with self.connection.execute(statement, values) as done:
                return done.rowcount

        try:
            return await _in_turn(written)
        except (sqlite3.Error, ValueError) as error:
            raise database_error(self.path, error) from error

    async def write_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out one statement for each of these rows, all or none.

        Raises:
            DatabaseError: they can't be written.
        """
        held = list(rows)
        try:
            await self.together(lambda made: made.executemany(statement, held))
        except (sqlite3.Error, ValueError) as error:
            raise database_error(self.path, error) from error

    async def together(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do several things in one transaction, in the connection's thread; an error undoes them all, and is raised.

        Raises:
            DatabaseError: the file can't be read or written.
        """

        def transaction() -> None:
            made = self.connection._conn
            made.execute("BEGIN IMMEDIATE" if not made.execute("PRAGMA query_only").fetchone()[0] else "BEGIN")
            try:
                work(made)
                made.commit()
            except BaseException:
                made.rollback()
                raise

        try:
            await _in_turn(lambda: self.connection._execute(transaction))  # type: ignore[no-untyped-call]
        except sqlite3.Error as error:
            raise database_error(self.path, error) from error

    async def close(self) -> None:
        """Write out what SQLite still holds beside the file."""
        await self.connection.close()


def _regular(path: Path) -> None:
    """Refuse what SQLite would wait for, or break: a pipe, a device, a folder, under the file's name or beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            check_regular(path.with_name(f"{path.name}{suffix}"))


_making = threading.Lock()


def _made(path: Path) -> None:
    """Make the file, and its folder, for their owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One at a time: closing a file takes away every lock that this process has on it, SQLite's too.
    with _making, suppress(FileExistsError):
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


async def _in_turn(write: Callable[[], Awaitable[Written]]) -> Written:
    """Wait for other processes where SQLite doesn't, and says at once that the file is locked: when several open a new
    file, and when this connection still reads for another task."""
    until = time.monotonic() + WAIT
    while True:
        try:
            return await write()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", None) or 0
            if code & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                raise
            await asyncio.sleep(0.02)
