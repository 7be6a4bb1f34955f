"""Phases 1 and 2a: phrase queries, and search them (AntiHateAgent, section 3, Appendix C)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.errors import BadModelOutput
from tribunal.nodes.agents import agent, node, router
from tribunal.nodes.antihate.asking import asked, library_of
from tribunal.nodes.antihate.limits import hits_beyond, pages_beyond, within_query_limits
from tribunal.nodes.antihate.roles import LEAST_QUERIES, QUERIES, URLS, PlanForm, QueriesForm, UrlsForm
from tribunal.nodes.state import Research, closed
from tribunal.prompts.marks import Entry, entries, listing, ours, quote
from tribunal.retrievers.web.search.hits import normal_url
from tribunal.schema import JSON
from tribunal.telling import tell


@agent
async def propose(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 1: at least three queries that haven't been tried, after a thought on what has to be verified.

    Sees the post, what was thought and tried before, and what was missing. Without a search API the model names pages
    instead, which are crawled as they are.
    """
    context, turn = context_of(state), state["turn"] + 1
    tried = state.get("tried", [])
    material: JSON = {
        "thoughts": entries("thoughts", map(_plan_shown, plans)) if (plans := state.get("plans")) else "",
        "tried": listing("tried", tried) if tried else "",
        "missing": quote("missing", state["missing"]) if state.get("missing") else "",
        "details": context.mode != "no-details",
    }
    no_search = context.mode == "no-search"
    role, check = (URLS, _new_urls(tried)) if no_search else (QUERIES, _new_queries(tried))
    try:
        answer = await asked(role, state, runtime, "propose", str(turn), check=check, **material)
    except BadModelOutput as fault:
        if turn == 1:
            raise
        # What was found before still stands: a model that has run out of queries ends the research, not the case.
        said = f"the research ended in turn {turn}: {fault}"
        return {"exhausted": True, "queries": [], "pending": [], "calls": list(fault.calls), "warnings": [said]}
    plan, warnings = await _planned(answer.value, turn, state, runtime), answer.log["warnings"]
    done: JSON = {"turn": turn, "hits": [], "plans": [plan], "calls": answer.log["calls"]}
    if no_search:
        named = _fresh_urls(answer.value.urls, tried)
        urls, beyond = named[: context.max_pages], pages_beyond(len(named), turn, context)
        pending = [{"url": url, "query": "", "title": ""} for url in urls]
        return {**done, "queries": [], "tried": urls, "pending": pending, "warnings": [*warnings, *beyond]}
    queries, beyond = within_query_limits(_distinct(answer.value.queries, tried), turn)
    tell(runtime, {"event": "queries", "turn": turn, "queries": queries})
    return {**done, "queries": queries, "tried": queries, "pending": [], "warnings": [*warnings, *beyond]}


async def _planned(form: PlanForm, turn: int, state: Research, runtime: Runtime[Context]) -> JSON:
    """What was thought before a search, and is to be verified; streamed, and written to the archive."""
    plan = {"id": f"T{turn}", "turn": turn, **form.model_dump(include={"thought", "entities", "claims"})}
    tell(runtime, {"event": "plan", **plan})
    library = await library_of(state)
    await library.decided(state["run"], "plan", plan)
    return plan


def _plan_shown(plan: JSON) -> Entry:
    named = [(name, each) for name, key in (("entity", "entities"), ("claim", "claims")) for each in plan[key]]
    fields = [("thought", plan["thought"]), *named]
    return Entry(ours("Turn {}", plan["turn"]), [(name, text) for name, text in fields if text])


def _new_queries(tried: Sequence[str]) -> Callable[[QueriesForm], None]:
    def check(named: QueriesForm) -> None:
        if len(_distinct(named.queries, tried)) < LEAST_QUERIES:
            raise ValueError(
                f"queries: at least {LEAST_QUERIES} are wanted that differ from each other and from those tried"
            )

    return check


def _new_urls(tried: Sequence[str]) -> Callable[[UrlsForm], None]:
    def check(named: UrlsForm) -> None:
        if len(_fresh_urls(named.urls, tried)) < LEAST_QUERIES:
            raise ValueError(
                f"urls: at least {LEAST_QUERIES} http or https addresses are wanted that haven't been tried"
            )

    return check


def _fresh_urls(urls: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Web addresses that are new, each once."""
    return [url for url in dict.fromkeys(normal_url(url) for url in urls if _is_web(url)) if url not in tried]


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
            kept.append(words)
    return kept


@node
async def search(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2a: every query at the same time; pages that were tried before are left out, and each is taken once."""
    if closed(state) or not state["queries"]:
        return {}
    context, library = context_of(state), await library_of(state)
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
    limits = hits_beyond(sum(each.left_out for each in found), state["turn"], context)
    failures = [f"search: {fault.engine}: {fault.message}" for each in found for fault in each.failures]
    tell(runtime, {"event": "search", "turn": state["turn"], "hits": len(hits)})
    return {"hits": hits, "warnings": list(dict.fromkeys([*failures, *limits, *library.warnings(state["run"])]))}


@router
async def to_search(state: Research) -> Literal["queries", "pages named", "no further query"]:
    """Queries are searched; pages that the model named itself are fetched as they are."""
    if closed(state) or state.get("exhausted"):
        return "no further query"
    return "queries" if state.get("queries") else "pages named"
