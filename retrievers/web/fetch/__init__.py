"""The one way out to the web: a page or a picture by its URL, or a refusal that says why.

FetchError (a TribunalError)
├── FetchRefused    we would not: an address, a port, a size, a wish of the site
└── FetchFailed     we could not: no such name, no answer, an answer cut short
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal
from weakref import WeakValueDictionary

from pydantic import Field

from tribunal.errors import TribunalError
from tribunal.schema import Frozen

USER_AGENT = "Tribunal/0.1 (+https://github.com/tribunal-court/tribunal)"
"""What every request says it is; robots.txt addresses us by the name before the slash."""


Reason = Literal[
    # why we would not
    "url", "scheme", "credentials", "port", "address", "outward", "robots", "redirects", "loop", "downgrade",
    "content_type", "too_large", "encoding",
    # why we could not
    "dns", "connect", "tls", "timeout", "protocol", "truncated", "status",
]  # fmt: skip


class FetchError(TribunalError):
    """A URL that gave no page.

    `reason` is for machines; `str()` is one line for people; `status` is the answer's HTTP status, where there was one.
    """

    def __init__(self, reason: Reason, why: str, url: str, *, status: int | None = None) -> None:
        """Make the error from a reason, an explanation and the URL."""
        super().__init__(f"{_printable_text(url)}: {_printable_text(why)}")
        self.reason = reason
        self.why = why
        self.url = url
        self.status = status


class FetchRefused(FetchError):
    """We would not ask for this URL, or would not take what came."""


class FetchFailed(FetchError):
    """We asked, or tried to, and it didn't work."""


def _printable_text(text: str) -> str:
    plain = "".join(c if c.isprintable() else "�" for c in text)
    return plain if len(plain) <= 200 else plain[:197] + "…"


class FetchLimits(Frozen):
    """The limits of one fetch."""

    seconds: float = Field(
        default=20.0,
        gt=0,
        description="Seconds of network work for a page, redirects included. Waiting for one's turn at a host isn't "
        "counted, nor is robots.txt, which has as long again.",
    )
    dns_seconds: float = Field(default=5.0, gt=0)
    """Seconds for looking up a name."""
    connect_seconds: float = Field(default=5.0, gt=0)
    """Seconds for one address, TLS included."""
    read_seconds: float = Field(default=10.0, gt=0)
    """Seconds of silence before an answer is given up."""
    wire_bytes: int = Field(default=10 * 2**20, gt=0)
    """Bytes of an answer as it comes over the wire."""
    body_bytes: int = Field(default=20 * 2**20, gt=0)
    """Bytes of an answer once it is decompressed."""
    redirects: int = Field(default=5, ge=0, le=20)
    """Hops after the first."""


class NetworkClock:
    """Seconds of network work; it stands still while a fetch waits for its turn."""

    def __init__(self, limit: float) -> None:
        """Give the clock so many seconds."""
        self.limit = self._left = limit

    @asynccontextmanager
    async def count_time(self) -> AsyncIterator[None]:
        """Count the time that the body takes, and raise `TimeoutError` when no second is left."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                yield
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - started))


class HostLocks(WeakValueDictionary[str, asyncio.Lock]):
    """A lock for each name, kept only while someone holds or awaits it: hosts come and go by the thousand."""

    def lock_for(self, name: str) -> asyncio.Lock:
        """Return the lock of a name."""
        return self.get(name) or self.setdefault(name, asyncio.Lock())
