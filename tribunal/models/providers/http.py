"""Plain HTTP, on one set of connections for each event loop: for chat, embeddings, and the doctor's questions."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic_core import to_json

from tribunal.loops import PerLoop
from tribunal.parsed import from_json
from tribunal.scrub import scrub, scrubbed_body

if TYPE_CHECKING:
    import httpx2

# A redirect's address under another name, so that no client on top follows it.
REDIRECTS_TO = "x-redirects-to"
# An error in the middle of a stream has no status of its own. Anthropic names the kind of error instead.
_STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


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
        self.body = {"message": error} if isinstance(error, str) else error
        self.code = None
        if isinstance(error, dict):
            self.code = error.get("code")
            if body.get("type") == "error":
                self.code = _STATUS_OF_ERROR.get(str(error.get("type")), 500)


class NotStreamed(Exception):
    """The server was asked to stream, and answered in one piece."""

    def __init__(self) -> None:
        super().__init__("the server did not stream")


class BrokenOff(ConnectionError):
    """The stream ended before the answer did."""

    def __init__(self) -> None:
        super().__init__("the stream ended before the answer did")


class Fetched(NamedTuple):
    """A whole answer to one request, without keys."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def open_response(
    method: str,
    url: str,
    headers: Sequence[tuple[str, str]],
    content: bytes | None = None,
    *,
    proxy: str | None = None,
    key: str = "",
) -> httpx2.Response:
    """Send a request and return the response with its body still to be read. The caller bounds the time and closes it.

    Args:
        method: `GET` or `POST`.
        url: where it goes.
        headers: all that stand beside the usual ones.
        content: the body.
        proxy: a proxy in place of those that the environment names.
        key: is taken out of what an error says.

    Raises:
        ConnectionError: the server can't be reached, or the connection was lost.
    """
    client = await _connections.here(proxy)
    with connection_errors(url, key):
        return await client.send(client.build_request(method, url, headers=headers, content=content), stream=True)


@contextmanager
def connection_errors(url: str, key: str = "") -> Iterator[None]:
    """Raise `ConnectionError` in place of the HTTP library's own errors, without the key."""
    import httpx2

    try:
        yield
    except httpx2.ConnectError as error:
        words = scrub(str(error), [key])
        raise ConnectionError(f"cannot connect to {urlsplit(url).netloc.rpartition('@')[2]}: {words}") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        # The library's own error may quote a header, and so the key.
        raise ConnectionError(scrub(str(error), [key]) or type(error).__name__) from None


async def fetch(
    method: str, url: str, headers: Mapping[str, str], content: bytes | None = None, *, keys: Sequence[str] = ()
) -> Fetched:
    """Send a request and return the whole answer. No redirect is followed, since it may carry the key to anywhere.

    Raises:
        ConnectionError: as `open_response`.
    """
    response = await open_response(method, url, [*headers.items()], content, key=keys[0] if keys else "")
    try:
        with connection_errors(url):
            raw = await response.aread()
    finally:
        await response.aclose()
    return Fetched(response.status_code, response.headers, scrubbed_body(raw, keys))


async def post_json(url: str, payload: Any, headers: Mapping[str, str], *, key: str = "") -> Any:
    """Return what a server answers to a JSON body, parsed. The caller bounds the time.

    Args:
        url: where it goes.
        payload: the body.
        headers: those beside the usual ones.
        key: is taken out of what is answered.

    Raises:
        ServerSaid: the status is no success; a redirect is none.
        NoAnswer: the answer is not JSON.
        ConnectionError: as `open_response`.
    """
    told = {"Content-Type": "application/json", **headers}
    status, of_answer, raw = await fetch("POST", url, told, _encoded(payload), keys=[key] if key else [])
    if status >= 300:
        raise ServerSaid(status, of_answer, raw, url)
    return parse_answer(raw)


def parse_answer(raw: bytes) -> Any:
    """Return the JSON in a body.

    Raises:
        NoAnswer: it is something else.
    """
    try:
        return from_json(raw)
    except ValueError as error:
        raise NoAnswer(None) from error


def add_path(url: str, path: str) -> str:
    """Return an address with a path added to it, before its query."""
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def _encoded(payload: Any) -> bytes:
    try:
        return to_json(payload)  # in a third of the time
    except ValueError:  # half a surrogate pair, in a field that the user gave
        return json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")


def _error_in(raw: bytes) -> Any:
    try:
        body = from_json(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")  # whole: keys are struck out before anything is cut off
    return body.get("error", body) if isinstance(body, dict) else body


async def _open(proxy: str | None) -> httpx2.AsyncClient:
    import httpx2

    # As many connections as there are calls in flight: the runs bound those. Whoever asks bounds the time. HTTP_PROXY,
    # HTTPS_PROXY, ALL_PROXY and NO_PROXY are heeded. Nobody's cookies go along with another's key.
    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        timeout=None,
        verify=await asyncio.to_thread(_authorities, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        proxy=proxy,
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        event_hooks={"response": [_hide_redirect]},
    )


async def _hide_redirect(response: httpx2.Response) -> None:
    import httpx2

    if "location" in response.headers:
        name = REDIRECTS_TO.encode()
        raw = [(name if each.lower() == b"location" else each, value) for each, value in response.headers.raw]
        response.headers = httpx2.Headers(raw)


@lru_cache(maxsize=4)
def _authorities(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the system's authorities, or those of a file or a folder; certifi's where Python knows none (some Macs).

    They are read once: that takes as long as starting an event loop a hundred times.

    Args:
        file: SSL_CERT_FILE, which Python reads by itself.
        folder: SSL_CERT_DIR, likewise.
    """
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or sys.platform == "win32":
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


_connections: PerLoop[httpx2.AsyncClient] = PerLoop(_open, lambda client: client.aclose())
