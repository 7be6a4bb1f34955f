"""Search engines by name, and chains of them.

| name | what it is |
|---|---|
| `duckduckgo` | DuckDuckGo, through `ddgs`; no key |
| `searxng` | a SearXNG server of your own or another's, by its JSON interface (`SEARXNG_URL`) |
| `langchain:NAME` | a search wrapper of `langchain-community` (the extra `community`), such as `BraveSearchWrapper` |
| `module:object` | an engine of your own (`SearchEngine`); or by the name of its entry point in `tribunal.search` |
| `none` | finds nothing |

In a chain an engine that is rate limited or fails hands over to the next one, and the answer says who found it and who
failed. That nothing was found is an answer like any other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Self

from tribunal.core.text import scrub
from tribunal.errors import BadInput
from tribunal.plugins import list_known_names, plugin
from tribunal.process.loops import PerLoop
from tribunal.retrievers.web.search.engine import (
    MAX_ROWS,
    SECONDS,
    FailureKind,
    Hit,
    SearchEngine,
    SearchFailed,
    hits_from_rows,
    search_failure_from,
)
from tribunal.retrievers.web.search.engines import DuckDuckGo, LangChainEngine, SearXNG
from tribunal.schema import Frozen
from tribunal.settings.environment import setting

NAMES = ("duckduckgo", "searxng", "langchain:NAME", "none", "module:object")


class EngineFailure(Frozen):
    """Say why an engine of a chain gave no answer."""

    engine: str
    kind: FailureKind
    message: str


class SearchResult(Frozen):
    """The result of a chain. `engine` answered, maybe without hits; None if all failed."""

    query: str
    hits: tuple[Hit, ...] = ()
    engine: str | None = None
    failures: tuple[EngineFailure, ...] = ()
    """of the engines asked before, in order"""
    left_out: int = 0
    """how many more hits the engine sent than were wanted"""


def search_chain(
    names: Sequence[str] | str,
    *,
    searxng_url: str | None = None,
    seconds: float = SECONDS,
) -> SearchChain:
    """Return the chain of these engines, in the order in which they are asked; one string separates them by commas.

    `searxng_url` is the base URL of the SearXNG server; left out: `SEARXNG_URL`, for which a file is read. An engine
    may take so many seconds for a query.

    Raises:
        BadInput: a name is unknown, or its engine lacks something: an address, an extra, a key.
    """
    engine_names = names.split(",") if isinstance(names, str) else list(names)
    engine_names = list(dict.fromkeys(name.strip() for name in engine_names if name.strip()))
    if not engine_names:
        raise BadInput(f"search: no engine is named; give one or several of {_known_names()}")
    return SearchChain(
        [_engine_by_name(name, searxng_url, seconds) for name in engine_names], seconds=seconds
    )


def _engine_by_name(name: str, searxng_url: str | None, seconds: float) -> SearchEngine:
    if name == "duckduckgo":
        return DuckDuckGo(seconds)
    if name == "searxng":
        return SearXNG(searxng_url or setting("SEARXNG_URL") or "")
    if name == "none":
        return EmptyEngine()
    kind, _, wrapper = name.partition(":")
    if kind == "langchain" and wrapper:
        return LangChainEngine(wrapper)
    found = plugin("tribunal.search", name, SearchEngine, "search")  # type: ignore[type-abstract]
    if isinstance(found, type):
        raise BadInput(f"search: {name}: is a class, and not an engine; name an instance of it")
    if found is None:
        raise BadInput(
            f"search: {name!r}: not a search engine; give one or several of {_known_names()}, separated by commas"
        )
    return found


def _known_names() -> str:
    return list_known_names(NAMES, "tribunal.search")


class EmptyEngine:
    """Finds nothing, and asks nobody."""

    name = "none"

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return no hits."""
        return []


class SearchChain:
    """Engines that are asked in turn until one answers.

    Any number of searches may be under way at once; requests to one engine keep their distance from each other,
    whichever chain of the event loop they come from.
    """

    def __init__(self, engines: Sequence[SearchEngine], *, seconds: float = SECONDS) -> None:
        """Make a chain of engines, in the order in which they are asked."""
        self.engines = tuple(engines)
        self._seconds = seconds

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the engines, in order."""
        return tuple(engine.name for engine in self.engines)

    async def search(self, query: str, k: int = 10) -> SearchResult:
        """Return at most k hits from the first engine that answers; an engine that fails raises nothing."""
        failures: list[EngineFailure] = []
        for engine in self.engines:
            try:
                hits = await self._ask_engine(engine, query, k)
            except SearchFailed as error:
                message = scrub(str(error), ())[:400]
                failures.append(EngineFailure(engine=engine.name, kind=error.kind, message=message))
            else:
                left_out = max(0, len(hits) - k)
                return SearchResult(
                    query=query,
                    hits=tuple(hits[:k]),
                    engine=engine.name,
                    failures=tuple(failures),
                    left_out=left_out,
                )
        return SearchResult(query=query, failures=tuple(failures))

    async def _ask_engine(self, engine: SearchEngine, query: str, k: int) -> list[Hit]:
        """Return what an engine finds, checked, since it may be a stranger's; whatever it raises is a failure."""
        pace = await _paces.get(engine.name)
        await pace.wait_for_turn()
        try:
            async with asyncio.timeout(self._seconds):
                found = await engine.search(query, k)
            rows = [(hit.url, hit.title, hit.snippet) for hit in found]
        except TimeoutError as error:
            raise SearchFailed("timeout", f"no answer in {self._seconds:g} s") from error
        except Exception as error:
            failure = search_failure_from(error)
            if failure.kind == "rate_limit":
                # To go on asking makes a block longer.
                pace.rest_for(
                    10 * pace.spacing if failure.retry_after is None else failure.retry_after
                )
            raise failure from error
        return hits_from_rows(query, engine.name, rows, MAX_ROWS)


class _EnginePace:
    """Keep count of when an engine may be asked next."""

    LONGEST_REST = 120.0

    def __init__(self, engine: str) -> None:
        # least seconds between two requests
        self.spacing = 1.0 if "duckduckgo" in engine.lower() else 0.0
        self._next = self._rests_until = 0.0

    @classmethod
    async def create(cls, engine: str) -> Self:
        return cls(engine)

    async def wait_for_turn(self) -> None:
        """Wait until it may be asked. Raises SearchFailed where it was told to leave off for a while."""
        self._check_rest()
        now = time.monotonic()
        at = max(now, self._next)
        # Requests at even intervals look like what they are.
        self._next = at + self.spacing * random.uniform(1.0, 1.5)
        if at > now:
            await asyncio.sleep(at - now)
            self._check_rest()

    def rest_for(self, seconds: float) -> None:
        self._rests_until = time.monotonic() + min(seconds, self.LONGEST_REST)

    def _check_rest(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise SearchFailed(
                "rate_limit",
                f"not asked: it limited an earlier query, and rests for {left:.0f} s more",
            )


_paces = PerLoop(_EnginePace.create)
