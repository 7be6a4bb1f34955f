"""The database may be away for a while: it is started again, or the network to it breaks."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from procrastinate.exceptions import ConnectorException
from sqlalchemy import exc

AWAY: tuple[type[Exception], ...] = (
    *(exc.OperationalError, exc.InterfaceError, exc.TimeoutError, sqlite3.OperationalError),
    *(psycopg.OperationalError, psycopg.InterfaceError, ConnectorException),
)
_LOG = logging.getLogger(__name__)
_PAUSES = 0.2, 5.0  # seconds between two attempts: the first, and the longest
Done = TypeVar("Done")


async def through(doing: Callable[[], Awaitable[Done]]) -> Done:
    """Do what must not be lost, again while the database is away; it may have been done, and only its answer lost."""
    pause = _PAUSES[0]
    while True:
        try:
            return await doing()
        except AWAY as error:
            _LOG.warning("the database is away, and is asked again: %s", type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])
