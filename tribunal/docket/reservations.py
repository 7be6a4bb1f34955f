"""Reserve what a case may take of its key's daily budget before it is tried, and settle it when it comes to rest.

A reservation is of one day and for one attempt. One whose attempt never came to rest (its process was killed) counts as
spent in full, since nobody knows what it took; the next attempt has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_datetime
from tribunal.errors import Problem
from tribunal.models.budget import Allowance, CostOfTokens, Limits, Spending
from tribunal.schema import JSON, Frozen
from tribunal.settings.context import Context, context_from
from tribunal.settings.names import VIEWS
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import api_keys, cases, usage

KINDS = ("calls", "tokens", "money")
MOMENT = 10  # seconds after which a case under way may have given back enough
_MONEY_ROUNDING = 1e-9
# The columns of a case that has nothing reserved.
NO_RESERVATION: JSON = dict.fromkeys(
    ("reserved_day", "reserved_attempt", *(f"reserved_{kind}" for kind in KINDS))
)


def day_of(now: datetime) -> str:
    """Return a day as `usage` has it."""
    return now.strftime("%Y-%m-%d")


class Reservation(Frozen):
    """Hold what is reserved for an attempt at a case; None: the key has no limit of it."""

    day: str
    attempt: int
    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Reservation | None:
        """Return what is reserved for a case by its row; None: nothing is."""
        if row["reserved_day"] is None:
            return None
        return cls.model_validate({name: row[f"reserved_{name}"] for name in cls.model_fields})

    def columns(self) -> JSON:
        """Return the columns of the case's row."""
        return {f"reserved_{name}": value for name, value in self.model_dump().items()}

    @property
    def whole(self) -> Spending:
        """Return all of it, as if it were spent."""
        return Spending(calls=self.calls or 0, tokens=self.tokens or 0, money=self.money or 0.0)


def calls_of_trial(graph: str, context: Context) -> int | None:
    """Return how many calls a trial takes at most, if nothing is sent again; None: that isn't known of this graph."""
    debate = 2 * context.rounds + context.judge_draws
    looks_up = context.web or context.perspectives not in ([], ["none"])
    match graph:
        case "baseline":
            return 1
        case "self_consistency":
            return context.draws
        case "symmetric_debate":
            return context.agents * context.rounds
        case "mv_debate":
            return (2 * len(context.views or VIEWS) + 1) * context.rounds + 1
        case "multiround":
            return debate
        case "arcade":
            return 1 + debate
        case "tribunal" if not looks_up:
            return 1 + debate + bool(context.triage)
    return None


@dataclass(frozen=True)
class CaseBounds:
    """The most that a case takes of a limited budget where its settings don't say.

    `dearest_token` gives the price of the dearest token that a case of these settings may be answered with.
    """

    calls: int = 40
    tokens: int = 50_000
    dearest_token: Callable[[JSON], float] = lambda settings: 0.0
    cost: CostOfTokens = lambda *tokens: None

    def range_of(self, kind: str, graph: str, settings: JSON) -> tuple[float, float]:
        """Return the least of a kind that a case is tried with, and the most that it takes.

        With less than the least it isn't tried: a trial that is cut short decides worse.
        """
        if kind == "calls":
            own = settings.get("max_calls")
            trial = own or calls_of_trial(graph, context_from(settings)) or self.calls
            return trial, own or max(trial, self.calls)
        tokens = int(settings.get("max_tokens") or self.tokens)
        most = tokens if kind == "tokens" else tokens * self.dearest_token(settings)
        return most, most

    def allowance(self, reservation: Reservation | None) -> Allowance:
        """Return what an attempt may send, by what is reserved for it."""
        if reservation is None:
            return Allowance(cost=self.cost)
        return Allowance(
            Limits(reservation.calls, reservation.tokens, reservation.money), self.cost
        )


USUAL_BOUNDS = CaseBounds()


def budget_problem(
    kind: str, account: Mapping[str, Any], limit: float, now: datetime, needed: float = 0
) -> Problem:
    """Return what a key is told that hasn't enough left of its day's calls, tokens or money.

    Args:
        kind: which of them.
        account: the day's row of `usage`.
        limit: the day's.
        now: the time.
        needed: how many a case needs.
    """
    left = 86_400 - (now.hour * 3600 + now.minute * 60 + now.second)
    spent = account.get(kind, 0)
    reserved = account.get(f"reserved_{kind}", 0)
    words = (
        f"this key's {kind} of today are spent: {spent:g} of "
        f"{limit:g}, and {reserved:g} reserved for cases under way"
    )
    if needed > 1:
        words += f"; this post may take {needed:g}"
    words += f"; the day ends at 24:00 UTC, in {left // 3600} h {left % 3600 // 60} min"
    is_over = spent >= limit or spent + needed > limit  # whatever the cases under way give back
    return Problem("spent", words, retry_after=left if is_over else min(MOMENT, left))


async def reserve(
    store: Store, connection: AsyncConnection, key_id: str | None, graph: str, settings: JSON, attempt: int,
    bounds: CaseBounds,
) -> Reservation | None:  # fmt: skip
    """Reserve what an attempt at a case may take, in the transaction that takes the case in or up.

    Returns:
        what is reserved; None where the key has no daily limit.

    Raises:
        Problem: less is left of a limit than the case needs.
    """
    if not key_id:
        return None
    limited = select(*(api_keys.c[f"daily_{kind}"].label(kind) for kind in KINDS)).where(
        api_keys.c.id == key_id
    )
    key = await first_row(connection, limited)
    limits = {kind: key[kind] for kind in KINDS if key is not None and key[kind] is not None}
    if not limits:
        return None
    now = database_datetime()
    account = (usage.c.key_id == key_id, usage.c.period == day_of(now))
    row = store.insert(usage).values(key_id=key_id, period=day_of(now)).on_conflict_do_nothing()
    await connection.execute(row)
    held = dict(
        (await connection.execute(select(usage).where(*account).with_for_update())).mappings().one()
    )
    amounts: dict[str, Any] = {}
    for kind, limit in limits.items():
        left = limit - held[kind] - held[f"reserved_{kind}"]
        least, most = (min(each, limit) for each in bounds.range_of(kind, graph, settings))
        if left <= 0 or least > left:
            raise budget_problem(kind, held, limit, now, least)
        amounts[kind] = min(most, left)
    added = {
        f"reserved_{kind}": usage.c[f"reserved_{kind}"] + amount for kind, amount in amounts.items()
    }
    reaches = (
        usage.c[kind] + usage.c[f"reserved_{kind}"] + amount <= limits[kind] + _MONEY_ROUNDING
        for kind, amount in amounts.items()
    )
    if not (
        await connection.execute(update(usage).where(*account, *reaches).values(**added))
    ).rowcount:
        raise Problem("busy", "this key's budget is changing; send it again", retry_after=1)
    return Reservation(day=day_of(now), attempt=attempt, **amounts)


async def settle(
    store: Store, connection: AsyncConnection, key_id: str | None, reservation: Reservation | None,
    spent: Spending | None,
) -> None:  # fmt: skip
    """Count what an attempt has spent in place of what was reserved for it, in the transaction that ends it.

    It counts on the day that it was reserved of. Do it last: others who change this account wait from here to the
    transaction's end.

    Args:
        store: the database.
        connection: that of the transaction.
        key_id: whose case it is.
        reservation: what was reserved; None: nothing was.
        spent: what was spent; None: nobody knows, so all that was reserved.
    """
    held = Spending() if reservation is None else reservation.whole
    if not key_id or (reservation is None and spent is None):
        return
    day = day_of(database_datetime()) if reservation is None else reservation.day
    paid = (held if spent is None else spent).model_dump()
    changed = {kind: usage.c[kind] + paid[kind] for kind in KINDS}
    if reservation is not None:
        given_back = held.model_dump()
        changed |= {
            f"reserved_{kind}": usage.c[f"reserved_{kind}"] - given_back[kind] for kind in KINDS
        }
    row = store.insert(usage).values(key_id=key_id, period=day, requests=0, **paid)
    await connection.execute(
        row.on_conflict_do_update(index_elements=["key_id", "period"], set_=changed)
    )


async def reserve_for_attempt(
    store: Store,
    connection: AsyncConnection,
    row: Mapping[str, Any],
    attempt: int,
    bounds: CaseBounds,
) -> JSON:
    """Return the row of a case with what is reserved for an attempt at it, in the transaction that begins or queues it.

    What was reserved for an attempt that never came to rest is counted as spent.

    Raises:
        Problem: as `reserve`. What a person has decided is written down all the same, and may ask no model.
    """
    before = Reservation.from_row(row)
    if before is not None and before.attempt == attempt:
        return dict(row)
    await settle(store, connection, row["key_id"], before, None)
    try:
        reservation = await reserve(
            store, connection, row["key_id"], row["graph"], row["settings"], attempt, bounds
        )
    except Problem:
        if (
            row["answer"] is None or row["answer"]["answer"]["type"] == "response"
        ):  # a question is for a model
            raise
        reservation = Reservation(
            day=day_of(database_datetime()), attempt=attempt, calls=0, tokens=0, money=0.0
        )
    columns = NO_RESERVATION if reservation is None else reservation.columns()
    if before is not None or reservation is not None:
        await connection.execute(update(cases).where(cases.c.id == row["id"]).values(**columns))
    return {**row, **columns}
