"""The clerk of a run on a cluster, a named actor: one budget, one rest after a 429, one word on whether to go on.

There is one to a run, so a second driver at the same run finds the name taken.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tribunal.eval.runs.spending import Ledger, Spent

_NEWS_WITHIN = 5.0  # seconds that a worker waits for news; it then asks again, which shows that it lives
_GONE_AFTER = 30.0  # seconds without a word, after which what a worker had under way counts as spent
_SHORTEST_REST = 0.05  # seconds


class Rest(NamedTuple):
    """A key that a server told to wait; known by its provider and its number alone."""

    provider: str
    number: int
    until: float


class News(NamedTuple):
    """What has happened in the run.

    `rests` are by provider, number of the key and seconds from now on. `stop` is empty, `finish` (begin no other post)
    or `now` (leave those under way too). `outage` is whether posts were left without an answer, so that an answer is to
    be told.
    """

    seen: int
    rests: tuple[tuple[str, int, float], ...]
    stop: str
    outage: bool


class Standing(NamedTuple):
    """How the run stands: why it is to stop, and whether that is the user's input.

    `lost` are posts that were begun under a budget and of which nobody has said what they cost: where all workers have
    ended, those of workers that were killed.
    """

    stopped: str
    bad_input: bool
    lost: int


class Clerk:
    """What the workers of a run share. Every method is called from other processes."""

    def __init__(self, most_lost: int) -> None:
        """
        Args:
            most_lost: so many posts in a row without an answer stop the run.
        """
        self._most_lost = most_lost
        self._ledger: Ledger | None = None
        self._rests: list[Rest] = []
        self._lost: Counter[str] = Counter()  # posts in a row without an answer, by model
        self._stop, self._why, self._bad_input = "", "", False
        self._events = 0
        self._happened = asyncio.Condition()
        self._under_way: Counter[str] = Counter()  # posts, by worker
        self._lost_posts = 0  # of workers that were killed
        self._heard: dict[str, float] = {}

    async def here(self) -> bool:
        """Whether the clerk is there; for a driver that waits for it."""
        return True

    async def fund(self, ledger: Ledger) -> None:
        """Let the run spend so much and no more."""
        self._ledger = ledger

    async def news(self, worker: str, seen: int) -> News:
        """What has happened since a worker asked last, as soon as something has."""
        self._hear(worker)
        async with self._happened:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._happened.wait_for(lambda: self._events > seen), _NEWS_WITHIN)
        self._hear(worker)
        now = time.monotonic()
        self._rests = [rest for rest in self._rests if rest.until > now]
        rests = tuple((rest.provider, rest.number, rest.until - now) for rest in self._rests)
        return News(self._events, rests, self._stop, bool(self._lost))

    async def take(self, worker: str, wanted: int, settled: Sequence[Spent | None]) -> tuple[int, bool]:
        """Note what ended posts have cost (None: nobody knows), and let others begin.

        Returns:
            how many of those wanted may begin now, and whether none ever will.
        """
        self._hear(worker)
        ledger = self._ledger
        if ledger is None:
            return wanted, False
        for spent in settled:
            if self._under_way[worker]:
                self._under_way[worker] -= 1
            else:  # it was given up for lost, and already counts as spent
                ledger.under_way += 1
            if spent is None:
                ledger.lose()
            else:
                ledger.settle(*spent)
        if self._stop:
            return 0, True
        granted = 0
        while granted < wanted and ledger.take():
            granted += 1
            self._under_way[worker] += 1
        if granted or not wanted:
            return granted, False
        self._give_up_the_silent(ledger)
        if ledger.under_way == 0 and (why := ledger.why()):
            await self.halt(why)
            return 0, True
        return 0, False

    async def rest(self, provider: str, number: int, seconds: float) -> None:
        """A server told a worker to leave a key alone for so long."""
        if seconds >= _SHORTEST_REST:
            self._rests.append(Rest(provider, number, time.monotonic() + seconds))
            await self._tell()

    async def lost(self, model: str, why: str) -> None:
        """A post had no answer from a model. Too many in a row stop the run."""
        first = not self._lost
        self._lost[model] += 1
        if (number := self._lost.total()) >= self._most_lost:
            await self.halt(f"{number} posts in a row had no answer: {why}")
        elif first:
            await self._tell()

    async def answered(self, models: Iterable[str]) -> None:
        """Models answered."""
        for model in (*models, ""):
            self._lost.pop(model, None)

    async def halt(self, why: str, bad_input: bool = False) -> None:
        """Begin no other post; the first reason counts."""
        if not self._why:
            self._why, self._bad_input = why, bad_input
        self._stop = self._stop or "finish"
        await self._tell()

    async def leave(self) -> None:
        """Leave what is under way, too."""
        self._stop = "now"
        await self._tell()

    async def standing(self) -> Standing:
        return Standing(self._why, self._bad_input, self._lost_posts + self._under_way.total())

    def _hear(self, worker: str) -> None:
        self._heard[worker] = time.monotonic()

    def _give_up_the_silent(self, ledger: Ledger) -> None:
        """Count as spent what workers had under way that were killed: nobody knows how far their posts had come."""
        now = time.monotonic()
        for worker, posts in list(self._under_way.items()):
            if posts and now - self._heard[worker] > _GONE_AFTER:
                for _ in range(posts):
                    ledger.lose()
                self._lost_posts += posts
                del self._under_way[worker]

    async def _tell(self) -> None:
        self._events += 1
        async with self._happened:
            self._happened.notify_all()
