"""The batches of the service in its store: files whose rows are cases, each of which waits for its turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field
from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_now, new_id
from tribunal.docket.holds import NOT_HELD
from tribunal.docket.leases import Held, existing_for_request, held_case_from_row, owner_is_dead
from tribunal.docket.record_rows import cancel_entry
from tribunal.docket.reservations import (
    NO_RESERVATION,
    USUAL_BOUNDS,
    CaseBounds,
    Reservation,
    reserve_for_attempt,
    settle,
)
from tribunal.errors import Problem
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, replica_actor, sha
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store
from tribunal.store.tables import batches, cases

_CANCELLED = "the batch was cancelled before its turn"


class NewBatch(Frozen):
    """A batch to be made, without its rows.

    `columns` say which column is what, if it isn't called so; `given` are the names of the file's columns.
    """

    file: str
    sha256: str
    graph: str
    settings: JSON
    keep: bool
    columns: dict[str, str]
    given: list[str]
    left_out: dict[str, int]


class RowCounts(Frozen):
    """The number of a batch's rows by status."""

    waiting: int = Field(default=0, description="their turn hasn't come", examples=[70])
    running: int = Field(default=0, description="being decided", examples=[10])
    done: int = Field(default=0, description="with an outcome", examples=[20])
    cancelled: int = Field(default=0, description="ended without one", examples=[0])


class BatchStore:
    """The batches, as one replica sees them."""

    def __init__(
        self, store: Store, replica: str, takeover: float, bounds: CaseBounds = USUAL_BOUNDS
    ) -> None:
        """Keep this replica's id, and the seconds of silence after which another one counts as dead.

        `bounds` say what a row takes of a daily budget where its settings don't.
        """
        self._store = store
        self._replica = replica
        self._takeover = takeover
        self._bounds = bounds

    # An upload

    async def begin(self, new: NewBatch, key_id: str) -> str:
        """Write a batch down whose rows come next; return its id."""
        row = new.model_dump(mode="json", exclude={"sha256"})
        row |= {"id": new_id("batch"), "created": database_now(), "status": "reading", "rows": 0}
        async with self._store.transaction() as connection:
            await connection.execute(
                batches.insert().values(**row, owner=self._replica, key_id=key_id or None)
            )
        return str(row["id"])

    async def add_rows(
        self, batch_id: str, new: NewBatch, key_id: str, rows: Sequence[JSON], first: int
    ) -> None:
        """Write rows of a batch down: `post`, as a graph takes it, and `fields`; `first` is the place of the first."""
        common = {
            "created": database_now(), "status": "waiting", "attempt": 0, "key_id": key_id or None, "graph": new.graph,
            "settings": new.settings, "keep": True, "batch_id": batch_id,
        }  # fmt: skip
        added = [
            {**common, **row, "id": new_id(), "place": at} for at, row in enumerate(rows, first)
        ]
        async with self._store.transaction() as connection:
            await connection.execute(cases.insert(), added)

    async def commit(
        self, batch_id: str, new: NewBatch, key_id: str, rows: int, key: str | None, by: Who = OPERATOR,
        asked: JSON | None = None,
    ) -> str:  # fmt: skip
        """Let the rows be tried, which are all there; return the id of the batch.

        If the same upload made a batch before, the id is that one's, and whoever began this one deletes it. The
        idempotency key belongs to the file and the options that the client sent (`asked`).

        Raises:
            Problem: the idempotency key belongs to another request.
        """
        request = new.model_dump(
            mode="json", include={"sha256", "graph", "settings", "keep", "columns"}
        )
        async with self._store.transaction() as connection:
            if key is not None:
                client_request = None if asked is None else {"sha256": new.sha256, **asked}
                before = await existing_for_request(
                    self._store,
                    connection,
                    key_id,
                    request,
                    batch_id,
                    client_request=client_request,
                    key=key,
                )
                if before is not None:
                    return before
            ready = {"status": "running", "owner": None, "rows": rows, "left_out": new.left_out}
            await connection.execute(
                update(batches).where(batches.c.id == batch_id).values(**ready)
            )
            details = {
                "rows": rows, "graph": new.graph, "file_sha": new.sha256, "settings_sha": sha(new.settings),
                "keep": new.keep,
            }  # fmt: skip
            await append(
                connection, by, LogEntry(kind="batch.made", subject=batch_id, details=details)
            )
        return batch_id

    async def delete(self, batch_id: str, by: Who = OPERATOR) -> None:
        """Delete a batch with all its rows and records; the audit log says that `by` did it."""
        async with self._store.transaction() as connection:
            await self._delete_batches(connection, [batch_id], by)

    async def _delete_batches(
        self, connection: AsyncConnection, batch_ids: Sequence[str], by: Who
    ) -> None:
        unfinished = cases.c.status.in_(("running", "waiting", "queued")) & (cases.c.attempt > 0)
        rows = select(cases.c.id).where(
            cases.c.batch_id.in_(batch_ids), unfinished | cases.c.question.is_not(None)
        )
        await delete_checkpoints(connection, rows)
        columns = (batches.c.id, batches.c.status, batches.c.rows)
        gone = await connection.execute(
            delete(batches).where(batches.c.id.in_(batch_ids)).returning(*columns)
        )
        erased = ["posts", "records", "events", "checkpoints", "messages"]
        entries = [
            LogEntry(
                kind="batch.deleted", subject=row.id, details={"erased": erased, "rows": row.rows}
            )
            for row in gone.all()
            if row.status != "reading"  # one that was never read to its end was never there
        ]
        await append(connection, by, *entries)

    async def count_waiting(self) -> int:
        """Return how many rows of all batches wait."""
        counting = select(func.count()).select_from(cases).where(cases.c.status == "waiting")
        return int(await self._store.fetch_value(counting))

    # Feeding

    async def find_turns(self) -> list[JSON]:
        """Return the batches of which more may be tried now, the oldest first, and why each was held."""
        free = or_(batches.c.held_until.is_(None), batches.c.held_until <= database_now())
        columns = (batches.c[name] for name in ("id", "key_id", "held", "graph", "settings"))
        query = select(*columns).where(batches.c.status == "running", free)
        return await self._store.fetch_rows(query.order_by(batches.c.created))

    async def take_rows(
        self, batch_id: str, count: int, *, fewest_attempts_first: bool = False
    ) -> list[Held]:
        """Take up the next rows of a batch that no other replica has; fewer, or none, if few are left.

        With `fewest_attempts_first` no row that ends each attempt stands before the others.

        As many as the budget of the batch's key reaches for: what each may take of it is reserved.

        Raises:
            Problem: it doesn't reach for any.
        """
        of_batch = (cases.c.batch_id == batch_id, cases.c.status == "waiting")
        due = or_(cases.c.held_until.is_(None), cases.c.held_until <= database_now())
        order = (cases.c.attempt, cases.c.place) if fewest_attempts_first else (cases.c.place,)
        query = (
            select(cases.c.id)
            .where(*of_batch, cases.c.outcome.is_(None), due)
            .order_by(*order)
            .limit(count)
        )
        async with self._store.transaction() as connection:
            ids = (
                (await connection.execute(query.with_for_update(skip_locked=True))).scalars().all()
            )
            if not ids:
                return []
            taken = update(cases).where(cases.c.id.in_(ids), *of_batch)
            begun = {
                "status": "running",
                "owner": self._replica,
                "attempt": cases.c.attempt + 1,
                **NOT_HELD,
            }
            taken = taken.values(**begun)
            rows = (await connection.execute(taken.returning(cases))).mappings().all()
            return await self._reserve_for_rows(
                connection, sorted(rows, key=lambda row: row["place"])
            )

    async def _reserve_for_rows(
        self, connection: AsyncConnection, rows: Sequence[Any]
    ) -> list[Held]:
        held: list[Held] = []
        for row in rows:
            try:
                reserved = await reserve_for_attempt(
                    self._store, connection, row, row["attempt"], self._bounds
                )
            except Problem:
                if not held:
                    raise
                left = [each["id"] for each in rows[len(held) :]]
                back = {"status": "waiting", "owner": None, "attempt": cases.c.attempt - 1}
                await connection.execute(update(cases).where(cases.c.id.in_(left)).values(**back))
                break
            held.append(held_case_from_row(reserved))
        return held

    async def finish_if_done(self, batch_id: str) -> None:
        """Mark a batch as finished if no row of it is left."""
        left = exists().where(
            cases.c.batch_id == batch_id, cases.c.status.in_(("waiting", "running"))
        )
        is_done = (
            batches.c.id == batch_id,
            batches.c.finished.is_(None),
            batches.c.status != "reading",
            ~left,
        )
        status = func.replace(batches.c.status, "running", "done")  # a cancelled one stays so
        values = {"finished": database_now(), "status": status, **NOT_HELD}
        async with self._store.transaction() as connection:
            await connection.execute(update(batches).where(*is_done).values(**values))

    async def hold(
        self, batch_id: str, why: str | None, until: float | None, provider: str | None = None
    ) -> None:
        """Hold a batch until a time, or until a provider answers; then more of it is tried. None: go on now."""
        where = (batches.c.id == batch_id, batches.c.finished.is_(None))
        async with self._store.transaction() as connection:
            await connection.execute(
                update(batches).where(*where).values(held=why, held_until=until, held_for=provider)
            )

    async def cancel(self, batch_id: str, by: Who = OPERATOR) -> None:
        """Cancel what waits. What is under way ends, and what is decided stays."""
        async with self._store.transaction() as connection:
            where = (batches.c.id == batch_id, batches.c.status == "running")
            done = await connection.execute(
                update(batches).where(*where).values(status="cancelled", held=None)
            )
            rows = await _cancel_waiting(self._store, connection, cases.c.batch_id == batch_id)
            if done.rowcount:
                entry = LogEntry(
                    kind="batch.cancelled", subject=batch_id, details={"rows": len(rows)}
                )
                await append(connection, by, entry)
        await self.finish_if_done(batch_id)

    async def look_after(self, forget_after: float) -> None:
        """Bring back the rows of dead replicas, end what nobody ends any more, and delete what is not to be kept."""
        of_batch = and_(cases.c.batch_id.is_not(None), cases.c.answer.is_(None))
        dead = owner_is_dead(cases.c.owner, self._replica, self._takeover)
        lost = and_(cases.c.status == "running", of_batch, dead)
        cancelled = select(batches.c.id).where(
            batches.c.status == "cancelled", batches.c.finished.is_(None)
        )
        unread = and_(
            batches.c.status == "reading",
            owner_is_dead(batches.c.owner, self._replica, self._takeover),
        )
        over = and_(batches.c.keep.is_(False), batches.c.finished < database_now() - forget_after)
        me = replica_actor(self._replica)
        async with self._store.transaction() as connection:
            await connection.execute(update(cases).where(lost).values(status="waiting", owner=None))
            late = await _cancel_waiting(self._store, connection, cases.c.batch_id.in_(cancelled))
            ended = (await connection.execute(cancelled)).scalars().all()
            gone = (
                (await connection.execute(select(batches.c.id).where(or_(unread, over))))
                .scalars()
                .all()
            )
            if gone:
                await self._delete_batches(connection, gone, me)
            await append(
                connection, me, *(cancel_entry(each, {"cancelled": _CANCELLED}) for each in late)
            )
        for batch_id in ended:
            await self.finish_if_done(batch_id)

    # Looking

    async def batch(self, batch_id: str) -> JSON:
        """Return a batch as it lies in the store; raise Problem if there is none."""
        query = select(batches).where(batches.c.id == batch_id, batches.c.status != "reading")
        row = await self._store.fetch_row(query)
        if row is None:
            raise Problem("not_found", f"batch: {batch_id[:80]}: there is none")
        return row

    async def search(
        self, *, key_id: str | None, every: bool, before: str | None, limit: int
    ) -> list[JSON]:
        """Return batches, the newest first: of a key, or of every key; `before` is the last id of the page before."""
        query = (
            select(batches)
            .where(batches.c.status != "reading")
            .order_by(batches.c.id.desc())
            .limit(limit)
        )
        if not every:
            query = query.where(batches.c.key_id == key_id)
        if before is not None:
            query = query.where(batches.c.id < before)
        return await self._store.fetch_rows(query)

    async def count_rows(
        self, batch_ids: Sequence[str]
    ) -> Mapping[str, tuple[RowCounts, dict[str, int]]]:
        """Return, for each of these batches, how many rows have each status, and of the finished ones each outcome."""
        parts = (cases.c.batch_id, cases.c.status, cases.c.outcome)
        query = select(*parts, func.count()).where(cases.c.batch_id.in_(batch_ids)).group_by(*parts)
        counts: dict[str, tuple[dict[str, int], dict[str, int]]] = {
            each: ({}, {}) for each in batch_ids
        }
        async with self._store.reading() as connection:
            for batch_id, status, outcome, number in await connection.execute(query):
                by_status, outcomes = counts[batch_id]
                by_status[status] = by_status.get(status, 0) + number
                if outcome is not None:
                    outcomes[outcome] = number
        return {
            each: (RowCounts(**by_status), outcomes)
            for each, (by_status, outcomes) in counts.items()
        }

    async def list_rows(self, batch_id: str, after: int, limit: int) -> list[JSON]:
        """Return rows of a batch with their records, in the order of the file, after the one at this place."""
        parts = (
            cases.c.id,
            cases.c.place,
            cases.c.status,
            cases.c.post,
            cases.c.fields,
            cases.c.record,
        )
        query = select(*parts).where(cases.c.batch_id == batch_id, cases.c.place > after)
        return await self._store.fetch_rows(query.order_by(cases.c.place).limit(limit))


async def _cancel_waiting(store: Store, connection: AsyncConnection, which: Any) -> list[str]:
    """Cancel rows that wait; return their ids. What was reserved for an attempt that was lost counts as spent."""
    values = {
        "status": "cancelled",
        "finished": database_now(),
        "record": {"cancelled": _CANCELLED},
    }
    ended = (
        update(cases).where(which, cases.c.status == "waiting").values(**values).returning(cases)
    )
    rows = (await connection.execute(ended)).mappings().all()
    for row in rows:
        reserved = Reservation.from_row(row)
        if reserved is not None:
            await settle(store, connection, row["key_id"], reserved, None)
            await connection.execute(
                update(cases).where(cases.c.id == row["id"]).values(**NO_RESERVATION)
            )
    return [row["id"] for row in rows]
