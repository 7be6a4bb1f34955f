"""Every kind of robots.txt."""

from __future__ import annotations

import asyncio

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import Answer, Web, failing, ok, to

ATTACKS = Attacks()


def robots(answer: Answer, attack: str, outcome: str, happens: str) -> None:
    async def run(web: Web) -> str:
        web.site.answers["/robots.txt"] = answer
        found = await web.outcome("http://site.test/")
        assert ("/" in web.site.asked) == found.startswith("taken")
        return found

    ATTACKS.add(attack, outcome, happens)(run)


robots(
    ok("User-agent: *\nDisallow: /", "text/plain"),
    "robots.txt says no",
    "refused: robots",
    "The page isn't asked for",
)
robots(
    ok("User-agent: *\nDisallow: /\nUser-agent: Tribunal\nAllow: /", "text/plain"),
    "robots.txt says no to all but us",
    "taken, 14 bytes",
    "The group that names us counts alone",
)
robots(
    failing(404), "No robots.txt (any 4xx)", "taken, 14 bytes", "Everything is allowed (RFC 9309)"
)
robots(
    failing(503),
    "robots.txt fails (any 5xx)",
    "refused: robots",
    "Counts as a no (RFC 9309), for five minutes",
)
robots(
    to("http://127.0.0.1/r"),
    "robots.txt redirects to a private address",
    "refused: robots",
    "Can't be read, so a no",
)
robots(
    ok(
        "".join(f"User-agent: a{i}\n" for i in range(12_000))
        + "User-agent: *\n"
        + "".join(f"Disallow: /{i}*\n" for i in range(20_000)),
        "text/plain",
    ),
    "robots.txt with thousands of agents and rules",
    "taken, 14 bytes",
    "Read in time that grows with its length alone",
)


@ATTACKS.add("An endless robots.txt", "refused: robots", "The first 500 KiB count")
async def endless_robots(web: Web) -> str:
    async def forever(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\nDisallow: /\n"
        )
        while True:
            writer.write(b"# and so on\n" * 1000)
            await writer.drain()

    web.site.answers["/robots.txt"] = forever
    return await web.outcome("http://site.test/")
