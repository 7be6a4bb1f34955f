"""Work in the background that outlives a failure: rounds that are repeated, and writes that wait for the database."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg
from sqlalchemy import exc
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from tribunal.store.table_versions import explain_error, is_full, words_of

DATABASE_AWAY: tuple[type[Exception], ...] = (
    *(exc.OperationalError, exc.InterfaceError, exc.TimeoutError, sqlite3.OperationalError),
    *(psycopg.OperationalError, psycopg.InterfaceError),
)
_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


async def retry_while_away(write: Callable[[], Awaitable[Result]]) -> Result:
    """Retry an idempotent write until the database is reachable. The write may already have succeeded."""

    async def attempt() -> Result:
        return await write()

    pauses = wait_exponential(multiplier=0.2, max=5.0)
    retrying = AsyncRetrying(retry=retry_if_exception_type(DATABASE_AWAY), wait=pauses, before_sleep=_log_away)
    return await retrying(attempt)


def _log_away(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    trouble = "the disk is full; make room" if error is not None and is_full(error) else "the database is away"
    _LOG.warning("%s; it is asked again: %s", trouble, words_of(error) if error is not None else "")


async def repeat(
    work: Callable[[], Awaitable[object]], seconds: float, what: str, wake: asyncio.Event | None = None
) -> None:
    """Repeat work until cancelled, with a pause after each round that doesn't return how much it has done.

    Args:
        work: one round.
        seconds: how long a pause is.
        what: what is logged of a round that fails; the next one may work.
        wake: ends a pause when it is set.
    """
    wake = wake or asyncio.Event()
    while True:
        wake.clear()
        done: object = None
        # A connection that is cancelled within a transaction may keep its locks, so a round is let end.
        one_round = asyncio.ensure_future(work())
        try:
            done = await asyncio.shield(one_round)
        except asyncio.CancelledError:
            with suppress(Exception):
                await one_round
            raise
        except Exception as error:  # noqa: BLE001 (the database may come back)
            _LOG.warning("%s: %s", what, explain_error(error))
        if not done:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await wake.wait()
