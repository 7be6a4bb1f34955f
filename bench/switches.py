"""The hybrid court: what each switch costs a post in calls."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from bench.scripts import hybrid
from bench.server import server
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

# What each switch is set to, and what it is called.
SWITCHES: dict[str, dict[str, Any]] = {
    "none (ARCADE, call for call)": {"early_exit": False},
    "early exit (the default)": {},
    "`--perspectives`, five": {"perspectives": ["all"]},
    "`--web`, one turn, two pages": {"web": True},
    "both": {"web": True, "perspectives": ["all"]},
    "`--triage`": {"triage": "openai:small"},
    "`--judge-draws 3`": {"judge_draws": 3},
    "`--judge-draws 5`": {"judge_draws": 5},
    "`--review`": {"review": True},
}
KINDS = {
    "dismissed": "[[track=none]]",
    "fast track": "[[track=fast]]",
    "deep dive": "[[track=deep]]",
    "deep dive, conceded": "[[track=deep]] [[concede=yes]]",
}


def switches(quick: bool) -> None:
    """One post of each kind with each switch: its calls, and its wall time in calls one after another."""
    from tests.doubles.web import SearchServer, Site, SitePage

    latency = 0.2
    say(
        "### The hybrid court: calls a post with each switch, and in brackets how many of them follow one another\n",
        lines=True,
    )
    with ExitStack() as stack:
        stack.enter_context(server(latency, hybrid))
        os.environ["TRIBUNAL_DATA"] = stack.enter_context(TemporaryDirectory())
        body = "<html><title>Page</title><p>The evidence of page {} is here.</p></html>"
        sites = [
            stack.enter_context(Site({"/": SitePage(body.format(number))}, address=f"127.0.0.{number}"))
            for number in (2, 3)
        ]
        found = [{"url": f"{site.url}/", "title": "a page"} for site in sites]
        search = stack.enter_context(SearchServer(lambda query: found))
        os.environ["TRIBUNAL_FETCH_ALLOW"] = ",".join(site.host for site in sites)
        rows = run_many(_switched(search.url, latency, ["none (ARCADE, call for call)", "both"] if quick else SWITCHES))
    table(("switch", *KINDS), rows)


async def _switched(search_url: str, latency: float, names: Iterable[str]) -> list[list[str]]:
    from tribunal.cases.session import judge_post
    from tribunal.context import context_from
    from tribunal.retrievers.web.library import open_web_reader

    (await open_web_reader()).reader.workers.warm_up()
    await asyncio.sleep(4)
    rows = []
    for name in names:
        row = [name]
        for marks in KINDS.values():
            web = {"search": "searxng", "searxng_url": search_url} if SWITCHES[name].get("web") else {}
            settings = {"model": "openai:scripted", **web, **SWITCHES[name]}
            took = []
            for _ in range(3):
                started = time.perf_counter()
                record = await judge_post(
                    f"{marks} the weeds of the garden", graph="tribunal", context=context_from(settings)
                )
                took.append(time.perf_counter() - started)
            if record.outcome != "verdict" or (record.research and not record.evidence):
                raise RuntimeError(f"the benchmark's court failed: {record.explanation} {record.warnings}")
            row.append(f"{record.usage.calls} ({min(took) / latency:.1f})")
        rows.append(row)
    return rows
