"""Read what keys have spent, by day, and bound what a case takes of a key's daily budget."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from pydantic import Field
from sqlalchemy import delete, func, select

from tribunal.core.times import database_datetime, new_id
from tribunal.docket.leases import owner_is_dead
from tribunal.docket.reservations import KINDS, CaseBounds, Reservation, day_of, reserve, settle
from tribunal.errors import BadInput, Problem
from tribunal.models.budget import spend_from
from tribunal.models.registry import check_models
from tribunal.runner.prices import ModelUsage, Prices
from tribunal.schema import JSON
from tribunal.service.replica.options import Described, ServiceOptions
from tribunal.settings.context import context_from
from tribunal.store.engine import Store
from tribunal.store.tables import api_keys, usage


class Amounts(Described):
    """Calls, tokens and money."""

    calls: int = 0
    """requests that were sent to models, retries and re-asks too"""
    tokens: int = 0
    """in and out"""
    money: float = 0.0
    """by the price table"""


class DailyLimits(Described):
    """The most of each that a key may spend a day; null: no limit."""

    calls: int | None = Field(examples=[10_000])
    """requests to models"""
    tokens: int | None
    """in and out"""
    money: float | None
    """by the price table"""


class DayUsage(Described):
    """What a key spent on a day."""

    day: str = Field(examples=["2026-11-22"])
    """UTC"""
    spent: Amounts
    """what its cases that came to rest have cost"""
    reserved: Amounts
    """the most that its cases under way may still cost"""


class KeyUsage(Described):
    """What a key may spend today, and what it has spent on each day."""

    key: str = Field(examples=["9f86d081884c"])
    """the key's id"""
    limits: DailyLimits
    """of a day"""
    ends: float = Field(examples=[1795392000.0])
    """when today ends, in seconds of the epoch: at 24:00 UTC"""
    days: list[DayUsage]
    """today, then the days before on which it spent something"""


def case_bounds(options: ServiceOptions, prices: Prices | None) -> CaseBounds:
    """Return the most that a case takes where its settings don't say, by the operator's options and prices."""
    if prices is None:
        return CaseBounds(options.case_calls, options.case_tokens)

    def dearest_token(settings: JSON) -> float:
        """Return the price of the dearest token of the models that the settings name, or of all if that isn't known."""
        context = context_from(settings)
        models = set(prices.root)
        if not context.line_up:
            with suppress(BadInput):  # a key is missing, and the trial will say so
                models = {str(model) for model in check_models(context, os.environ)}
        priced = [prices.root[model] for model in models if model in prices.root]
        return max((max(price.input, price.output) for price in priced), default=0.0) / 1e6

    def cost(
        model: str, prompt_tokens: int, cached_tokens: int, answer_tokens: int
    ) -> float | None:
        tokens = ModelUsage(
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            completion_tokens=answer_tokens,
        )
        return prices.cost_of_tokens(model, tokens)

    return CaseBounds(options.case_calls, options.case_tokens, dearest_token, cost)


@asynccontextmanager
async def paid_by_key(
    store: Store, key_id: str, bounds: CaseBounds, replica: str
) -> AsyncIterator[None]:
    """Let a key pay for the one letter of a model within the block, and its retries; it belongs to no case under way.

    A row in this replica's name says what is reserved, so that `settle_broken_off` finds it if the replica is killed.

    Raises:
        Problem: nothing is left of its daily budget.
    """
    if not key_id:
        yield
        return
    async with store.transaction() as connection:
        reserved = await reserve(store, connection, key_id, "baseline", {}, 1, bounds)
        row: JSON = {
            "key_id": key_id,
            "period": _letter_period(reserved.day if reserved else "", replica),
        }
        if reserved is not None:
            amounts = {
                f"reserved_{kind}": amount for kind, amount in reserved.whole.model_dump().items()
            }
            await connection.execute(usage.insert().values(**row, **amounts))
    allowance = bounds.allowance(reserved)
    try:
        with spend_from(allowance):
            yield
    finally:
        own = delete(usage).where(*(usage.c[name] == value for name, value in row.items()))
        async with store.transaction() as connection:
            if reserved is None or (await connection.execute(own)).rowcount:
                await settle(store, connection, key_id, reserved, allowance.close())


def _letter_period(day: str, replica: str) -> str:
    """Return what stands as the period in the row of a letter: the day it is paid on, its id, and the replica."""
    return f"{day}T{new_id('letter')}{replica}"


async def settle_broken_off(store: Store, replica: str, takeover: float) -> None:
    """Count as spent all that replicas which are dead had reserved for letters: nobody knows what these took."""
    owner = func.substr(usage.c.period, 1 + len(_letter_period(day_of(database_datetime()), "")))
    broken_off = usage.c.period.like("%Tletter-%") & owner_is_dead(owner, replica, takeover)
    async with store.transaction() as connection:
        for row in (
            (await connection.execute(delete(usage).where(broken_off).returning(usage)))
            .mappings()
            .all()
        ):
            amounts = {kind: row[f"reserved_{kind}"] for kind in KINDS}
            reserved = Reservation(day=row["period"].partition("T")[0], attempt=1, **amounts)
            await settle(store, connection, row["key_id"], reserved, None)


async def read_usage(store: Store, key_id: str, days: int) -> KeyUsage:
    """Return what a key has spent on the last so many days, today included.

    Raises:
        Problem: there is no such key.
    """
    key = await store.fetch_row(select(api_keys).where(api_keys.c.id == key_id))
    if key is None:
        raise Problem("not_found", f"key: {key_id[:80]}: there is none")
    now = database_datetime()
    # A minute's row, which has a longer name, counts requests alone.
    since = day_of(now - timedelta(days=days - 1))
    whole_days = (usage.c.key_id == key_id, usage.c.period >= since, usage.c.period.not_like("%T%"))
    rows = await store.fetch_rows(select(usage).where(*whole_days).order_by(usage.c.period.desc()))
    found = {
        row["period"]: DayUsage(
            day=row["period"],
            spent=Amounts(**{kind: row[kind] for kind in KINDS}),
            reserved=Amounts(**{kind: row[f"reserved_{kind}"] for kind in KINDS}),
        )
        for row in rows
    }
    today = DayUsage(day=day_of(now), spent=Amounts(), reserved=Amounts())
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return KeyUsage(
        key=key_id,
        limits=DailyLimits(**{kind: key[f"daily_{kind}"] for kind in KINDS}),
        ends=tomorrow.timestamp(),
        days=list({today.day: today, **found}.values()),
    )
