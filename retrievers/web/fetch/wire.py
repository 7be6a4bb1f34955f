"""One request on a connection of its own, to an address that was checked. Nothing else speaks HTTP to a site.

By httpcore, and not by aiohttp as elsewhere. aiohttp 3.14 loses an answer that more bytes follow than were announced,
unless reading pauses at its first bytes; and where reading pauses, it loses the end of a chunked body over TLS when the
site hangs up.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import certifi
import httpcore

from tribunal.retrievers.web.fetch import USER_AGENT
from tribunal.retrievers.web.fetch.errors import FetchFailed, Reason
from tribunal.retrievers.web.fetch.limits import Limits
from tribunal.retrievers.web.fetch.target import REDIRECTS, Redirect, Target

Route = Callable[[str, int], tuple[str, int]]
"""An address and a port that were checked in; the ones to connect to in their place out. Raises `OSError`."""

_ADDRESSES = 4


def trusted_authorities() -> ssl.SSLContext:
    """The `certifi` authorities and no others, whatever the environment says. Reads them from disk: not on a loop."""
    return ssl.create_default_context(cafile=certifi.where())


class Answer:
    """What a site answers, while it comes in."""

    def __init__(self, target: Target, address: str, response: httpcore.Response) -> None:
        self.url, self.address, self.status = target.url, address, response.status
        self._response = response

    def header(self, name: str) -> str | None:
        """The first of this name, given in lower case."""
        for key, value in self._response.headers:
            if key.lower() == name.encode():
                try:
                    return value.decode("utf-8")
                except UnicodeDecodeError:
                    return value.decode("latin-1")
        return None

    @property
    def redirect(self) -> Redirect | None:
        """Where it sends us, if it does."""
        location = self.header("location") if self.status in REDIRECTS else None
        return Redirect(location) if location else None

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes over the wire, without the marks of chunked transfer.

        Raises:
            Exception: httpcore's own. `asked` makes a `FetchFailed` of it.
        """
        return self._response.aiter_stream()


@asynccontextmanager
async def asked(
    target: Target,
    addresses: Sequence[str],
    accept: frozenset[str],
    limits: Limits,
    trusted: ssl.SSLContext | None,
    route: Route | None = None,
) -> AsyncIterator[Answer]:
    """Ask for a URL at the first of its addresses that takes the connection; gives its answer while it comes in.

    Args:
        target: what is asked for. TLS speaks to its host's name, and checks it.
        addresses: checked ones, one at least; four are tried.
        accept: media types, for the Accept header.
        limits: `connect_seconds` and `read_seconds` are read.
        trusted: whom to trust, for https.
        route: where addresses really lead to; to themselves by default.

    Raises:
        FetchFailed: there is no connection, it breaks, or what comes isn't HTTP.
    """
    pinned = _Pinned(addresses[:_ADDRESSES], route)
    try:
        async with httpcore.AsyncHTTPConnection(
            origin=httpcore.Origin(target.scheme.encode(), target.host.encode(), target.port),
            ssl_context=trusted,
            network_backend=pinned,
        ) as connection:
            response = await connection.handle_async_request(_request(target, accept, limits))
            try:
                yield Answer(target, pinned.connected, response)
            finally:
                await response.aclose()
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(_reason(error), f"{type(error).__name__} {error}".strip(), target.url) from error


def _request(target: Target, accept: frozenset[str], limits: Limits) -> httpcore.Request:
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
                "connect": limits.connect_seconds,
                "read": limits.read_seconds,
                "write": limits.read_seconds,
            }
        },
    )


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were checked, whatever name it is asked for: the name isn't looked up again.

    TLS still speaks to the name, since it is started by the caller, on the stream that this returns.
    """

    def __init__(self, addresses: Sequence[str], route: Route | None) -> None:
        self._addresses, self._route = addresses, route
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


def _reason(error: Exception) -> Reason:
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
