"""The batches of the service in its store: files whose rows are cases, each of which waits for its turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field
from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen
from tribunal.service.replica import audited
from tribunal.service.replica.caseload import Held, of_the_dead
from tribunal.service.replica.problems import Problem
from tribunal.service.replica.repeats import fingerprint, made_before
from tribunal.store.audit import OPERATOR, Entry, Who, append, of_replica, sha
from tribunal.store.checkpoint_rows import forget_checkpoints
from tribunal.store.engine import Store
from tribunal.store.ids import new_id
from tribunal.store.tables import batches, cases

_UNDECIDED = ("waiting", "running")
_CANCELLED = "the batch was cancelled before its turn"


class NewBatch(Frozen):
    """What an upload wants decided, its rows aside.

    `columns` say which column is what, where it isn't called so; `given` are the names of the file's columns.
    """

    file: str
    sha256: str
    graph: str
    settings: JSON
    keep: bool
    columns: dict[str, str]
    given: list[str]
    left_out: dict[str, int]


class Row(Frozen):
    """A row of a file: the post, as a graph takes it, and the row's other columns."""

    post: JSON
    fields: JSON


class Counts(Frozen):
    """The rows of a batch, by how far they are; those that are done by their outcome."""

    waiting: int = 0
    running: int = 0
    done: int = 0
    cancelled: int = 0
    outcomes: dict[str, int] = Field(default_factory=dict)


class Turn(Frozen):
    """A batch of which more may be tried now."""

    id: str
    key_id: str | None
    held: str | None


class Batches:
    """The batches, as one replica sees them.

    Args:
        store: the database.
        replica: this replica's id.
        takeover: seconds of silence after which another replica counts as dead.
    """

    def __init__(self, store: Store, replica: str, takeover: float) -> None:
        self._store, self._replica, self._takeover = store, replica, takeover

    # An upload

    async def begin(self, new: NewBatch, key_id: str) -> str:
        """Write a batch down whose rows come next; gives its id."""
        batch_id = new_id("batch")
        row = new.model_dump(mode="json", exclude={"sha256"})
        begun = {"id": batch_id, "created": time.time(), "status": "reading", "owner": self._replica, "rows": 0}
        async with self._store.transaction() as connection:
            await connection.execute(batches.insert().values(**row, **begun, key_id=key_id or None))
        return batch_id

    async def add(self, batch_id: str, new: NewBatch, key_id: str, rows: Sequence[Row], first: int) -> None:
        """Write rows of it down; `first` is the place of the first of them."""
        now = time.time()
        common = {
            "created": now, "status": "waiting", "attempt": 0, "key_id": key_id or None, "graph": new.graph,
            "settings": new.settings, "keep": True, "batch_id": batch_id,
        }  # fmt: skip
        made = [
            {**common, "id": new_id(), "place": first + at, "post": row.post, "fields": row.fields}
            for at, row in enumerate(rows)
        ]
        async with self._store.transaction() as connection:
            await connection.execute(cases.insert(), made)

    async def commit(
        self, batch_id: str, new: NewBatch, key_id: str, rows: int, key: str | None, by: Who = OPERATOR
    ) -> str:
        """All rows are there: let them be tried.

        Args:
            rows: how many there are.
            key: the idempotency key.
            by: who asks, for the audit log.

        Returns:
            the id of the batch; where the same upload made one before, that one's, and this one is gone.

        Raises:
            Problem: the idempotency key belongs to another request; then the batch is gone.
        """
        try:
            async with self._store.transaction() as connection:
                before = None
                if key is not None:
                    before = await made_before(self._store, connection, key_id, key, _fingerprint(new), batch_id)
                if before is None:
                    ready = {"status": "running", "owner": None, "rows": rows, "left_out": new.left_out}
                    await connection.execute(update(batches).where(batches.c.id == batch_id).values(**ready))
                    await append(connection, by, _made(batch_id, new, rows))
                    return batch_id
        except Problem:
            await self.delete(batch_id)
            raise
        await self.delete(batch_id)
        return before

    async def delete(self, batch_id: str, by: Who = OPERATOR) -> None:
        """Forget a batch with all its rows and records; the audit log says that `by` did it."""
        async with self._store.transaction() as connection:
            await self._delete(connection, [batch_id], by)

    async def _delete(self, connection: AsyncConnection, batch_ids: Sequence[str], by: Who) -> None:
        rows = select(cases.c.id).where(cases.c.batch_id.in_(batch_ids))
        await forget_checkpoints(self._store, connection, rows)  # of rows that wait for a person
        parts = (batches.c.id, batches.c.status, batches.c.rows)
        gone = await connection.execute(delete(batches).where(batches.c.id.in_(batch_ids)).returning(*parts))
        # One that was never read to its end was never there.
        erased = [_erased(row.id, row.rows) for row in gone.all() if row.status != "reading"]
        await append(connection, by, *erased)

    async def waiting(self) -> int:
        """How many rows wait, of all batches."""
        async with self._store.reading() as connection:
            wanted = select(func.count()).select_from(cases).where(cases.c.status == "waiting")
            return int((await connection.execute(wanted)).scalar_one())

    # Feeding

    async def turns(self) -> list[Turn]:
        """The batches of which more may be tried now, the oldest first."""
        free = or_(batches.c.held_until.is_(None), batches.c.held_until <= time.time())
        wanted = select(batches.c.id, batches.c.key_id, batches.c.held).where(batches.c.status == "running", free)
        async with self._store.reading() as connection:
            rows = (await connection.execute(wanted.order_by(batches.c.created))).mappings()
            return [Turn.model_validate(dict(row)) for row in rows]

    async def take(self, batch_id: str, count: int) -> list[Held]:
        """Take the next rows of a batch up, those that no other replica has; fewer, or none, where few are left."""
        of_batch = (cases.c.batch_id == batch_id, cases.c.status == "waiting")
        wanted = select(cases.c.id).where(*of_batch, cases.c.outcome.is_(None)).order_by(cases.c.place).limit(count)
        async with self._store.transaction() as connection:
            ids = (await connection.execute(wanted.with_for_update(skip_locked=True))).scalars().all()
            if not ids:
                return []
            taken = update(cases).where(cases.c.id.in_(ids), *of_batch)
            taken = taken.values(status="running", owner=self._replica, attempt=cases.c.attempt + 1)
            rows = (await connection.execute(taken.returning(cases))).mappings().all()
        rows = sorted(rows, key=lambda row: row["place"])
        return [Held.model_validate({name: row[name] for name in Held.model_fields}) for row in rows]

    async def settle(self, batch_id: str) -> None:
        """Say that a batch is finished, if no row of it is left."""
        left = exists().where(cases.c.batch_id == batch_id, cases.c.status.in_(_UNDECIDED))
        done = update(batches).where(
            batches.c.id == batch_id, batches.c.finished.is_(None), batches.c.status != "reading", ~left
        )
        status = func.replace(batches.c.status, "running", "done")  # a cancelled one stays so
        values = {"finished": time.time(), "status": status, "held": None, "held_until": None}
        async with self._store.transaction() as connection:
            await connection.execute(done.values(**values))

    async def hold(self, batch_id: str, why: str | None, until: float | None) -> None:
        """Try no more of a batch until then; None: go on."""
        where = (batches.c.id == batch_id, batches.c.finished.is_(None))
        async with self._store.transaction() as connection:
            await connection.execute(update(batches).where(*where).values(held=why, held_until=until))

    async def cancel(self, batch_id: str, by: Who = OPERATOR) -> None:
        """What waits isn't tried any more. What is under way ends, and what is decided stays."""
        async with self._store.transaction() as connection:
            where = (batches.c.id == batch_id, batches.c.status == "running")
            done = await connection.execute(update(batches).where(*where).values(status="cancelled", held=None))
            rows = await _cancel_waiting(connection, cases.c.batch_id == batch_id)
            if done.rowcount:
                told = Entry(kind="batch.cancelled", subject=batch_id, details={"rows": len(rows)})
                await append(connection, by, told)
        await self.settle(batch_id)

    async def look_after(self, forget_after: float) -> None:
        """Bring back the rows of dead replicas, and end what nobody ends any more.

        Args:
            forget_after: seconds after its end that a batch is deleted which is not to be kept.
        """
        now = time.time()
        of_batch = and_(cases.c.batch_id.is_not(None), cases.c.answer.is_(None))
        dead = of_the_dead(cases.c.owner, self._replica, self._takeover)
        lost = and_(cases.c.status == "running", of_batch, dead)
        cancelled = select(batches.c.id).where(batches.c.status == "cancelled", batches.c.finished.is_(None))
        unread = and_(batches.c.status == "reading", of_the_dead(batches.c.owner, self._replica, self._takeover))
        over = and_(batches.c.keep.is_(False), batches.c.finished < now - forget_after)
        async with self._store.transaction() as connection:
            await connection.execute(update(cases).where(lost).values(status="waiting", owner=None))
            late = await _cancel_waiting(connection, cases.c.batch_id.in_(cancelled))
            ended = (await connection.execute(cancelled)).scalars().all()
            if gone := (await connection.execute(select(batches.c.id).where(or_(unread, over)))).scalars().all():
                await self._delete(connection, gone, of_replica(self._replica))
            told = [audited.cancelled(case_id, {"cancelled": _CANCELLED}) for case_id in late]
            await append(connection, of_replica(self._replica), *told)
        for batch_id in ended:
            await self.settle(batch_id)

    # Looking

    async def batch(self, batch_id: str) -> JSON:
        """A batch as it lies in the store.

        Raises:
            Problem: there is none.
        """
        where = (batches.c.id == batch_id, batches.c.status != "reading")
        async with self._store.reading() as connection:
            row = (await connection.execute(select(batches).where(*where))).mappings().first()
        if row is None:
            raise Problem("not_found", f"batch: {batch_id[:80]}: there is none")
        return dict(row)

    async def search(self, *, key_id: str | None, every: bool, before: str | None, limit: int) -> list[JSON]:
        """Batches, the newest first: of a key, or of every key; `before` is the id after which the last page ended."""
        query = select(batches).where(batches.c.status != "reading").order_by(batches.c.id.desc()).limit(limit)
        if not every:
            query = query.where(batches.c.key_id == key_id if key_id else batches.c.key_id.is_(None))
        if before is not None:
            query = query.where(batches.c.id < before)
        async with self._store.reading() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]

    async def counts(self, batch_ids: Sequence[str]) -> Mapping[str, Counts]:
        """The rows of these batches, counted."""
        parts = (cases.c.batch_id, cases.c.status, cases.c.outcome)
        query = select(*parts, func.count()).where(cases.c.batch_id.in_(batch_ids)).group_by(*parts)
        found: dict[str, dict[str, Any]] = {each: {"outcomes": {}} for each in batch_ids}
        async with self._store.reading() as connection:
            for batch_id, status, outcome, count in await connection.execute(query):
                held = found[batch_id]
                held[status] = held.get(status, 0) + count
                if outcome is not None:
                    held["outcomes"][outcome] = count
        return {each: Counts.model_validate(held) for each, held in found.items()}

    async def page(self, batch_id: str, after: int, limit: int) -> list[JSON]:
        """Rows of a batch with their records, in the order of the file, after the one at this place."""
        parts = (cases.c.id, cases.c.place, cases.c.status, cases.c.post, cases.c.fields, cases.c.record)
        query = select(*parts).where(cases.c.batch_id == batch_id, cases.c.place > after)
        async with self._store.reading() as connection:
            rows = (await connection.execute(query.order_by(cases.c.place).limit(limit))).mappings()
            return [dict(row) for row in rows]


async def _cancel_waiting(connection: AsyncConnection, which: Any) -> list[str]:
    values = {"status": "cancelled", "finished": time.time(), "record": {"cancelled": _CANCELLED}}
    ended = update(cases).where(which, cases.c.status == "waiting").values(**values).returning(cases.c.id)
    return list((await connection.execute(ended)).scalars())


def _made(batch_id: str, new: NewBatch, rows: int) -> Entry:
    details = {"rows": rows, "graph": new.graph, "file_sha": new.sha256, "settings_sha": sha(new.settings)}
    return Entry(kind="batch.made", subject=batch_id, details=details | {"keep": new.keep})


def _erased(batch_id: str, rows: int) -> Entry:
    return Entry(
        kind="batch.deleted",
        subject=batch_id,
        details={"erased": ["posts", "records", "events", "checkpoints", "messages"], "rows": rows},
    )


def _fingerprint(new: NewBatch) -> str:
    return fingerprint(new.model_dump(mode="json", include={"sha256", "graph", "settings", "keep", "columns"}))
