"""Deleting whole cases by their age, with all that hangs on them, so that a database doesn't only grow.

The audit log stays, and has the ids of those that went. Statements to a public register stay, too.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field
from sqlalchemy import ColumnElement, and_, delete, exists, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.cases.erasure import HAS_OPEN_APPEAL, batch_ended_before, unused_images
from tribunal.clock import database_now
from tribunal.schema import Frozen
from tribunal.store.audit import LogEntry, Who, append
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store
from tribunal.store.tables import AdvisoryLock, appeals, batches, cases, decisions, second_opinions

_AT_ONCE = 100  # cases in one transaction, for which others may have to wait


class RetirementRule(Frozen):
    """Choose the cases that go: all that came to rest so many seconds ago, or the dismissed among them.

    A dismissed one was found not hateful, and no person has had anything to do with it. A case whose decision may still
    be appealed stays, unless it is a dismissed one; so does one that is under appeal, or that waits for a person. A row
    of a batch goes when its batch came to rest so long ago, and not before.
    """

    seconds: float = Field(ge=0)
    dismissed: bool = False
    appeal_seconds: float = Field(default=0.0, ge=0)
    """for how long a decision may be appealed"""


class RetiredCases(Frozen):
    """List cases that were deleted, and images that no case has any more."""

    ids: tuple[str, ...] = ()
    images: frozenset[str] = frozenset()


def _may_go(rule: RetirementRule) -> tuple[Any, ...]:
    now = database_now()
    until = now - (rule.seconds if rule.dismissed else max(rule.seconds, rule.appeal_seconds))
    conditions: list[ColumnElement[bool]] = [
        cases.c.finished < until,
        cases.c.status.in_(("done", "cancelled")),
        cases.c.question.is_(None),
        cases.c.appeal_id.is_(None),  # a new trial goes with the case that the appeal is about
    ]
    if rule.dismissed:
        alone = cases.c.batch_id.is_(None), cases.c.outcome == "verdict", cases.c.hateful.is_(False)
        people = (exists().where(table.c.case_id == cases.c.id) for table in (appeals, decisions, second_opinions))
        return *conditions, *alone, cases.c.reviewer.is_(None), *(~each for each in people)
    lately = exists().where(decisions.c.case_id == cases.c.id, decisions.c.at >= until)
    waits = exists().where(
        second_opinions.c.case_id == cases.c.id, second_opinions.c.status.in_(("waiting", "disagreed"))
    )
    over = or_(cases.c.batch_id.is_(None), batch_ended_before(until))
    return *conditions, ~lately, ~HAS_OPEN_APPEAL, ~waits, over


async def retire_cases(store: Store, rule: RetirementRule, by: Who) -> RetiredCases:
    """Delete the next cases that a rule chooses, at most a hundred, and say so in the audit log."""
    conditions = _may_go(rule)
    async with store.transaction() as connection:
        if not await is_alone(connection):
            return RetiredCases()
        # By the index of those that ended; the few that were cancelled have no outcome.
        ids = await _lock(connection, conditions, cases.c.outcome.is_not(None))
        if not ids and not rule.dismissed:
            ids = await _lock(connection, conditions, cases.c.outcome.is_(None))
        if not ids:
            return RetiredCases()
        trials = select(appeals.c.trial_id).where(appeals.c.case_id.in_(ids), appeals.c.trial_id.is_not(None))
        every = [*ids, *await connection.scalars(trials)]
        gone = delete(cases).where(cases.c.id.in_(every)).returning(cases.c.image_sha)
        images = [each for each in await connection.scalars(gone) if each]
        await delete_checkpoints(connection, every)
        unused = await unused_images(connection, images)
        details = {"cases": len(ids), "ids": every, "rule": "dismissed" if rule.dismissed else "all"}
        await append(connection, by, LogEntry(kind="cases.retired", subject="cases", details=details))
    return RetiredCases(ids=tuple(ids), images=unused)


async def is_alone(connection: AsyncConnection) -> bool:
    """Return whether no other replica deletes old rows now; then none does until this transaction ends."""
    if connection.dialect.name == "sqlite":
        return True  # it has one writer at a time
    found = await connection.execute(text(f"SELECT pg_try_advisory_xact_lock({AdvisoryLock.OLD_ROWS})"))
    return bool(found.scalar())


async def _lock(connection: AsyncConnection, conditions: tuple[Any, ...], more: Any) -> list[str]:
    """Return the ids of the next cases, locked, so that nobody appeals one meanwhile."""
    wanted = select(cases.c.id).where(*conditions, more).order_by(cases.c.finished).limit(_AT_ONCE)
    locking = wanted.with_for_update(skip_locked=True) if connection.dialect.name == "postgresql" else wanted
    found = list(await connection.scalars(locking))
    # Again, now that nobody can change them: somebody may have opened an appeal between look and lock.
    still = select(cases.c.id).where(cases.c.id.in_(found), *conditions).order_by(cases.c.id)
    return list(await connection.scalars(still)) if found else []


async def delete_empty_batches(store: Store, seconds: float) -> int:
    """Delete the batches that came to rest so long ago and have no rows any more; return how many there were."""
    rows = exists().where(cases.c.batch_id == batches.c.id)
    over = and_(batches.c.finished < database_now() - seconds, ~rows)
    async with store.transaction() as connection:
        return (await connection.execute(delete(batches).where(over))).rowcount
