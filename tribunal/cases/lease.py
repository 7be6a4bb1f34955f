"""Who works on a case: one process at a time, which renews its lease, and writes only while it holds it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tribunal.database import Database, DatabaseError
from tribunal.errors import BadInput

LEASE = 30.0  # seconds after which a process that said nothing more has lost its lease
LEASES = "CREATE TABLE leases (thread TEXT PRIMARY KEY, token TEXT NOT NULL, holder TEXT NOT NULL, until REAL NOT NULL)"


class LeaseLost(BadInput):
    """Another process has taken the case over: what this one found is not kept."""


class Leases:
    """The leases of one open docket. A lease that has run out and that nobody took is still its holder's."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._mine: dict[str, str] = {}  # by thread: the token by which the file knows us

    @asynccontextmanager
    async def held(
        self, thread: str, holder: str, also: Callable[[sqlite3.Connection], object] | None = None
    ) -> AsyncIterator[None]:
        """Keep others out of a case meanwhile.

        Whoever comes to rest gives the lease back with its last write (`done`). Where that didn't happen the case was
        cut off, and the lease is left as one that has run out, which says so.

        Args:
            thread: the case.
            holder: who it is, in words, for those who are kept out.
            also: done in the same transaction.

        Raises:
            BadInput: another process holds it.
            DatabaseError: it can't be written.
        """
        token = uuid.uuid4().hex

        def take(made: sqlite3.Connection) -> None:
            now = time.time()
            if also:
                also(made)
            taken = made.execute(
                "INSERT INTO leases (thread, token, holder, until) VALUES (?, ?, ?, ?) ON CONFLICT (thread) DO UPDATE"
                " SET token = excluded.token, holder = excluded.holder, until = excluded.until WHERE until < ?",
                (thread, token, holder, now + LEASE, now),
            )
            if taken.rowcount != 1:
                by, until = made.execute("SELECT holder, until FROM leases WHERE thread = ?", (thread,)).fetchone()
                raise BadInput(
                    f"thread: {thread}: {by} right now, in another process; look again in a moment "
                    f"(if that process was killed: in {max(1, round(until - now))} s)"
                )

        await self._db.together(take)
        self._mine[thread] = token
        renewing = asyncio.create_task(self._renew(thread, token))
        try:
            yield
        finally:
            renewing.cancel()
            del self._mine[thread]
            with suppress(DatabaseError):
                await self._db.write("UPDATE leases SET until = 0 WHERE thread = ? AND token = ?", thread, token)

    def check(self, made: sqlite3.Connection, thread: str) -> None:
        """Let a transaction go on only if this process still holds the lease.

        Raises:
            LeaseLost: it doesn't.
        """
        held = made.execute(
            "SELECT 1 FROM leases WHERE thread = ? AND token = ?", (thread, self._mine.get(thread, ""))
        ).fetchone()
        if held is None:
            raise LeaseLost(
                f"thread: {thread}: another process has taken this case over, so nothing of this one was kept; "
                f"tribunal review show {thread} has it"
            )

    def done(self, made: sqlite3.Connection, thread: str) -> None:
        """Give the lease back, in the transaction that writes how the case came to rest."""
        made.execute("DELETE FROM leases WHERE thread = ?", (thread,))

    async def _renew(self, thread: str, token: str) -> None:
        renewed = 1
        while renewed:
            await asyncio.sleep(LEASE / 6)
            with suppress(DatabaseError):  # a disk that is full for a while; the lease is written again in a moment
                renewed = await self._db.write(
                    "UPDATE leases SET until = ? WHERE thread = ? AND token = ?", time.time() + LEASE, thread, token
                )
