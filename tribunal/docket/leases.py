"""Leases: a case belongs to the process that its row names, as long as that gives a heartbeat, and to one attempt."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, case, false, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.calls import Usage
from tribunal.core.times import database_now, seconds_since_jump
from tribunal.docket.reservations import Reservation
from tribunal.errors import Problem
from tribunal.schema import JSON, Frozen, Record
from tribunal.store.audit import LogEntry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import batches, cases, idempotency, replicas

LEASE = (
    30.0  # seconds after which a process of the terminal that gave no heartbeat has lost its cases
)


def new_owner() -> str:
    """Return the id of this process, as an owner of cases: of its machine, and of no other process."""
    return f"{_process_name()}-{uuid.uuid4().hex[:6]}"


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class NewCase(Frozen):
    """A case that a request wants decided.

    Attributes:
        post: text, image, post_id, language, as a graph takes them.
        keep: whether post and record are kept when it is done.
        via: the way in.
        author_sha: the hash of the author's id (`hash_author`), where one was given.
        practice: why it counts nowhere, as in `PRACTICE`; None: it counts.
    """

    graph: str
    post: JSON
    settings: JSON
    keep: bool = True
    via: str = "service"
    author_sha: str | None = None
    practice: str | None = None


class Held(Frozen):
    """A case that a replica has taken up; `attempt` is its proof that it still has it.

    `answer` is what a person has said of it and it has still to go on from; `record` is then the one that they saw.
    `reserved` is what it may take of its key's daily budget; `calls_paid` are the ids of calls that were counted
    when it was held.
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
    deadline: float | None = None
    calls_paid: list[str] | None = None
    record: JSON | None = None
    answer: JSON | None = None
    via: str = "service"
    words: bool = True
    practice: str | None = None
    reserved: Reservation | None = None

    def add_money(self, money: float | None) -> float | None:
        """Return what the case has cost with this attempt; None where one of them isn't known."""
        before = self.money if self.attempts_before else 0.0
        return None if money is None or before is None else before + money


class Intake(NamedTuple):
    """A case that was taken in, or found: `held` if this replica has it and tries it at once."""

    case_id: str
    is_new: bool
    held: Held | None = None


def held_case_from_row(row: Mapping[str, Any]) -> Held:
    """Return a case that was just taken up. One that a person has answered is no longer a batch's to see to."""
    fields = {name: row[name] for name in Held.model_fields if name != "reserved"}
    held = Held.model_validate({**fields, "reserved": Reservation.from_row(row)})
    return held.model_copy(update={"batch_id": None}) if held.answer is not None else held


def without_earlier_calls(held: Held, record: Record) -> Record:
    """Return a record with the calls alone that weren't counted when a person saw it, or when the case was held."""
    before = set(held.calls_paid or ())
    if held.answer is not None and held.record is not None:
        before |= {call["id"] for call in held.record["calls"]}
    if not before:
        return record
    calls = tuple(call for call in record.calls if call.id not in before)
    return record.model_copy(
        update={"calls": calls, "usage": Usage.from_calls([call.dump() for call in calls])}
    )


def owner_is_dead(owner: Any, replica: str, takeover: float) -> Any:
    """Return the condition that an owner is silent, and isn't this `replica`, which is alive however late it is."""
    return and_(owner != replica, owner_is_silent(owner, takeover))


def owner_is_silent(owner: Any, lease: float) -> Any:
    """Return the condition that an owner's last heartbeat is more than a lease away, in seconds.

    A heartbeat that is dated further ahead is from a clock that was set back since, and doesn't count: otherwise its
    cases would be nobody's for as long as the clock was wrong. After a jump of the clock nobody is silent for a lease.
    """
    if seconds_since_jump() < lease:
        return false()
    now = database_now()
    living = select(replicas.c.id).where(
        replicas.c.seen > now - lease, replicas.c.seen < now + lease
    )
    return owner.not_in(living)


def seconds_left(seen: float | None, lease: float = LEASE) -> float:
    """Return for how long a process counts as alive by its last heartbeat, as `owner_is_silent`; 0: it is silent."""
    left = 0.0 if seen is None else seen + lease - database_now()
    return left if 0 < left < 2 * lease else 0.0


PRIORITY_SECONDS = 600.0  # of waiting, which a step of a key's priority counts for
PLACE_IN_QUEUE = cases.c.created - PRIORITY_SECONDS * cases.c.priority


def waits_in_queue() -> Any:
    """Return the condition of cases in the queue whose turn it may be."""
    return and_(
        cases.c.status == "queued",
        or_(cases.c.held_until.is_(None), cases.c.held_until <= database_now()),
    )


def is_free(replica: str, takeover: float, *, any_way_in: bool = False) -> Any:
    """Return the condition of cases that nobody tries: those that wait, and those whose process is dead.

    Rows of batches aside; and, unless in `any_way_in`, so are cases of the terminal that no person has answered:
    whoever began one has it resumed, with models and keys of their own.
    """
    served = and_(cases.c.batch_id.is_(None), cases.c.via == "service")
    owned = or_(served, cases.c.answer.is_not(None), cases.c.appeal_id.is_not(None))
    dead = owner_is_dead(cases.c.owner, replica, takeover)
    lost = and_(cases.c.status == "running", or_(dead, cases.c.owner.is_(None)))
    return or_(waits_in_queue(), lost if any_way_in else and_(lost, owned))


# The condition that a case is still in the hands of an attempt; its parameters are `CaseStore.lease_of`.
MINE = and_(
    cases.c.id == bindparam("its_id"),
    cases.c.status == "running",
    cases.c.owner == bindparam("its_owner"),
    cases.c.attempt == bindparam("its_attempt"),
)


async def list_cases_of_process(store: Store) -> list[JSON]:
    """Return the cases that stand in this process's name and still wait for something: each its id and status."""
    mine = cases.c.owner.startswith(f"{_process_name()}-", autoescape=True)
    waits = or_(cases.c.status == "running", cases.c.question.is_not(None))
    return await store.fetch_rows(
        select(cases.c.id, cases.c.status).where(mine, waits).order_by(cases.c.created)
    )


async def release_lease(store: Store, case_id: str, by: Who) -> str:
    """Take a case from the process that tries it, whatever its heartbeat says, and return that process's id.

    Whatever that process still writes of the case counts for nothing (`MINE`). A case of the service goes back to its
    queue; one of the terminal stays interrupted, until somebody resumes it.

    Raises:
        Problem: there is no such case, or no process tries it.
    """
    back = case(
        (and_(cases.c.via != "service", cases.c.appeal_id.is_(None)), cases.c.status),
        (or_(cases.c.batch_id.is_(None), cases.c.answer.is_not(None)), "queued"),
        else_="waiting",
    )
    found = (
        select(cases.c.owner, cases.c.status, cases.c.attempt)
        .where(cases.c.id == case_id)
        .with_for_update()
    )
    async with store.transaction() as connection:
        row = (await connection.execute(found)).mappings().first()
        if row is None:
            raise Problem(
                "not_found",
                f"case: {case_id[:80]}: there is none; list open cases with: tribunal review list",
            )
        owner = row["owner"]
        if row["status"] != "running" or owner is None:
            state = "interrupted" if row["status"] == "running" else row["status"]
            raise Problem(
                "conflict",
                f"case: {case_id}: no process tries it: it is {state}; nothing was changed",
            )
        same = and_(
            cases.c.id == case_id, cases.c.owner == owner, cases.c.attempt == row["attempt"]
        )
        await connection.execute(update(cases).where(same).values(owner=None, status=back))
        details = {"owner": owner, "attempt": row["attempt"]}
        await append(
            connection, by, LogEntry(kind="case.released", subject=case_id, details=details)
        )
    return str(owner)


# The same request, sent again: by a client that gave up waiting, or whose connection broke


def fingerprint(request: JSON) -> str:
    """Return the SHA-256 of a request."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


async def existing_for_request(
    store: Store, connection: AsyncConnection, key_id: str, request: JSON, made: str,
    *, client_request: JSON | None = None, key: str | None = None, again: float = 0.0,
) -> str | None:  # fmt: skip
    """Let an idempotency key, or a request itself, stand for what it makes, in the transaction that makes it.

    Args:
        store: the database.
        connection: the open transaction.
        key_id: the API key of the client.
        request: the new row, with its settings. Without `key`, a request counts as the same if this is equal.
        made: the id of the new row.
        client_request: the fields that the client sent, with `graph` and `settings`; None: `request`. An
            idempotency key belongs to these alone, so the operator may change settings meanwhile.
        key: the idempotency key.
        again: for how many seconds a request without a key stands for a decided case.

    Returns:
        the id of what the same request made before, or None where it is the first. A case that failed or was cancelled
        never counts: the new one takes its place. One without a key counts while it is under way, or where it came to a
        verdict or before a person at most `again` seconds ago.

    Raises:
        Problem: the key belongs to another request.
    """
    asked = fingerprint(request)
    # No header holds a line break, so nobody's Idempotency-Key is one of these.
    row = {
        "key_id": key_id, "key": key or f"\n{asked}", "request": asked, "made": made, "created": database_now(),
        "client_request": fingerprint(request if client_request is None else client_request),
    }  # fmt: skip
    first = (
        store.insert(idempotency)
        .values(**row)
        .on_conflict_do_nothing()
        .returning(idempotency.c.made)
    )
    if (await connection.execute(first)).first() is not None:
        return None
    where = (idempotency.c.key_id == key_id) & (idempotency.c.key == row["key"])
    while True:
        held = (await connection.execute(select(idempotency).where(where))).mappings().one()
        same = (
            held["client_request"] == row["client_request"]
            if held["client_request"]
            else held["request"] == asked
        )
        if not same and not held["client_request"] and client_request is not None:
            same = held["request"] == await _earlier_fingerprint(
                connection, held["made"], request, client_request
            )
        if key is not None and not same:
            raise Problem(
                "conflict",
                f"Idempotency-Key: {str(key)[:80]}: belongs to another request; give this one its own",
            )
        lately = cases.c.outcome.in_(("verdict", "pending")) & (
            cases.c.finished > database_now() - again
        )
        counts = cases.c.status.in_(("queued", "running")) | lately
        if key is not None:  # what it made may also be a batch or an appeal
            counts = (cases.c.status != "cancelled") & (
                func.coalesce(cases.c.outcome, "") != "failure"
            )
        found = (
            await connection.execute(select(counts).where(cases.c.id == held["made"]))
        ).scalar()
        if found or (found is None and key is not None):
            return str(held["made"])
        mine = update(idempotency).where(where, idempotency.c.made == held["made"])
        if (await connection.execute(mine.values(**row))).rowcount:
            return None  # else somebody else has just replaced it: look at theirs


async def _earlier_fingerprint(
    connection: AsyncConnection, made: str, request: JSON, client_request: JSON
) -> str:
    """Return the fingerprint that a release before 0008 stored if the same client request made this row.

    It covered the operator's settings, which are those of the row that it made, except where the client gave its own.
    """
    for table in (cases, batches):
        row = (
            await connection.execute(
                select(table.c.graph, table.c.settings).where(table.c.id == made)
            )
        ).first()
        if row is not None:
            settings = {**row.settings, **client_request["settings"]}
            return fingerprint(
                {**request, "graph": client_request["graph"] or row.graph, "settings": settings}
            )
    return ""
