"""Phase 2: choose among the hits, send for the pages, and take them one by one (AntiHateAgent, section 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import Answer
from tribunal.models.door import door_here
from tribunal.models.seating import models_for
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.antihate import crawl
from tribunal.nodes.antihate.asking import all_answers, asked, library_of, log_of
from tribunal.nodes.antihate.limits import pages_beyond
from tribunal.nodes.antihate.opening import seconds_left
from tribunal.nodes.antihate.passages import page_reader
from tribunal.nodes.antihate.roles import PASSAGES, RELEVANCE, RelevanceForm, relevance_form
from tribunal.nodes.exhibits import short_line
from tribunal.nodes.forms import Mend, always
from tribunal.nodes.state import Research, closed
from tribunal.prompts.marks import Entry, entries, ours, quote
from tribunal.schema import JSON
from tribunal.stops import show_question, stop_at_head
from tribunal.telling import tell


@agent
async def choose(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2a: which hits are worth reading, judged from title and snippet; one call a query, all at the same time."""
    context = context_of(state)
    if not state["hits"]:
        return {}
    by_query: dict[str, list[JSON]] = {}
    for hit in state["hits"]:
        by_query.setdefault(hit["query"], []).append(hit)

    async def judged(query: str, hits: list[JSON]) -> Answer[Any]:
        shown = entries("hits", (_hit(number, hit) for number, hit in enumerate(hits, start=1)))
        key = f"{state['turn']}: {query}"
        details = context.mode != "no-details"
        material: JSON = {"query": quote("query", query), "hits": shown, "details": details}
        role = replace(RELEVANCE, form=always(relevance_form(len(hits))))
        mend = _listed_alone(query, len(hits))
        return await asked(role, state, runtime, "relevance", key, mend=mend, **material)

    answers = await all_answers(judged(query, hits) for query, hits in by_query.items())
    chosen = [
        [hits[number - 1] for number in answer.value.relevant]
        for hits, answer in zip(by_query.values(), answers, strict=True)
    ]
    # The best of each query first, so that the limit on pages cuts the worst of all and not a whole query.
    ranked = [hits[place] for place in range(context.hits) for hits in chosen if place < len(hits)]
    pending = [{"url": hit["url"], "query": hit["query"], "title": hit["title"]} for hit in ranked[: context.max_pages]]
    library = await library_of(state)
    relevant = [hit["url"] for hits in chosen for hit in hits]
    picked = [each["url"] for each in pending]
    await library.decided(state["run"], "relevance", {"turn": state["turn"], "relevant": relevant, "chosen": picked})
    log = log_of(answers)
    beyond = pages_beyond(len(ranked), state["turn"], context)
    return {"pending": pending, **log, "warnings": [*log["warnings"], *beyond]}


def _hit(number: int, hit: JSON) -> Entry:
    fields = (("title", short_line(hit["title"])), ("address", hit["url"]), ("snippet", short_line(hit["snippet"])))
    return Entry(ours("{}.", number), fields)


def _listed_alone(query: str, hits: int) -> Mend[RelevanceForm]:
    """A mender: the numbers of hits, each once; one that no hit has is left out, with a warning."""

    def mend(chosen: RelevanceForm, warnings: list[str]) -> RelevanceForm:
        numbers = list(dict.fromkeys(chosen.relevant))
        if unknown := [str(number) for number in numbers if not 1 <= number <= hits]:
            warnings.append(
                f"the researcher chose {', '.join(unknown)} of {hits} hits for “{query}”; that was left out"
            )
        return chosen.model_copy(update={"relevant": [number for number in numbers if 1 <= number <= hits]})

    return mend


@node
@stop_at_head
async def fetch(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: send for every chosen page at once; they are read as they arrive.

    A stop is before they are sent for: what the researcher will read of them nobody knows yet.
    """
    if closed(state) or not state["pending"]:
        return {}
    await show_question(PASSAGES.seat, lambda: _pages_to_read(state))
    return {"crawl": await crawl.start([each["url"] for each in state["pending"]], page_reader(state, runtime))}


async def _pages_to_read(state: Research) -> JSON:
    """Return what a person is shown at a stop before pages are sent for."""
    context = context_of(state)
    [model, *_] = models_for(context, PASSAGES.seat, PASSAGES.falls_to, (await door_here()).environment)
    pages = [each["url"] for each in state["pending"]]
    return {"seat": PASSAGES.seat, "role": PASSAGES.name, "model": str(model), "pages": pages}


@take_part_while_open
async def read(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: take the next page that has been read, with the passages that were found in it, word for word."""
    context, library = context_of(state), await library_of(state)
    urls = [each["url"] for each in state["pending"]]
    if not urls:
        return {"page": None}
    order = await library.order(state["turn"], urls)
    pages = await crawl.resume(state.get("crawl"), page_reader(state, runtime))
    done = await pages.next(order or urls, in_order=order is not None, seconds=seconds_left(state, context))
    if done is None:
        await crawl.end(state.get("crawl"))
        lost = [{"id": url, "url": url, "turn": state["turn"], "error": "no time was left for it"} for url in urls]
        for each in lost:
            await library.decided(state["run"], "page", each)
        return {"pending": [], "page": None, "pages": lost, "warnings": [f"{len(urls)} pages were not waited for"]}
    url, page = done
    known = len(state.get("evidence", []))
    evidence = [{**passage, "id": f"E{known + place}"} for place, passage in enumerate(page["passages"], start=1)]
    note = {name: page[name] for name in ("id", "url", "turn", "page_id", "title", "language", "date", "error")}
    note |= {"rejected": page["rejected"], "evidence": [each["id"] for each in evidence]}
    tell(runtime, {"event": "page", **note})
    await library.decided(state["run"], "page", note)
    for each in evidence:
        tell(runtime, {"event": "evidence", **each})
        await library.decided(state["run"], "evidence", each)
    return {
        "pending": [each for each in state["pending"] if each["url"] != url],
        "page": note,
        "pages": [note],
        "evidence": evidence,
        "calls": page["calls"],
        "warnings": page["warnings"],
    }


@router
async def to_fetch(state: Research) -> Literal["pages to read", "nothing to read"]:
    """Nothing worth reading ends the turn."""
    return "pages to read" if state.get("pending") else "nothing to read"


@router
async def to_next_page(state: Research) -> Literal["next page", "all pages read"]:
    """Page after page, until none is left."""
    return "next page" if state.get("pending") and not closed(state) else "all pages read"
