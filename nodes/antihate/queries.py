"""Phases 1 and 2a: phrase queries, and search them (AntiHateAgent, section 3, Appendix C)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

from langgraph.runtime import Runtime

from tribunal.errors import BadModelOutput
from tribunal.nodes.agents import agent, node, router
from tribunal.nodes.antihate.research import ask_archived, library_of_case
from tribunal.nodes.antihate.roles import (
    LEAST_QUERIES,
    LONGEST_QUERY,
    MOST_QUERIES,
    QUERIES,
    URLS,
    QueriesForm,
    UrlsForm,
)
from tribunal.nodes.state import ResearchState
from tribunal.nodes.verdict import is_closed
from tribunal.prompts.marks import Entry, entries, listing, ours, quote
from tribunal.retrievers.web.search.engine import normal_url
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of

# An exact phrase between quotation marks; site: and its like; OR, AND, | and *; a dash before a word to leave out.
_OPERATOR = re.compile(r"[\"“„«「].+?[\"”“»」]|\b[a-z]+:\S|(?:^|\s)(?:(?:OR|AND)\b|\||-\w)|\*")


def _limit_queries(queries: list[str], turn: int) -> tuple[list[str], list[str]]:
    """Return the queries that are searched, none longer than it may be; and warnings."""
    kept = queries[:MOST_QUERIES]
    warnings = []
    plain = sum(not _OPERATOR.search(query) for query in kept)
    if plain:
        warnings.append(f"turn {turn}: {plain} of {len(kept)} queries use no search operator")
    beyond = len(queries) - len(kept)
    if beyond:
        left_out = f"{beyond} of {len(queries)} queries were not searched"
        warnings.append(f"turn {turn}: {left_out}: the limit is {MOST_QUERIES}")
    long = sum(len(query) > LONGEST_QUERY for query in kept)
    if long:
        warnings.append(
            f"turn {turn}: {long} of {len(kept)} queries were cut at {LONGEST_QUERY} characters"
        )
    return list(dict.fromkeys(query[:LONGEST_QUERY] for query in kept)), warnings


def warn_of_unread_pages(wanted: int, turn: int, context: Context) -> list[str]:
    """Return a warning if more pages were wanted than may be read in a turn."""
    beyond = wanted - context.max_pages
    said = (
        f"turn {turn}: {beyond} of {wanted} pages were not read: max_pages is {context.max_pages}"
    )
    return [said] if beyond > 0 else []


@agent
async def propose_queries(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Propose three or more new queries, and name the facts to verify (phase 1).

    Sees the post, what was thought and tried before, and what was missing. Without a search API the model names pages
    instead, which are crawled as they are.
    """
    context = context_of(state)
    turn = state["turn"] + 1
    tried = state.get("tried", [])
    material: JSON = {
        "thoughts": entries("thoughts", map(_plan_entry, plans))
        if (plans := state.get("plans"))
        else "",
        "tried": listing("tried", tried) if tried else "",
        "missing": quote("missing", state["missing"]) if state.get("missing") else "",
    }
    no_search = context.mode == "no-search"

    def check(named: QueriesForm | UrlsForm) -> None:
        """Check that enough was named which hasn't been tried."""
        if isinstance(named, UrlsForm):
            fresh = _fresh_urls(named.urls, tried)
            what = "http or https addresses are wanted that haven't been tried"
        else:
            fresh = _distinct_queries(named.queries, tried)
            what = "are wanted that differ from each other and from those tried"
        if len(fresh) < LEAST_QUERIES:
            raise ValueError(
                f"{'urls' if no_search else 'queries'}: at least {LEAST_QUERIES} {what}"
            )

    role = URLS if no_search else QUERIES
    try:
        answer = await ask_archived(
            role, state, runtime, "propose", str(turn), check=check, **material
        )
    except BadModelOutput as fault:
        if turn == 1:
            raise
        # What was found before still stands: a model that has run out of queries ends the research, not the case.
        said = f"the research ended in turn {turn}: {fault}"
        return {
            "exhausted": True,
            "queries": [],
            "pending": [],
            "calls": list(fault.calls),
            "warnings": [said],
        }
    plan = {
        "id": f"T{turn}",
        "turn": turn,
        **answer.value.model_dump(include={"thought", "entities", "claims"}),
    }
    runtime.stream_writer({"event": "plan", **plan})
    library = await library_of_case(state)
    await library.add_decision(state["run"], "plan", plan)
    warnings = answer.log["warnings"]
    done: JSON = {"turn": turn, "hits": [], "plans": [plan], "calls": answer.log["calls"]}
    if no_search:
        named = _fresh_urls(answer.value.urls, tried)
        urls = named[: context.max_pages]
        beyond = warn_of_unread_pages(len(named), turn, context)
        pending = [{"url": url, "query": "", "title": ""} for url in urls]
        return {
            **done,
            "queries": [],
            "tried": urls,
            "pending": pending,
            "warnings": [*warnings, *beyond],
        }
    queries, beyond = _limit_queries(_distinct_queries(answer.value.queries, tried), turn)
    runtime.stream_writer({"event": "queries", "turn": turn, "queries": queries})
    return {
        **done,
        "queries": queries,
        "tried": queries,
        "pending": [],
        "warnings": [*warnings, *beyond],
    }


def _plan_entry(plan: JSON) -> Entry:
    named = [
        (name, each)
        for name, key in (("entity", "entities"), ("claim", "claims"))
        for each in plan[key]
    ]
    fields = [("thought", plan["thought"]), *named]
    return Entry(ours("Turn {}", plan["turn"]), [(name, text) for name, text in fields if text])


def _fresh_urls(urls: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Return the web addresses that are new, each once."""
    named = [url for url in urls if url.strip().casefold().startswith(("http://", "https://"))]
    return [url for url in dict.fromkeys(map(normal_url, named)) if url not in tried]


def _distinct_queries(queries: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Return the new queries. Two queries with the same words are the same."""
    seen = {" ".join(each.casefold().split()) for each in tried}
    kept = []
    for query in queries:
        words = " ".join(query.split())
        if words and words.casefold() not in seen:
            seen.add(words.casefold())
            kept.append(words)
    return kept


@node
async def search_queries(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Search every query at the same time (phase 2a); take each page once, and none that was tried before."""
    if is_closed(state) or not state["queries"]:
        return {}
    context = context_of(state)
    library = await library_of_case(state)
    found = await asyncio.gather(
        *(
            library.search(query, state["run"], state["turn"], context.hits)
            for query in state["queries"]
        )
    )
    # Told apart by their normal form, and fetched as they were given: a slash that is dropped costs a redirect.
    seen = {normal_url(page["url"]) for page in state.get("pages", [])}
    hits: list[JSON] = []
    for each in found:
        for hit in each.hits[: context.hits]:
            if normal_url(hit.url) not in seen:
                seen.add(normal_url(hit.url))
                hits.append(
                    {
                        "query": each.query,
                        "url": hit.url,
                        "title": hit.title,
                        "snippet": hit.snippet,
                    }
                )
    turn = state["turn"]
    warnings = [f"search: {each.engine}: {each.message}" for one in found for each in one.failures]
    left_out = sum(each.left_out for each in found)
    if left_out:
        how = f"hits is {context.hits} for each query"
        warnings.append(f"turn {turn}: {left_out} search results were not looked at: {how}")
    runtime.stream_writer({"event": "search", "turn": turn, "hits": len(hits)})
    return {
        "hits": hits,
        "warnings": list(dict.fromkeys([*warnings, *library.warnings_for_run(state["run"])])),
    }


@router
async def to_search(state: ResearchState) -> Literal["queries", "pages named", "no further query"]:
    """Search the queries; fetch pages that the model named itself as they are."""
    if is_closed(state) or state.get("exhausted"):
        return "no further query"
    return "queries" if state.get("queries") else "pages named"
