"""What a worker has of the clerk: leave to begin a post, and news of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from ray.exceptions import RayError

from tribunal.eval.ray.clerk import News
from tribunal.eval.runs.spending import Spent
from tribunal.models.door import Door

_LOOK_AGAIN = 0.1  # seconds until a budget that doesn't reach now is asked again


class Purse:
    """A worker's share of the run's budget, a post at a time.

    Posts that begin while the clerk is being asked are asked for together, so that a busy clerk is asked more rarely.
    """

    def __init__(self, clerk: Any, worker: str, limited: bool) -> None:
        self._clerk, self._worker, self._limited = clerk, worker, limited
        self.stopped = False
        self._outage = False
        self._waiting: list[asyncio.Future[bool]] = []
        self._settled: list[Spent | None] = []
        self._asking: asyncio.Task[None] | None = None
        self._saying: set[asyncio.Future[Any]] = set()
        self._listening: asyncio.Task[None] | None = None

    async def take(self) -> bool:
        """Whether another post may begin; waits until that is known."""
        if self.stopped or not self._limited:
            return not self.stopped
        leave: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(leave)
        self._ask()
        return await leave

    def settle(self, spent: Spent | None) -> None:
        """A post that might begin has ended, and cost this; None: nobody knows what."""
        if self._limited:
            self._settled.append(spent)
            self._ask()

    def lost(self, model: str, why: str) -> None:
        """A post had no answer."""
        self._outage = True
        self._say(self._clerk.lost.remote(model, why))

    def answered(self, models: Iterable[str]) -> None:
        """Models answered; that is told where somebody waits to hear it."""
        if self._outage and (models := list(models)):
            self._outage = False
            self._say(self._clerk.answered.remote(models))

    def listen(self, door: Door, leave: Callable[[], None]) -> None:
        """Hear the run's news from now on.

        Args:
            door: is told of rests that other workers were told of, and tells its own.
            leave: what to do when what is under way is to be left.
        """
        door.on_rest = lambda provider, number, seconds: self._say(self._clerk.rest.remote(provider, number, seconds))
        self._listening = asyncio.ensure_future(self._hear(door, leave))

    async def _hear(self, door: Door, leave: Callable[[], None]) -> None:
        seen, stop = 0, ""
        while True:
            try:
                news: News = await self._clerk.news.remote(self._worker, seen)
            except RayError:  # the driver is gone, and whoever goes on with the run decides what is left
                stop = "now"
            else:
                seen, stop = news.seen, news.stop
                self._outage = self._outage or news.outage
                for provider, number, seconds in news.rests:
                    door.rest_elsewhere(provider, number, seconds)
            if stop:
                self.stopped = True
                self._refuse()
            if stop == "now":
                leave()
                return

    def _refuse(self) -> None:
        waiting, self._waiting = self._waiting, []
        for leave in waiting:
            if not leave.done():
                leave.set_result(False)

    def _ask(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._asked())

    async def _asked(self) -> None:
        while self._waiting or self._settled:
            self._waiting = [leave for leave in self._waiting if not leave.done()]
            settled, self._settled = self._settled, []
            granted, never = await self._clerk.take.remote(self._worker, len(self._waiting), settled)
            for leave in self._waiting[:granted]:
                leave.set_result(True)
            del self._waiting[:granted]
            if never:
                self._refuse()
            elif self._waiting and not granted and not self._settled:
                await asyncio.sleep(_LOOK_AGAIN)

    def _say(self, said: Any) -> None:
        future = asyncio.ensure_future(said)
        self._saying.add(future)
        future.add_done_callback(self._saying.discard)
