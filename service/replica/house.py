"""What a replica is made of, opened and closed together."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tribunal.errors import BadInput
from tribunal.eval.runs.prices import read_prices
from tribunal.service.replica.caseload import Caseload
from tribunal.service.replica.judging import Judging
from tribunal.service.replica.keys import any_key
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.queues import ProcrastinateQueue, Queue, TableQueue
from tribunal.service.replica.worker import Worker
from tribunal.store.engine import Store

_LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class House:
    """A replica: its database, its queue, its worker."""

    def __init__(
        self, options: ServiceOptions, store: Store, caseload: Caseload, queue: Queue, worker: Worker, judging: Judging
    ) -> None:
        self.options, self.store, self.caseload, self.queue = options, store, caseload, queue
        self.worker, self.judging = worker, judging


@asynccontextmanager
async def house(options: ServiceOptions) -> AsyncIterator[House]:
    """A replica, at work until the block ends; then what is in flight ends, or goes back to the queue.

    Raises:
        BadInput: the database, the price table or a setting is wrong, or anybody could come in.
    """
    prices = read_prices(options.prices) if options.prices else None
    store = await Store.open(options.database)
    try:
        if options.host not in LOOPBACK and not await any_key(store):
            raise BadInput(
                f"host: {options.host}: others could reach it, and there is no key yet; make one with tribunal keys "
                "add, or listen on 127.0.0.1"
            )
        replica = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        caseload = Caseload(store, replica, options.takeover)
        await caseload.sign_of_life()
        queue: Queue = TableQueue(caseload, options.in_flight)
        if store.postgres:
            queue = ProcrastinateQueue(caseload, options.database or "", options.in_flight, options.takeover)
        worker = Worker(caseload, store, options.in_flight, prices)
        judging = Judging(options, caseload, queue, worker)
        made = House(options, store, caseload, queue, worker, judging)
        tasks = [asyncio.create_task(_alive(made)), asyncio.create_task(_at_work(made))]
        try:
            yield made
        finally:
            tasks[1].cancel()
            await worker.stop(options.graceful)
            tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(Exception):
                await caseload.farewell()
            await queue.close()
    finally:
        await store.close()


async def _alive(made: House) -> None:
    while True:
        await asyncio.sleep(made.options.takeover / 6)
        try:
            await made.caseload.sign_of_life()
        except Exception as error:  # noqa: BLE001 (the database may come back, and this replica with it)
            _LOG.warning("no sign of life could be given: %s", type(error).__name__)


async def _at_work(made: House) -> None:
    while True:
        try:
            await made.queue.run(made.worker.named)
        except Exception as error:  # noqa: BLE001 (as above)
            _LOG.warning("the queue stopped, and is begun again: %s", type(error).__name__)
            await asyncio.sleep(1.0)
