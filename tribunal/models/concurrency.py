"""How many requests to one model are under way at a time: fewer where they time out beside each other."""

from __future__ import annotations

import asyncio
from collections import deque

# After so many answers for each request at a time, a number that timed out before is tried again.
_PATIENCE = 10


class ConcurrencyLimit:
    """Turns at one model, of one event loop.

    A server that answers one request at a time makes the others wait, and they time out while it works. So a request
    that times out halves the number of those that may be under way, unless as many were answered while it waited: then
    it is slow by itself. Answers raise the number again, one by one: quickly to just below the one that timed out,
    slowly beyond it.

    Attributes:
        limit: how many may be under way now; None: any number.
        lowered: how often it was lowered.
        lowest: the lowest that it has been; None where it never was lowered.
    """

    def __init__(self) -> None:
        """Begin without a limit."""
        self.limit: int | None = None
        self.lowered = 0
        self.lowest: int | None = None
        self._under_way = self._answers = self._since = self._too_many = self._most = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire_slot(self) -> tuple[int, int]:
        """Wait for a turn; return what `release_slot` is to be told."""
        if self.limit is None or self._under_way < self.limit:
            self._under_way += 1
            return self.lowered, self._answers
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._free_slot()
            raise
        return self.lowered, self._answers

    def release_slot(self, taken: tuple[int, int], *, timed_out: bool = False, answered: bool = False) -> None:
        """End a turn; `taken` is what `acquire_slot` gave."""
        if timed_out:
            self._lower_limit(*taken)
        elif answered:
            self._answers += 1
            self._raise_limit_after_enough_calls()
        self._free_slot()

    def _lower_limit(self, lowered: int, answers: int) -> None:
        # One crowd times out as one: of those that began before the number was lowered, none lowers it once more.
        if self._under_way < 2 or lowered < self.lowered or self._answers - answers >= self._under_way:
            return
        self._most = max(self._most, self._under_way)
        self._too_many, self._since = self._under_way, 0
        self.limit = self._under_way // 2
        self.lowered += 1
        self.lowest = min(self.limit, self.lowest or self.limit)

    def _raise_limit_after_enough_calls(self) -> None:
        if self.limit is None:
            return
        self._since += 1
        if self._since >= self.limit * (_PATIENCE if self.limit + 1 >= self._too_many else 1):
            self._since, self.limit = 0, self.limit + 1
            if self.limit >= self._most:
                self.limit = None

    def _free_slot(self) -> None:
        self._under_way -= 1
        while self._waiting and (self.limit is None or self._under_way < self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)
