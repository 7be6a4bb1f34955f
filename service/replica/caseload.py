"""The cases of the service in its store: taken in once, taken up by one replica at a time, and finished once."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen, Record
from tribunal.service.replica.problems import Problem
from tribunal.store.engine import Store
from tribunal.store.tables import cases, events, idempotency, replicas


class NewCase(Frozen):
    """What a request wants decided. `post`: text, image, post_id, language, as a graph takes them."""

    graph: str
    post: JSON
    settings: JSON
    keep: bool = True


class Held(Frozen):
    """A case that a replica has taken up; `attempt` is its proof that it still has it."""

    id: str
    attempt: int
    graph: str
    post: JSON | None
    settings: JSON
    keep: bool
    key_id: str | None


def new_id() -> str:
    """An id such as `case-0198…`; later ones sort after earlier ones."""
    return f"case-{int(time.time() * 1000):011x}{uuid.uuid4().hex[:10]}"


def fingerprint(request: JSON) -> str:
    """What an idempotency key holds a request to."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class Caseload:
    """The cases, as one replica sees them.

    Args:
        store: the database.
        replica: this replica's id.
        takeover: seconds of silence after which another replica counts as dead.
    """

    def __init__(self, store: Store, replica: str, takeover: float) -> None:
        self._store, self.replica, self._takeover = store, replica, takeover

    async def take_in(
        self, new: NewCase, key_id: str, *, here: bool, most_waiting: int, idempotency_key: str | None = None
    ) -> tuple[str, bool]:
        """Write a case down.

        Args:
            new: the case.
            key_id: whose it is.
            here: whether this replica takes it up at once.
            most_waiting: how many cases may wait; ignored where `here`.
            idempotency_key: the request's own name, under which it is done once.

        Returns:
            the case's id, and whether it is new: a request that was made before gives the case that it made.

        Raises:
            Problem: too many cases wait, or the idempotency key belongs to another request.
        """
        case_id, now = new_id(), time.time()
        async with self._store.transaction() as connection:
            if idempotency_key is not None:
                request = fingerprint(new.model_dump(mode="json"))
                if (
                    before := await self._made_before(connection, key_id, idempotency_key, request, case_id)
                ) is not None:
                    return before, False
            if not here:
                waiting = select(func.count()).select_from(cases).where(cases.c.status == "queued")
                if (await connection.execute(waiting)).scalar_one() >= most_waiting:
                    raise Problem("busy", f"{most_waiting} cases wait already; come back later", retry_after=10)
            row = new.model_dump(mode="json")
            if not new.keep:
                row["post"] = None  # it lives in this process alone
            begun: JSON = {"status": "running", "owner": self.replica, "attempt": 1} if here else {"status": "queued"}
            await connection.execute(
                cases.insert().values(id=case_id, created=now, key_id=key_id or None, **row, **({"attempt": 0} | begun))
            )
        return case_id, True

    async def _made_before(
        self, connection: AsyncConnection, key_id: str, key: str, request: str, case_id: str
    ) -> str | None:
        row = {"key_id": key_id, "key": key, "request": request, "made": case_id, "created": time.time()}
        first = self._store.insert(idempotency).values(**row).on_conflict_do_nothing().returning(idempotency.c.made)
        if (await connection.execute(first)).first() is not None:
            return None
        where = (idempotency.c.key_id == key_id) & (idempotency.c.key == key)
        held = (await connection.execute(select(idempotency).where(where))).mappings().one()
        if held["request"] != request:
            raise Problem("conflict", f"Idempotency-Key: {key[:80]}: belongs to another request; give this one its own")
        return str(held["made"])

    def _free(self) -> Any:
        """Cases that nobody tries: those that wait, and those whose replica is dead."""
        alive = select(replicas.c.id).where(replicas.c.seen > time.time() - self._takeover)
        lost = and_(cases.c.status == "running", cases.c.owner.not_in(alive))
        return or_(cases.c.status == "queued", lost)

    async def free(self, limit: int) -> list[str]:
        """Cases that could be taken up, the oldest first."""
        wanted = select(cases.c.id).where(self._free()).order_by(cases.c.created).limit(limit)
        async with self._store.transaction() as connection:
            return list((await connection.execute(wanted)).scalars())

    async def take_up(self, case_id: str) -> Held | None:
        """Take a case up; None where somebody else has it, or it is finished."""
        taken = (
            update(cases)
            .where(cases.c.id == case_id, self._free())
            .values(status="running", owner=self.replica, attempt=cases.c.attempt + 1)
            .returning(cases)
        )
        async with self._store.transaction() as connection:
            row = (await connection.execute(taken)).mappings().first()
            if row is not None and row["attempt"] > 1:  # what an earlier attempt said is not of this trial
                await connection.execute(delete(events).where(events.c.case_id == case_id))
        return Held.model_validate({name: row[name] for name in Held.model_fields}) if row is not None else None

    async def give_back(self, held: Held) -> None:
        """Let another replica try it: this one stops."""
        mine = self._mine(held)
        async with self._store.transaction() as connection:
            await connection.execute(update(cases).where(mine).values(status="queued", owner=None))

    def _mine(self, held: Held) -> Any:
        return and_(
            cases.c.id == held.id,
            cases.c.status == "running",
            cases.c.owner == self.replica,
            cases.c.attempt == held.attempt,
        )

    async def finish(self, held: Held, record: Record) -> bool:
        """Write the outcome down.

        Returns:
            whether it counts; False where another replica has taken the case over meanwhile.
        """
        values: JSON = {
            "status": "done",
            "finished": time.time(),
            "outcome": record.outcome,
            "category": record.category,
            "hateful": record.hateful,
            "uncertain": record.uncertain,
            "policy_sha": record.policy.get("sha"),
            "record": record.dump() if held.keep else None,
        }
        async with self._store.transaction() as connection:
            done = await connection.execute(update(cases).where(self._mine(held)).values(**values))
            if not done.rowcount:
                return False
            if not held.keep:
                await connection.execute(delete(events).where(events.c.case_id == held.id))
        return True

    async def cancel(self, held: Held, why: str) -> None:
        """End a case without an outcome: nobody waits for it, or what it was about is gone."""
        values = {"status": "cancelled", "finished": time.time(), "record": {"cancelled": why}}
        async with self._store.transaction() as connection:
            await connection.execute(update(cases).where(self._mine(held)).values(**values))

    async def tell(self, held: Held, first: int, said: Sequence[JSON]) -> None:
        """Write down what is said in a trial, for those who listen to it from any replica."""
        rows = [
            {"case_id": held.id, "number": first + at, "attempt": held.attempt, "event": event}
            for at, event in enumerate(said)
        ]
        async with self._store.transaction() as connection:
            await connection.execute(self._store.insert(events).values(rows).on_conflict_do_nothing())

    async def said(self, case_id: str, after: int) -> list[tuple[int, JSON]]:
        """What was said in a trial after the event of this number."""
        wanted = select(events.c.number, events.c.event).where(events.c.case_id == case_id, events.c.number > after)
        async with self._store.transaction() as connection:
            rows = (await connection.execute(wanted.order_by(events.c.number))).all()
        return [(number, event) for number, event in rows]

    async def case(self, case_id: str) -> JSON:
        """A case as it lies in the store.

        Raises:
            Problem: there is none.
        """
        async with self._store.transaction() as connection:
            row = (await connection.execute(select(cases).where(cases.c.id == case_id))).mappings().first()
        if row is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        return dict(row)

    async def status(self, case_id: str) -> str | None:
        """Only its status; None where there is no such case."""
        async with self._store.transaction() as connection:
            return (await connection.execute(select(cases.c.status).where(cases.c.id == case_id))).scalar()

    async def search(self, wanted: JSON, *, before: str | None, limit: int) -> list[JSON]:
        """Finished and waiting cases, the newest first.

        Args:
            wanted: columns and their values; `since` and `until` in seconds of the epoch.
            before: the id after which the last page ended.
            limit: how many.
        """
        query = select(cases).order_by(cases.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(cases.c.id < before)
        for name, value in wanted.items():
            if name == "since":
                query = query.where(cases.c.created >= value)
            elif name == "until":
                query = query.where(cases.c.created < value)
            else:
                query = query.where(cases.c[name] == value)
        async with self._store.transaction() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]

    async def sign_of_life(self) -> None:
        """Say that this replica is alive, and forget those that are long dead."""
        now = time.time()
        row = self._store.insert(replicas).values(id=self.replica, seen=now)
        async with self._store.transaction() as connection:
            await connection.execute(row.on_conflict_do_update(index_elements=["id"], set_={"seen": now}))
            await connection.execute(delete(replicas).where(replicas.c.seen < now - 100 * self._takeover))

    async def farewell(self) -> None:
        """This replica stops: what it still has may be taken up at once."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(replicas).where(replicas.c.id == self.replica))
