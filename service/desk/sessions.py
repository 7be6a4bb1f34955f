"""Who is signed in to the desk: sessions in the database, so that every replica knows them and any can end them.

The browser holds 256 random bits; the database has their hash. The key itself is held by neither.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from ipaddress import ip_address, ip_network

from sqlalchemy import delete, select, update

from tribunal.schema import JSON, Frozen
from tribunal.service.replica.keys import Caller, caller_of
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem
from tribunal.store.audit import Entry, append
from tribunal.store.engine import Store
from tribunal.store.tables import desk_sessions, desk_tries

MOST_TRIES = 10  # keys that one address may try in vain in a minute
_REST = 600.0  # seconds without a request that are a break
_NOTED = 30.0  # seconds after which a request is worth writing down


class Session(Frozen):
    """Somebody who is signed in. `token` is what their browser holds."""

    token: str
    who: Caller
    person: str
    hard: int

    @property
    def id(self) -> str:
        return hashed(self.token)

    @property
    def csrf(self) -> str:
        """What every form of theirs holds: it can be made of the token, and the token not of it."""
        return csrf_of(self.token)


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_of(token: str) -> str:
    """What a form holds of a token that the browser holds beside it."""
    return hmac.new(token.encode(), b"form", hashlib.sha256).hexdigest()


class Sessions:
    """The sessions of a store, under the operator's options."""

    def __init__(self, store: Store, options: ServiceOptions) -> None:
        self._store, self._options = store, options

    async def begin(self, who: Caller, named: str | None) -> str:
        """Sign somebody in; gives what their browser holds from then on.

        Args:
            who: by key, by the proxy, or the operator.
            named: who they say they are.
        """
        token, now = secrets.token_urlsafe(32), time.time()
        row: JSON = {
            "id": hashed(token), "key_id": who.key_id or None, "proxied": who.name if who.proxied else None,
            "named": named, "created": now, "seen": now, "hard": 0,
        }  # fmt: skip
        long_gone = desk_sessions.c.created < now - 3600 * self._options.desk_hours
        async with self._store.transaction() as connection:
            await connection.execute(delete(desk_sessions).where(long_gone))
            await connection.execute(desk_sessions.insert().values(**row))
            told = Entry(kind="desk.signed_in", subject=row["id"][:16], details={"named": named})
            await append(connection, who.who, told)
        return token

    async def end(self, session: Session) -> None:
        """Sign somebody out: what their browser holds opens nothing any more."""
        async with self._store.transaction() as connection:
            await connection.execute(delete(desk_sessions).where(desk_sessions.c.id == session.id))
            told = Entry(kind="desk.signed_out", subject=session.id[:16])
            await append(connection, session.who.who, told)

    async def of(self, token: str, proxied: Caller | None) -> Session | None:
        """The session of a browser; None where there is none, or none any more.

        Args:
            token: what the browser holds.
            proxied: whom the trusted proxy names in this request. A session that was begun so is theirs alone.
        """
        now = time.time()
        async with self._store.transaction() as connection:
            where = desk_sessions.c.id == hashed(token)
            row = (await connection.execute(select(desk_sessions).where(where))).mappings().first()
            if row is None:
                return None
            over = now - row["created"] > 3600 * self._options.desk_hours
            idle = now - row["seen"]
            if over or idle > 60 * self._options.desk_idle:
                await connection.execute(delete(desk_sessions).where(where))
                return None
            hard = 0 if idle > _REST else row["hard"]
            if idle > _NOTED:
                await connection.execute(update(desk_sessions).where(where).values(seen=now, hard=hard))
        who = await self._who(dict(row), proxied)
        if who is None:
            return None
        person = f"{row['named']} ({who.name})" if row["named"] else who.name
        return Session(token=token, who=who, person=person, hard=hard)

    async def _who(self, row: JSON, proxied: Caller | None) -> Caller | None:
        if row["proxied"] is not None or proxied is not None:
            return proxied if proxied is not None and proxied.name == row["proxied"] else None
        try:
            return await caller_of(self._store, row["key_id"])
        except Problem:
            return None  # the key was revoked, or the first one was made since

    async def seen_hard(self, session: Session, *, hard: bool) -> int:
        """Note that a case was decided; gives how many hard ones there were in a row."""
        count = desk_sessions.c.hard + 1 if hard else 0
        changing = update(desk_sessions).where(desk_sessions.c.id == session.id).values(hard=count)
        async with self._store.transaction() as connection:
            return int((await connection.execute(changing.returning(desk_sessions.c.hard))).scalar() or 0)

    async def rested(self, session: Session) -> None:
        """Begin to count anew."""
        await self.seen_hard(session, hard=False)

    async def attempt(self, address: str) -> None:
        """Count that a key is tried; `forgive` takes it back where it was a right one.

        Raises:
            Problem: the address has tried too many.
        """
        row = {"address": _bucket(address), "minute": _minute(), "number": 1}
        more = {"number": desk_tries.c.number + 1}
        one = self._store.insert(desk_tries).values(**row)
        one = one.on_conflict_do_update(index_elements=["address", "minute"], set_=more)
        async with self._store.transaction() as connection:
            tried = (await connection.execute(one.returning(desk_tries.c.number))).scalar_one()
            await connection.execute(delete(desk_tries).where(desk_tries.c.minute < _minute() - 10))
        if tried > MOST_TRIES:
            left = 61 - int(time.time() % 60)
            raise Problem("too_many", f"over {MOST_TRIES} keys a minute were tried from there", retry_after=left)

    async def forgive(self, address: str) -> None:
        """The key that was tried last was a right one."""
        where = (desk_tries.c.address == _bucket(address)) & (desk_tries.c.minute == _minute())
        async with self._store.transaction() as connection:
            await connection.execute(update(desk_tries).where(where).values(number=desk_tries.c.number - 1))


def _minute() -> int:
    return int(time.time() // 60)


def _bucket(address: str) -> str:
    """Whoever has one address of IPv6 has the 2⁶⁴ of its network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:80]
    return str(found) if found.version == 4 else str(ip_network(f"{found}/64", strict=False))
