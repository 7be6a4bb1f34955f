"""Where research looks things up, and where it writes down what it found: search, pages, the record, a replay.

One library serves all cases of an event loop that share its settings; it is opened at first use.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from tribunal.context import Context, setting
from tribunal.retrievers.web.archive import ArchiveError, Record, Replay, StoredPage
from tribunal.retrievers.web.fetch import Fetcher, FetchError, allowed_places
from tribunal.retrievers.web.pages import PageUnreadable, Reader, TokenCounter
from tribunal.retrievers.web.search import Chain, Found, search_chain
from tribunal.schema import JSON, Post

REPLAY = "replay:"
Page = StoredPage


@dataclass
class WebReader:
    """What fetches and reads pages, for an event loop. The tables of the counter load while other things are done."""

    fetcher: Fetcher
    reader: Reader
    counter: asyncio.Task[TokenCounter]


@dataclass
class Library:
    """Search, pages and record of some settings."""

    means: WebReader
    record: Record
    chain: Chain | None
    replay: Replay | None
    fresh: bool
    _notes: dict[str, list[str]] = field(default_factory=dict)

    async def counter(self) -> TokenCounter:
        """What measures reading windows."""
        return await self.means.counter

    def warnings(self, run: str) -> list[str]:
        """What the verdict should say of how this case was looked up."""
        notes = list(self._notes.get(run, []))
        if self.replay and self.replay.unknown_queries:
            notes += [f"search: {query!r} is not in the record" for query in self.replay.unknown_queries]
        return list(dict.fromkeys(notes))

    async def begin(self, post: Post, settings: JSON) -> str:
        """Open the record of a case; gives its id."""
        if self.chain is not None:
            self.means.reader.warm()
        if self.replay is not None:
            self.replay.rewind()
        try:
            return await self.record.begin(post.id, post.text, settings)
        except ArchiveError as error:
            run = f"unrecorded-{uuid.uuid4().hex[:12]}"
            self._notes[run] = [f"there is no evidence record: {error}"]
            return run

    async def search(self, query: str, run: str, turn: int, k: int) -> Found:
        """One query's hits, and who found them; no result anywhere is a normal outcome."""
        found = await (self.replay.search(query, k) if self.replay else self._chain().search(query, k))
        await self._write(
            run,
            self.record.add_search(
                run,
                turn,
                query,
                found.engine,
                [hit.dump() for hit in found.hits],
                [each.dump() for each in found.failures],
            ),
        )
        return found

    def _chain(self) -> Chain:
        assert self.chain is not None  # noqa: S101 (a library has one or the other)
        return self.chain

    async def page(self, url: str, run: str, turn: int, *, secret_text: str = "") -> Page | str:
        """A page as it was fetched and read, or in words why there is none."""
        if self.replay:
            found: Page | str = await self.replay.fetch(url) or f"{url}: is not in the record"
            if isinstance(found, StoredPage):
                await self._write(run, self.record.add_page(found))
        else:
            found = await self._fetched(url, run, secret_text)
        page_id, reason = (None, found) if isinstance(found, str) else (found.id, None)
        await self._write(run, self.record.add_fetch(run, turn, url, page_id, reason))
        return found

    async def _fetched(self, url: str, run: str, secret_text: str) -> Page | str:
        try:
            got = await self.means.fetcher.fetch(url, secret_text=secret_text)
            text = await self.means.reader.read(got.body, got.content_type, got.charset)
        except (FetchError, PageUnreadable) as error:
            return f"{url}: {error.reason}: {error}"
        page = StoredPage.of(got, text)
        await self._write(run, self.record.add_page(page))
        return page

    async def reply(self, phase: str, key: str) -> Any:
        """In a replay, what was answered then; None in any other run."""
        return None if self.replay is None or self.fresh else await self.replay.reply(phase, key)

    async def replied(self, run: str, phase: str, key: str, reply: JSON, calls: Sequence[JSON]) -> None:
        await self._write(run, self.record.add_reply(run, phase, key, reply, list(calls)))

    async def decided(self, run: str, kind: str, what: JSON) -> None:
        await self._write(run, self.record.add_decision(run, kind, what))

    async def order(self, turn: int, urls: Sequence[str]) -> list[str] | None:
        """In a replay, the order in which these pages were read then; None in any other run."""
        if self.replay is None:
            return None
        then = await self.replay.fetched(turn)
        return sorted(urls, key=lambda url: then.index(url) if url in then else len(then))

    async def _write(self, run: str, entry: Any) -> Any:
        try:
            return await entry
        except ArchiveError as error:
            self._notes.setdefault(run, []).append(f"the evidence record is incomplete: {error}")
            return None


_libraries: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Library]] = WeakKeyDictionary()
_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, WebReader] = WeakKeyDictionary()
_opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def library(context: Context, post: Post | None = None) -> Library:
    """The library of these settings.

    Args:
        context: `search`, `searxng_url`, `record` and `fresh` are read.
        post: in a replay, whose recorded run is meant.

    Raises:
        BadInput: a search engine is unknown, the record can't be opened, or a replay has no such run.
    """
    replayed = context.search.startswith(REPLAY)
    wanted = (
        context.search,
        context.searxng_url,
        context.record,
        context.fresh,
        post.id if replayed and post else None,
    )
    loop = asyncio.get_running_loop()
    held = _libraries.setdefault(loop, {})
    if wanted not in held:
        async with _opening.setdefault(loop, asyncio.Lock()):
            if wanted not in held:
                held[wanted] = await _open(context, post)
    return held[wanted]


async def _open(context: Context, post: Post | None) -> Library:
    means = await web_reader()
    replay, chain = None, None
    if context.search.startswith(REPLAY):
        replay = await Replay.open(context.search.removeprefix(REPLAY), post_text=post.text if post else "")
    else:
        url = context.searxng_url or await asyncio.to_thread(setting, "SEARXNG_URL")
        chain = search_chain(context.search, searxng_url=url)
    return Library(means, await Record.open(context.record), chain, replay, context.fresh)


async def web_reader() -> WebReader:
    """The fetcher, the page reader and the token counter of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _readers:
        places = await asyncio.to_thread(allowed_places)
        if loop not in _readers:
            _readers[loop] = WebReader(Fetcher(places), _reader(), asyncio.ensure_future(TokenCounter.load()))
    return _readers[loop]


@lru_cache(maxsize=1)
def _reader() -> Reader:
    """Its processes serve every event loop, and end with the program."""
    return Reader()
