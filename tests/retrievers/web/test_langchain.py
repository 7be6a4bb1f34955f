"""LangChain's search wrappers, over the wire and in the many forms in which they answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from functools import partial
from typing import Any

import pytest

from tests import PROJECT
from tests.doubles.web import Site, SitePage
from tribunal.errors import BadInput
from tribunal.retrievers.web.search import engines
from tribunal.retrievers.web.search.chain import SearchResult, search_chain
from tribunal.retrievers.web.search.engine import hits_from_rows


def kinds(found: SearchResult) -> list[tuple[str, str]]:
    return [(each.engine, each.kind) for each in found.failures]


def test_the_library_s_retirement_notice_is_not_shown() -> None:
    script = (
        "from tribunal.retrievers.web.search.chain import search_chain\n"
        "search_chain('langchain:DuckDuckGoSearchAPIWrapper')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, cwd=PROJECT
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_langchain_wrapper_with_a_key_over_the_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community import utilities

    monkeypatch.setenv("BRAVE_SEARCH_API_KEY", "brave-key-0123456789")
    results = [
        {
            "title": "T",
            "url": "https://example.org/brave",
            "description": "D",
            "extra_snippets": ["E"],
        }
    ]
    with Site(
        {"/": SitePage(json.dumps({"web": {"results": results}}), "application/json")}
    ) as site:
        here = partial(utilities.BraveSearchWrapper, base_url=f"{site.url}/")
        monkeypatch.setattr(utilities, "BraveSearchWrapper", here, raising=False)
        chain = search_chain("langchain:BraveSearchWrapper,none")
        found = await chain.search("q", 5)
        site.pages = {"/": SitePage("", status=429)}
        limited = await chain.search("q", 5)
    assert [(hit.url, hit.title, hit.snippet) for hit in found.hits] == [
        ("https://example.org/brave", "T", "D E")
    ]
    assert (limited.engine, kinds(limited)) == (
        "none",
        [("langchain:BraveSearchWrapper", "rate_limit")],
    )


@pytest.mark.parametrize(
    ("answer", "urls"),
    [
        ([{"link": "https://e.org/1"}, {"Result": "none was found"}], ["https://e.org/1"]),
        (
            {"organic": [{"link": "https://e.org/2", "snippet": "s"}], "credits": 1},
            ["https://e.org/2"],
        ),
        ({"organic_results": [{"link": "https://e.org/3"}]}, ["https://e.org/3"]),
        ({"news": []}, []),
        ('[{"url": "https://e.org/4", "content": "c"}]', ["https://e.org/4"]),
    ],
)
async def test_wrappers_answer_in_many_forms(answer: Any, urls: list[str]) -> None:
    assert [
        hit.url for hit in hits_from_rows("q", "e", engines.rows_from_answer(answer), 5)
    ] == urls


async def test_documents_are_hits_too() -> None:
    from langchain_core.documents import Document

    rows = engines.rows_from_answer(
        [Document(page_content="words", metadata={"url": "https://e.org/5", "title": "T"})]
    )
    assert rows == [("https://e.org/5", "T", "words")]


async def test_a_wrapper_that_raises_says_why_without_its_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Wrapper:
        api_key = "topsecretvalue"

        def __init__(self) -> None:
            self.api_key = "topsecretvalue"

        def results(self, query: str) -> Any:
            raise RuntimeError(f"https://api.example.org/?k={self.api_key} said 429")

    monkeypatch.setattr(engines, "_make_wrapper", lambda name: Wrapper())
    found = await search_chain("langchain:Wrapper").search("q")
    assert kinds(found) == [("langchain:Wrapper", "rate_limit")]
    assert "topsecretvalue" not in found.failures[0].message


async def test_a_wrapper_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Wrapper:
        def run(self, query: str) -> str:
            release.wait()
            return "[]"

    monkeypatch.setattr(engines, "_make_wrapper", lambda name: Wrapper())
    found = await search_chain("langchain:Wrapper,none", seconds=0.1).search("q")
    release.set()
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
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"tribunal-court\[community\]"):
        search_chain("langchain:BraveSearchWrapper")
