"""The cases of the service in its store: taken in once, taken up by one replica at a time, and finished once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Any

from sqlalchemy import delete, func, select, text, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_now, new_id
from tribunal.docket.decision_effects import Sampling, cancel_appeal_trial, write_effects
from tribunal.docket.erasure import post_without_words, without_words
from tribunal.docket.holds import NOT_HELD, Hold
from tribunal.docket.leases import (
    MINE,
    PLACE_IN_QUEUE,
    Held,
    Intake,
    NewCase,
    existing_for_request,
    held_case_from_row,
    is_free,
    waits_in_queue,
)
from tribunal.docket.outbox import Outbox, cancel_message, decision_message
from tribunal.docket.record_rows import (
    TextName,
    cancel_entry,
    decision_entry,
    intake_entry,
    practice_of,
    record_columns,
    same_text_sha,
    store_texts,
    texts_of,
)
from tribunal.docket.reservations import (
    NO_RESERVATION,
    USUAL_BOUNDS,
    CaseBounds,
    reserve,
    reserve_for_attempt,
    settle,
)
from tribunal.errors import Problem
from tribunal.models.budget import Spending
from tribunal.schema import JSON, Record
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, replica_actor, sha
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store, first_row
from tribunal.store.group_commit import Group, GroupCommit
from tribunal.store.tables import AdvisoryLock, api_keys, appeals, cases, events, replicas

_LOCK_QUEUE = text(f"SELECT pg_advisory_xact_lock({AdvisoryLock.QUEUE})")


class CaseStore:
    """The cases, as one replica sees them. Another one counts as dead after `takeover` seconds of silence."""

    def __init__(
        self, store: Store, replica: str, takeover: float, outbox: Outbox | None = None,
        sampling: Sampling | None = None, bounds: CaseBounds = USUAL_BOUNDS,
    ) -> None:  # fmt: skip
        """Use a database; `bounds` say what a case takes of a daily budget where its settings don't."""
        self._store = store
        self.replica = replica
        self._takeover = takeover
        self._sampling = sampling
        self.outbox = outbox or Outbox(store)
        self.writes = GroupCommit(store, Problem)
        self.bounds = bounds
        # of policies, prompts and protocols: they are stored, and stay
        self._texts_there: set[TextName] = set()
        self._insert_events = store.insert(events).on_conflict_do_nothing()

    # Taken in, and taken up

    async def take_in(
        self,
        new: NewCase,
        key_id: str,
        *,
        here: bool,
        most_waiting: int,
        idempotency_key: str | None = None,
        client_request: JSON | None = None,
        again: float | None = None,
        by: Who = OPERATOR,
        deadline: float | None = None,
        hold: Hold | None = None,
    ) -> Intake:
        """Write a case down, and reserve what it may take of its key's daily budget.

        Args:
            new: the case.
            key_id: whose it is.
            here: whether this replica has a place for it. It takes the case up at once, unless others wait before it.
            most_waiting: how many cases may wait.
            idempotency_key: the request's own name, under which it is done once.
            client_request: the fields that the client sent, as for `existing_for_request`.
            again: give the same case of the same key instead, if it is under way or was decided so few seconds ago.
            by: who asks, for the audit log.
            deadline: when the case fails, if no model answers until then.
            hold: why it isn't tried yet.

        Returns:
            the case; a request that was made before gives the case that it made.

        Raises:
            Problem: too many cases wait, the key's budget is spent, or the idempotency key belongs to another request.
        """
        unset = {name for name in ("author_sha", "practice") if getattr(new, name) is None}
        case_id = new_id()
        asked = new.model_dump(mode="json", exclude=unset)
        row = asked if new.keep else {**asked, "post": None}  # it lives in this process alone
        here = here and not (new.keep and hold)
        if (
            here
            and new.keep
            and await self._store.fetch_value(select(cases.c.id).where(waits_in_queue()).limit(1))
        ):
            here = False
        begun: JSON = (
            {"status": "running", "owner": self.replica, "attempt": 1}
            if here
            else {"status": "queued"}
        )
        made = {
            "id": case_id,
            "created": database_now(),
            "key_id": key_id or None,
            "attempt": 0,
            **row,
            **begun,
        }
        made |= {"deadline": deadline, **(hold.columns() if hold else {})}
        is_named = idempotency_key is not None or again is not None
        entry = intake_entry(case_id, new.graph, new.post, new.settings, keep=new.keep)

        async def insert(group: Group) -> Intake:
            connection = group.connection
            # What is refused leaves nothing of the name that it was asked for under.
            async with connection.begin_nested() if is_named else nullcontext():
                if is_named:
                    before = await existing_for_request(
                        self._store, connection, key_id, asked, case_id, client_request=client_request,
                        key=idempotency_key, again=again or 0.0,
                    )  # fmt: skip
                    if before is not None:
                        return Intake(before, False)
                if not here:
                    waiting = (
                        select(func.count()).select_from(cases).where(cases.c.status == "queued")
                    )
                    if (await connection.execute(waiting)).scalar_one() >= most_waiting:
                        raise Problem(
                            "busy",
                            f"{most_waiting} cases wait already; come back later",
                            retry_after=10,
                        )
                reserved = await reserve(
                    self._store, connection, key_id, new.graph, new.settings, 1, self.bounds
                )
                priority = (
                    select(api_keys.c.priority).where(api_keys.c.id == key_id).scalar_subquery()
                )
                more = {
                    "priority": func.coalesce(priority, 0),
                    **({} if reserved is None else reserved.columns()),
                }
                await connection.execute(cases.insert().values(**made, **more))
            group.log(by, entry)
            if not here:
                return Intake(case_id, True)
            held = Held(
                id=case_id, attempt=1, key_id=key_id or None, reserved=reserved, deadline=deadline,
                **new.model_dump(exclude={"via", "author_sha"}),
            )  # fmt: skip
            return Intake(case_id, True, held)

        # Of all who put a case into the queue, one after another counts those that wait.
        lock = _LOCK_QUEUE if self._store.postgres and not here else None
        return await self.writes.write(insert, order=key_id, lock=lock)

    async def begin(self, new: NewCase) -> Held:
        """Write a case down that this process tries at once, and that leaves nothing if no person has to see it."""
        row = new.model_dump(mode="json") | {"id": new_id(), "created": database_now()}
        begun: JSON = {"status": "running", "owner": self.replica, "attempt": 1}
        async with self._store.transaction() as connection:
            made = (
                (await connection.execute(cases.insert().returning(cases), row | begun))
                .mappings()
                .one()
            )
        return held_case_from_row(made)

    async def list_free(
        self, limit: int, without: Collection[str] = (), *, fewest_attempts_first: bool = False
    ) -> list[JSON]:
        """Return id, graph, settings, deadline and `held` of cases that could be taken up, in the queue's order."""
        shown = (cases.c[name] for name in ("id", "graph", "settings", "deadline", "held"))
        query = self._next_free(limit).with_only_columns(*shown).where(cases.c.id.not_in(without))
        if fewest_attempts_first:
            query = query.order_by(None).order_by(cases.c.attempt, PLACE_IN_QUEUE)
        return await self._store.fetch_rows(query)

    async def take_next(self, case_id: str | None = None) -> Held | None:
        """Take up the first case of the queue, or of a dead replica, or this one; None where there is none.

        One whose key's budget is spent is held until there may be some again.
        """
        wanted = true() if case_id is None else cases.c.id == case_id
        while True:
            async with self._store.transaction() as connection:
                found = await connection.execute(
                    self._next_free(1).where(wanted).with_for_update(skip_locked=True)
                )
                case_id = found.scalar()
                if case_id is None:
                    return None
                try:
                    return await self._take_up(connection, cases.c.id == case_id, self._is_free())
                except Problem as problem:
                    held = {
                        "held": problem.message,
                        "held_until": database_now() + (problem.retry_after or 0),
                    }
                    waits = {
                        "status": "queued",
                        "owner": None,
                        "attempt": cases.c.attempt - 1,
                        **NO_RESERVATION,
                    }
                    await connection.execute(
                        update(cases).where(cases.c.id == case_id).values(**waits, **held)
                    )

    def _next_free(self, limit: int) -> Any:
        """Return the query for cases that could be taken up, in the order of the queue."""
        return select(cases.c.id).where(self._is_free()).order_by(PLACE_IN_QUEUE).limit(limit)

    async def take_up(self, case_id: str, *, any_way_in: bool = False) -> Held | None:
        """Take a case up; None where somebody else has it, or it is finished.

        With `any_way_in` one of the terminal may be taken up, too, that no person has answered.

        Raises:
            Problem: its key's budget is spent.
        """
        async with self._store.transaction() as connection:
            return await self._take_up(
                connection, cases.c.id == case_id, self._is_free(any_way_in=any_way_in)
            )

    async def reopen(self, row: JSON) -> Held | None:
        """Take up a case that waits for a person, and whose trial is lost; None where somebody else has taken it up.

        Raises:
            Problem: its key's budget is spent.
        """
        same = cases.c.id == row["id"], cases.c.attempt == row["attempt"], cases.c.status == "done"
        async with self._store.transaction() as connection:
            return await self._take_up(connection, *same)

    def _is_free(self, *, any_way_in: bool = False) -> Any:
        """Return the condition of cases that nobody tries, as `is_free` has it."""
        return is_free(self.replica, self._takeover, any_way_in=any_way_in)

    async def _take_up(self, connection: AsyncConnection, *conditions: Any) -> Held | None:
        """Take a case up; raise Problem if its key's budget is spent, and then it is taken up all the same."""
        taking = update(cases).where(*conditions).returning(cases)
        taken = {"status": "running", "owner": self.replica, "attempt": cases.c.attempt + 1}
        row = await first_row(connection, taking.values(**taken, **NOT_HELD))
        if row is None:
            return None
        return held_case_from_row(
            await reserve_for_attempt(self._store, connection, row, row["attempt"], self.bounds)
        )

    # Let go

    def lease_of(self, held: Held) -> JSON:
        """Return the parameters of `MINE`."""
        return {"its_id": held.id, "its_owner": self.replica, "its_attempt": held.attempt}

    async def discard(self, held: Held) -> None:
        """Forget a case that this process has, with all that was written of it."""
        async with self._store.transaction() as connection:
            if (await connection.execute(delete(cases).where(MINE), self.lease_of(held))).rowcount:
                await delete_checkpoints(connection, [held.id])
                await self._settle(connection, held, None)

    async def clear_events(self, held: Held) -> None:
        """Forget what an earlier attempt said: this one begins anew."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(events).where(events.c.case_id == held.id))

    async def give_back(self, held: Held, spent: Spending | None = None) -> None:
        """Let another replica try it: this one stops.

        What this attempt has `spent` is counted; None: that isn't known.
        """
        back = {
            "status": "queued" if held.batch_id is None else "waiting",
            "owner": None,
            **NO_RESERVATION,
        }
        async with self._store.transaction() as connection:
            if await self._let_go(connection, held, back):
                await self._settle(connection, held, spent)

    async def _let_go(self, connection: AsyncConnection, held: Held, values: JSON) -> bool:
        """Change the row of a case that ends here; return False if another replica has taken the case over."""
        changed = await connection.execute(
            update(cases).where(MINE), {**self.lease_of(held), **values}
        )
        return bool(changed.rowcount)

    async def _settle(
        self, connection: AsyncConnection, held: Held, spent: Spending | None
    ) -> None:
        await settle(self._store, connection, held.key_id, held.reserved, spent)

    async def finish(
        self,
        held: Held,
        record: Record,
        question: JSON | None = None,
        *,
        written: bool = True,
        said: Sequence[JSON] = (),
        spent: Spending | None = None,
        money: float | None = None,
    ) -> bool:
        """Write the outcome down, and all that follows from it: together, or not at all.

        Args:
            held: the case.
            record: its record.
            question: what a person is asked, where one has to decide.
            written: whether the trial has left checkpoints; with a question they stay.
            said: events of the trial that aren't written down yet, as for `write_events`.
            spent: what this attempt has spent of its key's budget; None: that isn't known.
            money: what this attempt cost; None where that isn't known, and then nor is what the case cost.

        Returns:
            whether it counts; False where another replica has taken the case over meanwhile.
        """
        dumped = record.dump()
        now = database_now()
        values: JSON = {
            "status": "done", "finished": now, "post_sha": sha(held.post), **record_columns(record, keep=held.keep),
            "money": held.add_money(money), "question": question, "calls_paid": None,
            "same_text": same_text_sha(record, held.post) if question is not None and held.keep else None,
            "waits_since": None if question is None else now, "answer": None, **NO_RESERVATION,
            "practice": held.practice or practice_of(record),
        }  # fmt: skip
        forgotten = question is None and not held.words
        if question is None:
            values |= {"claimed_by": None, "claimed_until": None, "escalated": None}
        if forgotten:
            dumped = without_words(dumped)
            values |= {"post": post_without_words(held.post), "erased": now}
        values["record"] = dumped if held.keep else None
        event, told = decision_message(
            held.id, held.graph, record, values["record"], self.outbox.link(held.id)
        )
        batch = {"batch": held.batch_id} if held.batch_id else {}
        ended = decision_entry(held.id, values["post_sha"], record, dumped, **batch)
        sampling = None if forgotten else self._sampling  # nobody could read it any more

        async def write(group: Group) -> bool:
            connection = group.connection
            if not await self._let_go(connection, held, values):
                return False
            new_texts = texts_of(record) - self._texts_there
            if new_texts:
                there = await store_texts(self._store, connection, new_texts)
                group.after_commit(lambda: self._texts_there.update(there))
            if written and question is None:
                await delete_checkpoints(connection, [held.id])
            if not held.keep or forgotten:
                await connection.execute(delete(events).where(events.c.case_id == held.id))
            else:
                group.execute_at_end(self._insert_events, said)
            if held.appeal_id is None:
                await self.outbox.announce_in(
                    group, event, told, alone=not held.batch_id and held.answer is None
                )
            effects = await write_effects(
                self._store, connection, self.outbox, sampling, record, held, now
            )
            await self._settle(connection, held, spent)
            group.log(replica_actor(self.replica), ended, *effects)
            return True

        counts = await self.writes.write(write, order=held.key_id or "")
        self.outbox.send()
        return counts

    async def cancel(self, held: Held, why: str, spent: Spending | None = None) -> None:
        """End a case without an outcome: nobody waits for it, or what it was about is gone.

        One that a person has answered goes back to them instead: what they were asked stands, and their answer is gone.
        What this attempt has `spent` is counted; None: that isn't known.
        """
        by = replica_actor(self.replica)
        if held.answer is not None:
            back = {"status": "done", "answer": None, "owner": None, **NO_RESERVATION}
            entry = LogEntry(
                kind="case.pending", subject=held.id, details={"answer": "not carried out"}
            )
            async with self._store.transaction() as connection:
                if await self._let_go(connection, held, back):
                    await self._settle(connection, held, spent)
                    await append(connection, by, entry)
            return
        record = {"cancelled": why}
        values: JSON = {
            "status": "cancelled",
            "finished": database_now(),
            "record": record,
            **NO_RESERVATION,
        }
        post_id = (held.post or {}).get("post_id")
        told = cancel_message(
            held.id, held.graph, post_id, why, self.outbox.link(held.id), keep=held.keep
        )
        async with self._store.transaction() as connection:
            if await self._let_go(connection, held, values):
                await delete_checkpoints(connection, [held.id])
                if held.appeal_id is None:
                    await self.outbox.announce(connection, "case.cancelled", told)
                effects = await cancel_appeal_trial(connection, held, why)
                await self._settle(connection, held, spent)
                await append(connection, by, cancel_entry(held.id, record), *effects)
        self.outbox.send()

    # Read

    async def case(self, case_id: str) -> JSON:
        """Return the row of a case; raise Problem if there is none."""
        row = await self._store.fetch_row(select(cases).where(cases.c.id == case_id))
        if row is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        return row

    async def is_appealed(self, case_id: str) -> bool:
        """Return whether somebody has appealed what was decided, or a lead has reopened it."""
        return (
            await self._store.fetch_value(select(appeals.c.id).where(appeals.c.case_id == case_id))
            is not None
        )

    async def status(self, case_id: str) -> str | None:
        """Return the status of a case alone; None where there is no such case."""
        status: str | None = await self._store.fetch_value(
            select(cases.c.status).where(cases.c.id == case_id)
        )
        return status

    # Events and heartbeats

    async def write_events(self, said: Sequence[JSON]) -> None:
        """Write down what is said in trials, for those who listen to them from any replica."""

        async def write(group: Group) -> None:
            group.execute_at_end(self._insert_events, said)

        if said:
            await self.writes.write(write)

    async def events_after(self, case_id: str, number: int) -> list[tuple[int, JSON]]:
        """Return what was said in a trial after the event of this number."""
        wanted = select(events.c.number, events.c.event).where(
            events.c.case_id == case_id, events.c.number > number
        )
        return [
            (row["number"], row["event"])
            for row in await self._store.fetch_rows(wanted.order_by(events.c.number))
        ]

    async def send_heartbeat(self) -> None:
        """Say that this replica is alive, by the database's clock, and forget those that are long dead."""
        await self._store.measure_clock()
        now = database_now()
        row = self._store.insert(replicas).values(id=self.replica, seen=now)
        async with self._store.transaction() as connection:
            await connection.execute(
                row.on_conflict_do_update(index_elements=["id"], set_={"seen": now})
            )
            await connection.execute(
                delete(replicas).where(replicas.c.seen < now - 100 * self._takeover)
            )

    async def deregister(self) -> None:
        """Let what this replica still has be taken up at once: it stops."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(replicas).where(replicas.c.id == self.replica))
