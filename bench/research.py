"""AntiHateAgent: one post, over its critical path."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from bench.scripts import researcher
from bench.server import server
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

CALL, PAGE, SEARCH = 1.0, 2.0, 0.5
PAGES_A_QUERY = 2


def research(quick: bool) -> None:
    """Six pages on six hosts: a host is asked for one page at a time, so one host would measure the courtesy alone."""
    from tests.doubles.web import SearchServer, Site, SitePage

    say(f"### AntiHateAgent: one post, {CALL:g} s a model call, {PAGE:g} s a page, {SEARCH:g} s a search\n", lines=True)
    filler = "<p>" + "A sentence that has nothing to do with it. " * 40 + "</p>"
    with ExitStack() as stack:
        stack.enter_context(server(CALL, researcher))
        sites: list[Site] = []
        for number in range(3 * PAGES_A_QUERY):
            body = f"<html><title>Page {number}</title><p>The evidence of page {number} is here.</p>{filler}</html>"
            sites.append(stack.enter_context(Site({"/": SitePage(body, delay=PAGE)}, address=f"127.0.0.{number + 2}")))
        urls = [f"{site.url}/" for site in sites]

        def found(query: str) -> list[dict[str, Any]]:
            first = ("first", "second", "third").index(query.split()[0]) * PAGES_A_QUERY
            return [{"url": url, "title": "a page"} for url in urls[first : first + PAGES_A_QUERY]]

        search = stack.enter_context(SearchServer(found, delay=SEARCH))
        os.environ["TRIBUNAL_FETCH_ALLOW"] = ",".join(site.host for site in sites)
        took = [run_many(one_research(search.url)) for _ in range(1 if quick else 3)]
    pages = 3 * PAGES_A_QUERY
    # Queries, search, relevance, the pages together, their passages, a judgement after each, enough?, verdict.
    critical = CALL + SEARCH + CALL + PAGE + CALL + pages * CALL + CALL + CALL
    sequential = CALL + 3 * (SEARCH + CALL) + pages * (PAGE + CALL + CALL) + CALL + CALL
    wall = sorted(took)[len(took) // 2]
    row = (
        str(pages), f"{wall:.2f} s", f"{critical:.1f} s", f"{wall / critical:.3f}", f"{sequential:.1f} s",
        f"{sequential / wall:.2f}",
    )  # fmt: skip
    table(("pages", "seconds a post", "critical path", "over it", "one after another", "times as long"), [row])


async def one_research(search_url: str) -> float:
    """Seconds of one post, once the page readers' processes run and what is imported at the first call is there."""
    from tribunal.cases.session import judge_post
    from tribunal.context import context_from
    from tribunal.graphs import graph
    from tribunal.retrievers.web.library import open_web_reader

    graph("antihate")
    (await open_web_reader()).reader.workers.warm_up()
    await judge_post(
        "warming up", graph="antihate", context=context_from({"model": "openai:scripted", "mode": "no-knowledge"})
    )
    await asyncio.sleep(4)
    with TemporaryDirectory() as folder:
        context = context_from(
            {
                "model": "openai:scripted", "search": "searxng", "searxng_url": search_url,
                "archive": f"{folder}/evidence.sqlite", "max_pages": 20,
            }
        )  # fmt: skip
        started = time.perf_counter()
        record = await judge_post("what they say of the weeds", graph="antihate", context=context)
        took = time.perf_counter() - started
        if len(record.evidence) != 3 * PAGES_A_QUERY:
            raise RuntimeError(f"the benchmark's research failed: {record.explanation} {record.warnings}")
        return took
