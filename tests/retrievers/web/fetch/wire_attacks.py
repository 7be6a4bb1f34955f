"""Answers that take too long, are too large, or are no HTTP."""

from __future__ import annotations

import asyncio
import socket
import struct

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import Web, ok, outcome, to
from tribunal.retrievers.web.fetch import FetchLimits
from tribunal.retrievers.web.fetch.fetcher import Fetcher

ATTACKS = Attacks()
LIMITS = FetchLimits()


@ATTACKS.add(
    "A slow drip, a byte at a time",
    "failed: timeout",
    f"The whole fetch has a time limit ({LIMITS.seconds:g} s)",
)
async def drip(web: Web) -> str:
    async def slowly(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.02)

    web.site.answers["/"] = slowly
    return await web.outcome("http://site.test/", seconds=0.4)


@ATTACKS.add(
    "A server that accepts and says nothing",
    "failed: timeout",
    f"Silence has a limit of its own ({LIMITS.read_seconds:g} s)",
)
async def silence(web: Web) -> str:
    async def nothing(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    web.site.answers["/"] = nothing
    return await web.outcome("http://site.test/", read_seconds=0.2)


@ATTACKS.add(
    "A name service that doesn't answer",
    "failed: dns",
    f"A look-up has a limit of its own ({LIMITS.dns_seconds:g} s)",
)
async def slow_names(web: Web) -> str:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    return await outcome(
        Fetcher(limits=FetchLimits(dns_seconds=0.1), resolver=never, route=web.route).fetch(
            "http://site.test/"
        )
    )


@ATTACKS.add("Headers without end", "failed: protocol", "The parser stops at 100 KB of them")
async def endless_headers(web: Web) -> str:
    async def headers(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-More: " + b"a" * 1000 + b"\r\n")
            await writer.drain()

    web.site.answers["/"] = headers
    return await web.outcome("http://site.test/")


@ATTACKS.add("An answer that is no HTTP", "failed: protocol", "Nothing of it is taken")
async def no_http(web: Web) -> str:
    web.site.answers["/"] = b"220 mail.test ESMTP\r\n"
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "An endless body",
    "refused: too_large",
    f"Cut off at the limit on the wire ({LIMITS.wire_bytes >> 20} MiB)",
)
async def endless_body(web: Web) -> str:
    sent = 0

    async def forever(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        while True:
            writer.write(b"a" * 10_000)
            await writer.drain()
            sent += 10_000

    web.site.answers["/"] = forever
    found = await web.outcome("http://site.test/", wire_bytes=200_000)
    assert sent < 20_000_000  # what the sockets' buffers hold, and no more
    return found


@ATTACKS.add(
    "A Content-Length over the limit", "refused: too_large", "Before any of the body is read"
)
async def announced(web: Web) -> str:
    web.site.answers["/"] = ok(length=10**12)
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "A Content-Length larger than what comes", "failed: truncated", "Half a page is no evidence"
)
async def says_more(web: Web) -> str:
    web.site.answers["/"] = ok("<p>half", length=1000)
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "A Content-Length smaller than what comes",
    "taken, 7 bytes",
    "As many bytes as were announced; the rest is unread",
)
async def says_less(web: Web) -> str:
    web.site.answers["/"] = ok("<p>half<p>and a second half", length=7)
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "More than was announced, behind a redirect",
    "taken, 14 bytes",
    "The redirect is followed; the rest is unread",
)
async def says_nothing(web: Web) -> str:
    web.site.answers |= {"/": to("/b") + b"<p>and a page", "/b": ok()}
    return await web.outcome("http://site.test/")


@ATTACKS.add("Two Content-Lengths that differ", "failed: protocol", "Readers differ on it")
async def says_both(web: Web) -> str:
    web.site.answers["/"] = ok("<p>half", "text/html", "Content-Length: 3")
    return await web.outcome("http://site.test/")


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


def broken(answer: bytes, attack: str, outcome: str, happens: str) -> None:
    async def run(web: Web) -> str:
        web.site.answers["/"] = answer
        found = await web.outcome("http://site.test/")
        assert web.site.asked == ["/robots.txt", "/"]
        return found

    ATTACKS.add(attack, outcome, happens)(run)


broken(
    CHUNKED + b"3\r\n<p>\r\n9\r\nhalf",
    "Chunks that break off",
    "failed: truncated",
    "Half a page is no evidence",
)
broken(
    CHUNKED + b"3\r\n<p>\r\nno chunk\r\n",
    "Chunks that are none",
    "failed: protocol",
    "The answer ends there",
)
broken(
    CHUNKED.replace(b"chunked", b"gzip, chunked") + b"3\r\n<p>\r\n0\r\n\r\n",
    "A transfer coding that was not asked for",
    "failed: protocol",
    "Chunks are undone, and nothing else",
)
broken(
    b"",
    "A site that hangs up without an answer",
    "failed: protocol",
    "It isn't asked a second time",
)


@ATTACKS.add(
    "A connection that is reset in the midst of a page",
    "failed: connect",
    "Half a page is no evidence",
)
async def reset(web: Web) -> str:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>half")
        await writer.drain()
        # A connection that is closed with no time to linger is reset.
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()

    web.site.answers["/"] = half
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "A site that hangs up over TLS while its chunks are still being read",
    "taken, 300000 bytes",
    "What was sent is read",
)
async def hurried(web: Web) -> str:
    web.tls_site.answers["/"] = CHUNKED + (b"3e8\r\n" + b"a" * 1000 + b"\r\n") * 300 + b"0\r\n\r\n"
    return await web.outcome("https://site.test/")
