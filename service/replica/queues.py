"""What brings waiting cases to a replica that has room: Procrastinate on PostgreSQL, a look at the table on SQLite.

Both only name cases. Whether one may be tried is decided by `CaseStore.take_up`, so a case that is named twice is tried
once. SQLite has no queue that outlives its process (Procrastinate's own in-memory connector loses everything), and the
table of cases is one already: it is looked at when something was put there, and every second besides.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from sqlalchemy import exc, make_url

from tribunal.cases.case_store import CaseStore

DATABASE_AWAY: tuple[type[Exception], ...] = (
    *(exc.OperationalError, exc.InterfaceError, exc.TimeoutError, sqlite3.OperationalError),
    *(psycopg.OperationalError, psycopg.InterfaceError, ConnectorException),
)
_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0  # seconds between two attempts
Result = TypeVar("Result")


async def retry_while_away(write: Callable[[], Awaitable[Result]]) -> Result:
    """Retry an idempotent write until the database is reachable. The write may already have succeeded."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except DATABASE_AWAY as error:
            _LOG.warning("the database is away, and is asked again: %s", type(error).__name__)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def repeat(round_of_work: Callable[[], Awaitable[object]], seconds: float, what: str) -> None:
    """Repeat work until cancelled, with a pause after each round. A round that fails is logged: it may work later."""
    while True:
        try:
            await round_of_work()
        except Exception as error:  # noqa: BLE001 (the database may come back)
            _LOG.warning("%s: %s", what, type(error).__name__)
        await asyncio.sleep(seconds)


Handler = Callable[[str], Awaitable[None]]
_POLL_SECONDS = 1.0  # between two looks at the table


class TableQueue:
    """The queue of one machine: the table of cases itself."""

    def __init__(self, case_store: CaseStore, in_flight: int) -> None:
        """Keep the table, of which so many cases are looked at together."""
        self._case_store, self._in_flight = case_store, in_flight
        self._put = asyncio.Event()

    async def put(self, case_id: str) -> None:
        """Have the table looked at soon."""
        self._put.set()

    async def run(self, handler: Handler) -> None:
        """Look at the table until cancelled."""
        while True:
            self._put.clear()
            case_ids = await self._case_store.list_free(self._in_flight)
            for case_id in case_ids:
                await handler(case_id)
            if not case_ids:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._put.wait(), _POLL_SECONDS)

    async def close(self) -> None:
        """Do nothing: the table is the store's."""


class ProcrastinateQueue:
    """The queue of all replicas on one PostgreSQL database."""

    def __init__(self, case_store: CaseStore, address: str, in_flight: int, takeover: float) -> None:
        """Name the database; nothing is opened before the queue is used."""
        url = make_url(address).set(drivername="postgresql").render_as_string(hide_password=False)
        self._case_store, self._in_flight, self._takeover = case_store, in_flight, takeover
        self._app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=8))
        self._open = asyncio.Lock()
        self._opened = False
        self._handler: Handler | None = None
        self._task = self._app.task(name="judge", queue="cases")(self._handle)

    async def _handle(self, case_id: str) -> None:
        if self._handler is not None:
            await self._handler(case_id)

    async def _connect(self) -> None:
        async with self._open:
            if not self._opened:
                await self._app.open_async()
                self._opened = True

    async def put(self, case_id: str) -> None:
        """Put a case there, unless it is in the queue already."""
        await self._connect()
        with suppress(AlreadyEnqueued):
            await self._task.configure(queueing_lock=case_id).defer_async(case_id=case_id)

    async def run(self, handler: Handler) -> None:
        """Run Procrastinate's worker until cancelled."""
        self._handler = handler
        await self._connect()
        sweeps = repeat(self._sweep, self._takeover / 3, "the queue could not be looked after")
        sweeping = asyncio.create_task(sweeps)
        try:
            await self._app.run_worker_async(
                queues=["cases"],
                name=self._case_store.replica,
                concurrency=self._in_flight,
                install_signal_handlers=False,
                delete_jobs="always",
                update_heartbeat_interval=self._takeover / 3,
                stalled_worker_timeout=self._takeover,
                shutdown_graceful_timeout=0.1,
            )
        finally:
            sweeping.cancel()

    async def _sweep(self) -> None:
        """Bring back what a dead replica had: its jobs, and the cases that it tried without one."""
        jobs = self._app.job_manager
        await jobs.prune_stalled_workers(self._takeover)
        for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=self._takeover):
            await jobs.retry_job(job)
        for case_id in await self._case_store.list_free(1000):
            await self.put(case_id)

    async def close(self) -> None:
        """Close the connections, also those of an opening that was cancelled."""
        await self._app.close_async()
