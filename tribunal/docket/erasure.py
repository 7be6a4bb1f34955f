"""The words of cases are erased, and old cases retired."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.text import parse_json
from tribunal.core.times import database_now
from tribunal.docket.leases import LEASE, owner_is_silent
from tribunal.process.database import WAIT, connect
from tribunal.schema import JSON, Frozen, Record
from tribunal.settings.environment import data_folder
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, sha
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store
from tribunal.store.tables import (
    METADATA,
    AdvisoryLock,
    appeals,
    batches,
    cases,
    decisions,
    deliveries,
    events,
    second_opinions,
)

_AT_ONCE = 100  # cases in one transaction
_ERASED = "its words were erased"
_OF_MESSAGE = (
    "id", "graph", "outcome", "category", "hateful", "confidence", "probability", "uncertain", "rehearsed",
    "policy_sha", "link", "clauses",
)  # fmt: skip
_AS_IT_IS: Any = object()
# What is left of an outcome, a trial and a record: parts that hold no words of a post, of a person or of a model, and
# what stands in place of the words that can't be missing.
_OUTCOME: JSON = {
    **dict.fromkeys((
        "outcome", "task", "label", "category", "hateful", "rehearsed", "track", "tie", "confidence", "uncertain",
        "probability", "probability_from", "seat", "role", "model", "form", "error",
    ), _AS_IT_IS),
    "explanation": "",
}  # fmt: skip
_TRIAL: JSON = {
    **dict.fromkeys(("id", "reviewer", "at"), _AS_IT_IS),
    "question": "", "outcome": _OUTCOME, "cues": [], "transcript": [],
}  # fmt: skip
_RECORD: JSON = {
    **dict.fromkeys((
        "outcome", "post_id", "graph", "task", "scheme", "label", "category", "hateful", "rehearsed", "track", "rounds",
        "calls", "usage", "shown", "policy", "prompts", "protocol", "language", "language_from", "image_sha256", "tie",
        "confidence", "probability", "probability_from", "uncertain", "saved", "thread", "kept", "precedents",
    ), _AS_IT_IS),
    "explanation": "", "transcript": [], "cues": [], "warnings": [],
    "votes": {**dict.fromkeys(("label", "category", "confidence"), _AS_IT_IS), "explanation": ""},
    "fault": dict.fromkeys(("seat", "role", "model", "kind"), _AS_IT_IS),
    "review": {**dict.fromkeys(("reason", "action", "reviewer", "at"), _AS_IT_IS), "court": _OUTCOME},
    "trials": _TRIAL,
    "appeals": {
        **dict.fromkeys(("id", "kind", "at", "decided_by", "result", "reviewer", "decided"), _AS_IT_IS),
        "appellant": "", "reason": "", "before": _OUTCOME, "trial": _TRIAL,
    },
}  # fmt: skip


# The condition that an appeal against a case is open.
HAS_OPEN_APPEAL = exists().where(appeals.c.case_id == cases.c.id, appeals.c.decided.is_(None))


async def unused_images(connection: AsyncConnection, images: Iterable[str]) -> frozenset[str]:
    """Return those of these images, by their hashes, that no case with its words has."""
    candidates = frozenset(images)
    used = select(cases.c.image_sha).where(
        cases.c.image_sha.in_(candidates), cases.c.erased.is_(None)
    )
    return candidates.difference(await connection.scalars(used)) if candidates else candidates


def batch_ended_before(moment: float) -> Any:
    """Return the condition that the batch of a case came to rest before a moment."""
    return exists().where(batches.c.id == cases.c.batch_id, batches.c.finished < moment)


class ErasureRequest(Frozen):
    """Choose the cases: those of one post, one case, or all that came to rest so many seconds ago. One of the three.

    A row of a batch came to rest when its batch did. By age, no case is chosen that waits for a person.
    """

    post: str | None = Field(default=None, description="what the post is called in its record")
    case: str | None = None
    older_than: float | None = Field(default=None, ge=0, description="seconds")


class ErasureResult(Frozen):
    """Count the cases that lost their words and those that were left, and list images that no case has any more."""

    cases: int = 0
    left: int = 0
    images: frozenset[str] = frozenset()


def _is_meant(wanted: ErasureRequest) -> Any:
    """Return the condition of cases that were meant and have words, whether or not they can be erased now."""
    meant: ColumnElement[bool]
    if wanted.case is not None:
        meant = cases.c.id == wanted.case
    elif wanted.post is not None:
        meant = cases.c.post_id == wanted.post
    else:
        until = database_now() - (wanted.older_than or 0.0)
        meant = or_(
            and_(cases.c.batch_id.is_(None), cases.c.finished < until), batch_ended_before(until)
        )
        # A new trial for an appeal goes with the case that the appeal is about.
        meant = and_(
            meant,
            cases.c.outcome.is_not(None) | (cases.c.status == "cancelled"),
            cases.c.appeal_id.is_(None),
        )
    return and_(
        cases.c.erased.is_(None), or_(cases.c.post.is_not(None), cases.c.record.is_not(None)), meant
    )


def _is_free(wanted: ErasureRequest) -> Any:
    """Return the condition of cases that nobody is at work on: neither a trial nor an appeal.

    One of the terminal may have been cut off.
    """
    at_rest: ColumnElement[bool] = cases.c.status.in_(("done", "cancelled"))
    if wanted.older_than is not None:
        at_rest = and_(at_rest, cases.c.question.is_(None))
    else:
        cut_off = and_(
            cases.c.status == "running",
            cases.c.via != "service",
            owner_is_silent(cases.c.owner, LEASE),
        )
        at_rest = or_(at_rest, cut_off)
    return and_(at_rest, ~HAS_OPEN_APPEAL)


async def count_erasable(store: Store, wanted: ErasureRequest) -> ErasureResult:
    """Return how many cases would lose their words now, and how many be left: those that wait, or are under way."""
    found = select(func.count()).select_from(cases)
    every = await store.fetch_value(found.where(_is_meant(wanted)))
    free = await store.fetch_value(found.where(_is_meant(wanted), _is_free(wanted)))
    return ErasureResult(cases=free, left=every - free)


async def erase_words(store: Store, wanted: ErasureRequest, by: Who = OPERATOR) -> ErasureResult:
    """Erase the words of cases: post, record, events, checkpoints, messages, notes, and a batch's other columns.

    The audit log says of each that it was erased, and at last by whom and how many.
    """
    number = 0
    images = set[str]()
    while True:
        async with store.transaction() as connection:
            rows = await _mark_next(store, connection, wanted)
            if rows:
                await _erase(connection, rows, by, wanted)
        if not rows:
            break
        images |= {row["image_sha"] for row in rows if row["image_sha"]}
        number += sum(row["appeal_id"] is None for row in rows)
    left = (await count_erasable(store, wanted)).left
    async with store.reading() as connection:
        unused = await unused_images(connection, images)
    if number:
        details = {"cases": number, "left": left, **wanted.model_dump(exclude_none=True)}
        async with store.transaction() as connection:
            await append(
                connection, by, LogEntry(kind="words.erased", subject="cases", details=details)
            )
    return ErasureResult(cases=number, left=left, images=unused)


async def _mark_next(
    store: Store, connection: AsyncConnection, wanted: ErasureRequest
) -> list[JSON]:
    """Return the next cases, marked as erased so that nobody else erases them too, and with them their new trials."""
    ids = select(cases.c.id).where(_is_meant(wanted), _is_free(wanted)).limit(_AT_ONCE)
    marking = update(cases).values(erased=database_now()).returning(cases)
    found = marking.where(
        cases.c.id.in_(ids.with_for_update(skip_locked=True) if store.postgres else ids)
    )
    rows = [dict(row) for row in (await connection.execute(found)).mappings()]
    if rows:
        of_these = select(appeals.c.id).where(appeals.c.case_id.in_([row["id"] for row in rows]))
        trials = marking.where(cases.c.appeal_id.in_(of_these), cases.c.erased.is_(None))
        rows += [dict(row) for row in (await connection.execute(trials)).mappings()]
    return rows


async def _erase(
    connection: AsyncConnection, rows: Sequence[JSON], by: Who, wanted: ErasureRequest
) -> None:
    ids = [row["id"] for row in rows]
    left = [_row_without_words(row) for row in rows]
    values = {
        name: bindparam(name, type_=cases.c[name].type) for name in left[0] if name != "its_id"
    }
    await connection.execute(
        update(cases).where(cases.c.id == bindparam("its_id")).values(**values), left
    )
    await connection.execute(delete(events).where(events.c.case_id.in_(ids)))
    await delete_checkpoints(connection, ids)
    messages = select(deliveries.c.id, deliveries.c.body).where(deliveries.c.case_id.in_(ids))
    for message in (
        await connection.execute(messages)
    ).all():  # one that is still to be sent is sent so
        said = parse_json(message.body)
        data = {
            name: value if name in _OF_MESSAGE else None
            for name, value in (said.get("data") or {}).items()
        }
        body = json.dumps({**said, "data": data})
        await connection.execute(
            update(deliveries).where(deliveries.c.id == message.id).values(body=body)
        )
    for table in METADATA.tables.values():
        words = {
            column.name: column.info["erased"] for column in table.c if "erased" in column.info
        }
        if words and "case_id" in table.c:
            await connection.execute(update(table).where(table.c.case_id.in_(ids)).values(**words))
    how = next(name for name, value in wanted if value is not None)
    entries = [
        LogEntry(
            kind="case.erased",
            subject=each["its_id"],
            details={"by": how, "record_sha": sha(each["record"])},
        )
        for each in left
    ]
    await append(connection, by, *entries)


def _row_without_words(row: JSON) -> JSON:
    waited = row["question"] is not None or row["status"] == "running"
    record: JSON | None = None
    if waited or row["status"] == "cancelled":
        record = {"cancelled": f"{_ERASED} before anybody had decided" if waited else _ERASED}
    elif row["record"] is not None:
        record = without_words(row["record"])
    return {
        "its_id": row["id"], "record": record, "post": post_without_words(row["post"]), "fields": None,
        "question": None, "answer": None, "claimed_by": None, "claimed_until": None, "escalated": None,
        "status": "cancelled" if waited else row["status"], "outcome": None if waited else row["outcome"],
        "author_sha": None,
    }  # fmt: skip


def without_words(record: JSON) -> JSON:
    """Return a record, as it is stored, without words; still a `Record`."""
    return Record.model_validate(_keep(record, _RECORD)).dump()


def _keep(held: Any, left: Any) -> Any:
    """Return what is left of a part of a record."""
    if left is _AS_IT_IS or held is None:
        return held
    if isinstance(held, list) and isinstance(left, dict):
        return [_keep(each, left) for each in held]
    return (
        {name: _keep(held[name], left[name]) for name in left if name in held}
        if isinstance(left, dict)
        else left
    )


def post_without_words(post: JSON | None) -> JSON | None:
    """Return what stays of a post as it was given: what its platform calls it."""
    return {"post_id": post["post_id"]} if post and "post_id" in post else None


# What erased words leave on this machine's disk


def remove_images(hashes: Iterable[str]) -> None:
    """Delete the images of these hashes from the data folder."""
    for each in hashes:
        for path in (data_folder() / "images").glob(f"{each}.*"):
            with suppress(FileNotFoundError):
                path.unlink()


def wipe_file(file: Path, *, rewrite: bool) -> bool:
    """Wipe what was erased from a SQLite file, and from the write-ahead log beside it.

    Every connection of ours overwrites what it deletes (secure_delete). The log is emptied here, and with `rewrite` the
    file is written anew, which takes as long as to copy it.

    Returns:
        whether that was done; False where another process was reading all the while, and the log keeps old pages.
    """
    patience = WAIT if rewrite else 5.0  # a running service tries again later
    with closing(connect(file, wait=patience)) as connection:
        connection.execute("PRAGMA secure_delete=ON")
        try:
            if rewrite:
                connection.execute("VACUUM")
            [busy, *_] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return False
    return not busy


class RetirementRule(Frozen):
    """Choose the cases that go: all that came to rest so many seconds ago, or the dismissed among them.

    A dismissed one was found not hateful, and no person has had anything to do with it. A case whose decision may still
    be appealed stays, unless it is a dismissed one; so does one that is under appeal, or that waits for a person. A row
    of a batch goes when its batch came to rest so long ago, and not before.
    """

    seconds: float = Field(ge=0)
    dismissed: bool = False
    appeal_seconds: float = Field(
        default=0.0, ge=0, description="for how long a decision may be appealed"
    )


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
        people = (
            exists().where(table.c.case_id == cases.c.id)
            for table in (appeals, decisions, second_opinions)
        )
        return *conditions, *alone, cases.c.reviewer.is_(None), *(~each for each in people)
    lately = exists().where(decisions.c.case_id == cases.c.id, decisions.c.at >= until)
    waits = exists().where(
        second_opinions.c.case_id == cases.c.id,
        second_opinions.c.status.in_(("waiting", "disagreed")),
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
        trials = select(appeals.c.trial_id).where(
            appeals.c.case_id.in_(ids), appeals.c.trial_id.is_not(None)
        )
        every = [*ids, *await connection.scalars(trials)]
        gone = delete(cases).where(cases.c.id.in_(every)).returning(cases.c.image_sha)
        images = [each for each in await connection.scalars(gone) if each]
        await delete_checkpoints(connection, every)
        unused = await unused_images(connection, images)
        details = {
            "cases": len(ids),
            "ids": every,
            "rule": "dismissed" if rule.dismissed else "all",
        }
        await append(
            connection, by, LogEntry(kind="cases.retired", subject="cases", details=details)
        )
    return RetiredCases(ids=tuple(ids), images=unused)


async def is_alone(connection: AsyncConnection) -> bool:
    """Return whether no other replica deletes old rows now; then none does until this transaction ends."""
    if connection.dialect.name == "sqlite":
        return True  # it has one writer at a time
    found = await connection.execute(
        text(f"SELECT pg_try_advisory_xact_lock({AdvisoryLock.OLD_ROWS})")
    )
    return bool(found.scalar())


async def _lock(connection: AsyncConnection, conditions: tuple[Any, ...], more: Any) -> list[str]:
    """Return the ids of the next cases, locked, so that nobody appeals one meanwhile."""
    wanted = select(cases.c.id).where(*conditions, more).order_by(cases.c.finished).limit(_AT_ONCE)
    locking = (
        wanted.with_for_update(skip_locked=True)
        if connection.dialect.name == "postgresql"
        else wanted
    )
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
