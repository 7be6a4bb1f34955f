"""A small web on loopback: sites that say exactly what they are told to, and names that lead to them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tribunal.retrievers.web.fetch import FetchFailed, FetchLimits, FetchRefused
from tribunal.retrievers.web.fetch.fetcher import FetchedPage, Fetcher

PUBLIC, ALSO_PUBLIC = "93.184.216.34", "2606:2800:220:1::1"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"

# A certificate for site.test that trusts itself, for these tests only.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg57O0MvobijwrUvWE
iFjv9iVv1E+TiolWIeyDcT7dWfehRANCAAS/NB9WE9P9OVLLjnOLcRmrIX6SFvwi
3mUTooSXsDWqPKF78tcCmQ4nW5WEJ4IOrBQRyK8gMyU0gEDlCntfKPB0
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBQTCB6KADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCXNpdGUudGVz
dDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
c2l0ZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEvzQfVhPT/TlSy45z
i3EZqyF+khb8It5lE6KEl7A1qjyhe/LXApkOJ1uVhCeCDqwUEcivIDMlNIBA5Qp7
XyjwdKMpMCcwFAYDVR0RBA0wC4IJc2l0ZS50ZXN0MA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIgSn0Q77qIBBVDM1ndeD65hcARpahKwUxM7pADu1fI
mx8CIQC+uLqlnUudMTIKreqBkTYBBmgOCsAYUWoe4FFbdgADDw==
-----END CERTIFICATE-----
"""

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def ok(
    body: bytes | str = "<p>A page.</p>",
    kind: str = "text/html",
    *more: str,
    length: int | None = None,
) -> bytes:
    """A whole HTTP answer; its Content-Length is the truth unless it is given."""
    data = body.encode() if isinstance(body, str) else body
    size = len(data) if length is None else length
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", f"Content-Length: {size}", *more, "", ""]
    return "\r\n".join(lines).encode() + data


def to(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


def failing(status: int) -> bytes:
    return f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()


class Site:
    """A server that says exactly what it is told to, byte by byte. robots.txt is missing unless it is given."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {"/robots.txt": failing(404), "/": ok()}
        self.heads: list[bytes] = []
        self.port = self.open = self.most_open = 0

    @property
    def asked(self) -> list[str]:
        return [head.split()[1].decode() for head in self.heads]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            answer = self.answers.get(head.split()[1].decode(), failing(404))
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def listen(
        self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Site]:
        server = await asyncio.start_server(self.serve, host, 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


@dataclass
class Web:
    """A small web: names with the answers they give in turn, and servers that public addresses lead to."""

    site: Site
    tls_site: Site
    tls: ssl.SSLContext
    image_hosts: frozenset[str] = frozenset()
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    lookups: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        if not answers:
            raise socket.gaierror(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def route(self, address: str, port: int) -> tuple[str, int]:
        self.dialled.append((address, port))
        if address not in (PUBLIC, ALSO_PUBLIC):
            raise ConnectionRefusedError("nobody there")
        return "127.0.0.1", self.tls_site.port if port == 443 else self.site.port

    def fetcher(self, allow: frozenset[str] = frozenset(), **limits: float) -> Fetcher:
        held = FetchLimits.model_validate(
            {"seconds": 5, "read_seconds": 5, "connect_seconds": 5} | limits
        )
        return Fetcher(
            allow,
            held,
            image_hosts=self.image_hosts,
            resolver=self.resolve,
            route=self.route,
            trusted=self.tls,
        )

    async def outcome(self, url: str, *, secret_text: str = "", **limits: float) -> str:
        return await outcome(
            self.fetcher(frozenset(), **limits).fetch(url, secret_text=secret_text)
        )


async def outcome(fetching: Awaitable[FetchedPage]) -> str:
    try:
        page = await fetching
    except FetchRefused as error:
        return f"refused: {error.reason}" if str(error).isprintable() else "said over several lines"
    except FetchFailed as error:
        return f"failed: {error.reason}" if str(error).isprintable() else "said over several lines"
    return f"taken, {len(page.body)} bytes"
