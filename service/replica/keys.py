"""API keys: made, shown once, stored as a hash, limited by the minute and by the day, revoked."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.errors import BadInput
from tribunal.schema import JSON, Frozen
from tribunal.service.replica.problems import Problem
from tribunal.store.audit import OPERATOR as THE_OPERATOR
from tribunal.store.audit import Entry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import api_keys, usage

Scope = Literal["judge", "review", "lead", "audit", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_NO_KEY = "no valid key: send one as Authorization: Bearer tribunal_…"
_MARK = "tribunal"  # so that a secret scanner knows one when it sees it


class Limits(Frozen):
    """What a key may spend; None is no limit."""

    per_minute: int | None = None
    daily_calls: int | None = None
    daily_tokens: int | None = None
    daily_money: float | None = None


class Spent(Frozen):
    """What a case has cost: calls, tokens, and money by the price table."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0


class Caller(Frozen):
    """Who makes a request. Without any key in the store everybody is the operator, on loopback only."""

    key_id: str
    name: str
    scopes: tuple[Scope, ...]
    limits: Limits = Limits()
    proxied: bool = False  # a trusted proxy says who it is

    def may(self, scope: Scope) -> bool:
        """Whether a scope is theirs; admin has all, and lead has review."""
        return scope in self.scopes or "admin" in self.scopes or (scope == "review" and "lead" in self.scopes)

    @property
    def who(self) -> Who:
        """As the audit log names them."""
        if self.proxied:
            return Who(who="person", name=self.name)
        return Who(who="key", key_id=self.key_id, name=self.name) if self.key_id else THE_OPERATOR


OPERATOR = Caller(key_id="", name="operator", scopes=("admin",))


async def add(store: Store, name: str, scopes: Sequence[str], limits: Limits) -> str:
    """Make a key; gives it whole, for the only time.

    Raises:
        BadInput: a scope is none.
    """
    unknown = next((each for each in scopes if each not in SCOPES), None)
    if unknown is not None or not scopes:
        raise BadInput(f"scope: {unknown or 'none'}: is no scope; they are {', '.join(SCOPES)}")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    row = {"id": key_id, "name": name, "hash": _hash(secret), "scopes": list(dict.fromkeys(scopes))}
    async with store.transaction() as connection:
        await connection.execute(api_keys.insert().values(**row, created=time.time(), **limits.model_dump()))
        details = {"name": name, "scopes": row["scopes"], **limits.model_dump(exclude_none=True)}
        await append(connection, THE_OPERATOR, Entry(kind="key.made", subject=key_id, details=details))
    return f"{_MARK}_{key_id}_{secret}"


async def revoke(store: Store, key_id: str) -> None:
    """From now on a key opens nothing.

    Raises:
        BadInput: there is no such key, or it is revoked already.
    """
    wanted = (api_keys.c.id == key_id) & api_keys.c.revoked.is_(None)
    async with store.transaction() as connection:
        done = await connection.execute(update(api_keys).where(wanted).values(revoked=time.time()))
        if done.rowcount:
            await append(connection, THE_OPERATOR, Entry(kind="key.revoked", subject=key_id))
    if not done.rowcount:
        raise BadInput(f"key: {key_id}: there is no such key in force; tribunal keys list shows them")


async def listed(store: Store) -> list[JSON]:
    """Every key but its hash, the oldest first."""
    async with store.reading() as connection:
        rows = (await connection.execute(select(api_keys).order_by(api_keys.c.created))).mappings()
        return [{name: value for name, value in row.items() if name != "hash"} for row in rows]


async def any_key(store: Store) -> bool:
    """Whether a key was ever made: from then on one is wanted, also when all are revoked."""
    async with store.reading() as connection:
        return (await connection.execute(select(api_keys.c.id).limit(1))).first() is not None


async def caller(store: Store, key: str | None) -> Caller:
    """Whose key this is.

    Raises:
        Problem: there is none, or it is unknown or revoked: one message for all three.
    """
    mark, _, rest = (key or "").strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if not (mark == _MARK and key_id and secret):
        if not await any_key(store):  # some clients can't send none
            return OPERATOR
        raise Problem("no_key", _NO_KEY)
    row = await _row_of(store, key_id)
    known = row is not None and hmac.compare_digest(row["hash"], _hash(secret))
    if row is None or not known or row["revoked"] is not None:
        raise Problem("no_key", _NO_KEY)
    return Caller(key_id=key_id, name=row["name"], scopes=tuple(row["scopes"]), limits=_limits_of(row))


async def caller_of(store: Store, key_id: str | None) -> Caller:
    """Whom the id of a key stands for while the key is in force; None: the operator, while there is no key.

    Raises:
        Problem: it isn't in force any more, or there is one now.
    """
    if key_id is None:
        if await any_key(store):
            raise Problem("no_key", _NO_KEY)
        return OPERATOR
    row = await _row_of(store, key_id)
    if row is None or row["revoked"] is not None:
        raise Problem("no_key", _NO_KEY)
    return Caller(key_id=key_id, name=row["name"], scopes=tuple(row["scopes"]), limits=_limits_of(row))


async def count_request(store: Store, who: Caller, times: int = 1, *, free: bool = False) -> None:
    """Count a request, over all replicas; one that brings several posts counts as so many.

    Raises:
        Problem: it is over the key's rate; or the day's budget is spent, and the request isn't `free`.
    """
    if not who.key_id:
        return
    now = datetime.now(UTC)
    minute, limits = now.strftime("%Y-%m-%dT%H:%M"), who.limits
    if limits.per_minute is not None:
        spent = {"calls": 0, "tokens": 0, "money": 0.0}
        one = store.insert(usage).values(key_id=who.key_id, period=minute, requests=times, **spent)
        one = one.on_conflict_do_update(
            index_elements=["key_id", "period"], set_={"requests": usage.c.requests + times}
        ).returning(usage.c.requests)
        async with store.transaction() as connection:
            if (await connection.execute(one)).scalar_one() > limits.per_minute:
                raise Problem("too_many", f"over {limits.per_minute} requests a minute", retry_after=61 - now.second)
    if not free:
        await _check_budget(store, who.key_id, limits, now)


async def check_key(store: Store, key_id: str) -> None:
    """Hold what is done later in the name of a key to what the key may do now.

    Raises:
        Problem: the key is revoked, or the day's budget is spent.
    """
    row = await _row_of(store, key_id)
    if row is None or row["revoked"] is not None:
        raise Problem("no_key", "the key that asked for it is revoked")
    await _check_budget(store, key_id, _limits_of(row), datetime.now(UTC))


async def _row_of(store: Store, key_id: str) -> JSON | None:
    async with store.reading() as connection:
        row = (await connection.execute(select(api_keys).where(api_keys.c.id == key_id))).mappings().first()
    return None if row is None else dict(row)


def _limits_of(row: JSON) -> Limits:
    return Limits.model_validate({name: row[name] for name in Limits.model_fields})


async def _check_budget(store: Store, key_id: str, limits: Limits, now: datetime) -> None:
    if (limits.daily_calls, limits.daily_tokens, limits.daily_money) == (None, None, None):
        return
    where = (usage.c.key_id == key_id) & (usage.c.period == now.strftime("%Y-%m-%d"))
    async with store.reading() as connection:
        spent = (await connection.execute(select(usage).where(where))).mappings().first()
    for name, limit in (("calls", limits.daily_calls), ("tokens", limits.daily_tokens), ("money", limits.daily_money)):
        used = spent[name] if spent is not None else 0
        if limit is not None and used >= limit:
            left = 86_400 - (now.hour * 3600 + now.minute * 60 + now.second)
            raise Problem("spent", f"this key's {name} of today are spent: {used:g} of {limit:g}", retry_after=left)


async def count_spent(store: Store, connection: AsyncConnection, key_id: str, spent: Spent) -> None:
    """Add what a case has cost to the day's account of the key that asked for it, in the transaction that ends it.

    Do it last: others who add to this account wait from here to the transaction's end.
    """
    day, values = datetime.now(UTC).strftime("%Y-%m-%d"), spent.model_dump()
    statement = store.insert(usage).values(key_id=key_id, period=day, requests=0, **values)
    added = {name: usage.c[name] + value for name, value in values.items()}
    await connection.execute(statement.on_conflict_do_update(index_elements=["key_id", "period"], set_=added))


def _hash(secret: str) -> str:
    """The secret is 256 random bits, so one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
