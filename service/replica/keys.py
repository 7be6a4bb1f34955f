"""API keys: made, shown once, stored as a hash, limited by the minute and by the day, rotated, expired, revoked.

A rotation gives a key another secret and leaves its id: its budget, its cases, its batches and its desk sessions go on.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import delete, func, select, update

from tribunal.core.times import database_datetime, database_now, format_date
from tribunal.docket.reservations import budget_problem
from tribunal.errors import BadInput, Problem
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR as THE_OPERATOR
from tribunal.store.audit import LogEntry, Who, append
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import api_keys, desk_sessions, usage

Scope = Literal["judge", "review", "lead", "audit", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_NO_KEY = "no valid key: send one as Authorization: Bearer tribunal_…"
_NOT_IN_FORCE = "there is no such key in force; tribunal service keys list shows them"
_MARK = "tribunal"  # so that a secret scanner knows one when it sees it
WARNING_DAYS = 14  # before a key's end: how early the metrics tell the operator
RefusalReason = Literal["unknown", "revoked", "expired"]


class KeyRefused(Problem):
    """A key that opens nothing. The client isn't told why, since that would tell a stranger which keys there are.

    Attributes:
        reason: for the operator's log and metrics.
        key_id: of the key; empty where it is unknown or the secret is wrong.
    """

    def __init__(self, reason: RefusalReason, key_id: str = "", message: str = _NO_KEY) -> None:
        """Take the reason, the key's id, and what the client reads."""
        super().__init__("no_key", message)
        self.reason = reason
        self.key_id = key_id


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
        return (
            scope in self.scopes
            or "admin" in self.scopes
            or (scope == "review" and "lead" in self.scopes)
        )

    @property
    def audit_actor(self) -> Who:
        """Return them as the audit log names them."""
        if self.proxied:
            return Who(who="person", name=self.name)
        return Who(who="key", key_id=self.key_id, name=self.name) if self.key_id else THE_OPERATOR


OPERATOR = Caller(key_id="", name="operator", scopes=("admin",))


async def add_key(
    store: Store,
    name: str,
    scopes: Sequence[str],
    limits: KeyLimits,
    expires: float | None = None,
    priority: int = 0,
) -> str:
    """Make a key, and return it whole, for the only time.

    Args:
        store: where it is kept.
        name: its owner.
        scopes: what it opens.
        limits: what it may spend.
        expires: when it ends, in seconds of the epoch; None: never.
        priority: of its cases in the queue: the higher goes first.

    Raises:
        BadInput: a scope is none.
    """
    unknown = next((each for each in scopes if each not in SCOPES), None)
    if unknown is not None or not scopes:
        raise BadInput(f"scope: {unknown or 'none'}: is no scope; they are {', '.join(SCOPES)}")
    key_id = secrets.token_hex(6)
    secret = secrets.token_urlsafe(32)
    row = {
        "id": key_id,
        "name": name,
        "hash": _hash_secret(secret),
        "scopes": list(dict.fromkeys(scopes)),
    }
    async with store.transaction() as connection:
        made = api_keys.insert().values(
            **row, created=database_now(), expires=expires, priority=priority, **limits.model_dump()
        )
        await connection.execute(made)
        details: JSON = {
            "name": name,
            "scopes": row["scopes"],
            **limits.model_dump(exclude_none=True),
        }
        if expires is not None:
            details["expires"] = expires
        if priority:
            details["priority"] = priority
        await append(
            connection, THE_OPERATOR, LogEntry(kind="key.made", subject=key_id, details=details)
        )
    return f"{_MARK}_{key_id}_{secret}"


async def rotate_key(
    store: Store, key_id: str, overlap: float, expires: float | None = None
) -> tuple[str, float]:
    """Give a key another secret; also one that has expired.

    Args:
        store: where it is kept.
        key_id: which key.
        overlap: seconds for which the old secret still opens it. 0 ends the old one now, and the key's desk sessions.
        expires: when the key ends, in seconds of the epoch; None: after as long a time as before, or never.

    Returns:
        the new key, whole, for the only time; and when the old one ends.

    Raises:
        BadInput: there is no such key in force, or an older secret still opens it and `overlap` isn't 0.
    """
    now = database_now()
    secret = secrets.token_urlsafe(32)
    in_force = (api_keys.c.id == key_id) & api_keys.c.revoked.is_(None)
    async with store.transaction() as connection:
        row = await first_row(connection, select(api_keys).where(in_force).with_for_update())
        if row is None:
            raise BadInput(f"key: {key_id}: {_NOT_IN_FORCE}")
        if overlap and row["old_hash"] is not None and row["old_expires"] > now:
            until = format_date(row["old_expires"])
            raise BadInput(
                f"key: {key_id}: was rotated, and its old secret works until {until}; rotate it then, or give "
                "--overlap 0 to end both now"
            )
        if expires is None and row["expires"] is not None:
            expires = now + row["expires"] - (row["rotated"] or row["created"])
        old_expires = min(now + overlap, row["expires"] or math.inf)
        values = {"old_hash": row["hash"], "old_expires": old_expires} if overlap else {}
        changed = {"hash": _hash_secret(secret), "rotated": now, "expires": expires}
        kept = {"old_hash": None, "old_expires": None, **values}
        await connection.execute(update(api_keys).where(in_force).values(**changed, **kept))
        if not overlap:
            await connection.execute(delete(desk_sessions).where(desk_sessions.c.key_id == key_id))
        details = {"old_expires": old_expires, "expires": expires}
        await append(
            connection, THE_OPERATOR, LogEntry(kind="key.rotated", subject=key_id, details=details)
        )
    return f"{_MARK}_{key_id}_{secret}", old_expires


async def revoke_key(store: Store, key_id: str) -> None:
    """Revoke a key: from now on it opens nothing; raise BadInput if there is no such key, or it is revoked already."""
    in_force = (api_keys.c.id == key_id) & api_keys.c.revoked.is_(None)
    async with store.transaction() as connection:
        done = await connection.execute(
            update(api_keys).where(in_force).values(revoked=database_now())
        )
        if done.rowcount:
            await append(connection, THE_OPERATOR, LogEntry(kind="key.revoked", subject=key_id))
    if not done.rowcount:
        raise BadInput(f"key: {key_id}: {_NOT_IN_FORCE}")


async def list_keys(store: Store) -> list[JSON]:
    """Return every key without its hashes, the oldest first."""
    shown = [column for column in api_keys.c if column.name not in ("hash", "old_hash")]
    return await store.fetch_rows(select(*shown).order_by(api_keys.c.created))


async def count_keys_ending(store: Store) -> int:
    """Return how many keys in force end within `WARNING_DAYS`."""
    now = database_now()
    soon = api_keys.c.revoked.is_(None) & api_keys.c.expires.between(
        now, now + 86_400 * WARNING_DAYS
    )
    return int(await store.fetch_value(select(func.count()).where(soon)) or 0)


async def has_keys(store: Store) -> bool:
    """Return whether a key was ever made: from then on one is needed, also when none is in force."""
    return await store.fetch_value(select(api_keys.c.id).limit(1)) is not None


async def find_caller(store: Store, key: str | None) -> Caller:
    """Return whose key this is.

    Raises:
        Problem: there is none, or it is unknown, revoked or expired: one message for all of them.
    """
    mark, _, rest = (key or "").strip().partition("_")
    key_id, _, secret = rest.partition("_")
    if not (mark == _MARK and key_id and secret):
        if not await has_keys(store):  # some clients can't send none
            return OPERATOR
        raise KeyRefused("unknown") if key else Problem("no_key", _NO_KEY)
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
    now = database_datetime()
    minute = now.strftime("%Y-%m-%dT%H:%M")
    limits = who.limits
    if limits.per_minute is not None:
        spent = {"calls": 0, "tokens": 0, "money": 0.0}
        counting = store.insert(usage).values(
            key_id=who.key_id, period=minute, requests=times, **spent
        )
        counting = counting.on_conflict_do_update(
            index_elements=["key_id", "period"], set_={"requests": usage.c.requests + times}
        ).returning(usage.c.requests)
        async with store.transaction() as connection:
            if (await connection.execute(counting)).scalar_one() > limits.per_minute:
                raise Problem(
                    "too_many",
                    f"over {limits.per_minute} requests a minute",
                    retry_after=61 - now.second,
                )
    if not free:
        await _check_budget(store, who, now)


async def check_key(store: Store, key_id: str) -> None:
    """Check that what is done later in the name of a key is what the key may do now.

    Raises:
        Problem: the key is revoked or expired, or the day's budget is spent.
    """
    try:
        caller = await _caller_in_force(store, key_id)
    except KeyRefused as refused:
        raise KeyRefused(
            refused.reason, key_id, f"the key that asked for it is {refused.reason}"
        ) from None
    await _check_budget(store, caller, database_datetime())


async def _caller_in_force(store: Store, key_id: str, secret: str | None = None) -> Caller:
    """Return whom the id of a key stands for; raise KeyRefused if it isn't in force, or the secret is another's."""
    row = await store.fetch_row(select(api_keys).where(api_keys.c.id == key_id))
    now = database_now()
    if row is None:
        raise KeyRefused("unknown")
    ends = [row["expires"]]
    if secret is not None:
        given = _hash_secret(secret)
        if hmac.compare_digest(row["old_hash"] or "", given):
            ends.append(row["old_expires"])
        elif not hmac.compare_digest(row["hash"], given):
            raise KeyRefused("unknown")
    if row["revoked"] is not None:
        raise KeyRefused("revoked", key_id)
    if any(end is not None and end <= now for end in ends):
        raise KeyRefused("expired", key_id)
    limits = KeyLimits.model_validate({name: row[name] for name in KeyLimits.model_fields})
    return Caller(key_id=row["id"], name=row["name"], scopes=tuple(row["scopes"]), limits=limits)


async def _check_budget(store: Store, who: Caller, now: datetime) -> None:
    limits = {
        "calls": who.limits.daily_calls,
        "tokens": who.limits.daily_tokens,
        "money": who.limits.daily_money,
    }
    if not any(limit is not None for limit in limits.values()):
        return
    where = (usage.c.key_id == who.key_id) & (usage.c.period == now.strftime("%Y-%m-%d"))
    spent = await store.fetch_row(select(usage).where(where)) or dict.fromkeys(limits, 0)
    for name, limit in limits.items():
        if limit is not None and spent[name] >= limit:
            raise budget_problem(name, spent, limit, now)


def _hash_secret(secret: str) -> str:
    """Return the hash of a secret, which is 256 random bits, so that one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
