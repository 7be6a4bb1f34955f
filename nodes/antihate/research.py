"""AntiHateAgent: search, read, weigh, and decide when it is enough (paper, section 3 and Appendices C to E).

Phase 1 phrases queries. Phase 2 searches them, judges the hits, reads what is worth it window by window, and updates
the judgement after each page. Phase 3 decides, and cites its evidence. Everything goes into the evidence record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Literal, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from tribunal.budget import paid_requests
from tribunal.context import ANTIHATE_MODES, Context, context_of, kept_settings
from tribunal.errors import BadInput, BadModelOutput, ModelError
from tribunal.models.door import Answer, Role, ask
from tribunal.nodes.antihate import crawl
from tribunal.nodes.arcade.cues import Form, one_of
from tribunal.nodes.exhibits import cited, evidence_of, one_line
from tribunal.nodes.state import Research, agent, closed, post_of
from tribunal.nodes.verdict import deliver
from tribunal.prompts import quote
from tribunal.prompts.policy import Policy, policy_in_force
from tribunal.retrievers.web.library import Library, Page, library
from tribunal.retrievers.web.pages import awindows, find_passage
from tribunal.retrievers.web.search import normal_url
from tribunal.schema import JSON, Evidence, Scheme, Step

LEAST_QUERIES = 3
MOST_QUERIES = 5


# forms and roles


class QueriesForm(Form):
    """Search queries."""

    queries: list[str]


class UrlsForm(Form):
    """Pages named from memory."""

    urls: list[str]


class RelevanceForm(Form):
    """The hits that are worth reading, by number."""

    relevant: list[int]


class PassageForm(Form):
    """One passage."""

    passage: str = Field(min_length=1)
    stance: str


class PassagesForm(Form):
    """What a window holds."""

    passages: list[PassageForm]


class WeighForm(Form):
    """The judgement after a page."""

    judgement: str
    reasoning: str = Field(min_length=1)


class EnoughForm(Form):
    """Whether to go on."""

    sufficient: bool
    missing: str


class StepForm(Form):
    """One step of the rationale."""

    claim: str = Field(min_length=1)
    evidence: list[str]


class VerdictForm(Form):
    """The final judgement."""

    label: str
    confidence: float = Field(ge=0, le=1)
    steps: list[StepForm] = Field(min_length=1)


class WordsForm(Form):
    """The baseline's answer in words."""

    hateful: bool
    reason: str


def _form(name: str, base: type[BaseModel], **fields: Any) -> Any:
    made = create_model(name, __base__=base, **fields) if fields else base

    def form(policy: Policy, scheme: Scheme) -> type[BaseModel]:
        return made

    return form


_PASSAGE = create_model("Passage", __base__=PassageForm, stance=(one_of(("supports", "refutes")), ...))


def _role(name: str, prompt: str, form: Any, **other: Any) -> Role[Any]:
    return Role(
        name=f"researcher.{name}", seat="researcher", prompt=f"antihate/{prompt}", form=form, temperature=None, **other
    )


QUERIES = _role("queries", "queries", _form("Queries", QueriesForm))
URLS = _role("urls", "urls", _form("Urls", UrlsForm))
RELEVANCE = _role("relevance", "relevance", _form("Relevance", RelevanceForm))
PASSAGES = _role("passages", "passages", _form("Passages", PassagesForm, passages=(list[_PASSAGE], ...)))
WEIGH = _role(
    "weigh", "weigh", _form("Weighing", WeighForm, judgement=(one_of(("hate", "non-hate", "undecided")), ...))
)
ENOUGH = _role("enough", "enough", _form("Enough", EnoughForm))
VERDICT = Role(
    name="judge.evidence",
    seat="judge",
    prompt="antihate/verdict",
    form=_form("Finding", VerdictForm, label=(one_of(("HATE", "NON-HATE")), ...)),
    temperature=None,
    falls_to="judge_model",
    final=True,
)


def read_words(text: str) -> WordsForm:
    """The baseline's answer, in its two forms.

    Raises:
        ValueError: it is in neither.
    """
    said = text.strip().strip("*_`\"' ")
    for opening, hateful in (("not hate speech", False), ("hate speech", True)):
        if said.casefold().startswith(opening):
            colon, reason = said[len(opening) :].strip()[:1], said[len(opening) :].strip().lstrip(":").strip(" []")
            if colon == ":" and reason:
                return WordsForm(hateful=hateful, reason=reason)
    raise ValueError("the answer is neither `hate speech: [reason]` nor `not hate speech: [reason]`")


ZERO_SHOT = Role(
    name="classifier.words",
    seat="classifier",
    prompt="antihate/baseline",
    form=_form("Words", WordsForm),
    temperature=None,
    falls_to="judge_model",
    system="plain",
    final=True,
    plain=read_words,
    room=200,
    tries=3,
)


# phase 1


async def begin(state: Research, runtime: Runtime[Context]) -> JSON:
    """Open the record and the means of search, before any call, and clear what an earlier post left.

    Raises:
        BadInput: the mode, the search or the record is none.
    """
    context = context_of(runtime)
    if context.mode not in ANTIHATE_MODES:
        raise BadInput(f"mode: {context.mode}: is not one of this graph's; they are {', '.join(ANTIHATE_MODES)}")
    post = post_of(state)
    if not post.text.strip():
        raise BadInput("text: the post has none, and research begins with its words; give one, or choose another graph")
    shelf = await library(context, post)
    run = await shelf.begin(post, kept_settings(context))
    return {
        "scheme": "binary",
        "run": run,
        "turn": 0,
        "started": time.time(),
        "queries": [],
        "tried": Overwrite([]),
        "hits": [],
        "pending": [],
        "crawl": None,
        "page": None,
        "pages": Overwrite([]),
        "judgements": Overwrite([]),
        "exhausted": False,
        "sufficient": None,
        "missing": "",
        "warnings": shelf.warnings(run),
    }


async def to_research(state: Research, runtime: Runtime[Context]) -> Literal["research", "conclude", "answer"]:
    """With knowledge, without any, or in one call."""
    match context_of(runtime).mode:
        case "no-knowledge":
            return "conclude"
        case "zero-shot":
            return "answer"
    return "research"


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
        answer = await _asked(URLS, state, runtime, "propose", str(turn), check=_new_urls(tried), **material)
        urls = list(dict.fromkeys(normal_url(url) for url in answer.value.urls if _is_web(url)))[: context.max_pages]
        targets = [{"url": url, "query": "", "title": ""} for url in urls]
        return {"turn": turn, "queries": [], "tried": urls, "hits": [], "pending": targets, **answer.log}
    try:
        answer = await _asked(QUERIES, state, runtime, "propose", str(turn), check=_new_queries(tried), **material)
    except BadModelOutput as fault:
        if turn == 1:
            raise
        # What was found before still stands: a model that has run out of queries ends the research, not the case.
        said = f"the research ended in turn {turn}: {fault}"
        return {"exhausted": True, "queries": [], "pending": [], "calls": list(fault.calls), "warnings": [said]}
    queries = _distinct(answer.value.queries, tried)[:MOST_QUERIES]
    runtime.stream_writer({"event": "queries", "turn": turn, "queries": queries})
    return {"turn": turn, "queries": queries, "tried": queries, "hits": [], "pending": [], **answer.log}


def _new_queries(tried: Sequence[str]) -> Any:
    def check(reply: QueriesForm) -> None:
        if len(_distinct(reply.queries, tried)) < LEAST_QUERIES:
            raise ValueError(
                f"queries: at least {LEAST_QUERIES} are wanted that differ from each other and from those tried"
            )

    return check


def _new_urls(tried: Sequence[str]) -> Any:
    def check(reply: UrlsForm) -> None:
        fresh = {normal_url(url) for url in reply.urls if _is_web(url)} - set(tried)
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


# phase 2


async def search(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2a: every query at the same time; pages that were tried before are left out, and each is taken once."""
    if closed(state) or not state["queries"]:
        return {}
    context, shelf = context_of(runtime), await _shelf(state, runtime)
    found = await asyncio.gather(
        *(shelf.search(query, state["run"], state["turn"], context.hits) for query in state["queries"])
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
    return {"hits": hits, "warnings": list(dict.fromkeys([*failures, *shelf.warnings(state["run"])]))}


@agent
async def choose(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2a: which hits are worth reading, judged from title and snippet; one call a query, all at the same time."""
    context = context_of(runtime)
    if not state["hits"]:
        return {}
    by_query: dict[str, list[JSON]] = {}
    for hit in state["hits"]:
        by_query.setdefault(hit["query"], []).append(hit)

    async def judged(query: str, hits: list[JSON]) -> Answer[Any]:
        shown = "\n".join(
            f"{number}. {one_line(hit['title'])}\n   {hit['url']}\n   {one_line(hit['snippet'])}"
            for number, hit in enumerate(hits, start=1)
        )
        key = f"{state['turn']}: {query}"
        details = context.mode != "no-details"
        material = {"query": quote("query", query), "hits": quote("hits", shown), "details": details}
        return await _asked(RELEVANCE, state, runtime, "relevance", key, **material)

    answers = await _all(judged(query, hits) for query, hits in by_query.items())
    chosen = [
        [hits[number - 1] for number in dict.fromkeys(answer.value.relevant) if 1 <= number <= len(hits)]
        for hits, answer in zip(by_query.values(), answers, strict=True)
    ]
    # The best of each query first, so that the limit on pages cuts the worst of all and not a whole query.
    ranked = [hits[place] for place in range(context.hits) for hits in chosen if place < len(hits)]
    pending = [{"url": hit["url"], "query": hit["query"], "title": hit["title"]} for hit in ranked[: context.max_pages]]
    shelf = await _shelf(state, runtime)
    relevant = [hit["url"] for hits in chosen for hit in hits]
    picked = [each["url"] for each in pending]
    await shelf.decided(state["run"], "relevance", {"turn": state["turn"], "relevant": relevant, "chosen": picked})
    return {"pending": pending, **_together(answers)}


async def fetch(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: send for every chosen page at once; they are read as they arrive."""
    if closed(state) or not state["pending"]:
        return {}
    return {"crawl": crawl.start([each["url"] for each in state["pending"]], _reading(state, runtime))}


@agent
async def read(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: take the next page that has been read, with the passages that were found in it, word for word."""
    context, shelf = context_of(runtime), await _shelf(state, runtime)
    urls = [each["url"] for each in state["pending"]]
    if not urls:
        return {"page": None}
    order = await shelf.order(state["turn"], urls)
    pages = crawl.here(state.get("crawl"), _reading(state, runtime))
    done = await pages.next(order or urls, in_order=order is not None, seconds=_left(state, context))
    if done is None:
        crawl.end(state.get("crawl"))
        lost = [{"id": url, "url": url, "turn": state["turn"], "error": "no time was left for it"} for url in urls]
        for each in lost:
            await shelf.decided(state["run"], "page", each)
        return {"pending": [], "page": None, "pages": lost, "warnings": [f"{len(urls)} pages were not waited for"]}
    url, page = done
    known = len(state.get("evidence", []))
    evidence = [{**passage, "id": f"E{known + place}"} for place, passage in enumerate(page["passages"], start=1)]
    note = {name: page[name] for name in ("id", "url", "turn", "page_id", "title", "language", "date", "error")}
    note |= {"rejected": page["rejected"], "evidence": [each["id"] for each in evidence]}
    runtime.stream_writer({"event": "page", **note})
    await shelf.decided(state["run"], "page", note)
    for each in evidence:
        runtime.stream_writer({"event": "evidence", **each})
        await shelf.decided(state["run"], "evidence", each)
    return {
        "pending": [each for each in state["pending"] if each["url"] != url],
        "page": note,
        "pages": [note],
        "evidence": evidence,
        "calls": page["calls"],
        "warnings": page["warnings"],
    }


@agent
async def weigh(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: the judgement so far, updated by the page just read; sees the post again, unchanged."""
    page = state.get("page")
    if not page or not page["evidence"]:
        return {}
    context = context_of(runtime)
    fresh = [each for each in evidence_of(state) if each.id in page["evidence"]]
    answer = await _asked(
        WEIGH,
        state,
        runtime,
        "weigh",
        f"{state['turn']}: {page['url']}",
        judgement=_so_far(state),
        title=one_line(page["title"]),
        evidence=quote("evidence", "\n".join(map(cited, fresh))),
        details=context.mode != "no-details",
    )
    note = {"id": page["id"], "url": page["url"], "turn": state["turn"], **answer.value.model_dump()}
    runtime.stream_writer({"event": "judgement", **note})
    shelf = await _shelf(state, runtime)
    await shelf.decided(state["run"], "judgement", note)
    return {"judgements": [note], **answer.log}


@agent
async def enough(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2c: whether the evidence suffices; not asked where there is none, or where no further turn is left."""
    crawl.end(state.get("crawl"))
    context, shelf = context_of(runtime), await _shelf(state, runtime)
    unasked = None
    if not state.get("evidence"):
        unasked = {"sufficient": False, "missing": "no page that was read held evidence"}
    elif state["turn"] >= context.max_turns:
        unasked = {"sufficient": False, "missing": ""}
    if unasked:
        await shelf.decided(state["run"], "sufficiency", {"turn": state["turn"], **unasked})
        return unasked
    answer = await _asked(
        ENOUGH,
        state,
        runtime,
        "enough",
        str(state["turn"]),
        judgement=_so_far(state),
        evidence=quote("evidence", "\n".join(map(cited, evidence_of(state)))),
        details=context.mode != "no-details",
    )
    await shelf.decided(state["run"], "sufficiency", {"turn": state["turn"], **answer.value.model_dump()})
    runtime.stream_writer({"event": "sufficiency", "turn": state["turn"], **answer.value.model_dump()})
    return {**answer.value.model_dump(), **answer.log}


# routers


async def to_search(state: Research) -> Literal["search", "fetch", "__end__"]:
    """Queries are searched; pages that the model named itself are fetched as they are."""
    if closed(state) or state.get("exhausted"):
        return "__end__"
    return "search" if state.get("queries") else "fetch"


async def to_read(state: Research) -> Literal["fetch", "enough"]:
    """Nothing worth reading ends the turn."""
    return "fetch" if state.get("pending") else "enough"


async def next_page(state: Research) -> Literal["read", "enough"]:
    """Page after page, until none is left."""
    return "read" if state.get("pending") and not closed(state) else "enough"


async def another_turn(state: Research, runtime: Runtime[Context]) -> Literal["propose", "__end__"]:
    """Back to the queries, unless it is enough, or a limit is reached: turns, calls, tokens or seconds."""
    context = context_of(runtime)
    over = state["turn"] >= context.max_turns or state.get("budget_spent") or _left(state, context) <= 0
    return "__end__" if state.get("sufficient") or over or closed(state) else "propose"


# phase 3


@agent
async def conclude(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 3: HATE or NON-HATE, with confidence, and a rationale whose steps cite evidence by id; sees all of it."""
    context, evidence = context_of(runtime), evidence_of(state)
    researched = context.mode != "no-knowledge"
    answer = await ask(
        VERDICT,
        state,
        runtime,
        check=_known_ids(evidence),
        researched=researched,
        judgement=_so_far(state) if researched else "",
        evidence=quote("evidence", "\n".join(map(cited, evidence))) if evidence else "None was found.",
        details=context.mode != "no-details",
    )
    reply = answer.value
    steps = tuple(Step(claim=each.claim, evidence=tuple(each.evidence)) for each in reply.steps)
    words = " ".join(f"{step.claim.rstrip('.')}{_marks(step)}." for step in steps)
    done = await deliver(int(reply.label == "HATE"), "binary", words, runtime, confidence=reply.confidence, steps=steps)
    warnings = (
        [] if evidence or not researched else ["no page could be read with evidence kept: the post alone decided"]
    )
    warnings += _limits(state, context) if researched else []
    shelf = await _shelf(state, runtime)
    await shelf.decided(state["run"], "verdict", done["outcome"])
    return {**done, **answer.log, "warnings": [*answer.log["warnings"], *warnings, *shelf.warnings(state["run"])]}


@agent
async def answer(state: Research, runtime: Runtime[Context]) -> JSON:
    """The baseline: one zero-shot call, answered in words (Appendix D)."""
    given = await ask(ZERO_SHOT, state, runtime)
    return {
        "track": "baseline",
        **await deliver(int(given.value.hateful), "binary", given.value.reason, runtime),
        **given.log,
    }


def _known_ids(evidence: Sequence[Evidence]) -> Any:
    ids = {each.id for each in evidence}

    def check(reply: VerdictForm) -> None:
        for step in reply.steps:
            if unknown := next((each for each in step.evidence if each not in ids), None):
                held = f"the ids are {', '.join(sorted(ids))}" if ids else "there is no evidence to cite"
                raise ValueError(f"steps.evidence: {unknown!r} is not among the evidence; {held}")

    return check


def _marks(step: Step) -> str:
    return f" [{', '.join(step.evidence)}]" if step.evidence else ""


def _limits(state: Research, context: Context) -> list[str]:
    if state.get("sufficient"):
        return []
    if _left(state, context) <= 0:
        return [f"the research was ended after {context.max_seconds:g} s"]
    if state["turn"] >= context.max_turns:
        return [f"the evidence was not found to be enough in {context.max_turns} turns"]
    return []


# pages, in the background


def _reading(state: Research, runtime: Runtime[Context]) -> Any:
    """What is done with one URL: fetch it, read it window by window, keep passages that stand in it word for word."""
    by_url = {each["url"]: each for each in state["pending"]}

    async def work(url: str) -> JSON:
        context_of(runtime)
        target = by_url[url]
        note: JSON = {
            "id": url, "url": url, "turn": state["turn"], "page_id": None, "title": target["title"], "language": None,
            "date": None, "error": None, "passages": [], "rejected": 0, "calls": [], "warnings": [],
        }  # fmt: skip
        shelf = await _shelf(state, runtime)
        # A page that the model named itself may carry the post's own words outward; one that a search found can't.
        secret = post_of(state).text if not target["query"] else ""
        page = await shelf.page(url, state["run"], state["turn"], secret_text=secret)
        if isinstance(page, str):
            return {**note, "error": page}
        note |= {
            "page_id": page.id,
            "title": page.title or target["title"],
            "language": page.language,
            "date": page.date,
        }
        try:
            passages = await _passages(page, target["query"], note, state, runtime, shelf)
        except ModelError as fault:
            # A page that the model won't or can't read is one page less, and not the end of the case.
            said = f"{url}: could not be read: {fault}"
            return {**note, "error": said, "calls": list(fault.calls), "warnings": [*fault.warnings, said]}
        return {**note, "passages": passages}

    return work


async def _passages(
    page: Page, query: str, note: JSON, state: Research, runtime: Runtime[Context], shelf: Library
) -> list[JSON]:
    """The evidence in a page; its windows are read at the same time. Calls and rejections are written into the note."""
    context = context_of(runtime)
    counter = await shelf.counter()
    if counter.warning:
        note["warnings"].append(counter.warning)
    parts = await awindows(page.text, context.window_tokens, context.window_overlap, counter)
    parts = parts[: _affordable(context, state)]

    async def one(place: int) -> Answer[Any]:
        return await _asked(
            PASSAGES,
            state,
            runtime,
            "passages",
            f"{page.id}: {place}",
            window=place + 1,
            windows=len(parts),
            title=one_line(note["title"]),
            page=quote("page", parts[place].text),
            details=context.mode != "no-details",
        )

    answers = await _all(one(place) for place in range(len(parts)))
    found: list[JSON] = []
    spans: set[tuple[int, int]] = set()
    for part, given in zip(parts, answers, strict=True):
        for reply in given.value.passages:
            span = find_passage(part.text, reply.passage)
            if span is None:
                note["rejected"] += 1
                continue
            start, end = part.start + span[0], part.start + span[1]
            if (start, end) not in spans:
                spans.add((start, end))
                made = Evidence(
                    id="", query=query, url=page.url, page_id=page.id, title=page.title or note["title"],
                    passage=page.text[start:end], stance=reply.stance, window=part.index, start=start, end=end,
                )  # fmt: skip
                found.append(made.dump())
    together = _together(answers)
    note["calls"], note["warnings"] = together["calls"], [*note["warnings"], *together["warnings"]]
    if note["rejected"]:
        note["warnings"] = [
            *note["warnings"],
            f"{page.url}: {note['rejected']} passages that it doesn't hold were rejected",
        ]
    return found


def _affordable(context: Context, state: Research) -> int:
    """How many windows of a page may be read: pages are read at once, so each gets its share of what is left."""
    if context.max_calls is None:
        return context.max_windows
    left = context.max_calls - paid_requests(state) - 2 - len(state["pending"])
    return max(0, min(context.max_windows, left // max(1, len(state["pending"]))))


# words


def _so_far(state: Research) -> str:
    judgements = state.get("judgements", [])
    if not judgements:
        return "Undecided: no evidence has been weighed yet."
    last = judgements[-1]
    return quote("judgement", f"{last['judgement']}: {last['reasoning']}")


async def _shelf(state: Research, runtime: Runtime[Context]) -> Library:
    return await library(context_of(runtime), post_of(state))


def _left(state: Research, context: Context) -> float:
    """Seconds of research that are left; the last twentieth of one is as good as none."""
    return max(0.0, float(state.get("started", 0.0)) + context.max_seconds - time.time() - 0.05)


def _together(answers: Sequence[Answer[Any]]) -> JSON:
    """The records of several calls as one."""
    return {
        "calls": [call for given in answers for call in given.log["calls"]],
        "warnings": [warning for given in answers for warning in given.log["warnings"]],
    }


async def _all(asked: Any) -> list[Answer[Any]]:
    """Calls made at the same time; if some fail, the first fault is raised, with the records of all that were made."""
    results = await asyncio.gather(*asked, return_exceptions=True)
    faults = [each for each in results if isinstance(each, BaseException)]
    if not faults:
        return cast("list[Answer[Any]]", results)
    first = next((each for each in faults if isinstance(each, ModelError)), faults[0])
    if isinstance(first, ModelError):
        done = [each for each in results if isinstance(each, Answer)]
        also = [call for each in faults if isinstance(each, ModelError) and each is not first for call in each.calls]
        first.calls = [*_together(done)["calls"], *also, *first.calls]
    raise first


async def _asked(
    role: Role[Any],
    state: Research,
    runtime: Runtime[Context],
    phase: str,
    key: str,
    check: Any = None,
    **material: Any,
) -> Answer[Any]:
    """`ask`, with the answer written to the record, or taken from it where the run is a replay."""
    context = context_of(runtime)
    shelf = await _shelf(state, runtime)
    policy = await policy_in_force(context.policy)
    recorded = await shelf.reply(phase, key)
    if recorded is not None:
        try:
            return Answer(role.form(policy, "binary").model_validate(recorded), {"calls": [], "warnings": []})
        except ValueError as error:
            raise BadInput(f"search: the recorded answer to {phase} {key!r} can't be used: {error}") from error
    given = await ask(role, state, runtime, check=check, **material)
    await shelf.replied(state["run"], phase, key, given.value.model_dump(), given.log["calls"])
    return given
