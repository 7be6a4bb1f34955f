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

from tribunal.cases.problem import Problem
from tribunal.cases.reservations import budget_problem
from tribunal.errors import BadInput
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR as THE_OPERATOR
from tribunal.store.audit import LogEntry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import api_keys, usage

Scope = Literal["judge", "review", "lead", "audit", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_NO_KEY = "no valid key: send one as Authorization: Bearer tribunal_…"
_MARK = "tribunal"  # so that a secret scanner knows one when it sees it


class KeyLimits(Frozen):
    """Limits of what a key may spend; None: no limit."""

    per_minute: int | None = None
    daily_calls: int | None = None
    daily_tokens: int | None = None
    daily_money: float | None = None


class Caller(Frozen):
    """The one who makes a request. Without any key in the store everybody is the operator, on loopback only."""

    key_id: str
    name: str
    scopes: tuple[Scope, ...]
    limits: KeyLimits = KeyLimits()
    proxied: bool = False  # a trusted proxy says who it is

    def may(self, scope: Scope) -> bool:
        """Return whether a scope is theirs; admin has all, and lead has review."""
        return scope in self.scopes or "admin" in self.scopes or (scope == "review" and "lead" in self.scopes)

    @property
    def audit_actor(self) -> Who:
        """Return them as the audit log names them."""
        if self.proxied:
            return Who(who="person", name=self.name)
        return Who(who="key", key_id=self.key_id, name=self.name) if self.key_id else THE_OPERATOR


OPERATOR = Caller(key_id="", name="operator", scopes=("admin",))


async def add_key(store: Store, name: str, scopes: Sequence[str], limits: KeyLimits) -> str:
    """Make a key, and return it whole, for the only time; raise BadInput if a scope is none."""
    unknown = next((each for each in scopes if each not in SCOPES), None)
    if unknown is not None or not scopes:
        raise BadInput(f"scope: {unknown or 'none'}: is no scope; they are {', '.join(SCOPES)}")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    row = {"id": key_id, "name": name, "hash": _hash_secret(secret), "scopes": list(dict.fromkeys(scopes))}
    async with store.transaction() as connection:
        await connection.execute(api_keys.insert().values(**row, created=time.time(), **limits.model_dump()))
        details = {"name": name, "scopes": row["scopes"], **limits.model_dump(exclude_none=True)}
        await append(connection, THE_OPERATOR, LogEntry(kind="key.made", subject=key_id, details=details))
    return f"{_MARK}_{key_id}_{secret}"


async def revoke_key(store: Store, key_id: str) -> None:
    """Revoke a key: from now on it opens nothing; raise BadInput if there is no such key, or it is revoked already."""
    in_force = (api_keys.c.id == key_id) & api_keys.c.revoked.is_(None)
    async with store.transaction() as connection:
        done = await connection.execute(update(api_keys).where(in_force).values(revoked=time.time()))
        if done.rowcount:
            await append(connection, THE_OPERATOR, LogEntry(kind="key.revoked", subject=key_id))
    if not done.rowcount:
        raise BadInput(f"key: {key_id}: there is no such key in force; tribunal keys list shows them")


async def list_keys(store: Store) -> list[JSON]:
    """Return every key without its hash, the oldest first."""
    shown = [column for column in api_keys.c if column.name != "hash"]
    return await store.fetch_rows(select(*shown).order_by(api_keys.c.created))


async def has_keys(store: Store) -> bool:
    """Return whether a key was ever made: from then on one is needed, also when all are revoked."""
    return await store.fetch_value(select(api_keys.c.id).limit(1)) is not None


async def find_caller(store: Store, key: str | None) -> Caller:
    """Return whose key this is.

    Raises:
        Problem: there is none, or it is unknown or revoked: one message for all three.
    """
    mark, _, rest = (key or "").strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if not (mark == _MARK and key_id and secret):
        if not await has_keys(store):  # some clients can't send none
            return OPERATOR
        raise Problem("no_key", _NO_KEY)
    return await _caller_in_force(store, key_id, secret=secret)


async def caller_with_key_id(store: Store, key_id: str | None) -> Caller:
    """Return whom the id of a key stands for while the key is in force; None: the operator, while there is no key.

    Raises:
        Problem: it isn't in force any more, or there is one now.
    """
    if key_id is None:
        if await has_keys(store):
            raise Problem("no_key", _NO_KEY)
        return OPERATOR
    return await _caller_in_force(store, key_id)


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
        counting = store.insert(usage).values(key_id=who.key_id, period=minute, requests=times, **spent)
        counting = counting.on_conflict_do_update(
            index_elements=["key_id", "period"], set_={"requests": usage.c.requests + times}
        ).returning(usage.c.requests)
        async with store.transaction() as connection:
            if (await connection.execute(counting)).scalar_one() > limits.per_minute:
                raise Problem("too_many", f"over {limits.per_minute} requests a minute", retry_after=61 - now.second)
    if not free:
        await _check_budget(store, who, now)


async def check_key(store: Store, key_id: str) -> None:
    """Check that what is done later in the name of a key is what the key may do now.

    Raises:
        Problem: the key is revoked, or the day's budget is spent.
    """
    caller = await _caller_in_force(store, key_id, "the key that asked for it is revoked")
    await _check_budget(store, caller, datetime.now(UTC))


async def _caller_in_force(store: Store, key_id: str, message: str = _NO_KEY, secret: str | None = None) -> Caller:
    """Return whom the id of a key stands for; raise Problem if there is none in force, or the secret is another's."""
    row = await store.fetch_row(select(api_keys).where(api_keys.c.id == key_id, api_keys.c.revoked.is_(None)))
    if row is None or (secret is not None and not hmac.compare_digest(row["hash"], _hash_secret(secret))):
        raise Problem("no_key", message)
    limits = KeyLimits.model_validate({name: row[name] for name in KeyLimits.model_fields})
    return Caller(key_id=row["id"], name=row["name"], scopes=tuple(row["scopes"]), limits=limits)


async def _check_budget(store: Store, who: Caller, now: datetime) -> None:
    limits = {"calls": who.limits.daily_calls, "tokens": who.limits.daily_tokens, "money": who.limits.daily_money}
    if not any(limit is not None for limit in limits.values()):
        return
    where = (usage.c.key_id == who.key_id) & (usage.c.period == now.strftime("%Y-%m-%d"))
    spent = await store.fetch_row(select(usage).where(where)) or dict.fromkeys(limits, 0)
    for name, limit in limits.items():
        if limit is not None and spent[name] >= limit:
            raise budget_problem(name, spent[name], spent.get(f"reserved_{name}", 0), limit, now)


def _hash_secret(secret: str) -> str:
    """Return the hash of a secret, which is 256 random bits, so that one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
