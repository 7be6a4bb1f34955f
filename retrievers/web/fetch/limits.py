"""How much one fetch may take, how long, and who waits for whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from pydantic import Field

from tribunal.schema import Frozen


class Limits(Frozen):
    """How much of anything one fetch may take."""

    seconds: float = Field(
        default=20.0,
        gt=0,
        description="Seconds of network work for a page, redirects included. Waiting for one's turn at a host isn't "
        "counted, nor is robots.txt, which has as long again.",
    )
    dns_seconds: float = Field(default=5.0, gt=0, description="Seconds for looking up a name.")
    connect_seconds: float = Field(default=5.0, gt=0, description="Seconds for one address, TLS included.")
    read_seconds: float = Field(default=10.0, gt=0, description="Seconds of silence before an answer is given up.")
    wire_bytes: int = Field(default=10 * 2**20, gt=0, description="Bytes of an answer as it comes over the wire.")
    body_bytes: int = Field(default=20 * 2**20, gt=0, description="Bytes of an answer once it is decompressed.")
    redirects: int = Field(default=5, ge=0, le=20, description="Hops after the first.")


class Clock:
    """Seconds of network work; it stands still while a fetch waits for its turn."""

    def __init__(self, limit: float) -> None:
        self.limit = self._left = limit

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises `TimeoutError` when no second is left."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                yield
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - started))


class Turns(WeakValueDictionary[str, asyncio.Lock]):
    """A lock for each name, kept only while someone holds or awaits it: hosts come and go by the thousand."""

    def of(self, name: str) -> asyncio.Lock:
        return self.get(name) or self.setdefault(name, asyncio.Lock())
