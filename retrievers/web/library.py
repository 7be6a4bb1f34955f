"""Look things up for research, and archive the results: search, pages, replay.

One library serves all cases of an event loop that share its settings; it is opened at first use.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from tribunal.core.calls import REHEARSED, was_rehearsed
from tribunal.core.text import scrub
from tribunal.models.completion import TokenCounter, shared_counter
from tribunal.process.loops import PerLoop
from tribunal.retrievers.web.archive import (
    Archive,
    ArchiveError,
    StoredPage,
    Trail,
    damaged_archive_error,
)
from tribunal.retrievers.web.fetch import FetchError
from tribunal.retrievers.web.fetch.fetcher import Fetcher
from tribunal.retrievers.web.fetch.target import parse_allowed_places, parse_image_hosts
from tribunal.retrievers.web.page_reader import PageReader, PageUnreadable
from tribunal.retrievers.web.search.chain import SearchChain, SearchResult, search_chain
from tribunal.schema import JSON, Post
from tribunal.settings.context import Context
from tribunal.settings.environment import setting

REPLAY = "replay:"
_OF_SEARCH = ("hits", "engine", "failures")


@dataclass
class WebReader:
    """Fetch and read pages, for an event loop. The tables of the counter load while other things are done."""

    fetcher: Fetcher
    reader: PageReader
    counter: asyncio.Task[TokenCounter]

    @classmethod
    async def open(cls) -> Self:
        """Make a fetcher and a reader, and begin to load the counter."""
        places = await asyncio.to_thread(setting, "TRIBUNAL_FETCH_ALLOW")
        hosts = await asyncio.to_thread(setting, "TRIBUNAL_IMAGE_HOSTS")
        fetcher = Fetcher(
            parse_allowed_places(places or ""), image_hosts=parse_image_hosts(hosts or "")
        )
        return cls(fetcher, _shared_reader(), asyncio.ensure_future(shared_counter()))

    async def close(self) -> None:
        """Stop loading the counter."""
        self.counter.cancel()

    async def fetch_page(self, url: str, *, secret_text: str = "") -> StoredPage:
        """Return a page, fetched and read.

        Raises:
            FetchError: it can't be had.
            PageUnreadable: it has no text.
        """
        got = await self.fetcher.fetch(url, secret_text=secret_text)
        return StoredPage.from_fetch(
            got, await self.reader.read_page(got.body, got.content_type, got.charset)
        )


# Its processes serve every event loop, and end with the program.
_shared_reader = lru_cache(maxsize=1)(PageReader)


class Replay:
    """An archived run, to be gone through again. Everything in it is in memory.

    Attributes:
        name: what it is called as a search engine.
        run: the run.
        unknown_queries: those that were searched for and aren't in the archive, in order.
        rehearsed: whether the rehearsal model gave any of its replies.
    """

    name = "replay"

    def __init__(self, trail: Trail) -> None:
        """Use `open`."""
        self.run = trail.run
        self.unknown_queries: list[str] = []
        self._pages = trail.pages
        self._searches = {
            each.key: SearchResult.model_validate(
                {name: each.body[name] for name in _OF_SEARCH} | {"query": each.key}
            )
            for each in trail.entries_of("search")
        }
        self._fetches = {each.key: each.body for each in trail.entries_of("fetch")}
        self._read = [each.body for each in trail.entries_of("decision", "page")]
        self.rehearsed = was_rehearsed(
            call for each in trail.entries_of("reply") for call in each.body.get("calls", [])
        )
        self._replies = defaultdict[tuple[str, str], list[JSON]](list)
        for each in trail.entries_of("reply"):
            self._replies[each.topic, each.key].append(each.body["reply"])
        self._given: Counter[tuple[str, str]] = Counter()

    @classmethod
    async def open(cls, path: str | Path | None = None, *, post_text: str = "") -> Self:
        """Open the latest run of a post, known by its words, or of all, in which a model was asked.

        The default file is `default_archive_path`.

        Raises:
            BadInput: there is no such file, or no such run in it.
        """
        archive = await Archive.open(path, existing=True)
        try:
            return cls(await archive.load_trail(await archive.run_to_replay(post_text)))
        except (KeyError, TypeError, ValidationError) as error:
            raise damaged_archive_error(archive.path, error) from error
        finally:
            await archive.close()

    def rewind(self) -> None:
        """Begin again: replies come in order from the first, and no query is unknown."""
        self._given.clear()
        self.unknown_queries.clear()

    async def search(self, query: str, k: int) -> SearchResult:
        """Return the archived hits for exactly this query, and who answered then; nothing for another."""
        result = self._searches.get(scrub(query, ()))
        if result is None:
            if query not in self.unknown_queries:
                self.unknown_queries.append(query)
            return SearchResult(query=query, engine=self.name)
        left_out = max(0, len(result.hits) - k)
        return result.model_copy(
            update={"query": query, "hits": result.hits[:k], "left_out": left_out}
        )

    async def fetch(self, url: str) -> StoredPage | str | None:
        """Return the page that this URL gave then, or in words why it gave none; None if it was never asked for."""
        entry = self._fetches.get(scrub(url, ()))
        if entry is None:
            return None
        if entry["page"] is None:
            return str(entry["failure"] or f"{url}: gave no page")
        page = self._pages.get(entry["page"])
        return page.model_copy(update={"url": url}) if page else None

    async def urls_of_turn(self, turn: int) -> list[str]:
        """Return the URLs of a turn in the order of its `page` decisions, then those that were only fetched."""
        read = [
            str(each["url"]) for each in self._read if each.get("turn") == turn and "url" in each
        ]
        asked = [url for url, each in self._fetches.items() if each["turn"] == turn]
        return list(dict.fromkeys([*read, *asked]))

    async def next_reply(self, phase: str, key: str) -> JSON | None:
        """Return the next archived reply to this call, in the order in which they were given; None if none is left."""
        call = phase, scrub(key, ())
        number = self._given[call]
        self._given[call] += 1
        return next(iter(self._replies[call][number:]), None)


class Library:
    """Search, pages and archive of some settings. It searches by a chain, or in a replay."""

    def __init__(
        self, web: WebReader, archive: Archive, source: SearchChain | Replay, *, fresh: bool
    ) -> None:
        """Look things up in a source; in a replay, models are asked anew if it is `fresh`."""
        self.web = web
        self.archive = archive
        self.source = source
        self.fresh = fresh
        self._replay = source if isinstance(source, Replay) else None
        self._notes: dict[str, list[str]] = {}

    def warnings_for_run(self, run: str) -> list[str]:
        """Return the verdict's warnings about this case's research."""
        notes = list(self._notes.get(run, []))
        if self._replay:
            notes += [REHEARSED] if self._replay.rehearsed and not self.fresh else []
            notes += [
                f"search: {query!r} is not in the archive" for query in self._replay.unknown_queries
            ]
        return list(dict.fromkeys(notes))

    async def begin_run(self, post: Post, settings: JSON) -> str:
        """Begin a case in the archive; gives its run's id."""
        if self._replay:
            self._replay.rewind()
        else:
            self.web.reader.workers.warm_up()
        try:
            return await self.archive.begin_run(post.id, post.text, settings)
        except ArchiveError as error:
            run = f"unarchived-{uuid.uuid4().hex[:12]}"
            self._notes[run] = [f"nothing is archived: {error}"]
            return run

    async def search(self, query: str, run: str, turn: int, k: int) -> SearchResult:
        """Return one query's hits, and who found them; no result anywhere is a normal outcome."""
        found = await self.source.search(query, k)
        hits = [hit.dump() for hit in found.hits]
        failures = [each.dump() for each in found.failures]
        await self._write_entry(
            run, self.archive.add_search(run, turn, query, found.engine, hits, failures)
        )
        return found

    async def fetch_page(
        self, url: str, run: str, turn: int, *, secret_text: str = ""
    ) -> StoredPage | str:
        """Return a page as it was fetched and read, or in words why there is none."""
        found: StoredPage | str
        if self._replay:
            found = await self._replay.fetch(url) or f"{url}: is not in the archive"
        else:
            try:
                found = await self.web.fetch_page(url, secret_text=secret_text)
            except (FetchError, PageUnreadable) as error:
                found = f"{url}: {error.reason}: {error}"
        if isinstance(found, str):
            await self._write_entry(run, self.archive.add_fetch(run, turn, url, None, found))
        else:
            await self._write_entry(run, self.archive.add_page(found))
            await self._write_entry(run, self.archive.add_fetch(run, turn, url, found.id))
        return found

    async def archived_reply(self, phase: str, key: str) -> JSON | None:
        """Return the archived answer in a replay; None otherwise."""
        return (
            await self._replay.next_reply(phase, key) if self._replay and not self.fresh else None
        )

    async def add_reply(
        self, run: str, phase: str, key: str, reply: JSON, calls: Sequence[JSON]
    ) -> None:
        """Add a model's reply to the archive; a failure is noted."""
        await self._write_entry(run, self.archive.add_reply(run, phase, key, reply, list(calls)))

    async def add_decision(self, run: str, kind: str, what: JSON) -> None:
        """Add a decision to the archive; a failure is noted."""
        await self._write_entry(run, self.archive.add_decision(run, kind, what))

    async def replay_order(self, turn: int, urls: Sequence[str]) -> list[str] | None:
        """Return in a replay the order in which these pages were read then; None in any other run."""
        if self._replay is None:
            return None
        order = await self._replay.urls_of_turn(turn)
        return sorted(urls, key=lambda url: order.index(url) if url in order else len(order))

    async def _write_entry(self, run: str, entry: Awaitable[object]) -> None:
        try:
            await entry
        except ArchiveError as error:
            self._notes.setdefault(run, []).append(f"the archive is incomplete: {error}")


async def open_library(context: Context, post: Post | None = None) -> Library:
    """Return the library of `search`, `searxng_url`, `archive` and `fresh`; in a replay, of this post's run.

    Raises:
        BadInput: a search engine is unknown, the archive can't be opened, or a replay has no such run.
    """
    replayed = (post.id, post.text) if post and context.search.startswith(REPLAY) else None
    return await _libraries.get(
        context.search, context.searxng_url, context.archive, context.fresh, replayed
    )


async def _make_library(
    search: str,
    searxng_url: str | None,
    archive: str | None,
    fresh: bool,
    replayed: tuple[str, str] | None,
) -> Library:
    web = await open_web_reader()
    source: SearchChain | Replay
    if search.startswith(REPLAY):
        source = await Replay.open(
            search.removeprefix(REPLAY), post_text=replayed[1] if replayed else ""
        )
    else:
        url = searxng_url or await asyncio.to_thread(setting, "SEARXNG_URL")
        source = search_chain(search, searxng_url=url)
    return Library(web, await _archives.get(archive), source, fresh=fresh)


async def open_web_reader() -> WebReader:
    """Return the fetcher, the page reader and the token counter of the running event loop."""
    return await _web_readers.get()


_web_readers = PerLoop(WebReader.open, WebReader.close)
_archives = PerLoop(Archive.open, Archive.close)
_libraries = PerLoop(_make_library)
