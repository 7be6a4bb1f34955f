"""Batches give a replica their rows while it has places to spare; single posts come first.

Rows don't go through the queue, so none waits there before a post that somebody waits for. A replica takes as many as
it can try at once, and leaves some of its places to single posts.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from tribunal.cases.leases import Held
from tribunal.cases.problem import Problem
from tribunal.eval.runs.outage import LOCKED_OUT, is_unanswered, kind_of_failure
from tribunal.schema import JSON, Record
from tribunal.service.replica.batches import BatchStore
from tribunal.service.replica.keys import check_key
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.worker import Worker
from tribunal.store.engine import Store

PAUSES = 10.0, 600.0  # seconds for which a batch is held: at first, and at most; each time twice as long
_ENOUGH_TRIES = 3  # of a row, while others that began after its first try were answered
_MAX_TRIES = 10  # of a row, whatever became of others


@dataclass
class _OutageState:
    """The state of one batch."""

    times_held: int = 0
    held_until: float = 0.0
    probe: str | None = None  # the one row that is to show whether the batch goes on
    failures: int = 0  # trials that no model answered
    failures_at_begin: dict[str, int] = field(default_factory=dict)  # of a row on trial
    answered_after: int = 0  # the most failures that there were when a row began that was answered
    tries: dict[str, tuple[int, int]] = field(default_factory=dict)  # of a row: how often; its first failure's number


class BatchOutages:
    """The batches whose rows one replica tries."""

    def __init__(self, batches: BatchStore) -> None:
        """Begin without an outage."""
        self._batches = batches
        self._states: dict[str, _OutageState] = defaultdict(_OutageState)

    def room(self, batch_id: str, free: int) -> int:
        """Return how many rows of a batch may be tried now, of as many as there are free places."""
        state = self._states[batch_id]
        if not state.times_held:
            return free
        return 0 if state.probe else min(1, free)

    def begin(self, batch_id: str, row_ids: list[str]) -> None:
        """Note that rows are tried now. After a hold it is the first of them that shows whether the batch goes on."""
        state = self._states[batch_id]
        if row_ids and state.times_held:
            state.probe = row_ids[0]
        state.failures_at_begin |= dict.fromkeys(row_ids, state.failures)
        if not row_ids and not state.tries:
            del self._states[batch_id]  # nothing of it waits: a batch that is finished needs no memory

    def end(self, batch_id: str, row_id: str) -> None:
        """Note that a trial is over, in whatever way."""
        if (state := self._states.get(batch_id)) is not None:
            state.failures_at_begin.pop(row_id, None)
            state.probe = None if state.probe == row_id else state.probe

    async def retry_later(self, row: Held, record: Record) -> bool:
        """Return whether a row is to be tried again, since no model answered it; hold its batch meanwhile."""
        batch_id = row.batch_id or ""
        state = self._states[batch_id]
        if not (is_unanswered(record) or kind_of_failure(record) in LOCKED_OUT):
            state.tries.pop(row.id, None)
            state.answered_after = max(state.answered_after, state.failures_at_begin.get(row.id, 0))
            state.times_held = 0
            return False
        state.failures += 1
        tries, first = state.tries.get(row.id, (0, state.failures))
        state.tries[row.id] = tries, first = tries + 1, first
        # A row that began before the outage, and whose verdict is written during it, says nothing against the others.
        is_the_row = tries >= _ENOUGH_TRIES and state.answered_after >= first
        if is_the_row or tries >= _MAX_TRIES or (await self._batches.batch(batch_id))["status"] == "cancelled":
            state.tries.pop(row.id, None)
            return False
        now = time.time()
        if now >= state.held_until:
            state.held_until = now + min(PAUSES[0] * 2**state.times_held, PAUSES[1])
            state.times_held += 1
            await self._batches.hold(batch_id, f"no answer: {record.explanation[:300]}", state.held_until)
        return True


_REFUSED_KEY_SECONDS = 3600.0  # until a key that was revoked or has expired is looked at again


class BatchFeeder:
    """Takes rows of batches up, and has the worker try them. Set `wake` when there may be something to do."""

    def __init__(self, options: ServiceOptions, store: Store, batches: BatchStore, worker: Worker) -> None:
        """Begin with no batch."""
        self._options, self._store, self._batches, self._worker = options, store, batches, worker
        self._outages = BatchOutages(batches)
        worker.retry_later = self._outages.retry_later
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
                until = time.time() + (problem.retry_after or _REFUSED_KEY_SECONDS)
                await self._batches.hold(batch_id, problem.message, until)
                return 0
        if turn["held"] is not None:
            await self._batches.hold(batch_id, None, None)
        count = self._outages.room(batch_id, count)
        if not count:
            return 0
        placed = 0
        while placed < count and await self._worker.take_place():
            placed += 1
        if not placed:
            return 0
        rows: list[Held] = []
        try:
            rows = await self._batches.take_rows(batch_id, placed)
        except Problem:
            return 0  # of what is left of the budget, rows under way may still give some back
        finally:
            for _ in range(placed - len(rows)):
                self._worker.give_place_back()
        self._outages.begin(batch_id, [row.id for row in rows])
        self._last_turns[batch_id] = time.monotonic()
        if not rows:
            await self._batches.finish_if_done(batch_id)
        for row in rows:
            trial = await self._worker.begin(row)
            if trial is None:
                self._outages.end(batch_id, row.id)
            else:
                self._trials.add(trial)
                trial.add_done_callback(partial(self._end_trial, row))
        return len(rows)

    def _end_trial(self, row: Held, trial: asyncio.Task[object]) -> None:
        self._trials.discard(trial)
        self._outages.end(row.batch_id or "", row.id)
        self.wake.set()
