"""Keeping verdicts: one row a case, in the service's database, whichever way it came in."""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError

from tribunal.cases.erasure import post_without_words, without_words
from tribunal.cases.keep_options import KeepOptions
from tribunal.cases.record_rows import decision_entry, record_columns, store_texts
from tribunal.errors import BadInput
from tribunal.loops import PerLoop
from tribunal.schema import JSON, Record
from tribunal.store.audit import OPERATOR, append, sha
from tribunal.store.engine import DatabaseUnreachable, Store
from tribunal.store.tables import cases
from tribunal.text import one_line
from tribunal.times import new_id

_stores: PerLoop[Store] = PerLoop(Store.open, Store.close)


async def store_here(database: str | None = None) -> Store:
    """Return the running event loop's database at this address.

    Raises:
        BadInput: as `Store.open`.
    """
    return await _stores.get(database)


async def check_database(options: KeepOptions) -> None:
    """Check before the first call that verdicts can be kept. A database that is away now may be there later.

    Raises:
        BadInput: its address is wrong, or its tables are of another version.
    """
    with suppress(DatabaseUnreachable):
        await store_here(options.database)


async def keep_record(
    options: KeepOptions, record: Record, post: JSON, settings: JSON, money: float | None = None
) -> Record:
    """Keep a verdict, or what became of one that waited. One that can't be kept is given back all the same.

    `post` is as a graph takes it, `settings` as a record keeps them, `money` what it cost.

    Returns:
        the record, which names the case that it is kept as (`kept`); or why it isn't kept, among its warnings.
    """
    named = record.model_copy(update={"kept": record.kept or record.thread or new_id()})
    try:
        store = await store_here(options.database)
        if record.thread is not None:
            await _mark_waiting(store, options, named, money)
        else:
            await _write(store, options, named, {name: value for name, value in post.items() if value}, settings, money)
    except (SQLAlchemyError, OSError, RuntimeError, BadInput) as error:
        why = f"this verdict could not be kept ({one_line(str(getattr(error, 'orig', None) or error))[:300]})"
        return record.model_copy(update={"warnings": (*record.warnings, why), "kept": None})
    return named


async def _write(
    store: Store, options: KeepOptions, record: Record, post: JSON, settings: JSON, money: float | None
) -> None:
    """Write a verdict down, with the texts that it was come to by, or in the place of what the case was before."""
    now, dumped = time.time(), record.dump() if options.text else without_words(record.dump())
    changing: JSON = {
        **record_columns(record), "finished": now, "record": dumped, "money": money,
        "erased": None if options.text else now,
    }  # fmt: skip
    row: JSON = {
        "id": record.kept, "created": now, "status": "done", "attempt": 1, "attempts_before": 0,
        "graph": record.graph, "settings": settings, "keep": True, "via": options.via, "post_sha": sha(post),
        "post": post if options.text else post_without_words(post), **changing,
    }  # fmt: skip
    # Whoever names a case of another way in, as a client of a server may, changes nothing.
    mine = cases.c.via == options.via
    written = store.insert(cases).values(**row)
    async with store.transaction() as connection:
        await store_texts(store, connection, record)
        await connection.execute(written.on_conflict_do_update(index_elements=["id"], set_=changing, where=mine))
        entry = decision_entry(str(record.kept), row["post_sha"], record, dumped, via=options.via)
        await append(connection, OPERATOR, entry)


async def _mark_waiting(store: Store, options: KeepOptions, record: Record, money: float | None) -> None:
    """Note of a case that waits for a person that it is kept, how it came in, and whether its words stay."""
    values = {"via": options.via, "words": options.text, "money": money, "record": record.dump()}
    waits = (cases.c.id == record.thread) & cases.c.question.is_not(None) & (cases.c.via != "service")
    async with store.transaction() as connection:
        await connection.execute(update(cases).where(waits).values(**values))
