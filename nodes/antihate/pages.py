"""Phase 2: choose among the hits, send for the pages, and take them one by one (AntiHateAgent, section 3)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime

from tribunal.models.ask import Answer
from tribunal.models.registry import current_registry, models_of_seat
from tribunal.models.saved_calls import save_call
from tribunal.models.stops import is_stepped_through, is_stopped_at, stop_before
from tribunal.nodes.agents import agent, asking_node, router
from tribunal.nodes.antihate import crawl
from tribunal.nodes.antihate.queries import warn_of_unread_pages
from tribunal.nodes.antihate.research import (
    ask_archived,
    gather_answers,
    library_of_case,
    merge_logs,
    seconds_left,
)
from tribunal.nodes.antihate.roles import PASSAGES, RELEVANCE, RelevanceForm, relevance_form
from tribunal.nodes.exhibits import short_line
from tribunal.nodes.forms import Mend, same_form
from tribunal.nodes.state import ResearchState
from tribunal.nodes.verdict import is_closed
from tribunal.prompts.marks import Entry, entries, ours, quote
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of


@agent
async def choose_hits(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Choose hits to read by address, title and snippet (phase 2a); one call a query, all at the same time."""
    context = context_of(state)
    if not state["hits"]:
        return {}
    by_query: dict[str, list[JSON]] = {}
    for hit in state["hits"]:
        by_query.setdefault(hit["query"], []).append(hit)

    def judge_hits(query: str, hits: list[JSON]) -> Awaitable[Answer[Any]]:
        shown = entries(
            "hits", (_hit_entry(number, hit) for number, hit in enumerate(hits, start=1))
        )
        role = replace(RELEVANCE, form=same_form(relevance_form(len(hits))))
        key = f"{state['turn']}: {query}"

        async def ask_researcher() -> Answer[Any]:
            mend = _number_mender(query, len(hits))
            named = quote("query", query)
            return await ask_archived(
                role, state, runtime, "relevance", key, mend=mend, query=named, hits=shown
            )

        return save_call(f"relevance: {key}", role, state, runtime, ask_researcher)

    judged = (judge_hits(query, hits) for query, hits in by_query.items())
    answers = await gather_answers(judged, in_turn=is_stepped_through(state, runtime))
    chosen = [
        [hits[number - 1] for number in answer.value.relevant]
        for hits, answer in zip(by_query.values(), answers, strict=True)
    ]
    # The best of each query first, so that the limit on pages cuts the worst of all and not a whole query.
    ranked = [hits[place] for place in range(context.hits) for hits in chosen if place < len(hits)]
    pending = [
        {"url": hit["url"], "query": hit["query"], "title": hit["title"]}
        for hit in ranked[: context.max_pages]
    ]
    library = await library_of_case(state)
    relevant = [hit["url"] for hits in chosen for hit in hits]
    decided = {
        "turn": state["turn"],
        "relevant": relevant,
        "chosen": [each["url"] for each in pending],
    }
    await library.add_decision(state["run"], "relevance", decided)
    log = merge_logs(answers)
    beyond = warn_of_unread_pages(len(ranked), state["turn"], context)
    return {"pending": pending, **log, "warnings": [*log["warnings"], *beyond]}


def _hit_entry(number: int, hit: JSON) -> Entry:
    fields = (
        ("title", short_line(hit["title"])),
        ("address", hit["url"]),
        ("snippet", short_line(hit["snippet"])),
    )
    return Entry(ours("{}.", number), fields)


def _number_mender(query: str, hits: int) -> Mend[RelevanceForm]:
    """Return a mender: the numbers of hits, each once; one that no hit has is left out, with a warning."""

    def mend(chosen: RelevanceForm, warnings: list[str]) -> RelevanceForm:
        numbers = list(dict.fromkeys(chosen.relevant))
        unknown = ", ".join(str(number) for number in numbers if not 1 <= number <= hits)
        if unknown:
            warnings.append(
                f"the researcher chose {unknown} of {hits} hits for “{query}”; that was left out"
            )
        return chosen.model_copy(
            update={"relevant": [number for number in numbers if 1 <= number <= hits]}
        )

    return mend


@asking_node
async def fetch_pages(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Send for every chosen page at once (phase 2b); they are read as they arrive.

    A stop before they are sent for shows their addresses.
    """
    if is_closed(state) or not state["pending"]:
        return {}
    warnings = []
    if is_stopped_at(PASSAGES.seat, state, runtime):
        warnings = [stop_before(await _pages_to_read(state), runtime)]
    return {"crawl": await crawl.start_crawl(state), "warnings": warnings}


async def _pages_to_read(state: ResearchState) -> JSON:
    """Return the summary that a person is shown at a stop before pages are fetched."""
    context = context_of(state)
    [model, *_] = models_of_seat(
        context, PASSAGES.seat, PASSAGES.falls_to, (await current_registry()).environment
    )
    pages = [each["url"] for each in state["pending"]]
    return {"seat": PASSAGES.seat, "role": PASSAGES.name, "model": str(model), "pages": pages}


@agent
async def read_next_page(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Return the next page that was read, with its passages, word for word; read the pages that arrived (phase 2b).

    The pages that have arrived are read together. They are handed out one by one, for the judgement after each.
    """
    context = context_of(state)
    library = await library_of_case(state)
    urls = [each["url"] for each in state["pending"]]
    if not urls:
        return {"page": None}
    read_pages = state.get("read_pages") or []
    log: JSON = {"calls": [], "warnings": []}
    if not read_pages:
        read_pages, log = await crawl.read_arrived_pages(
            state, runtime, seconds=seconds_left(state, context)
        )
        if not read_pages:
            return await _give_up_pages(urls, state)
    page, *left = read_pages
    known = len(state.get("evidence", []))
    evidence = [
        {**passage, "id": f"E{known + place}"}
        for place, passage in enumerate(page["passages"], start=1)
    ]
    note = {name: value for name, value in page.items() if name != "passages"}
    note["evidence"] = [each["id"] for each in evidence]
    runtime.stream_writer({"event": "page", **note})
    await library.add_decision(state["run"], "page", note)
    for each in evidence:
        runtime.stream_writer({"event": "evidence", **each})
        await library.add_decision(state["run"], "evidence", each)
    return {
        "pending": [each for each in state["pending"] if each["url"] != page["url"]],
        "read_pages": left,
        "page": note,
        "pages": [note],
        "evidence": evidence,
        **log,
    }


async def _give_up_pages(urls: list[str], state: ResearchState) -> JSON:
    """Leave out the pages that did not arrive in time."""
    await crawl.end_crawl(state)
    library = await library_of_case(state)
    lost = [
        {"id": url, "url": url, "turn": state["turn"], "error": "no time was left for it"}
        for url in urls
    ]
    for each in lost:
        await library.add_decision(state["run"], "page", each)
    return {
        "pending": [],
        "page": None,
        "pages": lost,
        "warnings": [f"{len(urls)} pages were not waited for"],
    }


@router
async def to_fetch(state: ResearchState) -> Literal["pages to read", "nothing to read"]:
    """End the turn if nothing is worth reading."""
    return "pages to read" if state.get("pending") else "nothing to read"


@router
async def to_next_page(state: ResearchState) -> Literal["next page", "all pages read"]:
    """Read page after page, until none is left."""
    return "next page" if state.get("pending") and not is_closed(state) else "all pages read"
