"""The audit log: who did what, in entries of which each holds the hash of the one before.

An entry is written in the transaction that it tells of, as the last thing in it. From there to its end others who have
something to write wait, so every transaction takes its other locks first, and none waits for another in a circle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import Field
from sqlalchemy import LargeBinary, Text, cast, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.text import parse_json
from tribunal.core.times import database_now
from tribunal.schema import JSON, Frozen
from tribunal.store.engine import Store
from tribunal.store.tables import audit, audit_head

Kind = Literal[
    "key.made", "key.rotated", "key.revoked",
    "case.taken_in", "case.decided", "case.pending", "case.cancelled", "case.retried",
    "case.claimed", "case.given_back", "case.answered", "case.undone", "case.released",
    "case.appealed", "case.reopened", "appeal.claimed", "appeal.given_back", "appeal.answered", "appeal.undone",
    "appeal.trial", "appeal.tried", "appeal.decided", "opinion.sought", "opinion.claimed", "opinion.given_back",
    "opinion.answered", "opinion.undone", "opinion.given", "opinion.settled",
    "case.escalated", "case.skipped", "case.noted", "desk.signed_in", "desk.signed_out",
    "case.erased", "words.erased", "cases.retired",
    "batch.made", "batch.cancelled", "batch.deleted",
    "cases.exported", "statements.made", "statements.sent",
    "webhook.added", "webhook.removed", "webhook.enabled", "delivery.replayed",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
NOTHING = "0" * 64  # what stands in place of a hash before the first entry
FIELDS = ("at", "who", "key_id", "name", "kind", "subject", "details")  # what an entry says


class Who(Frozen):
    """An actor: the operator, whoever has a key, a person whom a trusted proxy named, or a replica by itself."""

    who: Literal["operator", "key", "person", "replica"]
    key_id: str | None = None
    name: str = ""


OPERATOR = Who(who="operator")


def replica_actor(name: str) -> Who:
    """Return a replica, by its id."""
    return Who(who="replica", name=name)


class LogEntry(Frozen):
    """An entry's content. `subject`: the id of a case, batch, key, webhook or message. Never a post's words."""

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
    """Return the hash of an entry's content: of the list of its fields."""
    return sha([entry[name] for name in FIELDS])


def chained(previous: str, seq: int, said: str) -> str:
    """Return the hash of an entry: of that of the one before, its number, and the hash of what it says."""
    return hashlib.sha256(f"{previous} {seq} {said}".encode(errors="surrogatepass")).hexdigest()


async def append(connection: AsyncConnection, who: Who, *entries: LogEntry) -> None:
    """Add entries of one actor to the log. As `append_all`."""
    await append_all(connection, [(who, each) for each in entries])


async def append_all(connection: AsyncConnection, entries: Sequence[tuple[Who, LogEntry]]) -> None:
    """Add entries to the log, each with whoever did it, as the last thing of the transaction that they tell of.

    Raises:
        RuntimeError: the row that holds the log's head is gone. Then nothing that has to be told is done.
    """
    if not entries:
        return
    head = (
        await connection.execute(select(audit_head.c.seq, audit_head.c.hash).with_for_update())
    ).first()
    if head is None:
        raise RuntimeError("audit log: the row that holds its head is gone; tribunal audit verify")
    seq = head.seq
    last = head.hash
    rows = []
    for who, each in entries:
        row: JSON = {
            "at": database_now(), "who": who.who, "key_id": who.key_id, "name": who.name, "kind": each.kind,
            "subject": each.subject, "details": canonical(each.details),
        }  # fmt: skip
        seq = seq + 1
        previous = last
        last = chained(previous, seq, content(row))
        rows.append({"seq": seq, "previous": previous, "hash": last, **row})
    await connection.execute(insert(audit), rows)
    await connection.execute(
        update(audit_head).values(seq=seq, previous=rows[-1]["previous"], hash=last)
    )


# The log, read


_NEAR = 2000  # entries, before and after, among which the place of one that was moved is looked for


class Head(Frozen):
    """The end of the log: the number of its last entry, and that entry's hash."""

    seq: int
    hash: str


async def read_written_head(store: Store) -> Head | None:
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
        column
        if store.postgres or not isinstance(column.type, Text)
        else cast(column, LargeBinary).label(column.name)
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


async def verify(store: Store, kept: str | None = None) -> LogWalk:
    """Walk through the log, a page at a time, up to the first entry that is wrong.

    `kept` is the hash of a head that was kept elsewhere.
    """
    walk = LogWalk(kept)
    while True:
        rows = await page(store, walk.entries or None)
        if not all(map(walk.step, rows)):
            return walk
        if rows:
            continue
        end = await read_written_head(store)
        if (
            end is not None
            and end.seq > walk.entries
            and await page(store, walk.entries or None, 1)
        ):
            continue  # written since the page was read
        walk.check_end(end)
        return walk


@dataclass
class LogWalk:
    """A walk through the entries in order, and its findings.

    Attributes:
        kept: the hash of a head that was kept elsewhere.
        entries: how many follow from one another so far.
        head: the hash of the last of these.
        fault: the first entry that is wrong, and how, in words; None where there is none.
        kept_at: the entry whose hash is the head that was kept elsewhere.
    """

    kept: str | None = field(default=None, compare=False)
    entries: int = 0
    head: str = NOTHING
    fault: str | None = None
    kept_at: int | None = None

    def __post_init__(self) -> None:
        """Find the head of an empty log before the first entry."""
        if self.kept == NOTHING:
            self.kept_at = 0

    def step(self, row: JSON) -> bool:
        """Go on to the next entry, unless something is wrong with it, or before it; return whether nothing is."""
        seq = row["seq"]
        expected = self.entries + 1
        said = content(row)
        if not isinstance(seq, int) or seq < expected:
            self.fault = (
                f"entry {seq}: was inserted; after entry {self.entries} comes entry {expected}"
            )
        elif seq > expected:
            gone = (
                f"entry {expected}: is"
                if seq == expected + 1
                else f"entries {expected} to {seq - 1}: are"
            )
            self.fault = f"{gone} gone"
        elif chained(row["previous"], seq, said) != row["hash"]:
            self.fault = f"{_shown_entry(row)}: {_how_changed(row, said, self.head)}"
        elif row["previous"] != self.head:
            follows = f"doesn't follow from entry {self.entries}; one of the two was put in place of another"
            self.fault = f"{_shown_entry(row)}: {follows}"
        else:
            self.entries = seq
            self.head = row["hash"]
            self.kept_at = seq if self.head == self.kept else self.kept_at
        return self.fault is None

    def check_end(self, end: Head | None) -> None:
        """Find faults at the end of the log; `end` is its head."""
        if end is None:
            self.fault = "the row that holds the head of the log is gone"
        elif end.seq > self.entries:
            first = self.entries + 1
            cut = (
                f"entry {end.seq}: is" if end.seq == first else f"entries {first} to {end.seq}: are"
            )
            self.fault = f"{cut} gone; the log was cut at its end"
        elif end.seq < self.entries:
            self.fault = (
                f"entry {end.seq + 1}: was added past the head of the log, which is entry {end.seq}"
            )
        elif end.hash != self.head:
            self.fault = f"entry {end.seq}: isn't the one that the head of the log names; one of the two was altered"
        elif self.kept is not None and self.kept_at is None:
            self.fault = (
                f"no entry has the hash {self.kept}: the log was cut before it, or written anew"
            )


def _shown_entry(row: JSON) -> str:
    shown = readable(row)
    return f"entry {shown['seq']} ({shown['kind']} of {shown['subject']})"


def _how_changed(row: JSON, said: str, before: str) -> str:
    """Return how an entry was changed whose hash isn't that of what it says."""
    seq = row["seq"]
    if chained(before, seq, said) == row["hash"]:
        return "its link to the entry before was altered"
    near = range(max(1, seq - _NEAR), seq + _NEAR)
    moved = next(
        (place for place in near if chained(row["previous"], place, said) == row["hash"]), None
    )
    return "was altered" if moved is None else f"is entry {moved}, which was moved here"
