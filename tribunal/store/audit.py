"""The audit log: who did what, in entries of which each holds the hash of the one before.

An entry is written in the transaction that it tells of, as the last thing in it. From there to its end others who have
something to write wait, so every transaction takes its other locks first, and none waits for another in a circle.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen
from tribunal.store.tables import audit, audit_head

Kind = Literal[
    "key.made", "key.revoked",
    "case.taken_in", "case.decided", "case.pending", "case.cancelled",
    "case.claimed", "case.given_back", "case.answered",
    "case.appealed", "case.reopened", "appeal.claimed", "appeal.given_back", "appeal.trial", "appeal.tried",
    "appeal.decided", "opinion.sought", "opinion.claimed", "opinion.given_back", "opinion.given", "opinion.settled",
    "case.escalated", "case.skipped", "case.noted", "desk.signed_in", "desk.signed_out",
    "case.erased", "words.erased",
    "batch.made", "batch.cancelled", "batch.deleted",
    "cases.exported", "statements.made", "statements.sent",
    "webhook.added", "webhook.removed", "webhook.enabled", "delivery.replayed",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
NOTHING = "0" * 64  # what stands in place of a hash before the first entry
FIELDS = ("at", "who", "key_id", "name", "kind", "subject", "details")  # what an entry says


class Who(Frozen):
    """Who did it: the operator, whoever has a key, a person whom a trusted proxy named, or a replica by itself."""

    who: Literal["operator", "key", "person", "replica"]
    key_id: str | None = None
    name: str = ""


OPERATOR = Who(who="operator")


def of_replica(name: str) -> Who:
    """A replica, by its id."""
    return Who(who="replica", name=name)


class Entry(Frozen):
    """What an entry tells of. `subject`: the id of a case, batch, key, webhook or message. Never a post's words."""

    kind: Kind
    subject: str
    details: JSON = Field(default_factory=dict)


def sha(value: object) -> str:
    """SHA-256 of a value as JSON in its one canonical form: sorted, without blanks, in ASCII."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: object) -> str:
    # Whatever no column should hold has a form, too, so that its entry is found and not stumbled on.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)


def content(entry: Mapping[str, Any]) -> str:
    """The hash of what an entry says: of the list of its fields, so that none can run over into the next."""
    return sha([entry[name] for name in FIELDS])


def chained(previous: str, seq: int, said: str) -> str:
    """The hash of an entry: of that of the one before, its number, and the hash of what it says."""
    return hashlib.sha256(f"{previous} {seq} {said}".encode(errors="surrogatepass")).hexdigest()


async def append(connection: AsyncConnection, who: Who, *entries: Entry) -> None:
    """Add entries to the log, as the last thing of the transaction that they tell of.

    Raises:
        RuntimeError: the row that holds the log's head is gone. Then nothing that has to be told is done.
    """
    head = (await connection.execute(select(audit_head.c.seq, audit_head.c.hash).with_for_update())).first()
    if head is None:
        raise RuntimeError("audit log: the row that holds its head is gone; tribunal audit verify")
    seq, last, rows = head.seq, head.hash, []
    for each in entries:
        row: JSON = {
            "at": time.time(), "who": who.who, "key_id": who.key_id, "name": who.name, "kind": each.kind,
            "subject": each.subject, "details": canonical(each.details),
        }  # fmt: skip
        seq, previous = seq + 1, last
        last = chained(previous, seq, content(row))
        rows.append({"seq": seq, "previous": previous, "hash": last, **row})
    if rows:
        await connection.execute(insert(audit), rows)
        await connection.execute(update(audit_head).values(seq=seq, previous=rows[-1]["previous"], hash=last))
