"""A scripted world for the hybrid court: its own parts, those who look things up, a search server and a web site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.court import AsyncScript, Script, court_script
from tests.court import part as court_part
from tests.doubles import Fault, Reply, Request
from tests.graphs.panel_script import panel
from tests.graphs.panel_script import part as panel_part
from tests.graphs.research_world import World, html, researcher, world
from tests.graphs.research_world import part as research_part

PASSAGE = "evidence-one says that it is an old insult."


def part(request: Request) -> str:
    """Which part a request asks for, of whichever system."""
    return next(
        name
        for named in (court_part, research_part, panel_part)
        if (name := _part_by(named, request))
    )


def hybrid_script(*, explicit: bool = False, **instead: Any) -> Script:
    """Answers for every part: those of the court, of the researcher and of the perspectives, with these `instead`."""
    scripts = {
        court_part: court_script(explicit=explicit, **instead),
        research_part: researcher(),
        panel_part: panel(1),
    }

    def script(request: Request) -> Reply | Fault:
        name = part(request)
        if name in instead and not isinstance(instead[name], list):
            given = instead[name]
            return given if isinstance(given, Reply | Fault) else Reply(given)
        answer = next(answers for named, answers in scripts.items() if _part_by(named, request))(
            request
        )
        assert isinstance(answer, Reply | Fault)
        return answer

    return script


def _part_by(named: Callable[[Request], str], request: Request) -> str | None:
    """The part, if it is one of this system's."""
    try:
        return named(request)
    except StopIteration:
        return None


@asynccontextmanager
async def hybrid(script: Script | AsyncScript | None = None) -> AsyncIterator[World]:
    """The world of the research tests with one page on the web, and the hybrid court in it."""
    async with world(script or hybrid_script(), {"/1": html(PASSAGE)}) as it:
        yield replace(it, graph="tribunal", part=part)
