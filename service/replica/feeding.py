"""Batches give a replica their rows while it has places to spare; single posts come first.

Rows don't go through the queue, so none waits there before a post that somebody waits for. A replica takes as many as
it can try at once, and leaves some of its places to single posts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial

from tribunal.service.replica.batches import Batches, Turn
from tribunal.service.replica.caseload import Held
from tribunal.service.replica.keys import check_key
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.outages import Outages
from tribunal.service.replica.problems import Problem
from tribunal.service.replica.worker import Worker
from tribunal.store.engine import Store

_LOG = logging.getLogger(__name__)
_LOOK = 1.0  # seconds between two looks at the batches
_ASK_AGAIN = 3600.0  # seconds until a key that was revoked is looked at again


class Feeder:
    """Takes rows of batches up, and has the worker try them."""

    def __init__(self, options: ServiceOptions, store: Store, batches: Batches, worker: Worker) -> None:
        self._options, self._store, self._batches, self._worker = options, store, batches, worker
        self.outages = worker.outages = Outages(batches)
        self._most = max(1, round(options.in_flight * options.batch_share))
        self._trying: set[asyncio.Task[object]] = set()
        self._more = asyncio.Event()
        self._fed: dict[str, int] = {}  # when each batch had its last turn
        self._turn, self._looked = 0, 0.0

    def wake(self) -> None:
        """There may be something to do."""
        self._more.set()

    async def run(self) -> None:
        """Feed until cancelled."""
        while True:
            self._more.clear()
            # A connection that is cancelled within a transaction may keep its locks, so a round is let end.
            under_way = asyncio.create_task(self._round())
            try:
                fed = await asyncio.shield(under_way)
            except asyncio.CancelledError:
                await under_way
                raise
            if not fed:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._more.wait(), _LOOK)

    async def _round(self) -> int:
        try:
            if time.monotonic() - self._looked > self._options.takeover / 3:
                self._looked = time.monotonic()
                await self._batches.look_after(self._options.batch_forgotten)
            return await self._feed()
        except Exception as error:  # noqa: BLE001 (the database may come back)
            _LOG.warning("batches could not be looked after: %s", type(error).__name__)
            return 0

    async def _feed(self) -> int:
        """Give the free places to the batches in turn; gives how many were taken."""
        free = min(self._most - len(self._trying), self._worker.places)
        if free <= 0:
            return 0
        turns = await self._batches.turns()
        self._fed = {turn.id: self._fed.get(turn.id, 0) for turn in turns}
        taken = 0
        for at, turn in enumerate(sorted(turns, key=lambda turn: self._fed[turn.id])):
            if free <= taken:
                break
            taken += await self._feed_from(turn, -(-(free - taken) // (len(turns) - at)))
        return taken

    async def _feed_from(self, turn: Turn, count: int) -> int:
        if turn.key_id is not None:
            try:
                await check_key(self._store, turn.key_id)
            except Problem as problem:
                until = time.time() + (problem.retry_after or _ASK_AGAIN)
                await self._batches.hold(turn.id, problem.message, until)
                return 0
        if turn.held is not None:
            await self._batches.hold(turn.id, None, None)
        count = self.outages.room(turn.id, count)
        if not count:
            return 0
        rows = await self._batches.take(turn.id, count)
        if rows:
            self.outages.try_first(turn.id, rows[0].id)
        else:
            await self._batches.settle(turn.id)
            self.outages.none_left(turn.id)
        self._turn += 1
        self._fed[turn.id] = self._turn
        for held in rows:
            self.outages.begin(held.id, turn.id)
            trial = await self._worker.of_batch(held)
            if trial is not None:
                self._trying.add(trial)
                trial.add_done_callback(partial(self._ended, held))
            else:
                self.outages.over(held.id, turn.id)
        return len(rows)

    def _ended(self, held: Held, trial: asyncio.Task[object]) -> None:
        self._trying.discard(trial)
        self.outages.over(held.id, held.batch_id or "")
        self._more.set()
