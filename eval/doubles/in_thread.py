"""A server that is used with `async with` on the loop it is in, and with plain `with` on one in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class InThread:
    """The plain `with` of a server that has `__aenter__` and `__aexit__`."""

    _thread: threading.Thread | None = None
    _stop: Callable[[], object] | None = None

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        started = threading.Event()

        async def run() -> None:
            over = asyncio.Event()
            async with self:
                loop = asyncio.get_running_loop()
                self._stop = lambda: loop.call_soon_threadsafe(over.set)
                started.set()
                await over.wait()
                self._over()

        self._thread = threading.Thread(target=asyncio.run, args=(run(),), name=type(self).__name__, daemon=True)
        self._thread.start()
        if not started.wait(10):
            raise RuntimeError("the server's thread didn't come up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is not None and self._thread is not None:
            self._stop()
            self._thread.join(10)

    def _over(self) -> None:
        """What is done in the thread before its server is left."""
