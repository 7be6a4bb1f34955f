"""AntiHateAgent under limits, and what of its work goes on at the same time."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.court import side_by_side
from tests.doubles import Reply, Request
from tests.doubles.web import Seen, Site, SitePage
from tests.graphs.hybrid import hybrid_script
from tests.graphs.hybrid import part as hybrid_part
from tests.graphs.research_world import html, part, researcher, world


async def test_a_spent_budget_leaves_the_verdict_to_the_judge() -> None:
    async with world(researcher(enough_at=None)) as it:
        record = await it.decide(max_calls=4)
    assert it.parts[-1] == "verdict"
    assert len(it.parts) <= 4
    assert record.outcome == "verdict"


async def test_spent_seconds_leave_the_verdict_to_the_judge() -> None:
    async def never(seen: Seen) -> None:
        await asyncio.Event().wait()

    async with world(researcher(enough_at=None), {"/1": html("evidence-late comes.")}) as it:
        it.site.hold = never
        record = await it.decide(max_seconds=1.5)
    assert it.parts[-1] == "verdict"
    assert any("1.5 s" in warning for warning in record.warnings), record.warnings


async def test_a_slow_page_holds_up_no_other() -> None:
    weighed = asyncio.Event()

    def weigh(request: Request) -> Reply:
        weighed.set()
        return Reply({"judgement": "hate", "reasoning": "weighed"})

    async def until_the_other_is_weighed(seen: Seen) -> None:
        if seen.path == "/1":
            await weighed.wait()

    pages: dict[str, SitePage | str] = {"/1": html("evidence-slow is here.")}
    script = researcher(enough_at=1, weigh=weigh)
    async with world(script, pages) as it, Site({"/3": html("evidence-other host.")}) as other:
        it.site.hold = until_the_other_is_weighed
        # One connection a host at a time, so the other page is on a host of another name.
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        os.environ["TRIBUNAL_FETCH_ALLOW"] += "," + other.host.replace("127.0.0.1", "localhost")
        it.search.results = lambda query: [
            {"url": f"{it.site.url}/1", "title": "slow"}, {"url": f"{elsewhere}/3", "title": "quick"},
        ]  # fmt: skip
        record = await it.decide(max_turns=1)
    assert "evidence-other" in it.asked("weigh")[0].text
    assert [each.passage[:13] for each in record.evidence] == ["evidence-othe", "evidence-slow"]


async def test_searches_and_relevance_calls_of_a_turn_run_together() -> None:
    def hits(site: Site, query: str) -> list[dict[str, str]]:
        return [{"url": f"{site.url}/{query[-1]}", "title": "t", "content": "c"}]

    pages: dict[str, SitePage | str] = {
        f"/{letter}": html(f"evidence-{letter} is here.") for letter in "abc"
    }
    searches = asyncio.Barrier(3)

    async def together(seen: Seen) -> None:
        await searches.wait()

    async with world(
        side_by_side(researcher(enough_at=1), {"relevance": 3}, part), pages, hits
    ) as it:
        it.search.hold = together
        record = await it.decide(max_turns=1)
    assert len(it.search.log) == len(it.asked("relevance")) == 3
    assert len(record.evidence) == 3


SEVEN = {"queries": [f"query 1{letter}" for letter in "abcdefg"]}
LONG = html(
    "evidence-one is here.", *[f"filler sentence number {each} is here." for each in range(80)]
)
TIGHT: dict[str, Any] = {
    "hits": 2, "max_pages": 1, "max_windows": 2, "window_tokens": 200, "window_overlap": 10, "max_turns": 1,
}  # fmt: skip


@pytest.mark.parametrize("graph", ["antihate", "tribunal"])
async def test_each_limit_is_named_once_with_what_it_left_out(graph: str) -> None:
    """Queries, results of a query, pages of a turn, parts of a page."""
    script = researcher(queries=SEVEN) if graph == "antihate" else hybrid_script(queries=SEVEN)
    pages: dict[str, SitePage | str] = {f"/{number}": LONG for number in (1, 2, 3, 4)}
    web: dict[str, Any] = {"web": True} if graph == "tribunal" else {}
    async with world(script, pages) as it:
        if graph == "tribunal":
            it = replace(it, graph=graph, part=hybrid_part)
        record = await it.decide(**TIGHT, **web)
        assert len(it.search.queries) == 5
    assert len(it.asked("passages")) == 2
    parts = int(re.findall(r"part 1 of (\d+) of a web page", it.asked("passages")[0].text)[0])
    for said in (
        "turn 1: 2 of 7 queries were not searched: the limit is 5",
        "turn 1: 10 search results were not looked at: hits is 2 for each query",
        "turn 1: 1 of 2 pages were not read: max_pages is 1",
        f"{it.site.url}/1: {parts - 2} of its {parts} parts were not read: max_windows is 2",
    ):
        assert record.warnings.count(said) == 1, record.warnings
    assert sum("were not" in warning for warning in record.warnings) == 4


async def test_no_limit_is_named_where_nothing_is_left_out() -> None:
    async with world(researcher()) as it:
        record = await it.decide(hits=2, max_pages=2)
    assert not any("were not" in warning for warning in record.warnings)


async def test_without_a_search_the_pages_beyond_the_limit_are_named() -> None:
    urls: dict[str, list[str]] = {"urls": []}
    async with world(researcher(urls=lambda request: Reply(urls))) as it:
        urls["urls"] = [f"{it.site.url}/{page}" for page in (1, 2, 3, 4)]
        record = await it.decide(mode="no-search", max_pages=2, max_turns=1)
    assert "turn 1: 2 of 4 pages were not read: max_pages is 2" in record.warnings


async def test_parts_that_the_budget_leaves_out_are_named() -> None:
    async with world(researcher(), {"/1": LONG}) as it:
        record = await it.decide(**{**TIGHT, "max_windows": 10}, max_calls=9)
    [said] = [warning for warning in record.warnings if "parts were not read" in warning]
    assert said.endswith("the budget had no more calls")


async def test_a_query_that_is_too_long_is_cut_and_that_is_said() -> None:
    queries = {"queries": ["x" * 400, "two", "three"]}
    async with world(researcher(queries=queries)) as it:
        record = await it.decide(max_turns=1)
        assert sorted(it.search.queries, key=len)[-1] == "x" * 300
    assert "turn 1: 1 of 3 queries were cut at 300 characters" in record.warnings
