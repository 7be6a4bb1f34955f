"""Phases 1 and 2a: phrase queries, and search them (AntiHateAgent, section 3, Appendix C)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import BadModelOutput
from tribunal.nodes.antihate.asking import asked, library_of
from tribunal.nodes.antihate.roles import QUERIES, URLS, QueriesForm, UrlsForm
from tribunal.nodes.state import Research, agent, closed
from tribunal.prompts import quote
from tribunal.retrievers.web.search.hits import normal_url
from tribunal.schema import JSON

LEAST_QUERIES = 3
MOST_QUERIES = 5


@agent
async def propose(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 1: at least three queries that haven't been tried; sees the post, those tried, and what was missing.

    Without a search API the model names pages instead, which are crawled as they are.
    """
    context, turn = context_of(runtime), state["turn"] + 1
    tried = state.get("tried", [])
    material = {
        "tried": quote("tried", "\n".join(tried)) if tried else "",
        "missing": quote("missing", state["missing"]) if state.get("missing") else "",
        "details": context.mode != "no-details",
    }
    if context.mode == "no-search":
        answer = await asked(URLS, state, runtime, "propose", str(turn), check=_new_urls(tried), **material)
        urls = list(dict.fromkeys(normal_url(url) for url in answer.value.urls if _is_web(url)))[: context.max_pages]
        targets = [{"url": url, "query": "", "title": ""} for url in urls]
        return {"turn": turn, "queries": [], "tried": urls, "hits": [], "pending": targets, **answer.log}
    try:
        answer = await asked(QUERIES, state, runtime, "propose", str(turn), check=_new_queries(tried), **material)
    except BadModelOutput as fault:
        if turn == 1:
            raise
        # What was found before still stands: a model that has run out of queries ends the research, not the case.
        said = f"the research ended in turn {turn}: {fault}"
        return {"exhausted": True, "queries": [], "pending": [], "calls": list(fault.calls), "warnings": [said]}
    queries = _distinct(answer.value.queries, tried)[:MOST_QUERIES]
    runtime.stream_writer({"event": "queries", "turn": turn, "queries": queries})
    return {"turn": turn, "queries": queries, "tried": queries, "hits": [], "pending": [], **answer.log}


def _new_queries(tried: Sequence[str]) -> Callable[[QueriesForm], None]:
    def check(named: QueriesForm) -> None:
        if len(_distinct(named.queries, tried)) < LEAST_QUERIES:
            raise ValueError(
                f"queries: at least {LEAST_QUERIES} are wanted that differ from each other and from those tried"
            )

    return check


def _new_urls(tried: Sequence[str]) -> Callable[[UrlsForm], None]:
    def check(named: UrlsForm) -> None:
        fresh = {normal_url(url) for url in named.urls if _is_web(url)} - set(tried)
        if len(fresh) < LEAST_QUERIES:
            raise ValueError(
                f"urls: at least {LEAST_QUERIES} http or https addresses are wanted that haven't been tried"
            )

    return check


def _is_web(url: str) -> bool:
    return url.strip().casefold().startswith(("http://", "https://"))


def _distinct(queries: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Queries that are new, told apart by their words."""
    seen = {" ".join(each.casefold().split()) for each in tried}
    kept = []
    for query in queries:
        words = " ".join(query.split())
        if words and words.casefold() not in seen:
            seen.add(words.casefold())
            kept.append(words[:300])
    return kept


async def search(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2a: every query at the same time; pages that were tried before are left out, and each is taken once."""
    if closed(state) or not state["queries"]:
        return {}
    context, library = context_of(runtime), await library_of(state, runtime)
    found = await asyncio.gather(
        *(library.search(query, state["run"], state["turn"], context.hits) for query in state["queries"])
    )
    # Told apart by their normal form, and fetched as they were given: a slash that is dropped costs a redirect.
    seen = {normal_url(page["url"]) for page in state.get("pages", [])}
    hits: list[JSON] = []
    for each in found:
        for hit in each.hits[: context.hits]:
            if normal_url(hit.url) not in seen:
                seen.add(normal_url(hit.url))
                hits.append({"query": each.query, "url": hit.url, "title": hit.title, "snippet": hit.snippet})
    failures = [f"search: {fault.engine}: {fault.message}" for each in found for fault in each.failures]
    runtime.stream_writer({"event": "search", "turn": state["turn"], "hits": len(hits)})
    return {"hits": hits, "warnings": list(dict.fromkeys([*failures, *library.warnings(state["run"])]))}


async def to_search(state: Research) -> Literal["search", "fetch", "__end__"]:
    """Queries are searched; pages that the model named itself are fetched as they are."""
    if closed(state) or state.get("exhausted"):
        return "__end__"
    return "search" if state.get("queries") else "fetch"
