"""Access to SQLite files: a connection with its own thread for async code, and `connect` for other code."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from tribunal.process.files import check_regular

WAIT = 30.0  # seconds that one writer waits for another
Result = TypeVar("Result")
# Faults of the disk, of rights or of another process, and not of the file.
_OUTSIDE = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
}  # fmt: skip
_creating = threading.Lock()


class DatabaseError(OSError):
    """A database can't be read or written: the disk is full or gone, or the file is damaged."""


class Unwritable(DatabaseError):
    """Not the file is at fault: the disk is full or gone, it may not be written, or another process keeps it locked."""


def database_error(path: Path, error: Exception) -> DatabaseError:
    """Return our error for an error of SQLite or of the system."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        outside = code & 0xFF in _OUTSIDE
    else:  # `check_regular` calls what is no file EISDIR or EINVAL
        outside = isinstance(error, OSError) and error.errno not in (errno.EISDIR, errno.EINVAL)
    return (Unwritable if outside else DatabaseError)(f"{path}: {error}")


class Database:
    """An open SQLite file, with a thread of its own in which everything is done, one thing after another.

    All methods may be called at the same time. What a cancelled caller asked for is done whole or not at all. Every
    method raises `DatabaseError` if the file can't be read or written, or is closed.

    Attributes:
        path: the file.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, thread: ThreadPoolExecutor
    ) -> None:
        """Use `open`."""
        self.path = path
        self._connection = connection
        self._thread = thread

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
        file, and a new folder, are readable by their owner only; SQLite gives its additional files the same rights.

        Args:
            path: the file.
            prepare: is given the connection before anything is written: the place to refuse a foreign file.
            schema: the statements that make its tables where they aren't there; done as one.
            mode: `mode=ro` and the like, in which nothing is made or written.
        """
        thread = ThreadPoolExecutor(1, thread_name_prefix=path.name)
        try:
            opening = asyncio.get_running_loop().run_in_executor(
                thread, _open, path, prepare, schema, mode
            )
            return cls(path, await opening, thread)
        except BaseException as error:
            thread.shutdown(wait=False)
            if isinstance(error, sqlite3.Error | OSError | UnicodeError) and not isinstance(
                error, DatabaseError
            ):
                raise database_error(path, error) from error
            raise

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Return the result of `work`, called with the connection in its thread; it must end every transaction."""
        try:
            doing = asyncio.get_running_loop().run_in_executor(self._thread, work, self._connection)
        except RuntimeError as error:  # the thread has ended
            raise DatabaseError(f"{self.path}: is closed") from error
        try:
            return await doing
        except (sqlite3.Error, UnicodeError) as error:
            raise database_error(self.path, error) from error

    async def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows that a query finds."""
        return await self.run(lambda connection: connection.execute(statement, values).fetchall())

    async def write(self, statement: str, *values: Any) -> int:
        """Carry out one statement, and return the number of rows that it changed."""
        return await self.run(lambda connection: connection.execute(statement, values).rowcount)

    async def write_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Carry out one statement for each of these rows, all or none."""
        held = list(rows)
        await self.run_in_transaction(lambda connection: connection.executemany(statement, held))

    async def run_in_transaction(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do several things in one transaction, in the connection's thread; an error undoes them all, and is raised."""
        await self.run(lambda connection: _run_in_transaction(connection, work))

    async def close(self) -> None:
        """Write out what SQLite still holds beside the file, and end the thread."""
        with suppress(DatabaseError):  # it is closed already
            await self.run(lambda connection: connection.close())
        self._thread.shutdown(wait=False)


def connect(path: Path, mode: str = "", *, wait: float = WAIT) -> sqlite3.Connection:
    """Return a connection to a SQLite file, whose transactions are begun and ended by statements. Close it.

    Args:
        path: the file; without a mode it is made if it isn't there.
        mode: `mode=ro` and the like, as SQLite's addresses have them.
        wait: how many seconds one writer waits for another.

    Raises:
        OSError: something else than a regular file has its name, or the name of a file that SQLite keeps beside it.
        sqlite3.Error: it can't be opened.
    """
    check_sqlite_file(path)
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=wait, isolation_level=None
    )


def _open(
    path: Path,
    prepare: Callable[[sqlite3.Connection], None] | None,
    schema: Sequence[str],
    mode: str,
) -> sqlite3.Connection:
    if not mode:
        check_sqlite_file(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One at a time: closing a file takes away every lock that this process has on it, SQLite's too.
        with _creating, suppress(FileExistsError):
            if not path.exists():
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    connection = connect(path, mode)
    try:
        connection.row_factory = sqlite3.Row
        if prepare:
            _run_in_transaction(connection, prepare)
        if not mode:
            set_write_ahead_mode(connection)
            # What is committed outlives the process; a power cut may cost the last moments, and nothing else.
            connection.execute("PRAGMA synchronous=NORMAL")
            # What is deleted is overwritten: posts and what was said of them lie here.
            connection.execute("PRAGMA secure_delete=ON").fetchall()
        if schema:
            _run_in_transaction(
                connection, lambda made: [made.execute(statement) for statement in schema]
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _run_in_transaction(
    connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], object]
) -> None:
    [only_reads] = connection.execute("PRAGMA query_only").fetchone()
    connection.execute("BEGIN" if only_reads else "BEGIN IMMEDIATE")
    try:
        work(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def set_write_ahead_mode(connection: sqlite3.Connection) -> None:
    """Put a file into write-ahead mode. SQLite itself doesn't wait for another process that does so too.

    Raises:
        sqlite3.Error: it can't be written, or is locked for too long.
    """
    until = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def check_sqlite_file(path: Path) -> None:
    """Refuse what SQLite would wait for, or break: a pipe, a device, a folder, under the file's name or beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            check_regular(path.with_name(f"{path.name}{suffix}"))
