"""How long a connection stays open between requests: longer than a balancer's, so that it never sends into an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.service.live import listening, sqlite
from tests.service.test_hostile import head
from tribunal.service.app import create_app
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.serving import uvicorn_config

ASK = head("/healthz", "Content-Length: 0", method="GET")


class Connection:
    """A connection on which one request may follow the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes = ASK) -> int:
        """Send a request; return the status of its answer, whose body is read, too."""
        self.writer.write(request)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        size = next(
            each for each in answer.lower().splitlines() if each.startswith(b"content-length:")
        )
        await self.reader.readexactly(int(size.split(b":")[1]))
        return int(answer.split()[1])


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    parts = urlsplit(url)
    connection = Connection(*await asyncio.open_connection(parts.hostname, parts.port))
    try:
        yield connection
    finally:
        connection.writer.close()


def test_the_usual_time_is_longer_than_that_of_common_balancers() -> None:
    options = ServiceOptions()
    assert options.keep_alive > 600, (
        "Google's load balancers keep a connection for 600 s, AWS's for 60, nginx for 75"
    )
    assert (
        uvicorn_config(lambda: create_app(options), options).timeout_keep_alive
        == options.keep_alive
    )


async def test_a_connection_outlives_head_seconds_between_two_requests(tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), head_seconds=0.3, keep_alive=600) as url,
        connected(url) as kept,
    ):
        assert await kept.ask() == 200
        late_body = head("/v1/judge", "Content-Length: 2", kind="text/csv")
        assert await kept.ask(late_body) == 415, "answered before its body has come"
        kept.writer.write(b"{}")
        async with connected(url) as silent:
            assert await silent.reader.read() == b"", "head_seconds have passed since those answers"
        assert await kept.ask() == 200
        kept.writer.write(ASK[:-2])  # a head without its end
        assert b"408" in await kept.reader.readline()


async def test_an_idle_connection_ends_after_keep_alive_seconds(tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), head_seconds=600, keep_alive=1) as url,
        connected(url) as idle,
    ):
        assert await idle.ask() == 200
        assert await idle.reader.read() == b""


async def test_a_body_that_goes_on_after_its_answer_isn_t_waited_for(tmp_path: Path) -> None:
    async with (
        listening(sqlite(tmp_path), head_seconds=0.3, keep_alive=600) as url,
        connected(url) as refused,
    ):
        assert (
            await refused.ask(head("/v1/judge", "Content-Length: 99", kind="text/csv") + b"{")
            == 415
        )
        assert await refused.reader.read() == b""
