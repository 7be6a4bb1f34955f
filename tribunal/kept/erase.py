"""Erasing the words and images of cases: what was decided stays, and so does the audit log, which tells of it.

What lies elsewhere is not reached: a cache or an archive that was named, the results of a run, logs, copies of the
database, and what was sent to others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, cast

from pydantic import Field
from sqlalchemy import ColumnElement, and_, bindparam, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.kept.words import nameless_post, quiet_message, without_words
from tribunal.parsed import from_json
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR, Entry, Who, append, sha
from tribunal.store.checkpoint_rows import forget_checkpoints
from tribunal.store.engine import Store
from tribunal.store.tables import METADATA, appeals, batches, cases, deliveries, events

_AT_ONCE = 100  # cases in one transaction
ERASED = "its words were erased"


class Chosen(Frozen):
    """Whose words: of one post, of one case, or of all that came to rest so many seconds ago. One of the three.

    A row of a batch came to rest when its batch did. By age, no case is chosen that waits for a person.
    """

    post: str | None = Field(default=None, description="what the post is called in its record")
    case: str | None = None
    older_than: float | None = Field(default=None, ge=0, description="seconds")


class Erased(Frozen):
    """How many cases lost their words, how many were left, and the hashes of images that no case has any more."""

    cases: int = 0
    left: int = 0
    images: frozenset[str] = frozenset()


def _matching(chosen: Chosen) -> Any:
    """Cases that were meant and have words, whether or not they can be erased now."""
    meant: ColumnElement[bool]
    if chosen.case is not None:
        meant = cases.c.id == chosen.case
    elif chosen.post is not None:
        meant = cases.c.post_id == chosen.post
    else:
        until = time.time() - (chosen.older_than or 0.0)
        over = exists().where(batches.c.id == cases.c.batch_id, batches.c.finished < until)
        meant = or_(and_(cases.c.batch_id.is_(None), cases.c.finished < until), over)
        # A new trial for an appeal goes with the case that the appeal is about.
        meant = and_(meant, cases.c.outcome.is_not(None) | (cases.c.status == "cancelled"), cases.c.appeal_id.is_(None))
    return and_(cases.c.erased.is_(None), or_(cases.c.post.is_not(None), cases.c.record.is_not(None)), meant)


def _free(chosen: Chosen) -> Any:
    """Cases that nobody is at work on: neither a trial nor an appeal."""
    at_rest: ColumnElement[bool] = cases.c.status.in_(("done", "cancelled"))
    appealed = exists().where(appeals.c.case_id == cases.c.id, appeals.c.decided.is_(None))
    if chosen.older_than is not None:
        at_rest = and_(at_rest, cases.c.question.is_(None))
    return and_(at_rest, ~appealed)


async def count(store: Store, chosen: Chosen) -> Erased:
    """How many cases would lose their words now, and how many be left: those that wait, or are under way."""
    found = select(func.count()).select_from(cases)
    async with store.reading() as connection:
        every = (await connection.execute(found.where(_matching(chosen)))).scalar_one()
        free = (await connection.execute(found.where(_matching(chosen), _free(chosen)))).scalar_one()
    return Erased(cases=free, left=every - free)


async def erase(store: Store, chosen: Chosen, by: Who = OPERATOR, **more: object) -> Erased:
    """Erase the words of cases: post, record, events, checkpoints, messages, notes, and a batch's other columns.

    The audit log says of each that it was erased, and at last by whom and how many.

    Args:
        store: the database.
        chosen: whose.
        by: who asks.
        more: what the last entry says besides.
    """
    number, images = 0, set[str]()
    while True:
        async with store.transaction() as connection:
            rows = await _marked(store, connection, chosen)
            for row in rows:
                if row["image_sha"]:
                    images.add(row["image_sha"])
            if rows:
                await _erase(store, connection, rows, by, chosen)
        if not rows:
            break
        number += sum(row["appeal_id"] is None for row in rows)
    left = (await count(store, chosen)).left
    done = Erased(cases=number, left=left, images=frozenset(await of_nobody(store, images)))
    if number or more:
        meant = {name: value for name, value in chosen.dump().items() if value is not None}
        told = Entry(kind="words.erased", subject="cases", details={"cases": number, "left": left, **meant, **more})
        async with store.transaction() as connection:
            await append(connection, by, told)
    return done


async def _marked(store: Store, connection: AsyncConnection, chosen: Chosen) -> list[JSON]:
    """The next cases, marked as erased so that nobody else erases them too, and with them their new trials."""
    wanted = select(cases.c.id).where(_matching(chosen), _free(chosen)).limit(_AT_ONCE)
    marking = update(cases).values(erased=time.time()).returning(cases)
    found = marking.where(cases.c.id.in_(wanted.with_for_update(skip_locked=True) if store.postgres else wanted))
    rows = [dict(row) for row in (await connection.execute(found)).mappings()]
    if rows:
        of_these = select(appeals.c.id).where(appeals.c.case_id.in_([row["id"] for row in rows]))
        trials = marking.where(cases.c.appeal_id.in_(of_these), cases.c.erased.is_(None))
        rows += [dict(row) for row in (await connection.execute(trials)).mappings()]
    return rows


async def _erase(
    store: Store, connection: AsyncConnection, rows: Sequence[JSON], by: Who, chosen: Chosen
) -> None:  # fmt: skip
    ids = [row["id"] for row in rows]
    left = [_left(row) for row in rows]
    names = [name for name in left[0] if name != "its_id"]
    values = {name: bindparam(name, type_=cases.c[name].type) for name in names}
    await connection.execute(update(cases).where(cases.c.id == bindparam("its_id")).values(**values), left)
    await connection.execute(delete(events).where(events.c.case_id.in_(ids)))
    await forget_checkpoints(store, connection, ids)
    await _quieten(connection, ids)
    for table in METADATA.tables.values():
        words = {column.name: column.info["erased"] for column in table.c if "erased" in column.info}
        if words and "case_id" in table.c:
            await connection.execute(update(table).where(table.c.case_id.in_(ids)).values(**words))
    how = next(name for name, value in chosen if value is not None)
    told = [
        Entry(kind="case.erased", subject=each["its_id"], details={"by": how, "record_sha": sha(each["record"])})
        for each in left
    ]
    await append(connection, by, *told)


def _left(row: JSON) -> JSON:
    """What stays of a case's row."""
    waited = row["question"] is not None
    record: JSON | None = None
    if waited or row["status"] == "cancelled":
        record = {"cancelled": f"{ERASED} before anybody had decided" if waited else ERASED}
    elif row["record"] is not None:
        record = without_words(row["record"])
    return {
        "its_id": row["id"], "record": record, "post": nameless_post(row["post"]), "fields": None, "question": None,
        "answer": None, "claimed_by": None, "claimed_until": None, "escalated": None,
        "status": "cancelled" if waited else row["status"], "outcome": None if waited else row["outcome"],
    }  # fmt: skip


async def _quieten(connection: AsyncConnection, ids: Sequence[str]) -> None:
    """Messages say what they said without words; one that is still to be sent is sent so."""
    wanted = select(deliveries.c.id, deliveries.c.body).where(deliveries.c.case_id.in_(ids))
    for message in (await connection.execute(wanted)).all():
        said = from_json(message.body)
        body = json.dumps({**said, "data": quiet_message(said.get("data") or {})})
        await connection.execute(update(deliveries).where(deliveries.c.id == message.id).values(body=body))


async def of_nobody(store: Store, images: set[str]) -> set[str]:
    """Of the images of these hashes, those that no case has any more whose words weren't erased."""
    if not images:
        return set()
    held = select(cases.c.image_sha).where(cases.c.image_sha.in_(images), cases.c.erased.is_(None))
    async with store.reading() as connection:
        return images - set(cast("list[str]", (await connection.execute(held)).scalars().all()))
