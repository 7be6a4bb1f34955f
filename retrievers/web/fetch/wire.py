"""One request on a connection of its own, to an address that was checked, and its answer, decompressed step by step.

Nothing else speaks HTTP to a site.

By httpcore, and not by aiohttp. aiohttp 3.14 loses an answer that more bytes follow than were announced,
unless reading pauses at its first bytes; and where reading pauses, it loses the end of a chunked body over TLS when the
site hangs up.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec

import certifi
import httpcore

from tribunal.process.sandbox import STEP, InflateDecoder
from tribunal.retrievers.web.fetch import USER_AGENT, FetchFailed, FetchLimits, FetchRefused, Reason
from tribunal.retrievers.web.fetch.target import REDIRECTS, FetchTarget

Route = Callable[[str, int], tuple[str, int]]
"""An address and a port that were checked in; the ones to connect to in their place out. Raises `OSError`."""

_ADDRESSES = 4
# As httpx does, pages packed by brotli are asked for where its package is installed.
BROTLI = find_spec("brotli") is not None


def trusted_authorities() -> ssl.SSLContext:
    """Load the `certifi` authorities and no others, whatever the environment says, from disk: not on a loop."""
    return ssl.create_default_context(cafile=certifi.where())


class SiteAnswer:
    """A site's answer, while it comes in."""

    def __init__(self, target: FetchTarget, address: str, response: httpcore.Response) -> None:
        """Make it from httpcore's response."""
        self.url = target.url
        self.address = address
        self.status = response.status
        self._response = response

    def get_header(self, name: str) -> str | None:
        """Return the first header of this name, given in lower case."""
        for key, value in self._response.headers:
            if key.lower() == name.encode():
                try:
                    return value.decode("utf-8")
                except UnicodeDecodeError:
                    return value.decode("latin-1")
        return None

    @property
    def redirect(self) -> str | None:
        """Return where it sends us, as the site spelt it, if it does."""
        return self.get_header("location") or None if self.status in REDIRECTS else None

    async def iter_body(self, wire_bytes: int) -> AsyncGenerator[bytes, None]:
        """Yield the body, decompressed, in pieces of bounded size whatever the ratio; at most so many packed bytes.

        Raises:
            FetchRefused: it is packed as we don't unpack (`encoding`), or is longer (`too_large`).
            FetchFailed: it is not what it says it is (`encoding`), or ends too early (`truncated`).
        """
        coding = (self.get_header("content-encoding") or "identity").strip().lower()
        if coding not in _DECODERS:
            raise FetchRefused("encoding", f"is packed as {coding}", self.url)
        decoder = _DECODERS[coding]()
        taken = 0
        try:
            async for chunk in self._response.aiter_stream():
                taken += len(chunk)
                if taken > wire_bytes:
                    raise FetchRefused("too_large", f"is over {wire_bytes} bytes", self.url)
                for piece in decoder.feed(chunk):
                    yield piece
                    await asyncio.sleep(0)
        except zlib.error as error:
            raise FetchFailed("encoding", f"is not the {coding} it says it is", self.url) from error
        if not decoder.complete:
            raise FetchFailed("truncated", f"its {coding} stops short", self.url)


@asynccontextmanager
async def open_answer(
    target: FetchTarget,
    addresses: Sequence[str],
    accept: frozenset[str],
    limits: FetchLimits,
    trusted: ssl.SSLContext | None,
    route: Route | None = None,
) -> AsyncIterator[SiteAnswer]:
    """Ask for a URL at the first of its addresses that takes the connection; gives its answer while it comes in.

    The addresses were checked; four are tried. TLS speaks to the host's name, and checks it. `accept` are media types;
    `route` says where addresses really lead to, which is to themselves by default.

    Raises:
        FetchFailed: there is no connection, it breaks, or what comes isn't HTTP.
    """
    pinned = _PinnedBackend(addresses[:_ADDRESSES], route)
    url = httpcore.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.path.encode(),
    )
    try:
        async with (
            httpcore.AsyncHTTPConnection(
                origin=url.origin, ssl_context=trusted, network_backend=pinned
            ) as connection,
            connection.stream(
                "GET",
                url,
                headers=[
                    ("Host", target.netloc),
                    ("User-Agent", USER_AGENT),
                    ("Accept", ", ".join(sorted(accept)) or "*/*"),
                    ("Accept-Encoding", "gzip, deflate, br" if BROTLI else "gzip, deflate"),
                    ("Connection", "close"),
                ],
                extensions={
                    "timeout": {
                        "connect": limits.connect_seconds,
                        "read": limits.read_seconds,
                        "write": limits.read_seconds,
                    }
                },
            ) as response,
        ):
            yield SiteAnswer(target, pinned.connected, response)
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(
            _failure_reason(error), f"{type(error).__name__} {error}".strip(), target.url
        ) from error


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects to checked addresses only: the name isn't looked up again.

    TLS still speaks to the name, since it is started by the caller, on the stream that this returns.
    """

    def __init__(self, addresses: Sequence[str], route: Route | None) -> None:
        self._addresses = addresses
        self._route = route
        self._backend = httpcore.AnyIOBackend()
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
                place = self._route(address, port) if self._route else (address, port)
                stream = await self._backend.connect_tcp(*place, timeout=timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            except OSError as error:
                failure = httpcore.ConnectError(error)
            else:
                self.connected = address
                return stream
        raise failure


def _failure_reason(error: Exception) -> Reason:
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


class _IdentityDecoder:
    complete = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _BrotliDecoder:
    def __init__(self) -> None:
        import brotli  # type: ignore[import-untyped]

        self._inner = brotli.Decompressor()
        self._error = brotli.error
        self._fed = False

    @property
    def complete(self) -> bool:
        return not self._fed or bool(self._inner.is_finished())

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        # `can_accept_more_data` speaks of input; output may wait inside all the same, so it is drawn until none comes.
        try:
            while piece := self._inner.process(data, output_buffer_limit=STEP):
                yield piece
                data = b""
        except self._error as error:
            raise zlib.error(str(error)) from error


_DECODERS: dict[str, Callable[[], _IdentityDecoder | InflateDecoder | _BrotliDecoder]] = {
    "identity": _IdentityDecoder,
    "gzip": InflateDecoder,
    "x-gzip": InflateDecoder,
    "deflate": InflateDecoder,
}
if BROTLI:
    _DECODERS["br"] = _BrotliDecoder
