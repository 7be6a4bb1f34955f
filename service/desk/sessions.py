"""Sessions of the desk, in the database, so that every replica knows who is signed in and any can end a session.

The browser holds 256 random bits; the database has their hash. The key itself is held by neither.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from ipaddress import ip_address, ip_network

from sqlalchemy import delete, select, update

from tribunal.core.times import database_now
from tribunal.errors import Problem
from tribunal.schema import JSON, Frozen
from tribunal.service.replica.keys import Caller, caller_with_key_id
from tribunal.service.replica.options import ServiceOptions
from tribunal.store.audit import LogEntry, append
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import desk_sessions, desk_tries

MOST_TRIES = 10  # keys that one address may try in vain in a minute
_REST = 600.0  # seconds without a request that are a break
_NOTED = 30.0  # seconds after which a request is worth writing down


class DeskSession(Frozen):
    """Somebody who is signed in. `id` is the hash of what their browser holds; `csrf` stands in all their forms."""

    id: str
    csrf: str
    who: Caller
    person: str
    hard: int


def hash_token(token: str) -> str:
    """Return the hash of a token, as the database has it."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_token(token: str) -> str:
    """Return the token that a form holds: it can be made of the one that the browser holds, and not the other way."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


class DeskSessionStore:
    """The sessions of a store, under the operator's options."""

    def __init__(self, store: Store, options: ServiceOptions) -> None:
        """Keep the store and the options."""
        self._store = store
        self._options = options

    async def begin_session(self, who: Caller, named: str | None) -> str:
        """Sign somebody in, who says that they are `named`; return what their browser holds from then on."""
        token = secrets.token_urlsafe(32)
        now = database_now()
        row: JSON = {
            "id": hash_token(token), "key_id": who.key_id or None, "proxied": who.name if who.proxied else None,
            "named": named, "created": now, "seen": now, "hard": 0,
        }  # fmt: skip
        long_gone = desk_sessions.c.created < now - 3600 * self._options.desk_hours
        async with self._store.transaction() as connection:
            await connection.execute(delete(desk_sessions).where(long_gone))
            await connection.execute(desk_sessions.insert().values(**row))
            entry = LogEntry(
                kind="desk.signed_in", subject=row["id"][:16], details={"named": named}
            )
            await append(connection, who.audit_actor, entry)
        return token

    async def end_session(self, session: DeskSession) -> None:
        """Sign somebody out: what their browser holds opens nothing any more."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(desk_sessions).where(desk_sessions.c.id == session.id))
            entry = LogEntry(kind="desk.signed_out", subject=session.id[:16])
            await append(connection, session.who.audit_actor, entry)

    async def find_session(self, token: str, proxied: Caller | None) -> DeskSession | None:
        """Return the session of a browser; None where there is none, or it ended.

        Args:
            token: what the browser holds.
            proxied: whom the trusted proxy names in this request. A session that was begun so is theirs alone.
        """
        now = database_now()
        where = desk_sessions.c.id == hash_token(token)
        async with self._store.transaction() as connection:
            row = await first_row(connection, select(desk_sessions).where(where))
            if row is None:
                return None
            over = now - row["created"] > 3600 * self._options.desk_hours
            idle = now - row["seen"]
            if over or idle > 60 * self._options.desk_idle:
                await connection.execute(delete(desk_sessions).where(where))
                return None
            hard = 0 if idle > _REST else row["hard"]
            if idle > _NOTED:
                await connection.execute(
                    update(desk_sessions).where(where).values(seen=now, hard=hard)
                )
        if row["proxied"] is not None or proxied is not None:
            who = proxied if proxied is not None and proxied.name == row["proxied"] else None
        else:
            try:
                who = await caller_with_key_id(self._store, row["key_id"])
            except Problem:
                who = None  # the key was revoked or has expired, or the first one was made since
        if who is None:
            return None
        person = f"{row['named']} ({who.name})" if row["named"] else who.name
        return DeskSession(id=row["id"], csrf=csrf_token(token), who=who, person=person, hard=hard)

    async def count_hard_case(self, session: DeskSession, *, hard: bool) -> int:
        """Note that a case was decided; return how many hard ones there were in a row. One that isn't ends the row."""
        count = desk_sessions.c.hard + 1 if hard else 0
        changing = update(desk_sessions).where(desk_sessions.c.id == session.id).values(hard=count)
        async with self._store.transaction() as connection:
            return int(await connection.scalar(changing.returning(desk_sessions.c.hard)) or 0)

    async def count_key_attempt(self, address: str, change: int = 1) -> None:
        """Count that a key is tried; with a `change` of -1 take that back, since it was a right one.

        Raises:
            Problem: the address has tried too many.
        """
        minute = int(database_now() // 60)
        one = self._store.insert(desk_tries).values(
            address=_address_bucket(address), minute=minute, number=max(change, 0)
        )
        one = one.on_conflict_do_update(
            index_elements=["address", "minute"], set_={"number": desk_tries.c.number + change}
        )
        async with self._store.transaction() as connection:
            tried = (await connection.execute(one.returning(desk_tries.c.number))).scalar_one()
            await connection.execute(delete(desk_tries).where(desk_tries.c.minute < minute - 10))
        if tried > MOST_TRIES:
            left = 61 - int(database_now() % 60)
            raise Problem(
                "too_many",
                f"over {MOST_TRIES} keys a minute were tried from there",
                retry_after=left,
            )


def _address_bucket(address: str) -> str:
    """Return what attempts are counted by: whoever has one address of IPv6 has the 2⁶⁴ of its network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:80]
    return str(found) if found.version == 4 else str(ip_network(f"{found}/64", strict=False))
