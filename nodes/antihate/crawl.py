"""The pages of a turn, fetched and read beside each other, and handed out one by one as they are done.

So a slow page holds up no other, and the judgement can be updated after one page while the next are on their way. The
tasks live here, by the crawl's id, and not in the state: a case that goes on in another process starts its pages anew.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from tribunal.loops import PerLoop

Found = TypeVar("Found")
_KEPT = 256


class Crawl(Generic[Found]):
    """Some pages under way, by URL."""

    def __init__(self, urls: Iterable[str], work: Callable[[str], Awaitable[Found]]) -> None:
        self._work = work
        self._tasks = {url: asyncio.ensure_future(work(url)) for url in urls}

    async def next(self, pending: Sequence[str], *, in_order: bool = False, seconds: float) -> tuple[str, Found] | None:
        """The next of the pending pages that is done, or None if none is within so many seconds.

        With `in_order`, the first of the pending ones, however long the others have been done: a replay goes the way
        that the archived run went.
        """
        for url in pending:
            if url not in self._tasks:
                self._tasks[url] = asyncio.ensure_future(self._work(url))
        waited = [self._tasks[url] for url in (pending[:1] if in_order else pending)]
        await asyncio.wait(waited, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        for url in pending[:1] if in_order else pending:
            if self._tasks[url].done():
                return url, self._tasks.pop(url).result()
        return None

    def cancel(self) -> None:
        """Stop what is still under way."""
        for task in self._tasks.values():
            task.cancel()


Crawls = OrderedDict[str, Crawl[Any]]


async def _none() -> Crawls:
    return OrderedDict()


async def _stop(crawls: Crawls) -> None:
    for crawl in crawls.values():
        crawl.cancel()


_crawls = PerLoop(_none, _stop)


async def start(urls: Iterable[str], work: Callable[[str], Awaitable[Found]]) -> str:
    """Begin a crawl; gives its id. The oldest of very many is stopped: its case was paused and never went on."""
    held = await _crawls.here()
    crawl_id = uuid.uuid4().hex[:12]
    held[crawl_id] = Crawl(urls, work)
    while len(held) > _KEPT:
        held.popitem(last=False)[1].cancel()
    return crawl_id


async def resume(crawl_id: str | None, work: Callable[[str], Awaitable[Found]]) -> Crawl[Found]:
    """The crawl of this id; where it was begun in another process, one that starts its pages when asked for them."""
    held = await _crawls.here()
    if crawl_id not in held:
        held[crawl_id or ""] = Crawl((), work)
    return held[crawl_id or ""]


async def end(crawl_id: str | None) -> None:
    """Forget a crawl, and stop what it still has under way."""
    held = await _crawls.here()
    if crawl := held.pop(crawl_id or "", None):
        crawl.cancel()
