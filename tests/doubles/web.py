"""A search server and a web site on loopback: what the tests and the benchmark look things up in, in place of the web.

    async with Site({"/a": SitePage("<p>words</p>")}) as site:
        async with SearchServer({"query": [{"url": f"{site.url}/a"}]}) as server:
            ...  # SEARXNG_URL = server.url, TRIBUNAL_FETCH_ALLOW = site.host
    assert [seen.path for seen in site.log] == ["/robots.txt", "/a"]

Used with `async with` they run on the loop they are in; with plain `with`, on a loop in a thread of their own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tribunal.testing.server import InThread

JSON = dict[str, Any]


@dataclass(frozen=True)
class SitePage:
    """An answer as it goes out; `delay` in seconds, on top of the server's own."""

    body: str | bytes = ""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """One request, as it came. Times are seconds of the monotonic clock; `finished` is None until it was answered.

    `path` includes the query string, and `query` is its `q`.
    """

    method: str
    path: str
    arrived: float
    headers: Mapping[str, str]
    query: str = ""
    finished: float | None = None


class LocalServer(InThread):
    """A server on a loopback address that answers as `answer` says, and keeps what it was asked.

    Attributes:
        log: every request so far, in order of arrival.
        delay: seconds each answer takes.
        hold: what each answer waits for besides, if anything: a moment that a test chooses.
    """

    def __init__(self, *, delay: float = 0.0, address: str = "127.0.0.1") -> None:
        """A server that isn't listening yet. Sites on addresses of their own (127.0.0.2, …) are hosts of their own."""
        self.delay = delay
        self.address = address
        self.port = 0
        self.log: list[Seen] = []
        self.hold: Callable[[Seen], Awaitable[None]] | None = None
        self._runner: web.AppRunner | None = None

    @property
    def host(self) -> str:
        """`address:port`, as TRIBUNAL_FETCH_ALLOW takes it."""
        return f"{self.address}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def answer(self, request: web.Request) -> SitePage:
        """What is said to a request."""
        raise NotImplementedError

    async def _handle(self, request: web.Request) -> web.Response:
        seen = Seen(
            request.method,
            request.path_qs,
            time.monotonic(),
            dict(request.headers),
            request.query.get("q", ""),
        )
        self.log.append(seen)
        page = self.answer(request)
        if wait := page.delay + (0.0 if request.path == "/robots.txt" else self.delay):
            await asyncio.sleep(seen.arrived + wait - time.monotonic())
        if self.hold:
            await self.hold(seen)
        seen.finished = time.monotonic()
        body = page.body.encode() if isinstance(page.body, str) else page.body
        return web.Response(
            status=page.status,
            body=body,
            headers={"Content-Type": page.content_type, **page.headers},
        )

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A client that gives up ends its request; one that waits for ever doesn't keep the server from closing.
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


class Site(LocalServer):
    """A web site of given pages, by path (with its query string, or without). Others are 404, so is robots.txt."""

    def __init__(
        self, pages: Mapping[str, SitePage | str], *, delay: float = 0.0, address: str = "127.0.0.1"
    ) -> None:
        """The mapping is read at each request, so pages may be added once the address is known."""
        super().__init__(delay=delay, address=address)
        self.pages = pages

    def answer(self, request: web.Request) -> SitePage:
        page = self.pages.get(request.path_qs, self.pages.get(request.path))
        if page is None:
            return SitePage("not here", "text/plain", 404)
        return page if isinstance(page, SitePage) else SitePage(page)


Results = list[JSON] | JSON | SitePage


class SearchServer(LocalServer):
    """What a SearXNG server looks like to a client of its JSON interface.

    Results by query: a list of `{"url", "title", "content"}`, a whole body of one's own, or a `SitePage` for anything
    else (a status, garbage). A query without an entry finds nothing. A function may answer instead, in turn or by
    chance.
    """

    def __init__(
        self,
        results: Mapping[str, Results] | Callable[[str], Results],
        *,
        delay: float = 0.0,
        address: str = "127.0.0.1",
    ) -> None:
        super().__init__(delay=delay, address=address)
        self.results = results

    @property
    def queries(self) -> list[str]:
        """What was searched for, in order of arrival."""
        return [seen.query for seen in self.log]

    def answer(self, request: web.Request) -> SitePage:
        query = request.query.get("q", "")
        if request.path != "/search" or request.query.get("format") != "json":
            return SitePage("<!doctype html><p>SearXNG")
        found = self.results(query) if callable(self.results) else self.results.get(query, [])
        if isinstance(found, SitePage):
            return found
        body = found if isinstance(found, dict) else self._body(query, found)
        return SitePage(json.dumps(body), "application/json")

    @staticmethod
    def _body(query: str, results: list[JSON]) -> JSON:
        full = [
            {"title": "", "content": "", "engine": "scripted", "score": 1.0, **each}
            for each in results
        ]
        return {
            "query": query,
            "number_of_results": len(full),
            "results": full,
            "answers": [],
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [],
        }
