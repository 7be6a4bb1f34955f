"""A page, a hit and a run with one of everything, for tests of the archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tribunal.retrievers.web.archive import Archive, StoredPage
from tribunal.retrievers.web.fetch.fetcher import FetchedPage
from tribunal.retrievers.web.page_reader import PageText
from tribunal.retrievers.web.search.chain import EngineFailure
from tribunal.retrievers.web.search.engine import Hit

Opened = Callable[..., Awaitable[Archive]]


def a_page(
    url: str = "https://example.org/a", text: str = "Line one.\nLine two “한국어” 😀."
) -> StoredPage:
    got = FetchedPage(
        url=url,
        final_url="https://example.org/final",
        redirects=(),
        address="192.0.2.1",
        status=200,
        content_type="text/html",
        charset=None,
        body=b"<p>",
        fetched_at=datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC),
    )
    return StoredPage.from_fetch(got, PageText("Title", text, "en", "2026-01-02"))


def a_hit(query: str, path: str) -> dict[str, Any]:
    url = f"https://example.org/{path}"
    return Hit(query=query, url=url, title=path, snippet="s", engine="searxng", rank=1).dump()


async def a_run(archive: Archive, post_id: str = "p1", text: str = "the post") -> str:
    """A run with one of everything."""
    run = await archive.begin_run(post_id, text, {"graph": "antihate", "max_turns": 3})
    failed = EngineFailure(engine="duckduckgo", kind="rate_limit", message="HTTP 202").dump()
    await archive.add_reply(
        run, "propose", "1", {"queries": ["q1", "q2"]}, [{"role": "researcher.queries"}]
    )
    await archive.add_search(
        run, 1, "q1", "searxng", [a_hit("q1", "a"), a_hit("q1", "b")], [failed]
    )
    await archive.add_search(run, 1, "q2", None, [], [failed])
    page = await archive.add_page(a_page())
    await archive.add_fetch(
        run, 1, "https://example.org/b", None, "https://example.org/b: dns: has no address"
    )
    await archive.add_fetch(run, 1, "https://example.org/a", page)
    await archive.add_fetch(run, 1, "https://example.org/c", page)
    await archive.add_decision(run, "page", {"turn": 1, "url": "https://example.org/c"})
    await archive.add_decision(run, "page", {"turn": 1, "url": "https://example.org/a"})
    await archive.add_reply(run, "read", "k", {"n": 1})
    await archive.add_reply(run, "read", "k", {"n": 2})
    await archive.add_decision(
        run, "verdict", {"hateful": True, "steps": [{"claim": "c", "evidence": ["E1"]}]}
    )
    return run
