"""HTTP for chat, embeddings and the doctor's questions: one set of connections for each event loop and server.

LangChain's chat clients are handed a transport of ours by a public parameter. So what comes back is the same for all of
them: a key is struck out of it, a redirect isn't followed, and a body that holds no answer is said to hold none.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from pydantic_core import to_json

from tribunal.core.text import parse_json, scrub_body
from tribunal.models.providers.connections import (
    ACCEPT_ENCODING,
    Library,
    connection_errors,
    read_all,
    read_bounded,
    servers,
)
from tribunal.models.providers.event_stream import EventStream
from tribunal.models.providers.wire import (
    REDIRECTS_TO,
    NoAnswer,
    NotStreamed,
    ServerError,
    UsageOnTheWire,
)
from tribunal.schema import JSON

# What comes back is unpacked. Cookies of one key must not go along with another.
_DROPPED_HEADERS = ("content-encoding", "content-length", "set-cookie", "transfer-encoding")
_STREAMS = ("text/event-stream", "application/x-ndjson")
# in a text of the body the quotation marks would be escaped
_ASKS_FOR_STREAM = re.compile(rb'"stream": ?true')
LONGEST_FETCH = 120.0  # seconds for a whole exchange, where the caller sets no limit of its own


# Transports of chat clients


@dataclass(frozen=True, slots=True)
class _TransportSettings:
    """Settings of a transport, as `make_transport` explains them."""

    library: Library
    key: str = field(default="", repr=False)
    proxy: str | None = field(default=None, repr=False)
    lines: bool = False
    add: Mapping[str, str] = field(default_factory=dict, repr=False)
    leave_out: frozenset[str] = frozenset()
    check_body: Callable[[Any], Any] | None = None
    read_events: Callable[[], Callable[[JSON], None]] | None = None


def make_transport(library: Library, key: str | None, **settings: Any) -> Any:
    """Return a transport for a client of this library, for its asynchronous requests.

    Args:
        library: the library of the client.
        key: is struck out of what comes back.
        settings: `proxy`, which replaces the proxies of the environment. `lines`: whether a stream is lines of
            JSON, of which a whole answer is one; else it is server-sent events. `add`: headers that are sent in place
            of the client's own. `leave_out`: headers, in lower case, that aren't sent. `check_body`: is given each
            whole answer, parsed, and returns what takes its place; it may raise `NoAnswer`. `read_events`: makes, for
            each stream, what changes its events in place.
    """
    return _transport_class(library)(_TransportSettings(library, key or "", **settings))


def make_clients(transport: Any) -> tuple[Any, Any]:
    """Return a synchronous and an asynchronous httpx2 client over this transport. Neither needs to be closed."""
    import httpx2

    return httpx2.Client(transport=transport), httpx2.AsyncClient(transport=transport, timeout=None)


@cache
def _transport_class(library: Library) -> Any:
    http = import_module(library)

    class Transport(http.AsyncBaseTransport, http.BaseTransport):  # type: ignore[misc, name-defined]
        def __init__(self, settings: _TransportSettings) -> None:
            self.settings = settings

        async def handle_async_request(self, request: Any) -> Any:
            return await _exchange_request(http, self.settings, request)

    return Transport


async def _exchange_request(http: ModuleType, settings: _TransportSettings, request: Any) -> Any:
    """Send a client's request, and return the response as the client may see it. The caller bounds the time."""
    if settings.add or settings.leave_out:
        # A request of its own: the headers of the client's own may stand in traces.
        left_out = settings.leave_out | {name.lower() for name in settings.add}
        headers = [
            (name, value)
            for name, value in request.headers.multi_items()
            if name.lower() not in left_out
        ]
        added = settings.add.items()
        request = http.Request(
            request.method, request.url, headers=[*headers, *added], content=request.content
        )
    request.extensions = {**request.extensions, "timeout": {}}
    request.headers["accept-encoding"] = ACCEPT_ENCODING
    response, raw, give_back = await _send(http, settings, request)
    if raw is None:
        return _streamed_response(http, settings, response, str(request.url), give_back)
    _clean_headers(response.headers)
    return _whole_response(http, settings, request, response, raw)


async def _send(
    http: ModuleType, settings: _TransportSettings, request: Any, streams: Container[str] = _STREAMS
) -> tuple[Any, bytes | None, Callable[[], Any]]:
    """Send a request, and return the response, its body, and what gives its connection back.

    The body is None while it is still to come as one of these types; its reader then gives the connection back.
    """
    server = await servers.get(
        settings.library, settings.proxy, request.url.scheme, request.url.netloc.decode()
    )
    transport = server.take()
    response = None
    raw = None
    streamed = False
    try:
        with connection_errors(http, str(request.url), settings.key, server.proxy):
            response = await transport.handle_async_request(request)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            streamed = response.status_code < 300 and kind in streams
            if not streamed:
                raw = await read_all(response)
    finally:
        if not streamed:
            if response is not None:
                await response.aclose()
            await server.give_back(transport)
    return response, raw, lambda: server.give_back(transport)


def _clean_headers(headers: Any) -> None:
    """Remove from a response's headers those that are no longer true, and those that a client would follow."""
    for name in _DROPPED_HEADERS:
        if name in headers:
            del headers[name]
    if "location" in headers:
        headers[REDIRECTS_TO] = headers.pop("location")


def _whole_response(
    http: ModuleType, settings: _TransportSettings, request: Any, response: Any, raw: bytes
) -> Any:
    """Return a response with its body read, and with secrets removed and faults corrected.

    Raises:
        ServerError: the status is no success; every client would put it in words of its own.
        NoAnswer: the body is no answer.
        NotStreamed: a stream was asked for.
    """
    raw = scrub_body(raw, [settings.key])
    if response.status_code >= 300:
        raise ServerError(response.status_code, response.headers, raw, str(request.url))
    body = parse_answer(raw)
    told = body[0] if isinstance(body, list) and body else body
    if isinstance(told, dict) and told.get("error"):
        raise NoAnswer(told)
    checked = settings.check_body(body) if settings.check_body else body
    if isinstance(checked, dict):
        checked = UsageOnTheWire().clean_body(checked)
    asked = ":streamGenerateContent" in str(request.url) or _ASKS_FOR_STREAM.search(request.content)
    if asked and not settings.lines:
        raise NotStreamed
    if checked is not body:
        raw = json.dumps(checked).encode()  # in ASCII: UTF-8 has no half of a surrogate pair
    return http.Response(response.status_code, headers=response.headers, content=raw)


def _streamed_response(
    http: ModuleType,
    settings: _TransportSettings,
    response: Any,
    url: str,
    give_back: Callable[[], Any],
) -> Any:
    """Return a response whose body is still to come, event by event."""
    normalise = settings.read_events() if settings.read_events else None
    events = EventStream(settings.key, lines=settings.lines, normalise=normalise)

    async def parts() -> AsyncIterator[bytes]:
        with connection_errors(http, url, settings.key, None):
            async for part in read_bounded(response):
                ready = events.feed(part)
                if ready:
                    yield ready
        ready = events.close()
        if ready:
            yield ready

    class Stream(http.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __aiter__(self) -> AsyncIterator[bytes]:
            return parts()

        async def aclose(self) -> None:
            await response.aclose()
            await give_back()

    headers = http.Headers(response.headers)
    _clean_headers(headers)
    return http.Response(response.status_code, headers=headers, stream=Stream())


# Plain requests


class Fetched(NamedTuple):
    """A whole answer to one request, without keys."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def fetch(
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None = None,
    *,
    keys: Sequence[str] = (),
) -> Fetched:
    """Send a request and return the whole answer. No redirect is followed, since it may carry the key to anywhere.

    Raises:
        ConnectionError: the server can't be reached, or the connection was lost.
        TimeoutError: it took longer than `LONGEST_FETCH` seconds.
        TooLarge: the answer has no end.
    """
    import httpx2

    request = httpx2.Request(
        method,
        url,
        headers={"Accept-Encoding": ACCEPT_ENCODING, **headers},
        content=content,
        extensions={"timeout": {}},
    )
    settings = _TransportSettings("httpx2", keys[0] if keys else "")
    async with asyncio.timeout(LONGEST_FETCH):
        response, body, _ = await _send(httpx2, settings, request, streams=())
    return Fetched(response.status_code, response.headers, scrub_body(body or b"", keys))


async def post_json(url: str, payload: Any, headers: Mapping[str, str], *, key: str = "") -> Any:
    """Return a server's answer to a JSON body, parsed. The caller bounds the time.

    Args:
        url: where it goes.
        payload: the body.
        headers: additional headers.
        key: the key, which is removed from the answer.

    Raises:
        ServerError: the status is no success; a redirect is none.
        NoAnswer: the answer is not JSON.
        ConnectionError: as `fetch`.
    """
    try:
        content = to_json(payload)  # in a third of the time
    except ValueError:  # half a surrogate pair, in a field that the user gave
        content = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    sent = {"Content-Type": "application/json", **headers}
    status, received, raw = await fetch("POST", url, sent, content, keys=[key] if key else [])
    if status >= 300:
        raise ServerError(status, received, raw, url)
    return parse_answer(raw)


def parse_answer(raw: bytes) -> Any:
    """Return the JSON in a body.

    Raises:
        NoAnswer: it is something else.
    """
    try:
        return parse_json(raw)
    except ValueError as error:
        raise NoAnswer(None) from error


def add_path(url: str, path: str) -> str:
    """Return an address with a path added to it, before its query."""
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"
