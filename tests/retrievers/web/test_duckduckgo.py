"""DuckDuckGo through its library, with the library's own HTTP client, and through LangChain's wrapper of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.doubles.web import Site, SitePage
from tribunal.retrievers.web.search.chain import SearchResult, search_chain

DUCK = """<html><body><div class="links_main links_deep result__body">
<h2 class="result__title"><a href="https://example.org/{n}">Title <b>{n}</b></a></h2>
<a class="result__snippet" href="https://example.org/{n}">Snippet {n}</a></div></body></html>"""
NO_DUCK = '<html><body><div class="no-results">No results.</div></body></html>'


@pytest.fixture
def duckduckgo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[SitePage], Site]]:
    """The library itself, with its own HTTP client, sent to a local server in DuckDuckGo's place."""
    from ddgs.engines.duckduckgo import Duckduckgo

    with Site({}) as site:
        monkeypatch.setattr(Duckduckgo, "search_url", f"{site.url}/html/")

        def serve(page: SitePage) -> Site:
            site.pages = {"/html/": page}
            return site

        yield serve


def kinds(found: SearchResult) -> list[tuple[str, str]]:
    return [(each.engine, each.kind) for each in found.failures]


async def test_duckduckgo_finds(duckduckgo: Callable[[SitePage], Site]) -> None:
    site = duckduckgo(SitePage(DUCK.format(n=1)))
    found = await search_chain("duckduckgo").search("q", 5)
    assert [(hit.url, hit.title, hit.snippet) for hit in found.hits] == [
        ("https://example.org/1", "Title 1", "Snippet 1")
    ]
    assert (found.engine, site.log[0].method) == ("duckduckgo", "POST")


async def test_a_duckduckgo_that_finds_nothing_may_be_one_that_blocks(
    duckduckgo: Callable[[SitePage], Site],
) -> None:
    duckduckgo(SitePage(NO_DUCK))
    found = await search_chain("duckduckgo").search("q")
    assert (found.hits, found.engine, kinds(found)) == ((), None, [("duckduckgo", "bad_answer")])
    assert found.failures[0].message == "nothing found, or it blocks us: ddgs doesn't say which"


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (SitePage("", status=202), "bad_answer"),
        (SitePage("", status=429), "bad_answer"),
        (SitePage('<div class="anomaly-modal__title">', status=200), "bad_answer"),
        (SitePage("", status=500), "bad_answer"),
        (SitePage(DUCK, delay=30), "timeout"),
    ],
)
async def test_a_duckduckgo_that_blocks_is_not_one_that_finds_nothing(
    duckduckgo: Callable[[SitePage], Site], page: SitePage, kind: str
) -> None:
    duckduckgo(page)
    found = await search_chain("duckduckgo,none", seconds=1).search("q")
    assert (found.engine, kinds(found)) == ("none", [("duckduckgo", kind)])


async def test_a_duckduckgo_that_is_gone_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from ddgs.engines.duckduckgo import Duckduckgo

    monkeypatch.setattr(Duckduckgo, "search_url", "http://127.0.0.1:9/html/")
    found = await search_chain("duckduckgo,none").search("q")
    assert kinds(found) == [("duckduckgo", "connection")]
