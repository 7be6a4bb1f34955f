"""Asking a site's robots.txt, and keeping what it said."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tribunal.retrievers.web.fetch.decompress import pieces
from tribunal.retrievers.web.fetch.errors import FetchError, FetchFailed, FetchRefused
from tribunal.retrievers.web.fetch.limits import Clock, Limits, Turns
from tribunal.retrievers.web.fetch.rules import Rules
from tribunal.retrievers.web.fetch.target import REDIRECTS, Redirect, Target, follow

if TYPE_CHECKING:
    from tribunal.retrievers.web.fetch.wire import Answer

_BYTES = 500 * 1024
_SITES = 512

Read = Callable[["Answer"], Awaitable[Rules | Redirect | None]]
Ask = Callable[[Target, Clock, Read], Awaitable[Rules | Redirect | None]]
"""Asks for a URL, and gives what is read of the answer. Raises `FetchError`."""


class Robots:
    """What sites' robots.txt say of us.

    Args:
        ask: how one of them is asked for.
        limits: what asking for one may take.
    """

    def __init__(self, ask: Ask, limits: Limits) -> None:
        self._ask, self._limits = ask, limits
        self._turns = Turns()
        self._sites: OrderedDict[str, _Site] = OrderedDict()

    async def check(self, target: Target) -> None:
        """Ask the site, unless it was asked of late.

        Raises:
            FetchRefused: it says no, or can't be read; or its address is forbidden.
            FetchFailed: the host can't be reached: that is what the page's own reader wants to hear.
        """
        async with self._turns.of(target.origin):
            site = self._sites.get(target.origin)
            if site is None or site.expires < time.monotonic():
                site = self._sites[target.origin] = await self._read(target)
            self._sites.move_to_end(target.origin)
            while len(self._sites) > _SITES:
                self._sites.popitem(last=False)
        if site.failure is not None:
            raise FetchFailed(site.failure.reason, site.failure.why, target.url)
        if site.rules is None:
            raise FetchRefused("robots", "its robots.txt can't be read, which counts as a no", target.url)
        if not site.rules.allow(target.path):
            raise FetchRefused("robots", "its robots.txt asks not to", target.url)

    async def _read(self, page: Target) -> _Site:
        clock = Clock(self._limits.seconds)
        target = Target(page.scheme, page.host, page.port, "/robots.txt")
        asked: list[Target] = []
        try:
            while len(asked) <= 5:
                said = await self._ask(target, clock, self._take)
                asked.append(target)
                if not isinstance(said, Redirect):
                    return _Site(time.monotonic() + 86_400, said)
                target = follow(target, said)
        except FetchError as error:
            if not asked and error.reason == "address":
                raise
            if not asked and error.reason in ("dns", "connect", "tls", "timeout"):
                return _Site(time.monotonic() + 60, None, error)
        return _Site(time.monotonic() + 300, None)

    async def _take(self, answer: Answer) -> Rules | Redirect | None:
        if answer.redirect:
            return answer.redirect
        if 400 <= answer.status < 500 or answer.status in REDIRECTS:
            return Rules("")
        if answer.status >= 500 or answer.status < 200:
            return None
        body = bytearray()
        async with aclosing(pieces(answer, self._limits.wire_bytes)) as read:
            async for piece in read:
                body += piece
                if len(body) >= _BYTES:
                    break
        # Half a megabyte of rules takes a while to sort.
        return await asyncio.to_thread(Rules, body[:_BYTES].decode("utf-8-sig", errors="replace"))


@dataclass(frozen=True, slots=True)
class _Site:
    """What a site's robots.txt said; no rules means that it couldn't be read, which forbids everything."""

    expires: float
    rules: Rules | None
    failure: FetchError | None = None
