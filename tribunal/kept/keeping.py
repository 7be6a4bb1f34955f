"""Keeping verdicts: one row a case, in the service's database, whichever way it came in."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError

from tribunal.errors import BadInput
from tribunal.kept.columns import columns, decided
from tribunal.kept.texts import missing, store_texts, stored, texts_of
from tribunal.kept.wanted import Wanted
from tribunal.kept.words import nameless_post, without_words
from tribunal.loops import PerLoop
from tribunal.schema import JSON, Record
from tribunal.store.audit import OPERATOR, Who, append, sha
from tribunal.store.engine import Store, Unreachable
from tribunal.store.ids import new_id
from tribunal.store.noting import note_decision
from tribunal.store.tables import cases
from tribunal.text import one_line

# What writing to a database may come to, through no fault of the verdict's.
_UNKEPT = (SQLAlchemyError, OSError, RuntimeError, BadInput)
_stores: PerLoop[Store] = PerLoop(Store.open, Store.close)


async def store_here(database: str | None = None) -> Store:
    """The running event loop's database at this address.

    Raises:
        BadInput: as `Store.open`.
    """
    return await _stores.here(database)


class Keeper:
    """Keeps the verdicts of one way in. One that can't be kept is given back all the same, and says so.

    Attributes:
        wanted: the way in, and how they are kept.
        missed: how many could not be kept.
    """

    def __init__(self, wanted: Wanted) -> None:
        """
        Args:
            wanted: the way in, and how they are kept.
        """
        self.wanted = wanted
        self.missed = 0

    async def check(self) -> None:
        """See before the first call that the database can be used. One that is away now may be there later.

        Raises:
            BadInput: its address is wrong, or its tables are of another version.
        """
        try:
            await store_here(self.wanted.database)
        except Unreachable:
            return

    async def keep(self, record: Record, post: JSON, settings: JSON, money: float | None = None) -> Record:
        """Keep a verdict, or what became of one that waited.

        Args:
            record: it; a case that lies in the docket is kept under its thread.
            post: as a graph takes it.
            settings: those that were given, as a record keeps them.
            money: what it cost.

        Returns:
            the record, which names the case that it is kept as; or why it isn't kept, among its warnings.
        """
        named = record.model_copy(update={"kept": record.kept or record.thread or new_id()})
        try:
            store = await store_here(self.wanted.database)
            await keep(store, named, post, settings, via=self.wanted.via, text=self.wanted.text, money=money)
        except _UNKEPT as error:
            self.missed += 1
            return unkept(record, error)
        return named

    async def keep_again(self, record: Record) -> Record:
        """Keep what became of a case that is kept already, as a person decided it; nothing where it isn't kept."""
        case_id = record.thread or record.kept or ""
        named = record.model_copy(update={"kept": case_id})
        try:
            return named if await keep_again(await store_here(self.wanted.database), named) else record
        except _UNKEPT as error:
            self.missed += 1
            return unkept(record, error)


def unkept(record: Record, error: Exception) -> Record:
    """A record that says why it isn't kept."""
    said = one_line(str(getattr(error, "orig", None) or error))[:300]
    why = f"this verdict could not be kept ({said})"
    return record.model_copy(update={"warnings": (*record.warnings, why), "kept": None})


async def keep(
    store: Store,
    record: Record,
    post: JSON,
    settings: JSON,
    *,
    via: str,
    text: bool = True,
    money: float | None = None,
    created: float | None = None,
    by: Who = OPERATOR,
) -> None:
    """Write a verdict down, with the texts that it was come to by, or in the place of what the case was before.

    Args:
        store: the database.
        record: it, with the id that the case has (`kept`).
        post: as a graph takes it.
        settings: those that were given.
        via: the way in.
        text: whether words are kept.
        money: what it cost.
        created: when the post came; None: now.
        by: who had it tried, for the audit log.

    Raises:
        SQLAlchemyError: it can't be written; nothing of it is.
    """
    now, dumped = time.time(), _dumped(record, text=text)
    given = {name: value for name, value in post.items() if value}
    changing: JSON = {
        **columns(record), "finished": now, "record": dumped, "money": money, "erased": None if text else now,
    }  # fmt: skip
    row: JSON = {
        "id": record.kept, "created": created or now, "status": "done", "attempt": 1, "attempts_before": 0,
        "graph": record.graph, "settings": settings, "keep": True, "via": via, "post_sha": sha(given),
        "post": given if text else nameless_post(given), **changing,
    }  # fmt: skip
    texts = missing(store, texts_of(record))
    async with store.transaction() as connection:
        await store_texts(store, connection, texts)
        written = store.insert(cases).values(**row)
        # Whoever names a case of another way in, as a client of a server may, changes nothing.
        mine = cases.c.via == via
        await connection.execute(written.on_conflict_do_update(index_elements=["id"], set_=changing, where=mine))
        told = decided(record.kept or "", row["post_sha"], record, dumped, via=via)
        await append(connection, by, told)
    stored(store, texts)


async def keep_again(store: Store, record: Record, by: Who = OPERATOR) -> bool:
    """Write down what became of a case that is kept: whether there is such a case, and its words are.

    Raises:
        SQLAlchemyError: it can't be written; nothing of it is.
    """
    mine, texts = cases.c.id == record.kept, missing(store, texts_of(record))
    async with store.transaction() as connection:
        await store_texts(store, connection, texts)
        changed = update(cases).where(mine).values(**columns(record), finished=time.time())
        found: Any = (
            await connection.execute(changed.returning(cases.c.post_sha, cases.c.via, cases.c.erased))
        ).first()
        if found is None:
            return False
        dumped = _dumped(record, text=found.erased is None)
        await connection.execute(update(cases).where(mine).values(record=dumped))
        if (review := record.review) is not None and review.action is not None:
            result = "accepted" if review.court.get("category") == record.category else "changed"
            who, after = review.reviewer or "a reviewer", {"category": record.category, "hateful": record.hateful}
            await note_decision(
                connection, record.kept or "", "review", who, result, review.court, after, at=time.time()
            )
        told = decided(record.kept or "", found.post_sha, record, dumped, via=found.via)
        await append(connection, by, told)
    stored(store, texts)
    return True


def _dumped(record: Record, *, text: bool) -> JSON:
    return record.dump() if text else without_words(record.dump())
