"""One thing for each event loop: made at first use, closed with the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Thing = TypeVar("Thing")


class PerLoop(Generic[Thing]):
    """What `make` makes, once for each running event loop, and `close` ends.

    A loop closes the asynchronous generators that were begun on it when it shuts down (`asyncio.run` sees to that);
    there is no other such moment, so a generator waits here for it.
    """

    def __init__(self, make: Callable[[], Awaitable[Thing]], close: Callable[[Thing], Awaitable[object]]) -> None:
        self._make, self._close = make, close
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Thing, AsyncGenerator[None]]] = (
            WeakKeyDictionary()
        )

    async def here(self) -> Thing:
        """The running loop's own."""
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            made = await self._make()
            if loop in self._held:  # another task was quicker
                await self._close(made)
            else:
                keeper = self._kept(made)
                self._held[loop] = made, keeper
                await anext(keeper)
        return self._held[loop][0]

    async def _kept(self, made: Thing) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._held.pop(asyncio.get_running_loop(), None)
            await self._close(made)
