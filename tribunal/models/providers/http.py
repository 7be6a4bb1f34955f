"""Plain JSON over HTTP, on one set of connections for each event loop: chat, embeddings, and the doctor's questions."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import to_json

from tribunal.loops import PerLoop
from tribunal.parsed import from_json
from tribunal.scrub import scrubbed_body

if TYPE_CHECKING:
    import aiohttp


class _Response(NamedTuple):
    headers: Mapping[str, str]
    url: str


class ServerSaid(Exception):
    """A status that is no answer. `body` is what the server told of it, parsed where it is JSON."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes, url: str = "") -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = _Response(headers, url)
        self.body = self.details = _error_in(raw)


class NoAnswer(Exception):
    """HTTP says OK, and the body holds no answer: another page, or an error that some gateways send with status 200.

    `body` is what the error says, and `code` its status, where there is one.
    """

    def __init__(self, body: Any) -> None:
        super().__init__("the server's answer is not JSON" if body is None else "the server's answer has no choices")
        error = body.get("error") if isinstance(body, dict) else None
        self.body = error
        self.code = error.get("code") if isinstance(error, dict) else None


# Neither library has a public way to change what was read. Should one stop working, a test of the wire says so.
# A stream is read as it comes: whoever gives its words on takes out a key that comes in pieces (`streaming.Words`).


def httpx_without(key: str) -> dict[str, list[Callable[[Any], Awaitable[None]]]]:
    """The `event_hooks` of a client on httpx that take a key out of every body before it is read, logged or raised."""

    async def strike(response: Any) -> None:
        if is_stream(response):
            return
        response._content = scrubbed_body(await response.aread(), [key])

    return {"response": [strike]}


def aiohttp_without(key: str) -> tuple[Callable[[Any, Any], Awaitable[Any]], ...]:
    """The same as the `middlewares` of a client on aiohttp."""

    async def strike(request: Any, send: Any) -> Any:
        response = await send(request)
        if is_stream(response):
            response.content = _Struck(response.content, key)
            return response
        response._body = scrubbed_body(await response.read(), [key])
        return response

    return (strike,)


class _Struck:
    """What is left to read of an answer, with a key taken out of each line."""

    def __init__(self, content: Any, key: str) -> None:
        self._content, self._key = content, key

    async def readline(self, **how: Any) -> bytes:
        return scrubbed_body(await self._content.readline(**how), [self._key])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)


def is_stream(response: Any) -> bool:
    """Whether an answer comes in events, and not as one body."""
    return str(response.headers.get("content-type", "")).startswith("text/event-stream")


async def post_json(
    session: aiohttp.ClientSession, url: str, payload: Any, headers: Mapping[str, str], *, key: str = ""
) -> Any:
    """What a server answers to a JSON body, parsed. The caller bounds the time.

    Args:
        session: the connections.
        url: where it goes.
        payload: the body.
        headers: those beside the usual ones.
        key: is taken out of what is answered.

    Raises:
        ServerSaid: the status is no success; a redirect is none, since it may carry the key to anywhere.
        NoAnswer: the answer is not JSON.
        aiohttp.ClientError: it can't be reached, or the connection was lost.
    """
    async with session.post(url, **_posted(payload, headers)) as response:
        return await _whole(response, url, key)


async def post_for_events(
    session: aiohttp.ClientSession, url: str, payload: Any, headers: Mapping[str, str], *, key: str = ""
) -> AsyncGenerator[Any]:
    """The events of what a server streams to a JSON body, each parsed, as they come, and None for `[DONE]`; or its one
    body, where it doesn't stream.

    Args and what is raised are those of `post_json`.
    """
    async with session.post(url, **_posted(payload, headers)) as response:
        if response.status >= 300 or not is_stream(response):
            yield await _whole(response, url, key)
            return
        async for data in _events(response.content.iter_any()):
            yield None if data == b"[DONE]" else _parsed(scrubbed_body(data, [key]))


def _posted(payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    try:
        raw = to_json(payload)  # in a third of the time
    except ValueError:  # half a surrogate pair, in a field that the user gave
        raw = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    held = {"Content-Type": "application/json", **headers}
    return {"data": raw, "headers": held, "allow_redirects": False}


async def _whole(response: aiohttp.ClientResponse, url: str, key: str) -> Any:
    said = scrubbed_body(await response.read(), [key])
    if response.status >= 300:
        raise ServerSaid(response.status, response.headers, said, url)
    return _parsed(said)


def _parsed(said: bytes) -> Any:
    try:
        return from_json(said)
    except ValueError as error:
        raise NoAnswer(None) from error


async def _events(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event of a stream. Some servers name an error's data `error`."""
    rest, data = b"", []
    async for part in body:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            field, _, value = line.rstrip(b"\r").partition(b":")
            if field in (b"data", b"error"):
                data.append(value.removeprefix(b" "))
            elif not field and data:
                yield b"\n".join(data)
                data = []


async def session_here() -> aiohttp.ClientSession:
    """The connections of the running event loop, closed with it."""
    return await _sessions.here()


async def _open() -> aiohttp.ClientSession:
    from urllib.request import getproxies

    import aiohttp

    # As many as there are calls in flight: the runs bound those. A proxy is looked for once, since a session that heeds
    # the environment goes through two threads for it at every request.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=_authorities()),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=bool(getproxies()),
    )


def _authorities() -> ssl.SSLContext | bool:
    """The system's, which aiohttp has read at its import; certifi's where Python knows of none, as on some Macs."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or sys.platform == "win32":
        return True
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _error_in(raw: bytes) -> Any:
    try:
        body = from_json(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")  # whole: keys are struck out before anything is cut off
    return body.get("error", body) if isinstance(body, dict) else body


_sessions: PerLoop[aiohttp.ClientSession] = PerLoop(_open, lambda session: session.close())
