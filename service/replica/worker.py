"""A replica's own work: cases that it has taken up, each tried by its graph, and the events of their trials."""

from __future__ import annotations

import asyncio
import logging

from tribunal.cases.session import hear
from tribunal.context import context_from
from tribunal.errors import BadInput
from tribunal.eval.runs.prices import Prices
from tribunal.schema import JSON, Record
from tribunal.service.replica.caseload import Caseload, Held
from tribunal.service.replica.keys import count_spent
from tribunal.store.engine import Store
from tribunal.trust import for_an_agent

_LOG = logging.getLogger(__name__)
_FLUSH = 0.1  # seconds between two looks at what was said
_MOST_ATTEMPTS = 5  # a case that ends its replica each time must not go round for ever

Ended = Record | BadInput | None  # a trial's end: its record, why there is none, or None where it doesn't count


class Worker:
    """Tries cases, at most so many at a time.

    Args:
        caseload: the cases.
        store: for the accounts of keys.
        in_flight: how many at a time.
        prices: what calls cost.
    """

    def __init__(
        self,
        caseload: Caseload,
        store: Store,
        in_flight: int,
        prices: Prices | None = None,
    ) -> None:
        self._caseload, self._store, self._prices = caseload, store, prices
        self._room = asyncio.Semaphore(in_flight)
        self._stopping = False
        self.trials: dict[str, asyncio.Task[Ended]] = {}

    @property
    def has_room(self) -> bool:
        return not self._room.locked()

    async def named(self, case_id: str) -> None:
        """Take a case up once there is room, if it is still free; returns when its trial has begun."""
        await self._room.acquire()
        held = None
        try:
            held = await self._taken_up(case_id)
        finally:
            if held is None:
                self._room.release()
        if held is not None:
            self._begin(held)

    async def _taken_up(self, case_id: str) -> Held | None:
        held = await self._caseload.take_up(case_id)
        if held is None:
            return None
        if held.post is None:
            await self._caseload.cancel(held, "its replica ended, and the post was not to be kept; send it again")
            return None
        if held.attempt > _MOST_ATTEMPTS:
            await self._caseload.cancel(held, f"{_MOST_ATTEMPTS} replicas ended while they tried it")
            return None
        return held

    async def at_once(self, held: Held) -> asyncio.Task[Ended]:
        """Try a case that was taken in by this replica, which has room."""
        await self._room.acquire()
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
        said = _Said(self._caseload, held)
        try:
            record = await self._heard(held, said)
            await said.flush()
            if not await self._caseload.finish(held, record):
                return None
        except asyncio.CancelledError:
            if self._stopping:
                await self._caseload.give_back(held)
            else:
                await self._caseload.cancel(held, "who asked for it went away before it was decided")
            raise
        except BadInput as error:
            await self._caseload.cancel(held, str(error))
            return error
        except Exception:  # noqa: BLE001 (another replica may fare better; a few may try)
            _LOG.exception("case %s: could not be tried", held.id)
            await self._caseload.give_back(held)
            return None
        await self._account(held, record)
        return record

    async def _heard(self, held: Held, said: _Said) -> Record:
        post = held.post or {}
        context = context_from(held.settings)
        with said, for_an_agent():
            return await hear(
                post.get("text"),
                post.get("image"),
                graph=held.graph,
                context=context,
                post_id=post.get("post_id"),
                language=post.get("language"),
                listen=said.add,
            )

    async def _account(self, held: Held, record: Record) -> None:
        money = sum(self._prices.of(call) or 0.0 for call in record.calls) if self._prices else 0.0
        tokens = record.usage.prompt_tokens + record.usage.completion_tokens
        await count_spent(self._store, held.key_id or "", record.usage.calls, tokens, money)

    async def stop(self, seconds: float) -> None:
        """Let what is in flight end, for so long; what is left goes back to the queue."""
        self._stopping = True
        running = list(self.trials.values())
        if running:
            await asyncio.wait(running, timeout=seconds)
        for trial in running:
            trial.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class _Said:
    """What is said in a trial, written down a little later and together, so that it holds nothing up."""

    def __init__(self, caseload: Caseload, held: Held) -> None:
        self._caseload, self._held = caseload, held
        self._waiting: list[JSON] = []
        self._number = held.attempt * 100_000
        self._flushing: asyncio.Task[None] | None = None

    def add(self, event: JSON) -> None:
        self._waiting.append(event)

    def __enter__(self) -> None:
        self._flushing = asyncio.create_task(self._now_and_then())

    def __exit__(self, *_: object) -> None:
        if self._flushing:
            self._flushing.cancel()

    async def _now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH)
            await self.flush()

    async def flush(self) -> None:
        said, self._waiting = self._waiting, []
        if said:
            await self._caseload.tell(self._held, self._number, said)
            self._number += len(said)
