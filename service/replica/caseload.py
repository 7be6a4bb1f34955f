"""The cases of the service in its store: taken in once, taken up by one replica at a time, and finished once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, or_, select, update

from tribunal.kept.columns import columns, decided
from tribunal.kept.texts import missing, store_texts, stored, texts_of
from tribunal.schema import JSON, Frozen, Record
from tribunal.service.replica import audited
from tribunal.service.replica.following import Sampling, follow, trial_came_to_nothing
from tribunal.service.replica.keys import Spent, count_spent
from tribunal.service.replica.problems import Problem
from tribunal.service.replica.repeats import fingerprint, made_before, same_case
from tribunal.service.webhooks import payload
from tribunal.service.webhooks.outbox import Outbox
from tribunal.store.audit import OPERATOR, Who, append, of_replica, sha
from tribunal.store.checkpoint_rows import forget_checkpoints
from tribunal.store.engine import Store
from tribunal.store.ids import new_id
from tribunal.store.tables import appeals, cases, events, replicas


class NewCase(Frozen):
    """What a request wants decided. `post`: text, image, post_id, language, as a graph takes them."""

    graph: str
    post: JSON
    settings: JSON
    keep: bool = True


class Held(Frozen):
    """A case that a replica has taken up; `attempt` is its proof that it still has it.

    `answer` is what a person has said of it and it has still to go on from; `record` is then the one that they saw.
    """

    id: str
    attempt: int
    graph: str
    post: JSON | None
    settings: JSON
    keep: bool
    key_id: str | None
    batch_id: str | None = None
    appeal_id: str | None = None
    attempts_before: int = 0
    money: float | None = None
    record: JSON | None = None
    answer: JSON | None = None


def held_from(row: Mapping[str, Any]) -> Held:
    """A case that was just taken up, from its row. One that a person has answered is no longer a batch's to see to."""
    held = Held.model_validate({name: row[name] for name in Held.model_fields})
    return held.model_copy(update={"batch_id": None}) if held.answer is not None else held


def of_the_dead(owner: Any, replica: str, takeover: float) -> Any:
    """Whose owner is a replica that has been silent for too long, as a condition.

    Args:
        owner: the column that names it.
        replica: this one, which is alive however late its own sign of life is.
        takeover: seconds.
    """
    alive = select(replicas.c.id).where(replicas.c.seen > time.time() - takeover)
    return and_(owner != replica, owner.not_in(alive))


# That a case is still in the hands of an attempt, as a condition; its parameters are `Caseload.its`.
MINE = and_(
    cases.c.id == bindparam("its_id"),
    cases.c.status == "running",
    cases.c.owner == bindparam("its_owner"),
    cases.c.attempt == bindparam("its_attempt"),
)
_LET_GO = update(cases).where(MINE)


class Caseload:
    """The cases, as one replica sees them.

    Args:
        store: the database.
        replica: this replica's id.
        takeover: seconds of silence after which another replica counts as dead.
        outbox: what is told of a case that ends is written there.
        sampling: which cases are given to another person, too.
    """

    def __init__(
        self, store: Store, replica: str, takeover: float, outbox: Outbox | None = None,
        sampling: Sampling | None = None,
    ) -> None:  # fmt: skip
        self._store, self.replica, self._takeover, self._sampling = store, replica, takeover, sampling
        self.outbox = outbox or Outbox(store)
        self._insert_events = store.insert(events).on_conflict_do_nothing()

    async def take_in(
        self,
        new: NewCase,
        key_id: str,
        *,
        here: bool,
        most_waiting: int,
        idempotency_key: str | None = None,
        again: float | None = None,
        by: Who = OPERATOR,
    ) -> tuple[str, bool]:
        """Write a case down.

        Args:
            new: the case.
            key_id: whose it is.
            here: whether this replica takes it up at once.
            most_waiting: how many cases may wait; ignored where `here`.
            idempotency_key: the request's own name, under which it is done once.
            again: give the same case of the same key instead, where it is under way or was decided in the last so
                many seconds.
            by: who asks, for the audit log.

        Returns:
            the case's id, and whether it is new: a request that was made before gives the case that it made.

        Raises:
            Problem: too many cases wait, or the idempotency key belongs to another request.
        """
        case_id, now, row = new_id(), time.time(), new.model_dump(mode="json")
        async with self._store.transaction() as connection:
            if idempotency_key is not None:
                request = fingerprint(row)
                before = await made_before(self._store, connection, key_id, idempotency_key, request, case_id)
                if before is not None:
                    return before, False
            elif again is not None:
                request = fingerprint(row)
                same = await same_case(self._store, connection, key_id, request, case_id, again)
                if same is not None:
                    return same, False
            if not here:
                waiting = select(func.count()).select_from(cases).where(cases.c.status == "queued")
                if (await connection.execute(waiting)).scalar_one() >= most_waiting:
                    raise Problem("busy", f"{most_waiting} cases wait already; come back later", retry_after=10)
            if not new.keep:
                row["post"] = None  # it lives in this process alone
            begun: JSON = {"status": "running", "owner": self.replica, "attempt": 1} if here else {"status": "queued"}
            made = {"id": case_id, "created": now, "key_id": key_id or None, "attempt": 0, **row, **begun}
            await connection.execute(cases.insert(), made)
            told = audited.taken_in(case_id, new.graph, new.post, new.settings, keep=new.keep)
            await append(connection, by, told)
        return case_id, True

    def _free(self) -> Any:
        """Cases that nobody tries: those that wait, and those whose replica is dead. Rows of batches aside."""
        single = or_(cases.c.batch_id.is_(None), cases.c.answer.is_not(None))
        lost = and_(cases.c.status == "running", of_the_dead(cases.c.owner, self.replica, self._takeover), single)
        return or_(cases.c.status == "queued", lost)

    async def free(self, limit: int) -> list[str]:
        """Cases that could be taken up, the oldest first."""
        wanted = select(cases.c.id).where(self._free()).order_by(cases.c.created).limit(limit)
        async with self._store.reading() as connection:
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
        return held_from(row) if row is not None else None

    async def unsay(self, held: Held) -> None:
        """Forget what an earlier attempt said: this one begins anew."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(events).where(events.c.case_id == held.id))

    async def give_back(self, held: Held) -> None:
        """Let another replica try it: this one stops."""
        back = {"status": "queued" if held.batch_id is None else "waiting", "owner": None}
        async with self._store.transaction() as connection:
            await connection.execute(_LET_GO, {**self.its(held), **back})

    async def try_again(self, held: Held, spent: Spent) -> None:
        """Let a row of a batch be tried anew, from its beginning; what it has cost is counted."""
        anew = {"status": "waiting", "owner": None, "attempts_before": held.attempt}
        async with self._store.transaction() as connection:
            if (await connection.execute(_LET_GO, {**self.its(held), **anew})).rowcount:
                await forget_checkpoints(self._store, connection, [held.id])
                if held.key_id:
                    await count_spent(self._store, connection, held.key_id, spent)

    def its(self, held: Held) -> JSON:
        """The parameters of `MINE`."""
        return {"its_id": held.id, "its_owner": self.replica, "its_attempt": held.attempt}

    async def finish(
        self,
        held: Held,
        record: Record,
        question: JSON | None = None,
        *,
        written: bool = True,
        said: Sequence[JSON] = (),
        spent: Spent | None = None,
        money: float | None = None,
    ) -> bool:
        """Write the outcome down, and all that follows from it: together, or not at all.

        Args:
            held: the case.
            record: its record.
            question: what a person is asked, where one has to decide.
            written: whether the trial has left checkpoints; with a question they stay.
            said: what was said in the trial and isn't written down yet, as for `tell`.
            spent: what is added to the account of the key that asked for it.
            money: what this attempt cost; None where that isn't known, and then nor is what the case cost.

        Returns:
            whether it counts; False where another replica has taken the case over meanwhile.
        """
        dumped, before = record.dump(), held.money if held.answer is not None else 0.0
        values: JSON = {
            "status": "done",
            "finished": time.time(),
            "record": dumped if held.keep else None,
            "post_sha": sha(held.post),
            "money": None if money is None or before is None else before + money,
            **columns(record, keep=held.keep),
            "question": question,
            "waits_since": None if question is None else time.time(),
            "answer": None,
        }
        if question is None:
            values |= {"claimed_by": None, "claimed_until": None, "escalated": None}
        texts = missing(self._store, texts_of(record))
        async with self._store.transaction() as connection:
            if not (await connection.execute(_LET_GO, {**self.its(held), **values})).rowcount:
                return False
            await store_texts(self._store, connection, texts)
            if written and question is None:
                await forget_checkpoints(self._store, connection, [held.id])
            if held.keep and said:
                await connection.execute(self._insert_events, said)
            if not held.keep:
                await connection.execute(delete(events).where(events.c.case_id == held.id))
            if held.appeal_id is None:
                link = self.outbox.link(held.id)
                event, told = payload.decided(held.id, held.graph, record, values["record"], link)
                await self.outbox.announce(connection, event, told)
            followed = await follow(
                self._store, connection, self.outbox, self._sampling, record, case_id=held.id,
                appeal_id=held.appeal_id, keep=held.keep, at=values["finished"],
            )  # fmt: skip
            if spent is not None and held.key_id:
                await count_spent(self._store, connection, held.key_id, spent)
            batch = {"batch": held.batch_id} if held.batch_id else {}
            ended = decided(held.id, values["post_sha"], record, dumped, **batch)
            await append(connection, of_replica(self.replica), ended, *followed)
        stored(self._store, texts)
        self.outbox.send()
        return True

    async def cancel(self, held: Held, why: str) -> None:
        """End a case without an outcome: nobody waits for it, or what it was about is gone.

        One that a person has answered goes back to them instead: what they were asked stands, and their answer is gone.
        """
        if held.answer is not None:
            back = {"status": "done", "answer": None, "owner": None}
            async with self._store.transaction() as connection:
                if (await connection.execute(_LET_GO, {**self.its(held), **back})).rowcount:
                    await append(connection, of_replica(self.replica), audited.sent_back(held.id))
            return
        values: JSON = {"status": "cancelled", "finished": time.time(), "record": {"cancelled": why}}
        post_id = (held.post or {}).get("post_id")
        told = payload.cancelled(held.id, held.graph, post_id, why, self.outbox.link(held.id), keep=held.keep)
        async with self._store.transaction() as connection:
            if (await connection.execute(_LET_GO, {**self.its(held), **values})).rowcount:
                await forget_checkpoints(self._store, connection, [held.id])
                if held.appeal_id is None:
                    await self.outbox.announce(connection, "case.cancelled", told)
                followed = await trial_came_to_nothing(connection, held.appeal_id, held.id, why)
                ended = audited.cancelled(held.id, values["record"])
                await append(connection, of_replica(self.replica), ended, *followed)
        self.outbox.send()

    async def tell(self, said: Sequence[JSON]) -> None:
        """Write down what is said in trials, for those who listen to them from any replica."""
        if not said:
            return
        async with self._store.transaction() as connection:
            await connection.execute(self._insert_events, said)

    async def said(self, case_id: str, after: int) -> list[tuple[int, JSON]]:
        """What was said in a trial after the event of this number."""
        wanted = select(events.c.number, events.c.event).where(events.c.case_id == case_id, events.c.number > after)
        async with self._store.reading() as connection:
            rows = (await connection.execute(wanted.order_by(events.c.number))).all()
        return [(number, event) for number, event in rows]

    async def case(self, case_id: str) -> JSON:
        """A case as it lies in the store.

        Raises:
            Problem: there is none.
        """
        async with self._store.reading() as connection:
            row = (await connection.execute(select(cases).where(cases.c.id == case_id))).mappings().first()
        if row is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        return dict(row)

    async def appealed(self, case_id: str) -> bool:
        """Whether somebody has appealed what was decided, or a lead has reopened it."""
        async with self._store.reading() as connection:
            found = await connection.execute(select(appeals.c.id).where(appeals.c.case_id == case_id).limit(1))
            return found.first() is not None

    async def under_way(self) -> dict[str, int]:
        """How many cases are queued, and how many running, in the whole database."""
        counted = select(cases.c.status, func.count()).where(cases.c.status.in_(("queued", "running")))
        async with self._store.reading() as connection:
            rows = (await connection.execute(counted.group_by(cases.c.status))).all()
        return {str(status): int(number) for status, number in rows}

    async def status(self, case_id: str) -> str | None:
        """Only its status; None where there is no such case."""
        async with self._store.reading() as connection:
            return (await connection.execute(select(cases.c.status).where(cases.c.id == case_id))).scalar()

    async def search(self, wanted: JSON, *, before: str | None, limit: int) -> list[JSON]:
        """Finished and waiting cases, the newest first.

        Args:
            wanted: columns and their values; `since` and `until` in seconds of the epoch.
            before: the id after which the last page ended.
            limit: how many.
        """
        query = select(cases).where(cases.c.appeal_id.is_(None)).order_by(cases.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(cases.c.id < before)
        for name, value in wanted.items():
            if name == "since":
                query = query.where(cases.c.created >= value)
            elif name == "until":
                query = query.where(cases.c.created < value)
            else:
                query = query.where(cases.c[name] == value)
        async with self._store.reading() as connection:
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
