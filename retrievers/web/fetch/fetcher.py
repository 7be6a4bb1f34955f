"""The fetcher: every hop of a fetch goes through the same steps.

The URL is taken apart (`parse_url`), its port and *every* address of its name are checked, one of the checked addresses
is connected to without looking the name up again, the site's robots.txt is asked, and what comes is taken within limits
of size, time and type. Nothing is kept between requests but what robots.txt said: no cookies, no credentials, no
connections; and nothing is read from the environment.

docs/fetching.md lists the attacks this is tested against, and what happens to each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from tribunal.environment import setting
from tribunal.retrievers.web.fetch.decompress import pieces
from tribunal.retrievers.web.fetch.errors import FetchFailed, FetchRefused
from tribunal.retrievers.web.fetch.kinds import PAGES, declared_kind, true_kind
from tribunal.retrievers.web.fetch.limits import Clock, Limits, Turns
from tribunal.retrievers.web.fetch.lookup import Resolver, SystemResolver, checked_addresses
from tribunal.retrievers.web.fetch.outward import carries
from tribunal.retrievers.web.fetch.robots import Robots
from tribunal.retrievers.web.fetch.rules import Rules
from tribunal.retrievers.web.fetch.target import Redirect, Target, follow, parse_allow, parse_url

if TYPE_CHECKING:
    import ssl

    from tribunal.retrievers.web.fetch.wire import Answer, Route

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What a URL gave, and how it was come by."""

    url: str
    """As it was asked for."""
    final_url: str
    """Where it was found, spelt as it was sent."""
    redirects: tuple[str, ...]
    """The URLs asked before `final_url`, in order."""
    address: str
    """The address that answered."""
    status: int
    content_type: str
    """The media type alone, in lower case; for an image, what its first bytes say."""
    charset: str | None
    """As the server declared it."""
    body: bytes
    """Decompressed."""
    fetched_at: datetime
    """In UTC."""


def allowed_places() -> frozenset[str]:
    """The places an operator lifted the address and port rules for: `TRIBUNAL_FETCH_ALLOW`, environment or `.env`.

    Reads a file: call it off the event loop.

    Raises:
        BadInput: naming the entry that is not host:port.
    """
    return parse_allow(setting("TRIBUNAL_FETCH_ALLOW") or "")


class Fetcher:
    """Fetches pages, one connection a host at a time, many hosts together.

    One serves any number of fetches at once, on one event loop at a time. There is nothing to close.

    Args:
        allow: places (`host:port`, see `allowed_places`) where the address and port rules are lifted.
        limits: what one fetch may take.
        resolver: looks names up; the system's by default. Asked once a connection.
        route: where the addresses that have been checked lead to; to themselves by default. For tests.
        trusted: whom TLS trusts; the `certifi` authorities by default.
    """

    def __init__(
        self,
        allow: frozenset[str] = frozenset(),
        limits: Limits | None = None,
        *,
        resolver: Resolver | None = None,
        route: Route | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        self.allow = allow
        self.limits = limits or Limits()
        self._resolver = resolver or SystemResolver()
        self._route = route
        self._trusted = trusted
        self._turns = Turns()
        self._robots = Robots(self._ask_robots, self.limits)

    async def fetch(self, url: str, *, accept: frozenset[str] = PAGES, secret_text: str = "") -> FetchedPage:
        """Fetch what is at a URL.

        Args:
            url: as a model, a page or a person wrote it.
            accept: the media types to take: `PAGES`, `IMAGES`, or a set of one's own.
            secret_text: what no URL may carry outward: the post. Checked on every hop.

        Raises:
            FetchRefused: we would not, or not what came; see `reason`.
            FetchFailed: we could not.
        """

        async def take(answer: Answer) -> _Body | Redirect:
            return answer.redirect or await self._body(answer, accept)

        clock = Clock(self.limits.seconds)
        target = parse_url(url)
        asked: list[Target] = []
        while True:
            if secret_text and carries(target.url, secret_text):
                raise FetchRefused("outward", "would carry the post's own text to the site", url)
            self._check_port(target)
            await self._robots.check(target)
            taken = await self._ask(target, clock, accept, take)
            asked.append(target)
            if isinstance(taken, _Body):
                return FetchedPage(
                    url=url,
                    final_url=target.url,
                    redirects=tuple(hop.url for hop in asked[:-1]),
                    address=taken.address,
                    status=taken.status,
                    content_type=taken.content_type,
                    charset=taken.charset,
                    body=taken.body,
                    fetched_at=datetime.now(UTC),
                )
            target = follow(target, taken)
            if target in asked:
                raise FetchRefused("loop", f"redirects back to {target.url}", url)
            if len(asked) > self.limits.redirects:
                raise FetchRefused("redirects", f"more than {self.limits.redirects} redirects", url)

    def _check_port(self, target: Target) -> None:
        if target.port not in (80, 443) and target.place not in self.allow:
            raise FetchRefused("port", f"port {target.port}; only 80 and 443 are asked", target.url)

    async def _ask_robots(
        self, target: Target, clock: Clock, take: Callable[[Answer], Awaitable[Rules | Redirect | None]]
    ) -> Rules | Redirect | None:
        self._check_port(target)
        return await self._ask(target, clock, frozenset(), take)

    async def _ask(
        self, target: Target, clock: Clock, accept: frozenset[str], take: Callable[[Answer], Awaitable[T]]
    ) -> T:
        """Ask for one URL on a connection of its own, and hand the answer to `take` while it is still coming in."""
        # Loaded at the first fetch: most cases need none.
        from tribunal.retrievers.web.fetch.wire import asked, trusted_authorities

        async with self._turns.of(target.host):
            try:
                async with clock.running():
                    addresses = await checked_addresses(
                        target, self._resolver, self.limits.dns_seconds, lifted=target.place in self.allow
                    )
                    if target.scheme == "https" and self._trusted is None:
                        self._trusted = await asyncio.to_thread(trusted_authorities)
                    async with asked(target, addresses, accept, self.limits, self._trusted, self._route) as answer:
                        return await take(answer)
            except TimeoutError as error:
                raise FetchFailed("timeout", f"took longer than {clock.limit:g} s", target.url) from error

    async def _body(self, answer: Answer, accept: frozenset[str]) -> _Body:
        if answer.status not in (200, 203):
            raise FetchFailed("status", f"answered {answer.status}", answer.url, status=answer.status)
        declared = answer.header("content-type") or ""
        kind, charset = declared_kind(declared)
        if kind not in accept:
            raise FetchRefused("content_type", f"is {declared or 'of no type'}", answer.url)
        length = answer.header("content-length") or ""
        if length.isdecimal() and int(length) > self.limits.wire_bytes:
            raise FetchRefused("too_large", f"announces {length} bytes", answer.url)
        held = bytearray()
        async with aclosing(pieces(answer, self.limits.wire_bytes)) as read:
            async for piece in read:
                held += piece
                if len(held) > self.limits.body_bytes:
                    raise FetchRefused("too_large", f"unpacks to over {self.limits.body_bytes} bytes", answer.url)
        body = bytes(held)
        return _Body(answer.address, answer.status, true_kind(kind, charset, body, accept, answer.url), charset, body)


@dataclass(frozen=True, slots=True)
class _Body:
    address: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
