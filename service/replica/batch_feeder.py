"""Batches give a replica their rows while it has places to spare; single posts come first.

Rows don't go through the queue, so none waits there before a post that somebody waits for. A replica takes as many as
it can try at once, and leaves some of its places to single posts.
"""

from __future__ import annotations

import asyncio
import time

from tribunal.cases.leases import Held
from tribunal.cases.problem import Problem
from tribunal.cases.reservations import MOMENT
from tribunal.clock import database_now
from tribunal.runner.case_worker import Worker
from tribunal.schema import JSON
from tribunal.service.replica.batches import BatchStore
from tribunal.service.replica.keys import check_key
from tribunal.service.replica.options import ServiceOptions
from tribunal.store.engine import Store

_REFUSED_KEY_SECONDS = 3600.0  # until a key that was revoked or has expired is looked at again


class BatchFeeder:
    """Takes rows of batches up, and has the worker try them. Set `wake` when there may be something to do."""

    def __init__(self, options: ServiceOptions, store: Store, batches: BatchStore, worker: Worker) -> None:
        """Begin with no batch."""
        self._options, self._store, self._batches, self._worker = options, store, batches, worker
        self._max_rows = max(1, round(options.in_flight * options.batch_share))
        self._trials: set[asyncio.Task[object]] = set()
        self.wake = asyncio.Event()
        self._last_turns: dict[str, float] = {}  # when each batch had its last turn

    async def feed(self) -> int:
        """Give the free places to the batches in turn; return how many were taken."""
        taken, free = 0, min(self._max_rows - len(self._trials), self._worker.places)
        if free <= 0:
            return 0
        turns = await self._batches.find_turns()
        self._last_turns = {turn["id"]: self._last_turns.get(turn["id"], 0.0) for turn in turns}
        turns.sort(key=lambda turn: self._last_turns[turn["id"]])
        for place, turn in enumerate(turns):
            fair_share = -(-(free - taken) // (len(turns) - place))
            taken += await self._feed_from(turn, fair_share) if fair_share else 0
        return taken

    async def _feed_from(self, turn: JSON, count: int) -> int:
        """Try rows of a batch; return how many."""
        batch_id: str = turn["id"]
        if turn["key_id"] is not None:
            try:
                await check_key(self._store, turn["key_id"])
            except Problem as problem:
                until = database_now() + (problem.retry_after or _REFUSED_KEY_SECONDS)
                await self._batches.hold(batch_id, problem.message, until)
                return 0
        outages = self._worker.outages
        needed = await outages.needed_providers(turn["graph"], turn["settings"])
        if (breaker := outages.blocking(needed)) is not None:
            await self._batches.hold(batch_id, breaker.why, breaker.next_look, breaker.provider)
            return 0
        if turn["held"] is not None:
            await self._batches.hold(batch_id, None, None)
        is_probe = outages.concerns(needed)
        placed, count = 0, 1 if is_probe else count
        while placed < count and await self._worker.take_place():
            placed += 1
        if not placed:
            return 0
        rows: list[Held] = []
        try:
            rows = await self._batches.take_rows(batch_id, placed, fewest_attempts_first=is_probe)
        except Problem as problem:
            seconds = problem.retry_after or 0
            if seconds > MOMENT:  # else cases under way may give enough back
                await self._batches.hold(batch_id, problem.message, database_now() + seconds)
            return 0
        finally:
            for _ in range(placed - len(rows)):
                self._worker.give_place_back()
        self._last_turns[batch_id] = time.monotonic()
        if not rows:
            await self._batches.finish_if_done(batch_id)
        for row in rows:
            if not outages.admit(row.id, needed):  # something else was begun meanwhile, to see whether it answers
                await self._worker.give_back(row)
            elif (trial := await self._worker.begin(row)) is not None:
                self._trials.add(trial)
                trial.add_done_callback(self._end_trial)
        return len(rows)

    def _end_trial(self, trial: asyncio.Task[object]) -> None:
        self._trials.discard(trial)
        self.wake.set()
