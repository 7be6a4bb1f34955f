"""Search engines by name, and chains of them.

| name | what it is |
|---|---|
| `duckduckgo` | DuckDuckGo, through `ddgs`; no key |
| `searxng` | a SearXNG server of your own or another's, by its JSON interface (`SEARXNG_URL`) |
| `langchain:NAME` | a search wrapper of `langchain-community` (the extra `community`), such as `BraveSearchWrapper` |
| `module:object` | an engine of your own (`engine.Engine`); or by the name of its entry point in `tribunal.search` |
| `none` | finds nothing |

In a chain an engine that is rate limited or fails hands over to the next one, and the answer says who found it and who
failed. That nothing was found is an answer like any other.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import Field

from tribunal.environment import setting
from tribunal.errors import BadInput
from tribunal.loops import PerLoop
from tribunal.plugins import known
from tribunal.retrievers.web.search.duckduckgo import DuckDuckGo
from tribunal.retrievers.web.search.engine import SECONDS, Engine, FailureKind, SearchFailed
from tribunal.retrievers.web.search.hits import Hit
from tribunal.retrievers.web.search.langchain import LangChain
from tribunal.retrievers.web.search.plugin import brought
from tribunal.retrievers.web.search.searxng import SearXNG
from tribunal.schema import Frozen
from tribunal.scrub import scrub

NAMES = ("duckduckgo", "searxng", "langchain:NAME", "none", "module:object")


class EngineFailure(Frozen):
    """Why an engine of a chain gave no answer."""

    engine: str
    kind: FailureKind
    message: str


class Found(Frozen):
    """What a chain gave for a query. `engine` is the one that answered, be it with nothing; None where all failed."""

    query: str
    hits: tuple[Hit, ...] = ()
    engine: str | None = None
    failures: tuple[EngineFailure, ...] = Field(default=(), description="of the engines asked before, in order")
    left_out: int = Field(default=0, description="how many more hits the engine sent than were wanted")


def search_chain(
    names: Sequence[str] | str,
    *,
    searxng_url: str | None = None,
    seconds: float = SECONDS,
    spacing: Mapping[str, float] | None = None,
) -> Chain:
    """The chain of these engines.

    Args:
        names: in the order in which they are asked; one string separates them by commas.
        searxng_url: the base URL of the SearXNG server; left out: `SEARXNG_URL`, for which a file is read.
        seconds: how long one engine may take for a query.
        spacing: least seconds between two requests to an engine, by its name; left out: 1 for DuckDuckGo, else 0.

    Raises:
        BadInput: a name is unknown, or its engine lacks something: an address, an extra, a key.
    """
    wanted = names.split(",") if isinstance(names, str) else list(names)
    wanted = list(dict.fromkeys(name.strip() for name in wanted if name.strip()))
    if not wanted:
        raise BadInput(f"search: no engine is named; give one or several of {_known()}")
    return Chain([_engine(name, searxng_url, seconds) for name in wanted], seconds=seconds, spacing=spacing)


def _engine(name: str, searxng_url: str | None, seconds: float) -> Engine:
    if name == "duckduckgo":
        return DuckDuckGo(seconds)
    if name == "searxng":
        return SearXNG(searxng_url or setting("SEARXNG_URL") or "")
    if name == "none":
        return Nothing()
    kind, _, wrapper = name.partition(":")
    if kind == "langchain" and wrapper:
        return LangChain(wrapper)
    if engine := brought(name):
        return engine
    raise BadInput(f"search: {name!r}: not a search engine; give one or several of {_known()}, separated by commas")


def _known() -> str:
    return known(NAMES, "tribunal.search")


class Nothing:
    """Finds nothing, and asks nobody."""

    name = "none"

    async def search(self, query: str, k: int) -> list[Hit]:
        return []


class Chain:
    """Engines that are asked in turn until one answers.

    Any number of searches may be under way at once; requests to one engine keep their distance from each other,
    whichever chain of the event loop they come from.
    """

    def __init__(
        self, engines: Sequence[Engine], *, seconds: float = SECONDS, spacing: Mapping[str, float] | None = None
    ) -> None:
        self.engines = tuple(engines)
        self._seconds = seconds
        self._spacing = dict(spacing or {})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(engine.name for engine in self.engines)

    async def search(self, query: str, k: int = 10) -> Found:
        """At most k hits from the first engine that answers. Raises nothing for an engine that fails."""
        failures: list[EngineFailure] = []
        for engine in self.engines:
            try:
                hits = await self._ask(engine, query, k)
            except SearchFailed as error:
                said = scrub(str(error), ())[:400]
                failures.append(EngineFailure(engine=engine.name, kind=error.kind, message=said))
            else:
                return Found(
                    query=query, hits=tuple(hits[:k]), engine=engine.name, failures=tuple(failures),
                    left_out=max(0, len(hits) - k),
                )  # fmt: skip
        return Found(query=query, failures=tuple(failures))

    async def _ask(self, engine: Engine, query: str, k: int) -> list[Hit]:
        pace = await _paces.here(engine.name)
        spacing = self._spacing.get(engine.name, 1.0 if "duckduckgo" in engine.name.lower() else 0.0)
        await pace.turn(spacing)
        try:
            async with asyncio.timeout(self._seconds):
                return await engine.search(query, k)
        except TimeoutError as error:
            raise SearchFailed("timeout", f"no answer in {self._seconds:g} s") from error
        except SearchFailed as error:
            if error.kind == "rate_limit":
                # To go on asking makes a block longer.
                pace.rest(10 * spacing if error.retry_after is None else error.retry_after)
            raise


class _Pace:
    """When an engine may be asked next."""

    LONGEST_REST = 120.0

    def __init__(self) -> None:
        self._next = self._rests_until = 0.0

    @classmethod
    async def of(cls, engine: str) -> Self:
        return cls()

    async def turn(self, spacing: float) -> None:
        """Wait until it may be asked. Raises SearchFailed where it was told to leave off for a while."""
        self._check()
        now = time.monotonic()
        at = max(now, self._next)
        # Requests at even intervals look like what they are.
        self._next = at + spacing * random.uniform(1.0, 1.5)
        if at > now:
            await asyncio.sleep(at - now)
            self._check()

    def rest(self, seconds: float) -> None:
        self._rests_until = time.monotonic() + min(seconds, self.LONGEST_REST)

    def _check(self) -> None:
        left = self._rests_until - time.monotonic()
        if left > 0:
            raise SearchFailed("rate_limit", f"not asked: it limited an earlier query, and rests for {left:.0f} s more")


_paces = PerLoop(_Pace.of)
