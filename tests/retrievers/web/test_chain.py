"""Chains of search engines: who is asked, how often, and what is said of a name that is none."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tribunal.errors import BadInput
from tribunal.retrievers.web.search.chain import (
    EmptyEngine,
    SearchChain,
    SearchResult,
    search_chain,
)
from tribunal.retrievers.web.search.engine import Hit, SearchFailed


class Scripted(EmptyEngine):
    """An engine that answers what a function says, or raises it, and keeps when it was asked what."""

    def __init__(
        self, clock: list[float], answer: Callable[[str], Any], name: str = "scripted"
    ) -> None:
        self.name = name
        self.answer, self.clock = answer, clock
        self.asked: list[tuple[str, float]] = []

    async def search(self, query: str, k: int) -> list[Hit]:
        self.asked.append((query, self.clock[0]))
        said = self.answer(query)
        if isinstance(said, Exception):
            raise said
        return list(said)


def a_hit(query: str = "q", engine: str = "scripted") -> Hit:
    return Hit(
        query=query, url="https://example.org/", title="t", snippet="s", engine=engine, rank=1
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which passes only while somebody waits for it."""
    now = [1000.0]

    async def sleep(seconds: float) -> None:
        at = now[0] + seconds
        await real_sleep(0)
        now[0] = max(now[0], at)

    real_sleep = asyncio.sleep
    monkeypatch.setattr(
        "tribunal.retrievers.web.search.chain.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    monkeypatch.setattr("asyncio.sleep", sleep)
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    return now


async def test_requests_to_an_engine_keep_their_distance_across_chains(clock: list[float]) -> None:
    engine = Scripted(clock, lambda query: [], "langchain:DuckDuckGoSearchAPIWrapper")
    three = [SearchChain([engine]) for _ in range(3)]
    await three[0].search("first")
    await asyncio.gather(*(chain.search(str(number)) for number, chain in enumerate(three)))
    assert [at for _, at in engine.asked] == [1000.0, 1001.0, 1002.0, 1003.0]


async def test_an_engine_that_said_wait_is_left_alone_for_so_long(clock: list[float]) -> None:
    answers = {"one": SearchFailed("rate_limit", "too many", retry_after=7)}
    engine = Scripted(clock, lambda query: answers.get(query, [a_hit()]))
    chain = SearchChain([engine, EmptyEngine()])
    assert (await chain.search("one")).engine == "none"
    clock[0] += 6.9
    resting = await chain.search("two")
    assert (resting.engine, [each.kind for each in resting.failures]) == ("none", ["rate_limit"])
    assert [query for query, _ in engine.asked] == ["one"]
    clock[0] += 0.2
    assert (await chain.search("three")).engine == "scripted"


@pytest.mark.parametrize(
    "names", ["altavista", "langchain", "langchain:", "none,duckduck", "", " , ", []]
)
def test_unknown_names_are_told_the_known_ones(names: str | list[str]) -> None:
    with pytest.raises(BadInput, match="duckduckgo, searxng, langchain:NAME, none"):
        search_chain(names)


async def test_none_finds_nothing_and_names_are_taken_once() -> None:
    chain = search_chain(" none , none,duckduckgo")
    assert chain.names == ("none", "duckduckgo")
    assert await chain.search("q") == SearchResult(query="q", engine="none")


# ------------------------------------------------------------------------------------------------- engines of one's own

OURS = """
class Engine:
    name = "ours"

    async def search(self, query, k):
        from tribunal.retrievers.web.search.engine import Hit

        if query == "broken":
            raise KeyError("no such thing, says sk-abcdef0123456789")
        urls = ["https://example.org/a", "HTTPS://example.org/a/", "javascript:alert(1)", "https://example.org/b"]
        return [Hit(query="other", url=u, title="t" * 999, snippet="", engine="else", rank=7) for u in urls]

ENGINE = Engine()
TEXT = "words"
"""


@pytest.fixture
def our_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "our_search.py").write_text(OURS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_search", raising=False)
    return "our_search"


async def test_an_engine_of_ones_own_is_asked_and_what_it_finds_is_checked(our_module: str) -> None:
    found = await search_chain(f"{our_module}:ENGINE").search("q")
    assert (found.engine, [(hit.url, hit.rank) for hit in found.hits]) == (
        "ours",
        [("https://example.org/a", 1), ("https://example.org/b", 2)],
    )
    assert {(hit.query, hit.engine, len(hit.title)) for hit in found.hits} == {("q", "ours", 300)}


async def test_an_engine_of_ones_own_that_breaks_hands_over(our_module: str) -> None:
    found = await search_chain(f"{our_module}:ENGINE,none").search("broken")
    assert (found.engine, found.failures[0].engine, found.failures[0].kind) == (
        "none",
        "ours",
        "server",
    )
    assert "sk-abcdef" not in found.failures[0].message
