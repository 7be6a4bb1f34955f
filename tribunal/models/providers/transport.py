"""The transport that the chat clients' HTTP libraries send through: over our connections, without the key coming back.

Every client of ours is handed one, by a public parameter. So what comes back is the same for all of them: a key is
struck out of it, a redirect isn't followed, and a body that holds no answer is said to hold none.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from tribunal.models.providers.event_stream import EventStream
from tribunal.models.providers.http import NotStreamed, connection_errors, open_response, parse_answer
from tribunal.schema import JSON
from tribunal.scrub import scrubbed_body

# The HTTP library that a client is built on. The two are alike, and neither takes the other's objects.
Library = Literal["httpx", "httpx2"]
# Our own connections say what they unpack, and the body comes unpacked.
_OF_THE_CONNECTION = frozenset({"accept-encoding", "connection", "content-length", "host"})
_OF_THE_PACKING = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
_STREAMS = ("text/event-stream", "application/x-ndjson")
_ASKS_FOR_STREAM = re.compile(rb'"stream": ?true')  # in a text of the body the quotation marks would be escaped


def make_transport(
    library: Library,
    key: str | None,
    *,
    proxy: str | None = None,
    lines: bool = False,
    add: Mapping[str, str] = MappingProxyType({}),
    leave_out: frozenset[str] = frozenset(),
    check_body: Callable[[Any], Any] | None = None,
    read_events: Callable[[], Callable[[JSON], None]] | None = None,
) -> Any:
    """Return a transport for a client of this library, for its asynchronous requests.

    Args:
        library: the library of the client.
        key: is struck out of what comes back.
        proxy: a proxy in place of those that the environment names.
        lines: whether a stream is lines of JSON, of which a whole answer is one; else it is server-sent events.
        add: headers that are sent in place of the client's own.
        leave_out: headers, in lower case, that aren't sent.
        check_body: is given each whole answer, parsed, and returns what takes its place; it may raise `NoAnswer`.
        read_events: makes, for each stream, what changes its events in place.
    """
    left_out = _OF_THE_CONNECTION | leave_out | {name.lower() for name in add}
    return _transport_class(library)(
        _TransportSettings(key or "", proxy, lines, dict(add), left_out, check_body, read_events)
    )


def make_clients(library: Library, transport: Any) -> tuple[Any, Any]:
    """Return a synchronous and an asynchronous client of the library over this transport. Nothing need be closed."""
    http = import_module(library)
    return http.Client(transport=transport), http.AsyncClient(transport=transport, timeout=None)


@dataclass(frozen=True, slots=True)
class _TransportSettings:
    """Settings of a transport, as `make_transport` explains them."""

    key: str = field(repr=False)
    proxy: str | None = field(repr=False)
    lines: bool
    add: dict[str, str] = field(repr=False)
    leave_out: frozenset[str]
    check_body: Callable[[Any], Any] | None
    read_events: Callable[[], Callable[[JSON], None]] | None


@cache
def _transport_class(library: Library) -> Any:
    http = import_module(library)

    class Transport(http.AsyncBaseTransport, http.BaseTransport):  # type: ignore[misc, name-defined]
        def __init__(self, settings: _TransportSettings) -> None:
            self.settings = settings

        def handle_request(self, request: Any) -> Any:
            raise NotImplementedError("the door asks models asynchronously alone")

        async def handle_async_request(self, request: Any) -> Any:
            return await _send_request(http, self.settings, request)

    return Transport


async def _send_request(http: ModuleType, settings: _TransportSettings, request: Any) -> Any:
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in settings.leave_out]
    headers += settings.add.items()
    url, content = str(request.url), await request.aread()
    response = await open_response(request.method, url, headers, content, proxy=settings.proxy, key=settings.key)
    status = response.status_code
    kept = [(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_PACKING]
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status < 300 and kind in _STREAMS:
        normalise = settings.read_events() if settings.read_events else None
        events = EventStream(settings.key, lines=settings.lines, normalise=normalise)
        return http.Response(status, headers=kept, stream=_stream_class(http)(response, events, url, settings.key))
    try:
        with connection_errors(url, settings.key):
            raw = scrubbed_body(await response.aread(), [settings.key])
    finally:
        await response.aclose()
    if status < 300:
        body = parse_answer(raw)
        checked = settings.check_body(body) if settings.check_body else body
        if not settings.lines and (":streamGenerateContent" in url or _ASKS_FOR_STREAM.search(content)):
            raise NotStreamed
        if checked is not body:
            return http.Response(status, headers=kept, json=checked)
    return http.Response(status, headers=kept, content=raw)


@cache
def _stream_class(http: ModuleType) -> Any:
    class Stream(http.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, response: Any, events: EventStream, url: str, key: str) -> None:
            self.response, self.events, self.url, self.key = response, events, url, key

        async def __aiter__(self) -> AsyncIterator[bytes]:
            with connection_errors(self.url, self.key):
                async for part in self.response.aiter_bytes():
                    if given := self.events.feed(part):
                        yield given
            if given := self.events.close():
                yield given

        async def aclose(self) -> None:
            await self.response.aclose()

    return Stream
