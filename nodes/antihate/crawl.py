"""The pages of a turn, fetched and read beside each other, and handed out one by one as they are done.

So a slow page holds up no other, and the judgement can be updated after one page while the next are on their way. The
tasks live here, by the crawl's id, and not in the state: a case that goes on in another process starts its pages anew.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from tribunal.loops import PerLoop
from tribunal.schema import JSON

PageReader = Callable[[str], Coroutine[Any, Any, JSON]]
_KEPT = 256


class Crawl:
    """Some pages under way, by URL."""

    def __init__(self, urls: Iterable[str], work: PageReader) -> None:
        """Start the work on every page."""
        self._work = work
        self._tasks = {url: asyncio.ensure_future(work(url)) for url in urls}

    async def next_page(
        self, pending: Sequence[str], *, in_order: bool = False, seconds: float
    ) -> tuple[str, JSON] | None:
        """Return the next of the pending pages that is done, or None if none is within so many seconds.

        With `in_order`, the first of the pending ones, however long the others have been done: a replay goes the way
        that the archived run went.
        """
        for url in pending:
            if url not in self._tasks:
                self._tasks[url] = asyncio.ensure_future(self._work(url))
        waited = {url: self._tasks[url] for url in (pending[:1] if in_order else pending)}
        await asyncio.wait(waited.values(), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        done = next((url for url, task in waited.items() if task.done()), None)
        return None if done is None else (done, self._tasks.pop(done).result())

    def cancel(self) -> None:
        """Stop what is still under way."""
        for task in self._tasks.values():
            task.cancel()


Crawls = OrderedDict[str, Crawl]


async def _no_crawls() -> Crawls:
    return OrderedDict()


async def _stop_crawls(crawls: Crawls) -> None:
    for crawl in crawls.values():
        crawl.cancel()


_crawls = PerLoop(_no_crawls, _stop_crawls)


async def start_crawl(urls: Iterable[str], work: PageReader) -> str:
    """Begin a crawl; gives its id. The oldest of very many is stopped: its case was paused and never went on."""
    held = await _crawls.get()
    crawl_id = uuid.uuid4().hex[:12]
    held[crawl_id] = Crawl(urls, work)
    while len(held) > _KEPT:
        held.popitem(last=False)[1].cancel()
    return crawl_id


async def resume_crawl(crawl_id: str | None, work: PageReader) -> Crawl:
    """Return the crawl of this id.

    If it was begun in another process, the one returned starts its pages when it is asked for them.
    """
    held = await _crawls.get()
    return held.setdefault(crawl_id or "", Crawl((), work))


async def end_crawl(crawl_id: str | None) -> None:
    """Forget a crawl, and stop what it still has under way."""
    held = await _crawls.get()
    if crawl := held.pop(crawl_id or "", None):
        crawl.cancel()
