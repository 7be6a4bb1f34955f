"""What a decision changes beside the case: its audit entry, its webhook, and what is known of the author."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets as random
from collections.abc import Callable
from typing import Any

from sqlalchemy import case, distinct, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.text import parse_json, wellformed
from tribunal.core.times import new_id
from tribunal.docket.leases import Held
from tribunal.docket.outbox import EventType, Outbox, appeal_message
from tribunal.schema import JSON, Frozen, Record
from tribunal.store.audit import LogEntry
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import COUNTED, appeals, cases, decisions, second_opinions, secrets

_COURT = "court"  # who decided, where no person did
# Names among the secrets.
_KEY = "second opinions"
_SHARES = "second opinions: shares"


class Sampling:
    """A sample of the decided cases, which is given to another person.

    By a keyed hash of the case's id: the same on every replica and in every attempt, and nobody can tell beforehand.
    """

    def __init__(self, secret: str = "", people: float = 0.0, court: float = 0.0) -> None:
        """Sample a share of the cases that a person decided, and one of those that the court decided alone."""
        self._secret = secret.encode()
        self._people = people
        self._court = court

    def is_sampled(self, case_id: str, *, by_court: bool) -> bool:
        """Return whether a case is given to another person."""
        digest = hmac.new(self._secret, case_id.encode(), hashlib.sha256).digest()
        return int.from_bytes(digest[:8]) < (self._court if by_court else self._people) * 2**64


async def own_secret(store: Store, name: str) -> str:
    """Return this database's own secret of a name, which is made when it is first asked for."""
    found = select(secrets.c.value).where(secrets.c.name == name)
    value = await store.fetch_value(found)
    if value is None:
        made = (
            store.insert(secrets)
            .values(name=name, value=random.token_urlsafe(32))
            .on_conflict_do_nothing()
        )
        async with store.transaction() as connection:
            await connection.execute(made)
        value = await store.fetch_value(found)
    return str(value)


async def store_sampling(store: Store, people: float, court: float) -> Sampling:
    """Write a service's sampling into the database, so that every terminal on it samples alike; and return it."""
    await own_secret(store, _KEY)
    shares = {"value": json.dumps([people, court])}
    written = store.insert(secrets).values(name=_SHARES, **shares)
    async with store.transaction() as connection:
        await connection.execute(
            written.on_conflict_do_update(index_elements=["name"], set_=shares)
        )
    return await load_sampling(store)


async def load_sampling(store: Store) -> Sampling:
    """Return the sampling of the service that was started last on this database; where none was, nothing is sampled."""
    rows = await store.fetch_rows(select(secrets).where(secrets.c.name.in_((_KEY, _SHARES))))
    found = {row["name"]: row["value"] for row in rows}
    people, court = parse_json(found.get(_SHARES, "[0, 0]"))
    return Sampling(found.get(_KEY, ""), people, court)


async def write_effects(
    store: Store, connection: AsyncConnection, outbox: Outbox, sampling: Sampling | None, record: Record, held: Held,
    at: float,
) -> list[LogEntry]:  # fmt: skip
    """Write what follows from a record that was just written.

    Returns:
        what the audit log is told of it, as the last thing of the transaction.
    """
    if held.appeal_id is not None:
        row = await _end_appeal_trial(connection, held, {"status": "tried"})
        if row is None:
            return []
        await announce_step(connection, outbox, "appeal.tried", row)
        return [_trial_entry(held, row, record)]
    review = record.review
    if record.outcome != "verdict" or not held.keep:
        return []
    first = _COURT
    if review is not None and review.action is not None:
        first = review.reviewer or "a reviewer"
        result = "accepted" if review.court.get("category") == record.category else "changed"
        after = {"category": record.category, "hateful": record.hateful}
        await insert_decision(
            connection, held.id, "review", first, result, review.court, after, at=at
        )
    if (
        held.practice == "tried"
        or record.category is None
        or sampling is None
        or not sampling.is_sampled(held.id, by_court=first == _COURT)
    ):
        return []
    row = {
        "id": new_id("opinion"),
        "case_id": held.id,
        "created": at,
        "first": first,
        "status": "waiting",
    }
    row |= {"first_category": record.category, "note": ""}
    asked = (
        store.insert(second_opinions)
        .values(**row)
        .on_conflict_do_nothing()
        .returning(second_opinions.c.id)
    )
    if (await connection.execute(asked)).first() is None:
        return []
    return [LogEntry(kind="opinion.sought", subject=held.id, details={"opinion": row["id"]})]


async def cancel_appeal_trial(connection: AsyncConnection, held: Held, why: str) -> list[LogEntry]:
    """Let an appeal whose new trial was cancelled wait for a person again, who is told why. As `write_effects`."""
    back = {"status": "waiting", "trial_id": None, "trial_failed": why, "reviewer": None}
    row = await _end_appeal_trial(connection, held, back)
    return [] if row is None else [_trial_entry(held, row, None)]


async def _end_appeal_trial(connection: AsyncConnection, held: Held, values: JSON) -> JSON | None:
    mine = (
        (appeals.c.id == held.appeal_id)
        & (appeals.c.trial_id == held.id)
        & (appeals.c.status == "trying")
    )
    changed = update(appeals).where(mine).values(**values).returning(appeals)
    return await first_row(connection, changed)


def _trial_entry(held: Held, appeal: JSON, record: Record | None) -> LogEntry:
    details: JSON = {
        "appeal": held.appeal_id,
        "trial": held.id,
        "outcome": record and record.outcome,
    }
    details |= {"category": record.category} if record else {}
    return LogEntry(kind="appeal.tried", subject=appeal["case_id"], details=details)


async def announce_step(
    connection: AsyncConnection,
    outbox: Outbox,
    event: EventType,
    appeal: JSON,
    case: JSON | None = None,
) -> None:
    """Tell the webhooks of a step of an appeal; `case` has graph and record of its case, where they are at hand."""
    if case is None:
        wanted = select(cases.c.graph, cases.c.record).where(cases.c.id == appeal["case_id"])
        case = dict((await connection.execute(wanted)).mappings().one())
    if case["record"] is not None:  # else it was erased: there is nothing to tell
        record = Record.model_validate(case["record"])
        link = outbox.link(appeal["case_id"])
        await outbox.announce(
            connection, event, appeal_message(appeal, case["graph"], record, link)
        )


async def insert_decision(
    connection: AsyncConnection, case_id: str, kind: str, reviewer: str, result: str, before: JSON, after: JSON,
    *, at: float, appeal_id: str | None = None,
) -> None:  # fmt: skip
    """Write down what a person decided, in the transaction that decides. The case's row is locked already.

    `kind` is review, appeal or reopened, and `result` accepted or changed; of an appeal upheld, reversed or changed.
    `before` and `after` are outcomes, of which `category` and `hateful` are read.
    """
    counted = select(func.count()).select_from(decisions).where(decisions.c.case_id == case_id)
    number = 1 + int((await connection.execute(counted)).scalar_one())
    row = {"case_id": case_id, "number": number, "at": at, "kind": kind, "appeal_id": appeal_id}
    row |= {"reviewer": reviewer, "result": result}
    row |= {"category_before": before.get("category"), "hateful_before": before.get("hateful")}
    row |= {"category": after.get("category"), "hateful": after.get("hateful")}
    await connection.execute(decisions.insert().values(**row))


class AuthorHistory(Frozen):
    """Counts the earlier decisions on an author's posts: hate, not hate, and those that were reversed on appeal."""

    hate: int = 0
    not_hate: int = 0
    reversed: int = 0


async def load_author_hash(store: Store) -> Callable[[str], str]:
    """Return what hashes an author's id in this database. The id itself is kept nowhere."""
    key = (await own_secret(store, "authors")).encode()
    return lambda author: hmac.new(
        key, wellformed(author).strip().encode(), hashlib.sha256
    ).hexdigest()


async def hash_author(store: Store, author: str | None) -> str | None:
    """Return the hash that stands for an author's id in this database; None where none is given."""
    return (await load_author_hash(store))(author) if author and author.strip() else None


async def count_earlier_decisions(store: Store, author_sha: str, *, besides: str) -> AuthorHistory:
    """Return the counts of an author's decided cases, without the case `besides`."""
    theirs = (
        cases.c.author_sha == author_sha,
        cases.c.outcome == "verdict",
        cases.c.id != besides,
        COUNTED,
    )

    def number(hateful: bool) -> Any:
        return func.coalesce(func.sum(case((cases.c.hateful.is_(hateful), 1), else_=0)), 0)

    counts = select(number(True).label("hate"), number(False).label("not_hate")).where(*theirs)
    reversals = (
        select(func.count(distinct(decisions.c.case_id)))
        .join(cases, cases.c.id == decisions.c.case_id)
        .where(*theirs, decisions.c.result == "reversed")
    )
    [row] = await store.fetch_rows(counts)
    return AuthorHistory(**row, reversed=int(await store.fetch_value(reversals)))
