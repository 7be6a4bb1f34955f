"""A scripted world for the hybrid court: its own parts, those who look things up, a search server and a web site."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from eval.scripted import Fault, Reply, Request, ScriptedServer
from eval.web import SearchServer, Site
from nodes.schema import Record
from tests.court import court_script, decide
from tests.court import part as court_part
from tests.graphs.test_antihate import html, researcher
from tests.graphs.test_antihate import part as research_part
from tests.graphs.test_predict import panel
from tests.graphs.test_predict import part as panel_part

PASSAGE = "evidence-one says that it is an old insult."
FEW = "example-harm,example-newsroom"


def part(request: Request) -> str:
    """Which part a request asks for, of whichever system."""
    for told in (court_part, research_part, panel_part):
        try:
            return told(request)
        except StopIteration:
            continue
    raise AssertionError(request.text)


def hybrid_script(*, explicit: bool = False, **instead: Any) -> Callable[[Request], Reply | Fault]:
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
        for told, answers in scripts.items():
            try:
                told(request)
            except StopIteration:
                continue
            answer = answers(request)
            assert isinstance(answer, Reply | Fault)
            return answer
        raise AssertionError(name)

    return script


@dataclass
class World:
    """The model server, the site, and the settings that point at them."""

    model: ScriptedServer
    site: Site
    settings: dict[str, Any]

    @property
    def parts(self) -> list[str]:
        return [part(request) for request in self.model.requests]

    def asked(self, name: str) -> list[Request]:
        return [request for request in self.model.requests if part(request) == name]

    async def decide(self, text: str = "the weeds in our garden", **settings: Any) -> Record:
        return await decide(self.model, text, graph="tribunal", **{**self.settings, **settings})


@asynccontextmanager
async def hybrid(script: Callable[[Request], Reply | Fault] | None = None, **options: Any) -> AsyncIterator[World]:
    """The world, with one page on the web; `options` go to the model server."""
    async with Site({"/1": html(PASSAGE)}) as site, ScriptedServer(script or hybrid_script(), **options) as model:

        def found(query: str) -> Any:
            return [{"url": f"{site.url}/1", "title": "a page", "content": "a snippet"}]

        async with SearchServer(found) as search:
            os.environ["TRIBUNAL_FETCH_ALLOW"] = site.host
            settings = {"search": "searxng", "searxng_url": search.url, "record": "evidence.sqlite"}
            yield World(model, site, settings)
