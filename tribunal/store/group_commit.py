"""Group commit: writes that are asked for at the same time are done in one transaction, and share what it costs.

What each has to tell the audit log, and rows that nobody reads within the transaction, are written at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON
from tribunal.store.audit import LogEntry, Who, append_all
from tribunal.store.engine import Store
from tribunal.store.table_versions import is_away

_MOST = 64  # writes in one transaction: those that come later wait for it
Result = TypeVar("Result")


class Group:
    """A transaction that several writes share.

    Attributes:
        connection: on which they are done, one after another.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        """Begin with nothing to write at the end."""
        self.connection = connection
        self._entries: list[tuple[Who, LogEntry]] = []
        self._rows: dict[Executable, list[JSON]] = {}
        self._answers: dict[Executable, Sequence[JSON]] = {}
        self._after: list[Callable[[], object]] = []

    def log(self, who: Who, *entries: LogEntry) -> None:
        """Tell the audit log at the end."""
        self._entries += [(who, each) for each in entries]

    def execute_at_end(self, statement: Executable, rows: Sequence[JSON]) -> None:
        """Carry out a statement for each of these rows at the end."""
        if rows:
            self._rows.setdefault(statement, []).extend(rows)

    async def rows_once(self, query: Executable) -> Sequence[JSON]:
        """Return the rows of a query, which is asked once for all writes that share this transaction."""
        if query not in self._answers:
            self._answers[query] = [
                dict(row) for row in (await self.connection.execute(query)).mappings()
            ]
        return self._answers[query]

    def after_commit(self, note: Callable[[], object]) -> None:
        """Call this once all is committed, and not at all if it isn't."""
        self._after.append(note)

    def committed(self) -> None:
        """Wake the waiting writers."""
        for note in self._after:
            note()

    async def end(self) -> None:
        """Write the deferred rows, the audit log last."""
        for statement, rows in self._rows.items():
            await self.connection.execute(statement, rows)
        await append_all(self.connection, self._entries)


Write = Callable[[Group], Awaitable[Result]]


@dataclass
class _Refused:
    why: Exception


@dataclass
class _Waiting:
    order: str
    lock: Executable | None
    write: Write[Any]
    outcome: asyncio.Future[Any]


class GroupCommit:
    """The writes of one process, in the order in which they come; those of a group by what they lock (`order`)."""

    def __init__(self, store: Store, *refusals: type[Exception]) -> None:
        """Use a database. A write that raises one of `refusals` has changed nothing, and the others go on."""
        self._store = store
        self._refusals = refusals
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(
        self, write: Write[Result], *, order: str = "", lock: Executable | None = None
    ) -> Result:
        """Carry out a write in a transaction with others, and return what it returns once all is committed.

        Args:
            write: is given the group, and may be called a second time, if another one's error undid the first.
            order: what it locks besides its own case. Writes of a group are done in this order, so that two processes
                don't wait for each other in a circle.
            lock: a statement that is carried out before any write of the group, for a lock that comes before theirs.

        Raises:
            Exception: what the write raised; or what the transaction failed with, and then nothing is done. A caller
                that is cancelled may find it done.
        """
        waiting = _Waiting(order, lock, write, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        result: Result = await waiting.outcome
        return result

    async def _write_all(self) -> None:
        while self._waiting:
            group = self._waiting[:_MOST]
            self._waiting = self._waiting[_MOST:]
            asked = sorted(
                (each for each in group if not each.outcome.done()), key=lambda each: each.order
            )
            try:
                await self._write_together(asked)
            except Exception as error:  # noqa: BLE001 (each caller is given it)
                await self._write_once_more(asked, error)
            except asyncio.CancelledError:
                for each in [*asked, *self._waiting]:
                    each.outcome.cancel()
                raise

    async def _write_once_more(self, asked: Sequence[_Waiting], error: Exception) -> None:
        """Carry out writes whose transaction was undone by an error: together if it was the connection's, else apart.

        A connection may have been ended since it was last used; and whose error another one was shows alone.
        """
        for some in [asked] if is_away(error) else [[each] for each in asked]:
            try:
                await self._write_together(some)
            except Exception as again:  # noqa: BLE001
                _settle(some, again)

    async def _write_together(self, asked: Sequence[_Waiting]) -> None:
        outcomes: list[Any] = []
        is_written = False
        try:
            async with self._store.transaction() as connection:
                group = Group(connection)
                for lock in {each.lock for each in asked if each.lock is not None}:
                    await connection.execute(lock)
                for each in asked:
                    try:
                        outcomes.append(await each.write(group))
                    except self._refusals as refused:
                        outcomes.append(_Refused(refused))
                await group.end()
                is_written = True
        except Exception as error:
            if not is_written:
                raise
            _settle(asked, error)  # it may be done, and may not: nothing is written once more
            return
        group.committed()
        for each, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, _Refused):
                _settle([each], outcome.why)
            else:
                with suppress(asyncio.InvalidStateError):  # whoever asked has gone away
                    each.outcome.set_result(outcome)


def _settle(asked: Sequence[_Waiting], error: Exception) -> None:
    for each in asked:
        with suppress(asyncio.InvalidStateError):
            each.outcome.set_exception(error)
