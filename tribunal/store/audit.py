"""The audit log: who did what, in entries of which each holds the hash of the one before.

An entry is written in the transaction that it tells of, as the last thing in it. From there to its end others who have
something to write wait, so every transaction takes its other locks first, and none waits for another in a circle.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

from pydantic import Field
from sqlalchemy import Double, String, bindparam, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen
from tribunal.store.engine import Store
from tribunal.store.prepared import driver_of
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


async def append(store: Store, connection: AsyncConnection, who: Who, *entries: Entry) -> None:
    """Add entries to the log, as the last thing of the transaction that they tell of. It has written before.

    Raises:
        RuntimeError: the row that holds the log's head is gone. Then nothing that has to be told is done.
    """
    for each in entries:
        row = {
            "at": time.time(), "who": who.who, "key_id": who.key_id, "name": who.name, "kind": each.kind,
            "subject": each.subject, "details": canonical(each.details),
        }  # fmt: skip
        written = await (_in_postgres if store.postgres else _in_sqlite)(connection, row)
        if not written:
            raise RuntimeError("audit log: the row that holds its head is gone; tribunal audit verify")


@cache
def _link() -> Any:
    """The one statement for PostgreSQL. The database makes the hash, since everybody else waits from here on."""
    said, seq = bindparam("content", type_=String), audit_head.c.seq + 1
    joined = func.concat(audit_head.c.hash, " ", seq, " ", said)
    hashed = func.encode(func.sha256(func.convert_to(joined, "UTF8")), "hex")
    moved = update(audit_head).values(seq=seq, previous=audit_head.c.hash, hash=hashed)
    head = moved.returning(audit_head.c.seq, audit_head.c.previous, audit_head.c.hash).cte("head")
    fields = [bindparam(f"its_{name}", type_=Double if name == "at" else String).label(name) for name in FIELDS]
    names = ["seq", "previous", "hash", *FIELDS]
    row = select(head.c.seq, head.c.previous, head.c.hash, *fields)
    return insert(audit).from_select(names, row).returning(audit.c.seq)


async def _in_postgres(connection: AsyncConnection, row: JSON) -> bool:
    given = {f"its_{name}": value for name, value in row.items()}
    made = await connection.execute(_link(), {**given, "content": content(row)})
    return made.first() is not None


async def _in_sqlite(connection: AsyncConnection, row: JSON) -> bool:
    """Whoever has written is the only writer until the transaction ends. By the driver itself, which takes a third of
    the time: while it is under way everybody else waits."""
    driver = driver_of(connection)
    found = list(await driver.execute_fetchall("SELECT seq, hash FROM audit_head"))
    if not found:
        return False
    [(last, previous)] = found
    link = {"seq": last + 1, "previous": previous, "hash": chained(previous, last + 1, content(row))}
    await driver.execute_fetchall(_ENTRY, {**link, **row})
    await driver.execute_fetchall(_MOVED, link)
    return True


_NAMES = ("seq", "previous", "hash", *FIELDS)
_ENTRY = f"INSERT INTO audit ({', '.join(_NAMES)}) VALUES ({', '.join(f':{name}' for name in _NAMES)})"  # noqa: S608
_MOVED = "UPDATE audit_head SET seq = :seq, previous = :previous, hash = :hash"
