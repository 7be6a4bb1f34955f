"""SQLite in the thread of the event loop.

aiosqlite hands every step of a statement to a thread and back, which takes ten times as long as the short statements of
the service themselves, and while the loop is busy the thread waits for its turn, with the connection in its hands. So
these run where they are asked for, and so does a COMMIT, which in the write-ahead mode only hands pages to the system.
What waits for the disk has the thread: every so many commits the log is written back to the file (a checkpoint of
SQLite's), and the first commit after that begins the log anew. Whoever reads much at once does so elsewhere
(`Store.reading`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import aiosqlite

_BETWEEN = 50  # commits between two checkpoints
_MOST_PAGES = 4000  # of the log, from which on SQLite makes a checkpoint by itself, in whichever commit it is
_PAUSES = 0.001, 0.02  # seconds between two tries at a lock that another process has: the shortest, and the longest


class Released(sqlite3.Connection):
    """One whose locks go when it is closed. A task that is cancelled in a transaction leaves a statement behind that
    isn't over, and SQLite keeps the lock, and everybody else waiting, for as long as there is such a one."""

    def close(self) -> None:
        if self.in_transaction:
            self.rollback()
        super().close()


class OnLoop(aiosqlite.Connection):
    """A connection whose statements never leave the event loop's thread. SQLAlchemy's dialect takes it as aiosqlite's.

    Another process's lock is waited for by trying again: SQLite's own waiting would hold up the loop.
    """

    wait = 0.0
    _commits = 0

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        until = 0.0
        while True:
            try:
                return fn(*args, **kwargs)
            except sqlite3.OperationalError as error:
                now = asyncio.get_running_loop().time()
                until = until or now + self.wait
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or now > until:
                    raise
            await asyncio.sleep(random.uniform(*_PAUSES))  # so that two don't keep step

    async def commit(self) -> None:
        """Commit the current transaction, if there is one."""
        if not self.in_transaction:
            return
        self._commits += 1
        place = self._commits % _BETWEEN
        if place > 1:
            await self._execute(self._conn.commit)
        else:
            doing = self._conn.commit if place else self._checkpointed
            await super()._execute(doing)  # type: ignore[no-untyped-call]

    def _checkpointed(self) -> None:
        self._conn.commit()
        with contextlib.suppress(sqlite3.Error):  # the commit is done; what is left to write back is so the next time
            self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)")


async def connect(file: str, wait: float) -> aiosqlite.Connection:
    """Open a file.

    Args:
        file: its path.
        wait: seconds that one waits for another process's lock.
    """
    if "langgraph_api" in sys.modules:  # its server lets nobody hold its loop up, however shortly
        apart = aiosqlite.connect(file, timeout=wait, factory=Released)
        apart._thread.daemon = True
        return await apart

    def opened() -> sqlite3.Connection:
        made = sqlite3.connect(file, timeout=0, check_same_thread=False, factory=Released)
        made.execute(f"PRAGMA wal_autocheckpoint={_MOST_PAGES}")
        return made

    made = OnLoop(opened, 64)
    made.wait = wait
    made._thread.daemon = True  # as SQLAlchemy does it
    await made
    return made
