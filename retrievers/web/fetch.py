"""The one way out to the web: a page or a picture by its URL, or a refusal that says why.

Every hop of a fetch goes through the same steps. The URL is taken apart (`parse_url`), its port and *every* address of
its name are checked, one of the checked addresses is connected to without looking the name up again, the site's
robots.txt is asked, and what comes is taken within limits of size, time and type. Nothing is kept between requests but
what robots.txt said: no cookies, no credentials, no connections; and nothing is read from the environment.

docs/fetching.md lists the attacks this is tested against, and what happens to each.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urljoin
from weakref import WeakValueDictionary

import brotli  # type: ignore[import-untyped]
import httpcore
import httpx
from pydantic import Field

from tribunal.context import setting
from tribunal.retrievers.web.addresses import (
    FetchError,
    FetchFailed,
    FetchRefused,
    Reason,
    Target,
    carries,
    forbidden,
    parse_allow,
    parse_url,
)
from tribunal.schema import Frozen

__all__ = [
    "IMAGES",
    "PAGES",
    "USER_AGENT",
    "FetchError",
    "FetchFailed",
    "FetchRefused",
    "FetchedPage",
    "Fetcher",
    "Limits",
    "Resolver",
    "allowed_places",
    "carries",
]

USER_AGENT = "Tribunal/0.1 (+https://github.com/tribunal-court/tribunal)"
"""What every request says it is; robots.txt addresses us by the name before the slash."""

PAGES = frozenset({"text/html", "application/xhtml+xml", "text/plain", "application/pdf"})
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name and a port in, every address of it out. Raises `OSError` when there is none."""

T = TypeVar("T")
_Take = Callable[[Target, httpcore.Response, frozenset[str], str], Awaitable[T]]


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
        backend: opens connections to addresses that have been checked.
        ssl_context: whom to trust; the `certifi` authorities by default.
    """

    def __init__(
        self,
        allow: frozenset[str] = frozenset(),
        limits: Limits | None = None,
        *,
        resolver: Resolver | None = None,
        backend: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.allow = allow
        self.limits = limits or Limits()
        self._resolver = resolver or _SystemResolver()
        self._backend = backend or httpcore.AnyIOBackend()
        self._ssl_context = ssl_context
        # Locks are kept only while someone holds or awaits them: hosts come and go by the thousand.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._robots: OrderedDict[str, _Robots] = OrderedDict()

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
        clock = _Clock(self.limits.seconds)
        target = parse_url(url)
        asked: list[Target] = []
        while True:
            if secret_text and carries(target.url, secret_text):
                raise FetchRefused("outward", "would carry the post's own text to the site", url)
            self._check_port(target)
            await self._ask_robots(target)
            answer = await self._exchange(target, clock, accept, self._take)
            asked.append(target)
            if isinstance(answer, _Body):
                return FetchedPage(
                    url=url,
                    final_url=target.url,
                    redirects=tuple(hop.url for hop in asked[:-1]),
                    address=answer.address,
                    status=answer.status,
                    content_type=answer.content_type,
                    charset=answer.charset,
                    body=answer.body,
                    fetched_at=datetime.now(UTC),
                )
            target = _follow(target, answer)
            if target in asked:
                raise FetchRefused("loop", f"redirects back to {target.url}", url)
            if len(asked) > self.limits.redirects:
                raise FetchRefused("redirects", f"more than {self.limits.redirects} redirects", url)

    # Addresses

    def _check_port(self, target: Target) -> None:
        if target.port not in (80, 443) and target.place not in self.allow:
            raise FetchRefused("port", f"port {target.port}; only 80 and 443 are asked", target.url)

    async def _addresses(self, target: Target) -> list[str]:
        """Every address of a host, all of them checked: one that is forbidden spoils the lot."""
        literal = target.address
        found: Sequence[str]
        if literal is not None:
            found = [str(literal)]
        else:
            try:
                async with asyncio.timeout(self.limits.dns_seconds):
                    found = await self._resolver(target.host, target.port)
            except TimeoutError as error:
                raise FetchFailed("dns", f"{target.host} was not resolved in time", target.url) from error
            except (OSError, UnicodeError) as error:
                raise FetchFailed("dns", f"{target.host} has no address ({error})", target.url) from error
            if not found:
                raise FetchFailed("dns", f"{target.host} has no address", target.url)
        if target.place not in self.allow:
            for text in found:
                if use := forbidden(ip_address(text)):
                    raise FetchRefused("address", f"{target.host} is at {text}: {use}", target.url)
        return list(dict.fromkeys(found))

    # One request

    def _turn(self, host: str) -> asyncio.Lock:
        return self._turns.get(host) or self._turns.setdefault(host, asyncio.Lock())

    async def _exchange(self, target: Target, clock: _Clock, accept: frozenset[str], take: _Take[T]) -> T:
        """Ask for one URL on a connection of its own, and hand the answer to `take` while it is still coming in."""
        async with self._turn(target.host):
            try:
                async with clock.running():
                    pinned = _Pinned(await self._addresses(target), self._backend)
                    async with httpcore.AsyncHTTPConnection(
                        origin=httpcore.Origin(target.scheme.encode(), target.host.encode(), target.port),
                        ssl_context=await self._trust() if target.scheme == "https" else None,
                        network_backend=pinned,
                    ) as connection:
                        response = await connection.handle_async_request(self._request(target, accept))
                        try:
                            return await take(target, response, accept, pinned.connected)
                        finally:
                            await response.aclose()
            except TimeoutError as error:
                raise FetchFailed("timeout", f"took longer than {clock.limit:g} s", target.url) from error
            except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
                raise FetchFailed(_failure(error), f"{type(error).__name__} {error}".strip(), target.url) from error

    def _request(self, target: Target, accept: frozenset[str]) -> httpcore.Request:
        return httpcore.Request(
            method="GET",
            url=httpcore.URL(
                scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
            ),
            headers=[
                ("Host", target.netloc),
                ("User-Agent", USER_AGENT),
                ("Accept", ", ".join(sorted(accept)) or "*/*"),
                ("Accept-Encoding", "gzip, deflate, br"),
                ("Connection", "close"),
            ],
            extensions={
                "timeout": {
                    "connect": self.limits.connect_seconds,
                    "read": self.limits.read_seconds,
                    "write": self.limits.read_seconds,
                }
            },
        )

    async def _trust(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            # It reads the authorities from disk, so it's made off the loop, and once. `trust_env` would let variables
            # of the environment add authorities of their own.
            self._ssl_context = await asyncio.to_thread(httpx.create_ssl_context, trust_env=False)
        return self._ssl_context

    # What comes back

    async def _take(
        self, target: Target, response: httpcore.Response, accept: frozenset[str], address: str
    ) -> _Body | _Redirect:
        location = _header(response, "location")
        if response.status in _REDIRECTS and location:
            return _Redirect(location)
        if response.status not in (200, 203):
            raise FetchFailed("status", f"answered {response.status}", target.url, status=response.status)
        declared = _header(response, "content-type") or ""
        kind = declared.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
        if kind not in accept:
            raise FetchRefused("content_type", f"is {declared or 'of no type'}", target.url)
        length = _header(response, "content-length") or ""
        if length.isdecimal() and int(length) > self.limits.wire_bytes:
            raise FetchRefused("too_large", f"announces {length} bytes", target.url)
        held = bytearray()
        async with aclosing(self._pieces(target, response)) as pieces:
            async for piece in pieces:
                held += piece
                if len(held) > self.limits.body_bytes:
                    raise FetchRefused("too_large", f"unpacks to over {self.limits.body_bytes} bytes", target.url)
        body = bytes(held)
        named = _CHARSET.search(declared)
        charset = named[1].lower() if named else None
        return _Body(address, response.status, _true_kind(kind, body, charset, accept, target), charset, body)

    async def _pieces(self, target: Target, response: httpcore.Response) -> AsyncGenerator[bytes, None]:
        """The body, decompressed in pieces of bounded size, so that no packing makes one step large."""
        coding = (_header(response, "content-encoding") or "identity").strip().lower()
        if coding not in _DECODERS:
            raise FetchRefused("encoding", f"is packed as {coding}", target.url)
        decoder, taken = _DECODERS[coding](), 0
        try:
            async for chunk in response.aiter_stream():
                taken += len(chunk)
                if taken > self.limits.wire_bytes:
                    raise FetchRefused("too_large", f"is over {self.limits.wire_bytes} bytes", target.url)
                for piece in decoder.feed(chunk):
                    yield piece
                    await asyncio.sleep(0)
        except (zlib.error, brotli.error) as error:
            raise FetchFailed("encoding", f"is not the {coding} it says it is", target.url) from error
        if not decoder.complete:
            raise FetchFailed("truncated", f"its {coding} stops short", target.url)

    # robots.txt (RFC 9309)

    async def _ask_robots(self, target: Target) -> None:
        async with self._turn(f"robots of {target.origin}"):
            robots = self._robots.get(target.origin)
            if robots is None or robots.expires < time.monotonic():
                robots = self._robots[target.origin] = await self._read_robots(target)
            self._robots.move_to_end(target.origin)
            while len(self._robots) > _ROBOTS_KEPT:
                self._robots.popitem(last=False)
        if robots.failure is not None:
            # The host can't be reached: that is what the page's own reader wants to hear.
            raise FetchFailed(robots.failure.reason, robots.failure.why, target.url)
        if robots.rules is None:
            raise FetchRefused("robots", "its robots.txt can't be read, which counts as a no", target.url)
        if not robots.rules.allow(target.path):
            raise FetchRefused("robots", "its robots.txt asks not to", target.url)

    async def _read_robots(self, page: Target) -> _Robots:
        clock = _Clock(self.limits.seconds)
        target = Target(page.scheme, page.host, page.port, "/robots.txt")
        asked: list[Target] = []
        try:
            while len(asked) <= 5:
                self._check_port(target)
                answer = await self._exchange(target, clock, frozenset(), self._take_robots)
                asked.append(target)
                if not isinstance(answer, _Redirect):
                    return _Robots(time.monotonic() + 86_400, answer)
                target = _follow(target, answer)
        except FetchError as error:
            if not asked and error.reason == "address":
                raise
            if not asked and error.reason in ("dns", "connect", "tls", "timeout"):
                return _Robots(time.monotonic() + 60, None, error)
        return _Robots(time.monotonic() + 300, None)

    async def _take_robots(
        self, target: Target, response: httpcore.Response, accept: frozenset[str], address: str
    ) -> _Rules | _Redirect | None:
        location = _header(response, "location")
        if response.status in _REDIRECTS and location:
            return _Redirect(location)
        if 400 <= response.status < 500 or response.status in _REDIRECTS:
            return _Rules("")
        if response.status >= 500 or response.status < 200:
            return None
        body = bytearray()
        async with aclosing(self._pieces(target, response)) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) >= _ROBOTS_BYTES:
                    break
        # Half a megabyte of rules takes a while to sort.
        return await asyncio.to_thread(_Rules, body[:_ROBOTS_BYTES].decode("utf-8-sig", errors="replace"))


# The pieces that `Fetcher` is made of


_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class _Redirect:
    location: str


@dataclass(frozen=True, slots=True)
class _Body:
    address: str
    status: int
    content_type: str
    charset: str | None
    body: bytes


class _SystemResolver:
    """`getaddrinfo` on threads of its own, so that names that hang hold up nothing but other names."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="tribunal-dns")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return [str(sockaddr[0]) for *_, sockaddr in await loop.run_in_executor(self._threads, ask)]


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked, whatever name it is asked for: the name isn't looked up again.

    TLS still speaks to the name, since it is started by the caller, on the stream that this returns.
    """

    def __init__(self, addresses: Sequence[str], backend: httpcore.AsyncNetworkBackend) -> None:
        self._addresses, self._backend = addresses[:4], backend
        self.connected = ""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError("no address")
        for address in self._addresses:
            try:
                stream = await self._backend.connect_tcp(address, port, timeout=timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                self.connected = address
                return stream
        raise failure


class _Clock:
    """Seconds of network work; it stands still while a fetch waits for its turn."""

    def __init__(self, limit: float) -> None:
        self.limit = self._left = limit

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                yield
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - started))


def _failure(error: Exception) -> Reason:
    if isinstance(error, httpcore.TimeoutException):
        return "timeout"
    if isinstance(error, httpcore.ProtocolError):
        return "truncated" if "without sending complete message body" in str(error) else "protocol"
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return "tls"
        seen = seen.__cause__ or seen.__context__
    return "connect"


def _header(response: httpcore.Response, name: str) -> str | None:
    for key, value in response.headers:
        if key.lower() == name.encode():
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                return value.decode("latin-1")
    return None


def _follow(target: Target, redirect: _Redirect) -> Target:
    """Where a redirect leads, taken apart like any URL.

    From https to http is refused: it would hand the page, and what evidence says, to whoever sits on the line.
    """
    try:
        onward = urljoin(target.url, redirect.location.strip().replace(" ", "%20"))
    except ValueError as error:
        raise FetchRefused("url", f"redirects to what is no URL: {error}", target.url) from error
    following = parse_url(onward)
    if target.scheme == "https" and following.scheme == "http":
        raise FetchRefused("downgrade", f"redirects from https to {following.url}", target.url)
    return following


# Types

_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
)


def _true_kind(declared: str, body: bytes, charset: str | None, accept: frozenset[str], target: Target) -> str:
    """The type that the first bytes bear out.

    Raises:
        FetchRefused: they belong to another type, or to none that was declared.
    """
    head = body[:1024]
    seen = next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)
    if seen is None and head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        seen = "image/webp"
    if seen is None and b"%PDF-" in head and (declared == "application/pdf" or head.startswith(b"%PDF-")):
        seen = "application/pdf"
    if declared in IMAGES and seen in IMAGES & accept:
        return seen  # one kind of picture called another is a slip, not an attack
    if declared in ("application/pdf", *IMAGES):
        fits = seen == declared
    else:
        wide = head.startswith((b"\xff\xfe", b"\xfe\xff")) or (charset or "").startswith(("utf-16", "utf-32"))
        fits = seen is None and (wide or b"\0" not in head)
    if not fits:
        raise FetchRefused("content_type", f"calls itself {declared} and is {seen or 'something else'}", target.url)
    return declared


# Decompression: never more than a step of output at a time, whatever the ratio

_STEP = 2**18


class _Identity:
    complete = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Inflate:
    """gzip, zlib, and the bare deflate that some servers send under the same name."""

    def __init__(self) -> None:
        self._head = b""
        self._inner: zlib._Decompress | None = None

    @property
    def complete(self) -> bool:
        return not self._head and (self._inner is None or self._inner.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        data = self._head + data
        self._head = b""
        full = False  # a full step may leave output inside when no input is left
        while data or full:
            if self._inner is None or self._inner.eof:
                if len(data) < 2:
                    self._head = data
                    return
                if self._inner is not None and data[:2] != b"\x1f\x8b":
                    return  # padding after the last gzip member
                self._inner = zlib.decompressobj(47 if _zlib_or_gzip(data) else -15)
            piece = self._inner.decompress(data, _STEP)
            yield piece
            data = self._inner.unconsumed_tail or self._inner.unused_data
            full = len(piece) == _STEP and not self._inner.eof


def _zlib_or_gzip(data: bytes) -> bool:
    return data[:2] == b"\x1f\x8b" or (data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0)


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self._fed = False

    @property
    def complete(self) -> bool:
        return not self._fed or bool(self._inner.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        # `can_accept_more_data` speaks of input; output may wait inside all the same, so it is drawn until none comes.
        while piece := self._inner.process(data, output_buffer_limit=_STEP):
            yield piece
            data = b""


_DECODERS: dict[str, Callable[[], _Identity | _Inflate | _Brotli]] = {
    "identity": _Identity,
    "gzip": _Inflate,
    "x-gzip": _Inflate,
    "deflate": _Inflate,
    "br": _Brotli,
}


# robots.txt

_TOKEN = USER_AGENT.partition("/")[0].lower()
_ROBOTS_BYTES = 500 * 1024
_ROBOTS_KEPT = 512


@dataclass(frozen=True, slots=True)
class _Robots:
    """What a site's robots.txt said; no rules means that it couldn't be read, which forbids everything."""

    expires: float
    rules: _Rules | None
    failure: FetchError | None = None


class _Rules:
    """The rules of one robots.txt for us (RFC 9309, section 2.2).

    Our own group where one names us, else the `*` group; the longest pattern that fits decides; on a tie, allow.
    Written here because the standard library's parser takes the first match and knows no wildcards, and `protego` takes
    time and memory that grow with agents × rules: 130 KB of hostile text keep it busy for 40 s.
    """

    def __init__(self, text: str) -> None:
        rules: dict[str, list[tuple[str, bool]]] = {"*": []}
        addressed: set[str] = set()
        naming = False
        for line in text.splitlines():
            field, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
            match field.lower():
                case "user-agent":
                    if not naming:
                        addressed = set()
                    naming = True
                    token = value if value == "*" else re.sub(r"[^A-Za-z_-].*", "", value).lower()
                    if token in ("*", _TOKEN):
                        addressed.add(token)
                        rules.setdefault(token, [])
                case "allow" | "disallow" as verb:
                    naming = False
                    for token in addressed if value else ():
                        rules[token].append((_plain(value), verb == "allow"))
        held = rules.get(_TOKEN, rules["*"])
        self._rules = sorted(held, key=lambda rule: (len(rule[0]), rule[1]), reverse=True)

    def allow(self, path: str) -> bool:
        path = _plain(path)
        return next((allowed for pattern, allowed in self._rules if _fits(pattern, path)), True)


def _plain(path: str) -> str:
    """A path or pattern with its percent-encoding brought to one form, so that `%7E` and `~` are the same octet."""
    return re.sub(
        r"%([0-9a-fA-F]{2})",
        lambda m: chr(int(m[1], 16)) if re.match(r"[A-Za-z0-9._~-]", chr(int(m[1], 16))) else m[0].upper(),
        "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode()) for c in path),
    )


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern with `*` and a final `$` matches from the start of a path; greedy, so linear in its parts."""
    anchored = pattern.endswith("$")
    first, *rest = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not rest:
        return not anchored or at == len(path)
    *middle, last = rest
    for part in middle:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    if anchored:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0
