"""A scripted world for AntiHateAgent: a model, a SearXNG-shaped search server and a web site, all on loopback."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.court import AsyncScript, Script, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.doubles.web import SearchServer, Site, SitePage
from tests.where_heeded import where_heeded
from tribunal.schema import Record

POST = "the weeds in our garden are back again"


PARTS = {
    "phrasing search queries": "queries",
    "naming pages": "urls",
    "choosing what to read": "relevance",
    "reading a page": "passages",
    "weighing a page": "weigh",
    "deciding whether to go on": "enough",
    "the final judgement": "verdict",
    "one answer": "words",
}


def part(request: Request) -> str:
    task = request.text.rpartition("# Your part: ")[2].splitlines()[0]
    return next(name for words, name in PARTS.items() if words in task)


@dataclass
class World:
    """The three servers, and the settings that point at them."""

    model: ScriptedServer
    search: SearchServer
    site: Site
    settings: dict[str, Any]
    graph: str = "antihate"
    part: Callable[[Request], str] = part

    @property
    def parts(self) -> list[str]:
        return [self.part(request) for request in self.model.requests]

    def asked(self, name: str) -> list[Request]:
        return [request for request in self.model.requests if self.part(request) == name]

    async def decide(self, text: str = POST, **settings: Any) -> Record:
        return await decide(
            self.model,
            text,
            graph=self.graph,
            **where_heeded(self.graph, self.settings, **settings),
        )


def html(*sentences: str, title: str = "A page") -> str:
    paragraphs = "".join(
        f"<p>{sentence} This page goes on about other things for a while.</p>"
        for sentence in sentences
    )
    return f"<html lang=en><head><title>{title}</title></head><body><article>{paragraphs}</article></body></html>"


def researcher(enough_at: int | None = 1, **instead: Any) -> Script:
    """A script: three queries a turn, every hit relevant, the sentence with `evidence-` in a page is its passage."""
    turns = {"queries": 0}

    def script(request: Request) -> Reply | Fault:
        name = part(request)
        if name in instead:
            given = instead[name]
            answer = given(request) if callable(given) else given
            return answer if isinstance(answer, Reply | Fault) else Reply(answer)
        match name:
            case "queries":
                turns["queries"] += 1
                turn = turns["queries"]
                plan = {
                    "thought": f"thought-{turn}",
                    "entities": [f"entity-{turn}"],
                    "claims": [f"claim-{turn}"],
                }
                return Reply({**plan, "queries": [f"query {turn}{letter}" for letter in "abc"]})
            case "relevance":
                return Reply(
                    {
                        "relevant": [
                            int(each)
                            for each in re.findall(r"^(\d+)\.$", request.text, re.MULTILINE)
                        ]
                    }
                )
            case "passages":
                found = re.findall(r"[^.\n]*evidence-\w+[^.\n]*\.", request.text)
                return Reply(
                    {
                        "passages": [
                            {"passage": each.strip(), "stance": "supports"} for each in found
                        ]
                    }
                )
            case "weigh":
                ids = re.findall(r"^\[(E\d+)\]", request.text, re.MULTILINE)
                return Reply({"reasoning": f"weighed {' and '.join(ids)}", "judgement": "hate"})
            case "enough":
                done = enough_at is not None and turns["queries"] >= enough_at
                return Reply({"missing": "" if done else "what-is-missing", "sufficient": done})
            case "words":
                return Reply("hate speech: because")
        ids = re.findall(r"^\[(E\d+)\]", request.text, re.MULTILINE)
        steps = [{"claim": "It is so", "evidence": ids}]
        return Reply({"steps": steps, "label": "HATE", "confidence": 0.8})

    return script


@asynccontextmanager
async def world(
    script: Script | AsyncScript,
    pages: dict[str, SitePage | str] | None = None,
    hits: Callable[[Site, str], list[dict[str, str]]] | None = None,
) -> AsyncIterator[World]:
    pages = (
        {"/1": html("evidence-one says it is an insult."), "/2": html("evidence-two says so too.")}
        if pages is None
        else pages
    )
    async with Site(pages) as site, ScriptedServer(script) as model:

        def found(query: str) -> Any:
            if hits:
                return hits(site, query)
            return [
                {"url": f"{site.url}{path}", "title": f"page {path}", "content": "a snippet"}
                for path in pages
            ]

        async with SearchServer(found) as search:
            os.environ["TRIBUNAL_FETCH_ALLOW"] = site.host
            settings = {
                "search": "searxng",
                "searxng_url": search.url,
                "archive": "evidence.sqlite",
            }
            yield World(model, search, site, settings)
