"""Rows of batches that nobody answered: tried again later, as long as it may be the model's server and not the row.

As with `tribunal batch`, an outage costs no row its verdict: the batch is held, one row of it is tried from time to
time, and the rest goes on once that one is answered.
"""

from __future__ import annotations

import time

from tribunal.eval.runs.outage import LOCKED_OUT, kind_of_failure, unanswered
from tribunal.schema import Record
from tribunal.service.replica.batches import Batches
from tribunal.service.replica.caseload import Held

PAUSES = 10.0, 600.0  # seconds for which a batch is held: at first, and at most; each time twice as long
_ENOUGH = 3  # tries of a row, while others that began after its first were answered
_MOST = 10  # tries of a row, whatever became of others


class _Batch:
    """Facts about one batch: who was answered since when, how often it was held, and whom nobody answered."""

    def __init__(self) -> None:
        self.held = 0
        self.until = 0.0
        self.trying: str | None = None  # the one row that is to show whether it goes on
        self.failures = 0  # trials that nobody answered
        self.begun: dict[str, int] = {}  # of a row on trial: how many failures there were when it began
        self.answered_since = 0  # the most failures that there were when a row began that was answered
        self.tries: dict[str, tuple[int, int]] = {}  # of a row: how often, and the number of its first failure


class Outages:
    """What one replica knows of the batches that it tries rows of."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._of: dict[str, _Batch] = {}

    def room(self, batch_id: str, free: int) -> int:
        """How many rows of a batch may be tried now, of as many as there are free places."""
        of = self._of.get(batch_id)
        if of is None or not of.held:
            return free
        return 0 if of.trying else min(1, free)

    def try_first(self, batch_id: str, row_id: str) -> None:
        """After a hold this row is tried, and the others wait for it."""
        of = self._of.get(batch_id)
        if of is not None and of.held:
            of.trying = row_id

    def begin(self, row_id: str, batch_id: str) -> None:
        """Note that a trial begins."""
        of = self._of.setdefault(batch_id, _Batch())
        of.begun[row_id] = of.failures

    def over(self, row_id: str, batch_id: str) -> None:
        """A trial is over, in whatever way."""
        of = self._of.get(batch_id)
        if of is None:
            return
        of.begun.pop(row_id, None)
        if of.trying == row_id:
            of.trying = None

    def none_left(self, batch_id: str) -> None:
        """No row of a batch waits: one that is finished needs no memory."""
        of = self._of.get(batch_id)
        if of is not None and not of.tries:
            del self._of[batch_id]

    async def again(self, row: Held, record: Record) -> bool:
        """Whether a row is to be tried again, because nobody answered it; its batch is held meanwhile."""
        batch_id = row.batch_id or ""
        of = self._of.setdefault(batch_id, _Batch())
        if not (unanswered(record) or kind_of_failure(record) in LOCKED_OUT):
            of.tries.pop(row.id, None)
            of.answered_since, of.held = max(of.answered_since, of.begun.get(row.id, 0)), 0
            return False
        of.failures += 1
        tries, first = of.tries.get(row.id, (0, of.failures))
        of.tries[row.id] = tries, first = tries + 1, first
        # A row that began before the outage, and whose verdict is written during it, says nothing against the others.
        its_own = tries >= _ENOUGH and of.answered_since >= first
        if its_own or tries >= _MOST or (await self._batches.batch(batch_id))["status"] == "cancelled":
            of.tries.pop(row.id, None)
            return False
        now = time.time()
        if now >= of.until:
            of.until = now + min(PAUSES[0] * 2**of.held, PAUSES[1])
            of.held += 1
            await self._batches.hold(batch_id, f"no answer: {record.explanation[:300]}", of.until)
        return True
