"""Search engines over real sockets to local servers: what they find, how they fail, and what a chain makes of it."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests import PROJECT
from tribunal.errors import BadInput
from tribunal.eval.doubles.web import SearchServer, Site, SitePage
from tribunal.retrievers.web import search
from tribunal.retrievers.web.search import Chain, Found, Hit, Nothing, SearXNG, normal_url, search_chain


def row(path: str = "a", **more: Any) -> dict[str, Any]:
    return {"url": f"https://example.org/{path}", "title": f"Title {path}", "content": f"Snippet {path}", **more}


def kinds(found: Found) -> list[tuple[str, str]]:
    return [(each.engine, each.kind) for each in found.failures]


class Plain(Nothing):
    """A second engine for a chain, which always finds one page."""

    name = "plain"

    async def search(self, query: str, k: int) -> list[Hit]:
        return [Hit(query=query, url="https://example.org/plain", title="", snippet="", engine=self.name, rank=1)]


# ------------------------------------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTPS://Example.ORG:443/Path/", "https://example.org/Path"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:8080/?", "http://example.org:8080/"),
        ("http://example.org:/a", "http://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?utm_source=x&b=2&UTM_medium=y&fbclid=z&a=1", "https://example.org/a?b=2&a=1"),
        ("https://example.org/?utm_source=x", "https://example.org/"),
        ("https://example.org/?q=utm_source", "https://example.org/?q=utm_source"),
        ("https://[2001:DB8::1]:443/", "https://[2001:db8::1]/"),
        ("  https://example.org/%ED%98%90  ", "https://example.org/%ED%98%90"),
        ("http://[broken", "http://[broken"),
        ("http://example.org:port/", "http://example.org:port/"),
        ("ftp://Example.org/", "ftp://Example.org/"),
        ("not a url", "not a url"),
        ("", ""),
    ],
)
def test_spellings_of_one_page_become_one(url: str, plain: str) -> None:
    assert normal_url(url) == plain
    assert normal_url(plain) == plain


# -------------------------------------------------------------------------------------------------------------- searxng


async def test_searxng_finds_what_the_server_knows() -> None:
    async with SearchServer({"혐오 “표현” & more": [row("a"), row("b")]}) as server:
        found = await search_chain("searxng", searxng_url=server.url).search("혐오 “표현” & more", 5)
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
        found = await Chain([SearXNG(server.url), Plain()]).search("nothing", 5)
    assert found == Found(query="nothing", engine="searxng")


async def test_the_address_comes_from_the_setting_and_may_have_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
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
    "url", ["localhost:8888", "ftp://host/", "http://", "http://[x", "http://h:99999/", "http://h/?q="]
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
        assert (await search_chain("searxng", searxng_url=server.url).search("q")).engine == "searxng"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (SitePage("", status=429, headers={"Retry-After": "7"}), "rate_limit", "too many requests"),
        (SitePage("", status=403), "refused", "settings.yml"),
        (SitePage("", status=401), "refused", "HTTP 401"),
        (SitePage("", status=500), "server", "HTTP 500"),
        (SitePage("", status=302, headers={"Location": "http://127.0.0.1:9/"}), "bad_answer", "redirects to"),
        (SitePage("<html>", status=200), "bad_answer", "not JSON"),
        (SitePage(b"\xff\xfe{", status=200), "bad_answer", "not JSON"),
        (SitePage("[" * 200_000), "bad_answer", "not JSON"),
        (SitePage("[]"), "bad_answer", "no list"),
        (SitePage('{"results": {}}'), "bad_answer", "no list"),
        (SitePage(b"[" + b"0," * 3_000_000 + b"0]"), "bad_answer", "over 4194304 bytes"),
        (SitePage(gzip.compress(b" " * 10**7), headers={"Content-Encoding": "gzip"}), "bad_answer", "packed"),
        ({"results": [], "unresponsive_engines": [["google", "Suspended: CAPTCHA"]]}, "rate_limit", "google"),
        ({"results": [], "unresponsive_engines": [["bing", "HTTP error 500"]]}, "server", "bing"),
    ],
)
async def test_a_failing_server_hands_over_to_the_next_engine(answer: Any, kind: str, words: str) -> None:
    async with SearchServer({"q": answer}) as server:
        found = await Chain([SearXNG(server.url), Plain()]).search("q", 5)
    assert found.engine == "plain"
    assert kinds(found) == [("searxng", kind)]
    assert words in found.failures[0].message


async def test_a_server_that_is_gone_or_says_nothing_in_time_hands_over() -> None:
    async with SearchServer({}) as gone:
        pass
    found = await Chain([SearXNG(gone.url), Plain()]).search("q", 5)
    assert (found.engine, kinds(found)) == ("plain", [("searxng", "connection")])
    async with SearchServer({}, delay=30) as slow:
        began = time.monotonic()
        found = await Chain([SearXNG(slow.url), Plain()], seconds=0.2).search("q", 5)
        assert time.monotonic() - began < 5
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
    assert len(hits[0].snippet) == 2000
    assert "  " not in hits[0].snippet
    assert (hits[1].title, hits[1].snippet, hits[2].snippet) == ("", "", "")
    assert hits[2].title == "lone � half"


async def test_one_page_in_several_spellings_is_one_hit_and_k_counts_pages() -> None:
    spellings = ["https://example.org/a", "HTTPS://EXAMPLE.org:443/a/", "https://example.org/a?utm_source=s#top"]
    rows = [{"url": url, "title": url} for url in spellings] + [row("b"), row("c")]
    async with SearchServer({"q": rows}) as server:
        hits = (await search_chain("searxng", searxng_url=server.url).search("q", 2)).hits
    assert [(hit.url, hit.rank) for hit in hits] == [("https://example.org/a", 1), ("https://example.org/b", 2)]


# ---------------------------------------------------------------------------------------------------------------- pace


async def test_searches_run_together() -> None:
    async with SearchServer(lambda query: [row(query)], delay=0.3) as server:
        chain = search_chain("searxng", searxng_url=server.url)
        await chain.search("warm")
        began = time.monotonic()
        found = await asyncio.gather(*(chain.search(f"q{number}") for number in range(8)))
        assert time.monotonic() - began < 1.2
    assert [each.hits[0].url[-2:] for each in found] == [f"q{number}" for number in range(8)]


async def test_requests_to_an_engine_keep_their_distance_across_chains() -> None:
    async with SearchServer({}) as server:
        chains = [search_chain("searxng", searxng_url=server.url, spacing={"searxng": 0.5}) for _ in range(3)]
        await chains[0].search("so that the connection is there")
        await asyncio.gather(*(chain.search(str(number)) for number, chain in enumerate(chains)))
    arrived = sorted(seen.arrived for seen in server.log)
    gaps = [later - earlier for earlier, later in pairwise(arrived)]
    assert len(gaps) == 3
    # What a busy machine takes from a gap it adds to another.
    assert all(gap > 0.2 for gap in gaps)
    assert arrived[-1] - arrived[0] > 1.2


async def test_an_engine_that_said_wait_is_left_alone_for_so_long() -> None:
    answers: list[Any] = [SitePage("", status=429, headers={"Retry-After": "1"}), [row()]]
    async with SearchServer(lambda query: answers[min(len(server.log) - 1, 1)]) as server:
        chain = Chain([SearXNG(server.url), Plain()])
        assert (await chain.search("one")).engine == "plain"
        resting = await chain.search("two")
        assert (resting.engine, kinds(resting)) == ("plain", [("searxng", "rate_limit")])
        assert server.queries == ["one"]
        await asyncio.sleep(1.05)
        assert (await chain.search("three")).engine == "searxng"


# ---------------------------------------------------------------------------------------------------------- duckduckgo

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


async def test_duckduckgo_finds(duckduckgo: Callable[[SitePage], Site]) -> None:
    site = duckduckgo(SitePage(DUCK.format(n=1)))
    found = await search_chain("duckduckgo").search("q", 5)
    assert [(hit.url, hit.title, hit.snippet) for hit in found.hits] == [
        ("https://example.org/1", "Title 1", "Snippet 1")
    ]
    assert (found.engine, site.log[0].method) == ("duckduckgo", "POST")


async def test_duckduckgo_may_find_nothing(duckduckgo: Callable[[SitePage], Site]) -> None:
    duckduckgo(SitePage(NO_DUCK))
    assert await search_chain("duckduckgo").search("q") == Found(query="q", engine="duckduckgo")


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (SitePage("", status=202), "rate_limit"),
        (SitePage("", status=429), "rate_limit"),
        (SitePage('<div class="anomaly-modal__title">', status=200), "rate_limit"),
        (SitePage("", status=500), "server"),
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


async def test_duckduckgo_is_asked_about_once_a_second(duckduckgo: Callable[[SitePage], Site]) -> None:
    site = duckduckgo(SitePage(NO_DUCK))
    chain = search_chain("duckduckgo")
    await asyncio.gather(chain.search("one"), chain.search("two"))
    assert 0.9 < site.log[1].arrived - site.log[0].arrived < 3


# ----------------------------------------------------------------------------------------------------------- langchain


async def test_a_langchain_wrapper_finds(duckduckgo: Callable[[SitePage], Site]) -> None:
    # Its DuckDuckGo wrapper asks every engine of ddgs; here only the local one is left.
    from ddgs import engines

    site = duckduckgo(SitePage(DUCK.format(n=2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.ENGINES, "text", {"duckduckgo": engines.ENGINES["text"]["duckduckgo"]})
        chain = search_chain("langchain:DuckDuckGoSearchAPIWrapper")
        found = await chain.search("q", 5)
        site.pages = {"/html/": SitePage(NO_DUCK)}
        nothing = await search_chain("langchain:DuckDuckGoSearchAPIWrapper,none").search("q")
    assert [(hit.url, hit.title, hit.engine) for hit in found.hits] == [
        ("https://example.org/2", "Title 2", "langchain:DuckDuckGoSearchAPIWrapper")
    ]
    assert nothing.hits == ()


def test_the_library_s_retirement_notice_is_not_shown() -> None:
    script = (
        "from tribunal.retrievers.web.search import search_chain; search_chain('langchain:DuckDuckGoSearchAPIWrapper')"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_langchain_wrapper_with_a_key_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community import utilities

    monkeypatch.setenv("BRAVE_SEARCH_API_KEY", "brave-key-0123456789")
    results = [{"title": "T", "url": "https://example.org/brave", "description": "D", "extra_snippets": ["E"]}]
    with Site({"/": SitePage(json.dumps({"web": {"results": results}}), "application/json")}) as site:
        here = partial(utilities.BraveSearchWrapper, base_url=f"{site.url}/")
        monkeypatch.setattr(utilities, "BraveSearchWrapper", here, raising=False)
        chain = search_chain("langchain:BraveSearchWrapper,none")
        found = await chain.search("q", 5)
        site.pages = {"/": SitePage("", status=429)}
        limited = await chain.search("q", 5)
    assert [(hit.url, hit.title, hit.snippet) for hit in found.hits] == [("https://example.org/brave", "T", "D E")]
    assert (limited.engine, kinds(limited)) == ("none", [("langchain:BraveSearchWrapper", "rate_limit")])


@pytest.mark.parametrize(
    ("answer", "urls"),
    [
        ([{"link": "https://e.org/1"}, {"Result": "none was found"}], ["https://e.org/1"]),
        ({"organic": [{"link": "https://e.org/2", "snippet": "s"}], "credits": 1}, ["https://e.org/2"]),
        ({"organic_results": [{"link": "https://e.org/3"}]}, ["https://e.org/3"]),
        ({"news": []}, []),
        ('[{"url": "https://e.org/4", "content": "c"}]', ["https://e.org/4"]),
    ],
)
async def test_wrappers_answer_in_many_forms(answer: Any, urls: list[str]) -> None:
    assert [hit.url for hit in search._hits("q", "e", search._rows(answer), 5)] == urls


async def test_documents_are_hits_too() -> None:
    from langchain_core.documents import Document

    rows = search._rows([Document(page_content="words", metadata={"url": "https://e.org/5", "title": "T"})])
    assert rows == [("https://e.org/5", "T", "words")]


async def test_a_wrapper_that_raises_says_why_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapper:
        api_key = "topsecretvalue"

        def __init__(self) -> None:
            self.api_key = "topsecretvalue"

        def results(self, query: str) -> Any:
            raise RuntimeError(f"https://api.example.org/?k={self.api_key} said 429")

    monkeypatch.setattr(search, "_wrapper", lambda name: Wrapper())
    found = await search_chain("langchain:Wrapper").search("q")
    assert kinds(found) == [("langchain:Wrapper", "rate_limit")]
    assert "topsecretvalue" not in found.failures[0].message


async def test_a_wrapper_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrapper:
        def run(self, query: str) -> str:
            time.sleep(2)
            return "[]"

    monkeypatch.setattr(search, "_wrapper", lambda name: Wrapper())
    began = time.monotonic()
    found = await search_chain("langchain:Wrapper,none", seconds=0.1).search("q")
    assert time.monotonic() - began < 1
    assert (found.engine, kinds(found)) == ("none", [("langchain:Wrapper", "timeout")])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("BraveSearchWrapper", "BRAVE_SEARCH_API_KEY"),
        ("tavily_search.TavilySearchAPIWrapper", "(?i)can't be set up.*tavily_api_key"),
        ("no_such_module.SearchWrapper", "can't be set up"),
        ("..os.Search", "not a search wrapper"),
        ("NoSuchSearchWrapper", "no such wrapper"),
        ("BashProcess", "not a search wrapper"),
        ("SQLDatabase", "not a search wrapper"),
    ],
)
def test_a_wrapper_that_cannot_be_used_is_bad_input(name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        search_chain(f"langchain:{name}")


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"tribunal\[community\]"):
        search_chain("langchain:BraveSearchWrapper")


# --------------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("names", ["altavista", "langchain", "langchain:", "none,duckduck", "", " , ", []])
def test_unknown_names_are_told_the_known_ones(names: str | list[str]) -> None:
    with pytest.raises(BadInput, match="duckduckgo, searxng, langchain:NAME, none"):
        search_chain(names)


async def test_none_finds_nothing_and_names_are_taken_once() -> None:
    chain = search_chain(" none , none,duckduckgo")
    assert chain.names == ("none", "duckduckgo")
    assert await chain.search("q") == Found(query="q", engine="none")
