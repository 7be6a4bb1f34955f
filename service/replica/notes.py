"""What people write of a case beside deciding it: notes, and why it was escalated or skipped."""

from __future__ import annotations

import secrets
import time
from typing import Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.schema import JSON
from tribunal.service.replica.problems import Problem
from tribunal.store.audit import OPERATOR, Entry, Who, append, sha
from tribunal.store.engine import Store
from tribunal.store.tables import cases, notes

Kind = Literal["note", "escalated", "skipped"]
_TOLD = {"note": "case.noted", "escalated": "case.escalated", "skipped": "case.skipped"}


def row_of(case_id: str, person: str, kind: Kind, words: str) -> JSON:
    """A note, as a row."""
    return {
        "id": f"note-{secrets.token_hex(8)}", "case_id": case_id, "at": time.time(), "person": person, "kind": kind,
        "words": words,
    }  # fmt: skip


def told_of(row: JSON) -> Entry:
    """What the audit log is told of a note: whose it is, and the hash of its words."""
    details = {"reviewer": row["person"], **({"words_sha": sha(row["words"])} if row["words"] else {})}
    return Entry.model_validate({"kind": _TOLD[row["kind"]], "subject": row["case_id"], "details": details})


async def write(store: Store, case_id: str, person: str, kind: Kind, words: str, by: Who = OPERATOR) -> None:
    """Keep a note with a case, whatever became of it.

    Raises:
        Problem: there is no such case, or a note without words.
    """
    if kind == "note" and not words.strip():
        raise Problem("bad_input", "note: is empty; write it")
    row = row_of(case_id, person, kind, words.strip())
    async with store.transaction() as connection:
        if (await connection.execute(select(cases.c.id).where(cases.c.id == case_id))).first() is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        await put(connection, row)
        await append(connection, by, told_of(row))


async def put(connection: AsyncConnection, row: JSON) -> None:
    """Write a note down, in the transaction of what it is about."""
    await connection.execute(notes.insert().values(**row))


async def of(store: Store, case_id: str) -> list[JSON]:
    """The notes of a case, the oldest first; of those that were erased, the words are empty."""
    wanted = select(notes).where(notes.c.case_id == case_id).order_by(notes.c.at, notes.c.id)
    async with store.reading() as connection:
        return [dict(row) for row in (await connection.execute(wanted)).mappings()]
