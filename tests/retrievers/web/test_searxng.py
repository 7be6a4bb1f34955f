"""A SearXNG server over a real socket: what it finds, and how it fails."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from tests.doubles.web import SearchServer, SitePage
from tribunal.errors import BadInput
from tribunal.retrievers.web.search.chain import (
    EmptyEngine,
    SearchChain,
    SearchResult,
    search_chain,
)
from tribunal.retrievers.web.search.engine import Hit
from tribunal.retrievers.web.search.engines import SearXNG


def row(path: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "url": f"https://example.org/{path}",
        "title": f"Title {path}",
        "content": f"Snippet {path}",
        **more,
    }


def kinds(found: SearchResult) -> list[tuple[str, str]]:
    return [(each.engine, each.kind) for each in found.failures]


class Plain(EmptyEngine):
    """A second engine for a chain, which always finds one page."""

    name = "plain"

    async def search(self, query: str, k: int) -> list[Hit]:
        return [
            Hit(
                query=query,
                url="https://example.org/plain",
                title="",
                snippet="",
                engine=self.name,
                rank=1,
            )
        ]


async def test_searxng_finds_what_the_server_knows() -> None:
    async with SearchServer({"혐오 “표현” & more": [row("a"), row("b")]}) as server:
        found = await search_chain("searxng", searxng_url=server.url).search(
            "혐오 “표현” & more", 5
        )
    assert found.engine == "searxng"
    assert found.failures == ()
    assert found.hits[0].dump() == {
        "query": "혐오 “표현” & more",
        "url": "https://example.org/a",
        "title": "Title a",
        "snippet": "Snippet a",
        "engine": "searxng",
        "rank": 1,
    }
    assert [hit.rank for hit in found.hits] == [1, 2]
    assert server.queries == ["혐오 “표현” & more"]
    assert "python" not in server.log[0].headers["User-Agent"]


async def test_no_result_is_an_answer_and_nobody_else_is_asked() -> None:
    async with SearchServer({}) as server:
        found = await SearchChain([SearXNG(server.url), Plain()]).search("nothing", 5)
    assert found == SearchResult(query="nothing", engine="searxng")


async def test_the_address_comes_from_the_setting_and_may_have_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadInput, match="SEARXNG_URL"):
        search_chain("searxng")
    async with SearchServer({"q": [row()]}) as server:
        for address in (server.url, f"{server.url}/", f"{server.url}/search"):
            monkeypatch.setenv("SEARXNG_URL", address)
            assert len((await search_chain("searxng").search("q")).hits) == 1
        monkeypatch.setenv("SEARXNG_URL", f"{server.url}/searx/")
        assert kinds(await search_chain("searxng").search("q")) == [("searxng", "bad_answer")]
    assert server.log[-1].path.startswith("/searx/search?")


@pytest.mark.parametrize(
    "url",
    ["localhost:8888", "ftp://host/", "http://", "http://[x", "http://h:99999/", "http://h/?q="],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="SEARXNG_URL"):
        search_chain("searxng", searxng_url=url)


def test_a_password_in_the_address_is_not_repeated() -> None:
    with pytest.raises(BadInput) as caught:
        search_chain("searxng", searxng_url="ftp://user:hunter22@host/")
    assert "hunter22" not in str(caught.value)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with SearchServer({"q": [row()]}) as server:
        assert (
            await search_chain("searxng", searxng_url=server.url).search("q")
        ).engine == "searxng"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (SitePage("", status=429, headers={"Retry-After": "7"}), "rate_limit", "too many requests"),
        (SitePage("", status=403), "refused", "settings.yml"),
        (SitePage("", status=401), "refused", "HTTP 401"),
        (SitePage("", status=500), "server", "HTTP 500"),
        (
            SitePage("", status=302, headers={"Location": "http://127.0.0.1:9/"}),
            "bad_answer",
            "redirects to",
        ),
        (SitePage("<html>", status=200), "bad_answer", "not JSON"),
        (SitePage(b"\xff\xfe{", status=200), "bad_answer", "not JSON"),
        (SitePage("[" * 200_000), "bad_answer", "not JSON"),
        (SitePage("[]"), "bad_answer", "no list"),
        (SitePage('{"results": {}}'), "bad_answer", "no list"),
        (SitePage(b"[" + b"0," * 3_000_000 + b"0]"), "bad_answer", "over 4194304 bytes"),
        (
            SitePage(gzip.compress(b" " * 10**7), headers={"Content-Encoding": "gzip"}),
            "bad_answer",
            "packed",
        ),
        (
            {"results": [], "unresponsive_engines": [["google", "Suspended: CAPTCHA"]]},
            "rate_limit",
            "google",
        ),
        ({"results": [], "unresponsive_engines": [["bing", "HTTP error 500"]]}, "server", "bing"),
    ],
)
async def test_a_failing_server_hands_over_to_the_next_engine(
    answer: Any, kind: str, words: str
) -> None:
    async with SearchServer({"q": answer}) as server:
        found = await SearchChain([SearXNG(server.url), Plain()]).search("q", 5)
    assert found.engine == "plain"
    assert kinds(found) == [("searxng", kind)]
    assert words in found.failures[0].message


async def test_a_server_that_is_gone_or_says_nothing_in_time_hands_over() -> None:
    async with SearchServer({}) as gone:
        pass
    found = await SearchChain([SearXNG(gone.url), Plain()]).search("q", 5)
    assert (found.engine, kinds(found)) == ("plain", [("searxng", "connection")])
    async with SearchServer({}, delay=30) as slow:
        found = await SearchChain([SearXNG(slow.url), Plain()], seconds=0.2).search("q", 5)
    assert (found.engine, kinds(found)) == ("plain", [("searxng", "timeout")])


async def test_where_all_fail_there_is_no_engine_and_no_hit() -> None:
    async with SearchServer({"q": SitePage("", status=500)}) as server:
        found = await search_chain(["searxng"], searxng_url=server.url).search("q")
    assert (found.engine, found.hits, kinds(found)) == (None, (), [("searxng", "server")])


async def test_what_an_engine_sends_is_checked_and_cut() -> None:
    rows = [
        row("a", title="x" * 5000, content="y  \n" * 5000),
        row("b", title=None, content=["no", "text"]),
        row("c", title="lone \ud800 half", content=7),
        {"url": "javascript:alert(1)"},
        {"url": "file:///etc/passwd"},
        {"url": "http://exa mple.org/"},
        {"url": "http://[broken"},
        {"url": "https:///nowhere"},
        {"url": "https://example.org/" + "z" * 5000},
        {"url": 7},
        {"title": "no address"},
        row("d"),
    ]
    rows_of_all_sorts = [*rows, "no row", None, 3]
    async with SearchServer(lambda query: {"results": rows_of_all_sorts}) as server:
        hits = (await search_chain("searxng", searxng_url=server.url).search("q", 20)).hits
    assert [hit.url[-1] for hit in hits] == ["a", "b", "c", "d"]
    assert len(hits[0].title) == 300
    assert hits[0].snippet == ("y " * 1000).strip()
    assert (hits[1].title, hits[1].snippet, hits[2].snippet) == ("", "", "")
    assert hits[2].title == "lone � half"


async def test_one_page_in_several_spellings_is_one_hit_and_k_counts_pages() -> None:
    spellings = [
        "https://example.org/a",
        "HTTPS://EXAMPLE.org:443/a/",
        "https://example.org/a?utm_source=s#top",
    ]
    rows = [{"url": url, "title": url} for url in spellings] + [row("b"), row("c")]
    async with SearchServer({"q": rows}) as server:
        hits = (await search_chain("searxng", searxng_url=server.url).search("q", 2)).hits
    assert [(hit.url, hit.rank) for hit in hits] == [
        ("https://example.org/a", 1),
        ("https://example.org/b", 2),
    ]
