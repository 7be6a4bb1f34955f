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
from sqlalchemy import LargeBinary, Text, cast, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON, Frozen
from tribunal.store.engine import Store
from tribunal.store.tables import audit, audit_head
from tribunal.text import parse_json

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


def replica_actor(name: str) -> Who:
    """Return a replica, by its id."""
    return Who(who="replica", name=name)


class LogEntry(Frozen):
    """What an entry tells of. `subject`: the id of a case, batch, key, webhook or message. Never a post's words."""

    kind: Kind
    subject: str
    details: JSON = Field(default_factory=dict)


def sha(value: object) -> str:
    """Return the SHA-256 of a value as JSON in its one canonical form: sorted, without blanks, in ASCII."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: object) -> str:
    """Return a value as JSON in its one canonical form."""
    # Whatever no column should hold has a form, too, so that its entry is found and not stumbled on.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)


def content(entry: Mapping[str, Any]) -> str:
    """Return the hash of what an entry says: of the list of its fields, so that none can run over into the next."""
    return sha([entry[name] for name in FIELDS])


def chained(previous: str, seq: int, said: str) -> str:
    """Return the hash of an entry: of that of the one before, its number, and the hash of what it says."""
    return hashlib.sha256(f"{previous} {seq} {said}".encode(errors="surrogatepass")).hexdigest()


async def append(connection: AsyncConnection, who: Who, *entries: LogEntry) -> None:
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


# The log, read


_NEAR = 2000  # entries, before and after, among which the place of one that was moved is looked for


class Head(Frozen):
    """The end of the log: the number of its last entry, and that entry's hash."""

    seq: int
    hash: str


class Checked(Frozen):
    """What a walk through the log came to.

    Attributes:
        entries: how many follow from one another.
        head: the hash of the last of these.
        fault: the first entry that is wrong, and how, in words; None where there is none.
        kept_at: the entry whose hash is the head that was kept elsewhere.
    """

    entries: int
    head: str
    fault: str | None = None
    kept_at: int | None = None


async def head(store: Store) -> Head | None:
    """Return the head as it is written down; None where that is gone."""
    row = await store.fetch_row(select(audit_head.c.seq, audit_head.c.hash))
    return None if row is None else Head(**row)


async def page(
    store: Store,
    after: int | None = None,
    limit: int = 1000,
    *,
    subject: str | None = None,
    kind: str | None = None,
    since: float | None = None,
    until: float | None = None,
) -> list[JSON]:
    """Return entries, the oldest first, after the one of this number."""
    # SQLite would stumble over a text that is none, so each is read as bytes.
    columns: list[Any] = [
        column if store.postgres or not isinstance(column.type, Text) else cast(column, LargeBinary).label(column.name)
        for column in audit.c
    ]
    wanted = select(*columns).order_by(audit.c.seq).limit(limit)
    if after is not None:
        wanted = wanted.where(audit.c.seq > after)
    if subject is not None:
        wanted = wanted.where(audit.c.subject == subject)
    if kind is not None:
        wanted = wanted.where(audit.c.kind == kind)
    if since is not None:
        wanted = wanted.where(audit.c.at >= since)
    if until is not None:
        wanted = wanted.where(audit.c.at < until)
    return [
        {
            name: value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
            for name, value in row.items()
        }
        for row in await store.fetch_rows(wanted)
    ]


def readable(row: JSON) -> JSON:
    """Return an entry as it may be shown: its details read, or None where they are no JSON object any more."""
    shown = {
        name: value.encode(errors="surrogateescape").decode(errors="backslashreplace")
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }
    try:
        details = parse_json(shown["details"])
    except ValueError:
        details = None
    return {**shown, "details": details if isinstance(details, dict) else None}


async def verify(store: Store, kept: str | None = None) -> Checked:
    """Walk through the log, a page at a time, up to the first entry that is wrong.

    `kept` is the hash of a head that was kept elsewhere.
    """
    walk = LogWalk(kept)
    while True:
        rows = await page(store, walk.last)
        for row in rows:
            if (fault := walk.step(row)) is not None:
                return walk.check_result(fault)
        if rows:
            continue
        end = await head(store)
        if end is not None and end.seq > walk.seq and await page(store, walk.last, 1):
            continue  # written since the page was read
        return walk.check_result(walk.fault_at(end))


class LogWalk:
    """A walk through the entries in their order.

    Attributes:
        seq: how many follow from one another so far.
        last: the number of the last one; None before the first.
    """

    def __init__(self, kept: str | None = None) -> None:
        """Begin before the first entry; `kept` is the hash of a head that was kept elsewhere."""
        self.seq = 0
        self.last: int | None = None
        self._hash, self._kept = NOTHING, kept
        self._kept_at = 0 if kept == NOTHING else None

    def step(self, row: JSON) -> str | None:
        """Go on to the next entry, and return what is wrong with it, or before it, if anything is."""
        seq, expected = row["seq"], self.seq + 1
        if not isinstance(seq, int) or seq < expected:
            return f"entry {seq}: was inserted; after entry {self.seq} comes entry {expected}"
        if seq > expected:
            return f"entry {expected}: is gone" if seq == expected + 1 else f"entries {expected} to {seq - 1}: are gone"
        said, fault = content(row), ""
        if chained(row["previous"], seq, said) != row["hash"]:
            fault = _how_changed(row, said, self._hash)
        elif row["previous"] != self._hash:
            fault = f"doesn't follow from entry {self.seq}; one of the two was put in place of another"
        if fault:
            shown = readable(row)
            return f"entry {seq} ({shown['kind']} of {shown['subject']}): {fault}"
        self.seq = self.last = seq
        self._hash = row["hash"]
        if self._hash == self._kept:
            self._kept_at = seq
        return None

    def fault_at(self, end: Head | None) -> str | None:
        """Return what is wrong with the end of the log, after its last entry, if anything is; `end` is its head."""
        if end is None:
            return "the row that holds the head of the log is gone"
        if end.seq > self.seq:
            cut = f"entry {end.seq}: is" if end.seq == self.seq + 1 else f"entries {self.seq + 1} to {end.seq}: are"
            return f"{cut} gone; the log was cut at its end"
        if end.seq < self.seq:
            return f"entry {end.seq + 1}: was added past the head of the log, which is entry {end.seq}"
        if end.hash != self._hash:
            return f"entry {end.seq}: isn't the one that the head of the log names; one of the two was altered"
        if self._kept is not None and self._kept_at is None:
            return f"no entry has the hash {self._kept}: the log was cut before it, or written anew"
        return None

    def check_result(self, fault: str | None) -> Checked:
        """Return what the walk came to."""
        return Checked(entries=self.seq, head=self._hash, fault=fault, kept_at=self._kept_at)


def _how_changed(row: JSON, said: str, before: str) -> str:
    """Return how an entry was changed whose hash isn't that of what it says."""
    seq = row["seq"]
    if chained(before, seq, said) == row["hash"]:
        return "its link to the entry before was altered"
    near = range(max(1, seq - _NEAR), seq + _NEAR)
    moved = next((place for place in near if chained(row["previous"], place, said) == row["hash"]), None)
    return "was altered" if moved is None else f"is entry {moved}, which was moved here"
