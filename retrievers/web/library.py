"""Where research looks things up, and where it writes down what it found: search, pages, the archive, a replay.

One library serves all cases of an event loop that share its settings; it is opened at first use.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from tribunal.context import Context
from tribunal.environment import setting
from tribunal.loops import PerLoop
from tribunal.rehearsed import REHEARSED
from tribunal.retrievers.web.archive import Archive, ArchiveError
from tribunal.retrievers.web.fetch.errors import FetchError
from tribunal.retrievers.web.fetch.fetcher import Fetcher, allowed_places
from tribunal.retrievers.web.pages.reader import Reader
from tribunal.retrievers.web.pages.text import PageUnreadable
from tribunal.retrievers.web.pages.tokens import TokenCounter
from tribunal.retrievers.web.replay import Replay
from tribunal.retrievers.web.search.chain import Chain, Found, search_chain
from tribunal.retrievers.web.trail import StoredPage
from tribunal.schema import JSON, Post

REPLAY = "replay:"


@dataclass
class WebReader:
    """What fetches and reads pages, for an event loop. The tables of the counter load while other things are done."""

    fetcher: Fetcher
    reader: Reader
    counter: asyncio.Task[TokenCounter]

    @classmethod
    async def open(cls) -> Self:
        places = await asyncio.to_thread(allowed_places)
        return cls(Fetcher(places), _reader(), asyncio.ensure_future(TokenCounter.load()))

    async def close(self) -> None:
        self.counter.cancel()

    async def page(self, url: str, *, secret_text: str = "") -> StoredPage:
        """A page, fetched and read.

        Raises:
            FetchError: it can't be had.
            PageUnreadable: it has no text.
        """
        got = await self.fetcher.fetch(url, secret_text=secret_text)
        return StoredPage.of(got, await self.reader.read(got.body, got.content_type, got.charset))


@lru_cache(maxsize=1)
def _reader() -> Reader:
    """Its processes serve every event loop, and end with the program."""
    return Reader()


@dataclass
class Library:
    """Search, pages and archive of some settings. It searches by a chain, or in a replay."""

    web: WebReader
    archive: Archive
    chain: Chain | None
    replay: Replay | None
    fresh: bool
    _notes: dict[str, list[str]] = field(default_factory=dict)

    async def counter(self) -> TokenCounter:
        """What measures reading windows."""
        return await self.web.counter

    def warnings(self, run: str) -> list[str]:
        """What the verdict should say of how this case was looked up."""
        notes = list(self._notes.get(run, []))
        if self.replay and self.replay.rehearsed and not self.fresh:
            notes.append(REHEARSED)
        if self.replay and self.replay.unknown_queries:
            notes += [f"search: {query!r} is not in the archive" for query in self.replay.unknown_queries]
        return list(dict.fromkeys(notes))

    async def begin(self, post: Post, settings: JSON) -> str:
        """Begin a case in the archive; gives its run's id."""
        if self.chain is not None:
            self.web.reader.warm()
        if self.replay is not None:
            self.replay.rewind()
        try:
            return await self.archive.begin(post.id, post.text, settings)
        except ArchiveError as error:
            run = f"unarchived-{uuid.uuid4().hex[:12]}"
            self._notes[run] = [f"nothing is archived: {error}"]
            return run

    async def search(self, query: str, run: str, turn: int, k: int) -> Found:
        """One query's hits, and who found them; no result anywhere is a normal outcome."""
        found = await (self.replay.search(query, k) if self.replay else self._chain().search(query, k))
        hits, failures = [hit.dump() for hit in found.hits], [each.dump() for each in found.failures]
        await self._write(run, self.archive.add_search(run, turn, query, found.engine, hits, failures))
        return found

    def _chain(self) -> Chain:
        assert self.chain is not None  # noqa: S101 (a library has one or the other)
        return self.chain

    async def page(self, url: str, run: str, turn: int, *, secret_text: str = "") -> StoredPage | str:
        """A page as it was fetched and read, or in words why there is none."""
        found: StoredPage | str
        if self.replay:
            found = await self.replay.fetch(url) or f"{url}: is not in the archive"
        else:
            try:
                found = await self.web.page(url, secret_text=secret_text)
            except (FetchError, PageUnreadable) as error:
                found = f"{url}: {error.reason}: {error}"
        if isinstance(found, str):
            await self._write(run, self.archive.add_fetch(run, turn, url, None, found))
        else:
            await self._write(run, self.archive.add_page(found))
            await self._write(run, self.archive.add_fetch(run, turn, url, found.id))
        return found

    async def reply(self, phase: str, key: str) -> Any:
        """In a replay, what was answered then; None in any other run."""
        return None if self.replay is None or self.fresh else await self.replay.reply(phase, key)

    async def replied(self, run: str, phase: str, key: str, reply: JSON, calls: Sequence[JSON]) -> None:
        await self._write(run, self.archive.add_reply(run, phase, key, reply, list(calls)))

    async def decided(self, run: str, kind: str, what: JSON) -> None:
        await self._write(run, self.archive.add_decision(run, kind, what))

    async def order(self, turn: int, urls: Sequence[str]) -> list[str] | None:
        """In a replay, the order in which these pages were read then; None in any other run."""
        if self.replay is None:
            return None
        then = await self.replay.fetched(turn)
        return sorted(urls, key=lambda url: then.index(url) if url in then else len(then))

    async def _write(self, run: str, entry: Awaitable[object]) -> None:
        try:
            await entry
        except ArchiveError as error:
            self._notes.setdefault(run, []).append(f"the archive is incomplete: {error}")


async def library(context: Context, post: Post | None = None) -> Library:
    """The library of these settings.

    Args:
        context: `search`, `searxng_url`, `archive` and `fresh` are read.
        post: in a replay, whose archived run is meant.

    Raises:
        BadInput: a search engine is unknown, the archive can't be opened, or a replay has no such run.
    """
    replayed = (post.id, post.text) if post and context.search.startswith(REPLAY) else None
    return await _libraries.here(context.search, context.searxng_url, context.archive, context.fresh, replayed)


async def _open(
    search: str, searxng_url: str | None, archive: str | None, fresh: bool, replayed: tuple[str, str] | None
) -> Library:
    web = await web_reader()
    replay, chain = None, None
    if search.startswith(REPLAY):
        replay = await Replay.open(search.removeprefix(REPLAY), post_text=replayed[1] if replayed else "")
    else:
        url = searxng_url or await asyncio.to_thread(setting, "SEARXNG_URL")
        chain = search_chain(search, searxng_url=url)
    return Library(web, await _archives.here(archive), chain, replay, fresh)


async def web_reader() -> WebReader:
    """The fetcher, the page reader and the token counter of the running event loop."""
    return await _web_readers.here()


_web_readers = PerLoop(WebReader.open, WebReader.close)
_archives = PerLoop(Archive.open, Archive.close)
_libraries = PerLoop(_open)
