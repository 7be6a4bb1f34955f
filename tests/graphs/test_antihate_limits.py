"""AntiHateAgent under limits, and what of its work goes on at the same time."""

from __future__ import annotations

import asyncio
import os

from tests.court import side_by_side
from tests.graphs.research_world import html, part, researcher, world
from tribunal.eval.doubles.scripted import Reply, Request
from tribunal.eval.doubles.web import Seen, Site, SitePage


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

    pages: dict[str, SitePage | str] = {f"/{letter}": html(f"evidence-{letter} is here.") for letter in "abc"}
    searches = asyncio.Barrier(3)

    async def together(seen: Seen) -> None:
        await searches.wait()

    async with world(side_by_side(researcher(enough_at=1), {"relevance": 3}, part), pages, hits) as it:
        it.search.hold = together
        record = await it.decide(max_turns=1)
    assert len(it.search.log) == len(it.asked("relevance")) == 3
    assert len(record.evidence) == 3
