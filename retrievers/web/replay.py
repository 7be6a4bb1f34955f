"""A run of an archive, gone through again with no network."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from tribunal.rehearsed import rehearsed
from tribunal.retrievers.web.archive import Archive, damaged
from tribunal.retrievers.web.search.chain import EngineFailure, Found
from tribunal.retrievers.web.search.hits import Hit
from tribunal.retrievers.web.trail import ArchiveEntry, StoredPage, Trail
from tribunal.schema import JSON
from tribunal.scrub import scrub


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
        self.run = trail.run
        self.unknown_queries: list[str] = []
        self._pages = trail.pages
        self._searches = {each.key: _found(each) for each in trail.of("search")}
        self._fetches = {each.key: each.body for each in trail.of("fetch")}
        self._read = [each.body for each in trail.of("decision", "page")]
        self.rehearsed = rehearsed(call for each in trail.of("reply") for call in each.body.get("calls", []))
        self._replies: dict[tuple[str, str], list[JSON]] = {}
        for each in trail.of("reply"):
            self._replies.setdefault((each.topic, each.key), []).append(each.body["reply"])
        self._given: Counter[tuple[str, str]] = Counter()

    @classmethod
    async def open(
        cls, path: str | Path | None = None, *, post_id: str | None = None, post_text: str = "", run: str | None = None
    ) -> Self:
        """The latest run of a post in an archive: of those in which a model was asked, if there are any.

        Args:
            path: the archive's file; left out: `default_path`.
            post_id: the post, by its id, which counts if no run has its text.
            post_text: the post, by its words.
            run: the run itself, by its id. With neither, the latest of all is taken.

        Raises:
            BadInput: there is no such file, or no such run in it.
        """
        archive = await Archive.open(path, existing=True)
        try:
            chosen = run or (await archive.run_to_replay(post_id, post_text)).id
            return cls(await archive.trail(chosen))
        except (KeyError, TypeError, ValidationError) as error:
            raise damaged(archive.path, error) from error
        finally:
            await archive.close()

    def rewind(self) -> None:
        """Begin again: replies come in order from the first, and no query is unknown."""
        self._given.clear()
        self.unknown_queries.clear()

    async def search(self, query: str, k: int) -> Found:
        """The archived hits for exactly this query, and who answered then. For one that isn't there: nothing."""
        held = self._searches.get(scrub(query, ()))
        if held is None:
            if query not in self.unknown_queries:
                self.unknown_queries.append(query)
            return Found(query=query, engine=self.name)
        return held.model_copy(update={"query": query, "hits": held.hits[:k], "left_out": max(0, len(held.hits) - k)})

    async def fetch(self, url: str) -> StoredPage | str | None:
        """The page that this URL gave then, or in words why it gave none; None if it was never asked for."""
        held = self._fetches.get(scrub(url, ()))
        if held is None:
            return None
        if held["page"] is None:
            return str(held["failure"] or f"{url}: gave no page")
        page = self._pages.get(held["page"])
        return page.model_copy(update={"url": url}) if page else None

    async def fetched(self, turn: int) -> list[str]:
        """The URLs of a turn, in the order in which they were read (the `page` decisions), then those only fetched."""
        read = [str(each["url"]) for each in self._read if each.get("turn") == turn and "url" in each]
        asked = [url for url, each in self._fetches.items() if each["turn"] == turn]
        return list(dict.fromkeys([*read, *asked]))

    async def reply(self, phase: str, key: str) -> JSON | None:
        """The next archived reply to this call, in the order in which they were given; None when there is none left."""
        call = phase, scrub(key, ())
        number = self._given[call]
        held = self._replies.get(call, [])
        if number >= len(held):
            return None
        self._given[call] += 1
        return held[number]


def _found(entry: ArchiveEntry) -> Found:
    body = entry.body
    return Found(
        query=entry.key,
        hits=tuple(Hit.model_validate(hit) for hit in body["hits"]),
        engine=body["engine"],
        failures=tuple(EngineFailure.model_validate(each) for each in body["failures"]),
    )
