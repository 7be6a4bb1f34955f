"""A replica's own work: cases that it has taken up, each tried by its graph, and the events of their trials."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Set
from contextlib import contextmanager

from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.datasets.sample import Sample
from tribunal.eval.runs.lines import unusable
from tribunal.eval.runs.prices import Prices
from tribunal.schema import JSON, Record, Usage
from tribunal.service.replica.away import through
from tribunal.service.replica.caseload import Caseload, Held
from tribunal.service.replica.checkpoints import TakenOver
from tribunal.service.replica.keys import Spent
from tribunal.service.replica.outages import Outages
from tribunal.service.replica.said import Said, Teller
from tribunal.service.replica.trials import Heard, Trials
from tribunal.service.seeing.sight import Sight
from tribunal.service.seeing.trial import Trial
from tribunal.store.engine import Store
from tribunal.trust import for_an_agent

_LOG = logging.getLogger(__name__)
_MOST_ATTEMPTS = 5  # a case that ends its replica each time must not go round for ever

Ended = Record | BadInput | None  # a trial's end: its record, why there is none, or None where it doesn't count


class Worker:
    """Tries cases, at most so many at a time.

    Args:
        caseload: the cases.
        store: for the accounts of keys.
        in_flight: how many at a time.
        prices: what calls cost.
        sight: what is seen of it.
    """

    def __init__(
        self,
        caseload: Caseload,
        store: Store,
        in_flight: int,
        prices: Prices | None = None,
        sight: Sight | None = None,
    ) -> None:
        self.on_checkpoints = Trials(store, caseload)
        self._teller = Teller(caseload)
        self._caseload, self._store, self._prices = caseload, store, prices
        self._room, self._in_flight = asyncio.Semaphore(in_flight), in_flight
        self._sight = sight or Sight()
        self.stopping = False
        self.outages: Outages | None = None  # of batches, where there are any
        self._hurry = asyncio.Event()
        self.trials: dict[str, asyncio.Task[Ended]] = {}
        self._waiting: set[str] = set()  # cases that are taken up, and wait for a place

    @property
    def has_room(self) -> bool:
        return not self._room.locked()

    @property
    def trying(self) -> Set[str]:
        """The cases that this replica has to do with."""
        return self.trials.keys() | self._waiting

    @property
    def places(self) -> int:
        """How many more could be tried now; none while somebody waits for a place."""
        return max(self._in_flight - len(self.trials), 0) if self.has_room else 0

    async def named(self, case_id: str) -> None:
        """Take a case up once there is room, if it is still free; returns when its trial has begun."""
        await self._room.acquire()
        held = None
        try:
            if not self.stopping:  # else it stays in the queue, for whoever is there then
                held = await self._taken_up(case_id)
            if held is not None and self.stopping:
                await self._caseload.give_back(held)
                held = None
        finally:
            if held is None:
                self._room.release()
        if held is not None:
            self._begin(held)

    async def _taken_up(self, case_id: str) -> Held | None:
        held = await self._caseload.take_up(case_id)
        return held if held is not None and await self._triable(held) else None

    async def _triable(self, held: Held) -> bool:
        """Whether a case can be tried; one that can't is cancelled."""
        if held.post is None:
            await self._caseload.cancel(held, "its replica ended, and the post was not to be kept; send it again")
            return False
        if held.attempt - held.attempts_before > _MOST_ATTEMPTS:
            await self._caseload.cancel(held, f"{_MOST_ATTEMPTS} replicas ended while they tried it")
            return False
        return True

    async def at_once(self, held: Held) -> asyncio.Task[Ended]:
        """Try a case that was taken in by this replica, which has room."""
        with self._waits(held):
            await self._room.acquire()
        return self._begin(held)

    @contextmanager
    def _waits(self, held: Held) -> Iterator[None]:
        self._waiting.add(held.id)
        try:
            yield
        finally:
            self._waiting.discard(held.id)

    async def of_batch(self, held: Held) -> asyncio.Task[Ended] | None:
        """Try a row of a batch that this replica has taken up, once there is room; None where it can't be tried."""
        if not await self._triable(held):
            return None
        with self._waits(held):
            await self._room.acquire()
        if self.stopping:
            self._room.release()
            await self._caseload.give_back(held)
            return None
        return self._begin(held)

    def _begin(self, held: Held) -> asyncio.Task[Ended]:
        trial = asyncio.create_task(self._try(held), name=held.id)
        self.trials[held.id] = trial
        trial.add_done_callback(lambda ended: self._ended(held))
        return trial

    def _ended(self, held: Held) -> None:
        self.trials.pop(held.id, None)
        self._room.release()

    async def _try(self, held: Held) -> Ended:
        words = (held.post or {}).get("text") if held.keep else None
        with self._sight.trial(held.id, held.graph, held.attempt, words) as seen:
            return await self._tried(held, seen)

    async def _tried(self, held: Held, seen: Trial) -> Ended:
        try:
            with self._teller.trial(held) as said:
                heard = await self._heard(held, said, seen)
            record, paid = heard.record, _paid(held, heard.record)
            if held.batch_id is not None and self.outages is not None and await self.outages.again(held, record):
                seen.end = "unanswered"
                await through(lambda: self._caseload.try_again(held, self._spent(paid)[0]))
                return None
            if not await through(lambda: self._finished(held, heard, said, paid)):
                seen.end = "taken_over"
                return None
        except TakenOver:
            seen.end = "taken_over"
            return None
        except asyncio.CancelledError:
            seen.end = "handed_back" if self.stopping else "cancelled"
            if self.stopping:
                await self._caseload.give_back(held)
            else:
                await self._caseload.cancel(held, "who asked for it went away before it was decided")
            raise
        except BadInput as error:
            seen.end = "bad_input"
            why = str(error)
            await through(lambda: self._undecidable(held, why))
            return error
        except Exception:  # noqa: BLE001 (another replica may fare better; a few may try)
            _LOG.exception("case %s: could not be tried", held.id)
            await through(lambda: self._caseload.give_back(held))
            return None
        seen.finished(paid)
        return record

    async def _heard(self, held: Held, said: Said, seen: Trial) -> Heard:
        def listen(event: JSON) -> None:
            said.add(event)
            seen.hear(event)

        with for_an_agent():
            # Nobody listens to the many of a batch.
            return await self.on_checkpoints.hear(held, listen if held.batch_id is None else None)

    async def _undecidable(self, held: Held, why: str) -> None:
        """No model was asked. A row of a batch says so in its place among the others, as `tribunal batch` does."""
        if held.batch_id is None:
            await self._caseload.cancel(held, why)
            return
        sample = Sample(id=(held.post or {}).get("post_id") or held.id)
        await self._caseload.finish(held, unusable(sample, held.graph, context_from(held.settings), why))

    async def _finished(self, held: Held, heard: Heard, said: Said, paid: Record) -> bool:
        question = heard.question.dump() if heard.question else None
        spent, money = self._spent(paid)
        left = said.rows[:]
        return await self._caseload.finish(
            held, heard.record, question, written=heard.written, said=left, spent=spent, money=money
        )

    def _spent(self, paid: Record) -> tuple[Spent, float | None]:
        """What calls have cost, as far as it is known; and the money, where all of it is."""
        usage, costs = paid.usage, [self._prices.of(call) if self._prices else None for call in paid.calls]
        known = [cost for cost in costs if cost is not None]
        spent = Spent(calls=usage.calls, tokens=usage.prompt_tokens + usage.completion_tokens, money=sum(known))
        return spent, sum(known) if len(known) == len(costs) else None

    async def stop(self, seconds: float) -> None:
        """Let what is in flight end, for so long; what is left goes back to the queue."""
        self.stopping = True
        hurry = asyncio.create_task(self._hurry.wait())
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.trials and not hurry.done() and (left := until - loop.time()) > 0:
            await asyncio.wait([*self.trials.values(), hurry], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        running = list(self.trials.values())
        for trial in running:
            trial.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def hurry(self) -> None:
        """Don't wait any longer for what is in flight."""
        self._hurry.set()


def _paid(held: Held, record: Record) -> Record:
    """A record with the calls alone that were made since a person saw it."""
    if held.answer is None or held.record is None:
        return record
    calls = record.calls[len(held.record["calls"]) :]
    return record.model_copy(update={"calls": calls, "usage": Usage.of([call.dump() for call in calls])})
