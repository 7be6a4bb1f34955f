"""The fetcher: every hop of a fetch goes through the same steps.

The URL is taken apart (`parse_url`), its port and *every* address of its name are checked, one of the checked addresses
is connected to without looking the name up again, the site's robots.txt is asked, and what comes is taken within limits
of size, time and type. Nothing is kept between requests but what robots.txt said: no cookies, no credentials, no
connections; and nothing is read from the environment.

docs/fetching.md lists the attacks this is tested against, and what happens to each.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from tribunal.models.image_header import FORMATS, detect_format
from tribunal.retrievers.web.fetch import (
    FetchFailed,
    FetchLimits,
    FetchRefused,
    HostLocks,
    NetworkClock,
)
from tribunal.retrievers.web.fetch.robots import RobotsCache
from tribunal.retrievers.web.fetch.target import (
    FetchTarget,
    carries_text,
    follow_redirect,
    is_named_host,
    parse_url,
    why_forbidden,
)

if TYPE_CHECKING:
    import ssl

    from tribunal.retrievers.web.fetch.wire import Route, SiteAnswer


PAGES = frozenset({"text/html", "application/xhtml+xml", "text/plain", "application/pdf"})
IMAGES = frozenset(FORMATS.values()) - {"image/bmp"}  # two letters are no proof of a type

_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_SIGNATURES = (
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
)


def parse_content_type(content_type: str) -> tuple[str, str | None]:
    """Return the media type and the charset that a Content-Type names, in lower case."""
    named = _CHARSET.search(content_type)
    kind = content_type.partition(";")[0].strip().lower()
    kind = {"image/jpg": "image/jpeg", "image/heif": "image/heic"}.get(kind, kind)
    return kind, named[1].lower() if named else None


def check_content_type(
    declared: str, charset: str | None, body: bytes, accept: frozenset[str], url: str
) -> str:
    """Return the type that the first bytes bear out.

    Raises:
        FetchRefused: they belong to another type, or to none that was declared.
    """
    head = body[:1024]
    seen = next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)
    if seen is None and (picture := FORMATS.get(detect_format(head) or "")) in IMAGES:
        seen = picture
    if (
        seen is None
        and b"%PDF-" in head
        and (declared == "application/pdf" or head.startswith(b"%PDF-"))
    ):
        seen = "application/pdf"
    if declared in IMAGES and seen in IMAGES & accept:
        return seen  # one kind of picture called another is a slip, not an attack
    if declared in ("application/pdf", *IMAGES):
        fits = seen == declared
    else:
        wide = head.startswith((b"\xff\xfe", b"\xfe\xff")) or (charset or "").startswith(
            ("utf-16", "utf-32")
        )
        fits = seen is None and (wide or b"\0" not in head)
    if not fits:
        raise FetchRefused(
            "content_type", f"calls itself {declared} and is {seen or 'something else'}", url
        )
    return declared


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name and a port in, every address of it out. Raises `OSError` when there is none."""


def make_system_resolver() -> Resolver:
    """Return `getaddrinfo` on threads of its own, so that names that hang hold up nothing but other names."""
    # they start at the first look-up
    threads = ThreadPoolExecutor(8, thread_name_prefix="tribunal-dns")

    async def resolve(host: str, port: int) -> list[str]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(threads, ask)
        return [str(sockaddr[0]) for *_, sockaddr in found]

    return resolve


async def resolve_checked_addresses(
    target: FetchTarget, resolver: Resolver, seconds: float, *, lifted: bool
) -> list[str]:
    """Return every address of a host, whose name is looked up once, within so many seconds.

    Raises:
        FetchRefused: an address is forbidden, and no operator has `lifted` that for this place.
        FetchFailed: there is none.
    """
    found: Sequence[str]
    if target.address is not None:
        found = [str(target.address)]
    else:
        try:
            async with asyncio.timeout(seconds):
                found = await resolver(target.host, target.port)
        except TimeoutError as error:
            raise FetchFailed(
                "dns", f"{target.host} was not resolved in time", target.url
            ) from error
        except (OSError, UnicodeError) as error:
            raise FetchFailed(
                "dns", f"{target.host} has no address ({error})", target.url
            ) from error
        if not found:
            raise FetchFailed("dns", f"{target.host} has no address", target.url)
    for text in () if lifted else found:
        use = why_forbidden(ip_address(text))
        if use:
            raise FetchRefused("address", f"{target.host} is at {text}: {use}", target.url)
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The content of a URL, and how it was fetched."""

    url: str  # as it was asked for
    final_url: str  # where it was found, spelt as it was sent
    redirects: tuple[str, ...]  # the URLs asked before `final_url`, in order
    address: str  # the address that answered
    status: int
    content_type: str  # the media type alone, in lower case; for an image, what its first bytes say
    charset: str | None  # as the server declared it
    body: bytes  # decompressed
    fetched_at: datetime  # in UTC


class Fetcher:
    """Fetches pages, one connection a host at a time, many hosts together.

    One serves any number of fetches at once, on one event loop at a time. There is nothing to close.

    Args:
        allow: places (`host:port`, see `parse_allowed_places`) where the address and port rules are lifted.
        limits: the limits of a fetch.
        image_hosts: hosts (see `parse_image_hosts`) whose robots.txt isn't asked for images.
        resolver: looks names up; the system's by default. Asked once a connection.
        route: where the addresses that have been checked lead to; to themselves by default. For tests.
        trusted: whom TLS trusts; the `certifi` authorities by default.
    """

    def __init__(
        self,
        allow: frozenset[str] = frozenset(),
        limits: FetchLimits | None = None,
        *,
        image_hosts: frozenset[str] = frozenset(),
        resolver: Resolver | None = None,
        route: Route | None = None,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """Make a fetcher; nothing is read or connected to yet."""
        self.allow = allow
        self.image_hosts = image_hosts
        self.limits = limits or FetchLimits()
        self._resolver = resolver or make_system_resolver()
        self._route = route
        self._trusted = trusted
        self._turns = HostLocks()
        self._robots = RobotsCache(partial(self._open_answer, accept=frozenset()), self.limits)

    async def fetch(
        self, url: str, *, accept: frozenset[str] = PAGES, secret_text: str = ""
    ) -> FetchedPage:
        """Fetch a URL.

        Args:
            url: as a model, a page or a person wrote it.
            accept: the media types to take: `PAGES`, `IMAGES`, or a set of one's own.
            secret_text: what no URL may carry outward: the post. Checked on every hop.

        Raises:
            FetchRefused: we would not, or not what came; see `reason`.
            FetchFailed: we could not.
        """
        clock = NetworkClock(self.limits.seconds)
        target = parse_url(url)
        asked: list[FetchTarget] = []
        while True:
            if secret_text and carries_text(target.url, secret_text):
                raise FetchRefused("outward", "would carry the post's own text to the site", url)
            if not (accept == IMAGES and is_named_host(target.host, self.image_hosts)):
                await self._robots.check_target(target)
            async with self._open_answer(target, clock, accept) as answer:
                if not answer.redirect:
                    return await self._read_page(answer, accept, url, asked)
            asked.append(target)
            target = follow_redirect(target, answer.redirect)
            if target in asked:
                raise FetchRefused("loop", f"redirects back to {target.url}", url)
            if len(asked) > self.limits.redirects:
                raise FetchRefused("redirects", f"more than {self.limits.redirects} redirects", url)

    @asynccontextmanager
    async def _open_answer(
        self, target: FetchTarget, clock: NetworkClock, accept: frozenset[str]
    ) -> AsyncIterator[SiteAnswer]:
        """Ask for one URL on a connection of its own, and give the answer while it is still coming in."""
        if target.port not in (80, 443) and target.place not in self.allow:
            raise FetchRefused("port", f"port {target.port}; only 80 and 443 are asked", target.url)
        # Loaded at the first fetch: most cases need none.
        from tribunal.retrievers.web.fetch.wire import open_answer, trusted_authorities

        async with self._turns.lock_for(target.host):
            try:
                async with clock.count_time():
                    addresses = await resolve_checked_addresses(
                        target,
                        self._resolver,
                        self.limits.dns_seconds,
                        lifted=target.place in self.allow,
                    )
                    if target.scheme == "https" and self._trusted is None:
                        self._trusted = await asyncio.to_thread(trusted_authorities)
                    async with open_answer(
                        target, addresses, accept, self.limits, self._trusted, self._route
                    ) as answer:
                        yield answer
            except TimeoutError as error:
                raise FetchFailed(
                    "timeout", f"took longer than {clock.limit:g} s", target.url
                ) from error

    async def _read_page(
        self, answer: SiteAnswer, accept: frozenset[str], url: str, asked: Sequence[FetchTarget]
    ) -> FetchedPage:
        if answer.status not in (200, 203):
            raise FetchFailed(
                "status", f"answered {answer.status}", answer.url, status=answer.status
            )
        declared = answer.get_header("content-type") or ""
        kind, charset = parse_content_type(declared)
        if kind not in accept:
            raise FetchRefused("content_type", f"is {declared or 'of no type'}", answer.url)
        length = answer.get_header("content-length") or ""
        if length.isdecimal() and int(length) > self.limits.wire_bytes:
            raise FetchRefused("too_large", f"announces {length} bytes", answer.url)
        received = bytearray()
        async with aclosing(answer.iter_body(self.limits.wire_bytes)) as read:
            async for piece in read:
                received += piece
                if len(received) > self.limits.body_bytes:
                    raise FetchRefused(
                        "too_large", f"unpacks to over {self.limits.body_bytes} bytes", answer.url
                    )
        body = bytes(received)
        return FetchedPage(
            url=url,
            final_url=answer.url,
            redirects=tuple(hop.url for hop in asked),
            address=answer.address,
            status=answer.status,
            content_type=check_content_type(kind, charset, body, accept, answer.url),
            charset=charset,
            body=body,
            fetched_at=datetime.now(UTC),
        )
