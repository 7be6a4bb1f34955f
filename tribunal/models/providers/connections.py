"""Connections for each event loop and server: by which proxy, which certificates count, and where bodies end.

A fault of this machine's own network (`LocalFault`) is distinguished from a fault of the server.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tribunal.core.text import scrub
from tribunal.errors import BadInput
from tribunal.models.providers.wire import LocalFault, TooLarge
from tribunal.process.loops import PerLoop
from tribunal.process.sandbox import InflateDecoder

# The HTTP library that a client is built on. The two are alike, and neither takes the other's objects.
Library = Literal["httpx", "httpx2"]
_LONGEST_IDLE = 60.0  # seconds
# Bytes of a body, unpacked.
LONGEST_ANSWER = 16 * 2**20
LONGEST_ERROR = 64 * 2**10
# The encodings that `read_bounded` unpacks. A client's own header may name others, such as brotli.
ACCEPT_ENCODING = "gzip, deflate"


# Bodies


async def read_bounded(response: Any) -> AsyncIterator[bytes]:
    """Yield a body unpacked, as it comes, no more of it than any answer has.

    An error's body is cut off; its words stand at its begin. It is unpacked here, by little at a time: an HTTP library
    unpacks all that has come, however much that makes.

    Raises:
        TooLarge: an answer is longer than `LONGEST_ANSWER`, or packed in a way that nobody asked for.
    """
    is_error = response.status_code >= 300
    left = LONGEST_ERROR if is_error else LONGEST_ANSWER
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    is_packed = packing in ("gzip", "x-gzip", "deflate")
    if not is_packed and packing not in ("identity", "") and not is_error:
        raise TooLarge(f"the answer is packed as {packing[:40]!r}, which was not asked for")
    decoder = InflateDecoder()
    async for raw in response.aiter_raw():
        try:
            for piece in decoder.feed(raw) if is_packed else (raw,):
                if len(piece) > left:
                    if not is_error:
                        raise TooLarge(f"the answer is longer than {LONGEST_ANSWER >> 20} MiB")
                    yield piece[:left]
                    return
                left -= len(piece)
                if piece:
                    yield piece
        except zlib.error as error:
            raise ConnectionError(f"the answer can't be unpacked: {error}") from error
    if is_packed and not decoder.complete and not is_error:
        raise ConnectionError(f"the answer stops short: its {packing} has no end")


async def read_all(response: Any) -> bytes:
    """Return a whole body, as `read_bounded`."""
    return b"".join([piece async for piece in read_bounded(response)])


# Connections


class _Server:
    """A server's connections, each in a transport of its own.

    A transport looks at all its connections at every request: one transport for 64 of them takes as long over that as
    over the request itself.
    """

    def __init__(self, make: Callable[[], Any], proxy: str | None) -> None:
        self._make = make
        self.proxy = proxy
        self._idle: deque[tuple[float, Any]] = deque()

    def take(self) -> Any:
        """Return the transport that was used last, or a new one."""
        return self._idle.pop()[1] if self._idle else self._make()

    async def give_back(self, transport: Any) -> None:
        """Keep a transport for the next request, and close transports that were unused for a minute."""
        now = time.monotonic()
        self._idle.append((now, transport))
        while self._idle[0][0] < now - _LONGEST_IDLE:
            await self._idle.popleft()[1].aclose()

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop()[1].aclose()


async def _open_server(library: Library, proxy: str | None, scheme: str, host: str) -> _Server:
    """Prepare connections to a server, by the proxy that is given or that HTTP_PROXY, NO_PROXY and the like name."""
    http = import_module(library)
    environment = os.environ
    trusted = await asyncio.to_thread(
        _load_authorities, environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
    )
    chosen = proxy or _environment_proxy(scheme, host)
    problem = describe_missing_package(chosen)
    if problem:
        raise LocalFault(problem)
    return _Server(lambda: http.AsyncHTTPTransport(verify=trusted, proxy=chosen), chosen)


servers: PerLoop[_Server] = PerLoop(_open_server, _Server.close)


def _environment_proxy(scheme: str, host: str) -> str | None:
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def describe_missing_package(proxy: str | None) -> str:
    """Return what to install for a proxy, or an empty text if nothing is missing."""
    if not proxy or not proxy.lower().startswith("socks") or find_spec("socksio") is not None:
        return ""
    return f"{_name_proxy(proxy)}: a SOCKS proxy needs the package socksio: pip install socksio"


def _name_proxy(proxy: str) -> str:
    """Return a proxy as errors name it: its setting, and its address without a name and a password."""
    parts = urlsplit(proxy)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    values = {f"{name}_proxy": value for name, value in getproxies().items()}
    values |= {
        name.lower(): os.environ.get(name, "") for name in ("OPENAI_PROXY", "ANTHROPIC_PROXY")
    }
    setting = next(
        (
            name.upper()
            for name, value in values.items()
            if value and value in (proxy, parts.netloc)
        ),
        "",
    )
    return f"{setting} ({address})" if setting else address


def check_proxy(scheme: str, host: str) -> None:
    """Raise `BadInput` where the proxy to a server needs a package that isn't installed."""
    if any(proxy.lower().startswith("socks") for proxy in getproxies().values()):
        problem = describe_missing_package(_environment_proxy(scheme, host))
        if problem:
            raise BadInput(problem)


@lru_cache(maxsize=4)
def _load_authorities(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the authorities of the system, a file or a folder; certifi's if Python knows none (some Macs).

    They are read once: that takes as long as starting an event loop a hundred times.

    Args:
        file: SSL_CERT_FILE, which Python reads by itself.
        folder: SSL_CERT_DIR, likewise.

    Raises:
        LocalFault: there is no such file, or no certificate in it.
    """
    if file:
        try:
            return ssl.create_default_context(cafile=file)
        except (OSError, ssl.SSLError) as error:
            raise LocalFault(
                f"SSL_CERT_FILE: {file}: can't be read: {error.strerror or error}"
            ) from error
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or sys.platform == "win32":
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


@contextmanager
def connection_errors(
    http: ModuleType, url: str, key: str = "", proxy: str | None = None
) -> Iterator[None]:
    """Raise `ConnectionError` in place of the HTTP library's own errors, without the key.

    `LocalFault` where this machine's own network is at fault: the proxy is dead, or the certificate isn't trusted.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    try:
        yield
    except (http.ConnectError, http.ProxyError) as error:
        words = scrub(str(error), [key])
        if "CERTIFICATE_VERIFY_FAILED" in words:
            raise LocalFault(
                f"the certificate of {host} isn't trusted ({words}); if it is signed by an authority of your own, set "
                "SSL_CERT_FILE to its certificate"
            ) from None
        if proxy:
            # An error of 5xx is the proxy's word for a server that it can't reach, and may pass.
            kind = ConnectionError if re.match(r"5\d\d\b", words) else LocalFault
            raise kind(
                f"the proxy {_name_proxy(proxy)} doesn't connect to {host}: {words}"
            ) from None
        raise ConnectionError(f"cannot connect to {host}: {words}") from None
    except (http.HTTPError, http.InvalidURL) as error:
        # The library's own error may quote a header, and so the key.
        raise ConnectionError(scrub(str(error), [key]) or type(error).__name__) from None
