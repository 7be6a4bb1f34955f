"""The judgement as it grows, and the verdict, which cites its evidence (section 3, Appendix D)."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime

from tribunal.errors import ModelError
from tribunal.models.ask import Answer, ask
from tribunal.models.saved_calls import save_call
from tribunal.models.stops import is_stepped_through
from tribunal.nodes.agents import agent, router
from tribunal.nodes.antihate import crawl
from tribunal.nodes.antihate.research import ask_archived, library_of_case, seconds_left
from tribunal.nodes.antihate.roles import (
    ENOUGH,
    VERDICT,
    WEIGH,
    ZERO_SHOT,
    VerdictForm,
    verdict_form,
)
from tribunal.nodes.exhibits import evidence_of, evidence_shown, strike_unknown_citations
from tribunal.nodes.forms import (
    Mend,
    chain_menders,
    cited_clauses,
    citing_form,
    mend_percent,
    same_form,
    strike_unknown_clauses,
)
from tribunal.nodes.state import ResearchState
from tribunal.nodes.verdict import (
    USUAL_THRESHOLD,
    confidence_wanted,
    deliver,
    is_closed,
    is_uncertain,
)
from tribunal.prompts.marks import Entry, Material, Ours, entries, ours
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Step
from tribunal.settings.context import Context, context_of


@agent
async def weigh_page(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Update the judgement by the page just read (phase 2b); sees the post again, all evidence and every judgement.

    The pages that have arrived meanwhile are read at the same time.
    """
    page = state.get("page")
    if not page or not page["evidence"]:
        return {}
    evidence = evidence_of(state)
    fresh = [each for each in evidence if each.id in page["evidence"]]
    known = [each for each in evidence if each.id not in page["evidence"]]
    key = f"{state['turn']}: {page['url']}"

    async def ask_researcher() -> Answer[Any]:
        return await ask_archived(
            WEIGH,
            state,
            runtime,
            "weigh",
            key,
            mend=strike_unknown_citations(state, "reasoning", who="researcher"),
            judgement=judgements_so_far(state),
            known=evidence_shown(known) if known else ours("None."),
            evidence=evidence_shown(fresh),
        )

    weighing = save_call(f"weigh: {key}", WEIGH, state, runtime, ask_researcher)
    answer, read = await asyncio.gather(
        weighing, _read_meanwhile(state, runtime), return_exceptions=True
    )
    update, log = ({}, {"calls": [], "warnings": []}) if isinstance(read, BaseException) else read
    if isinstance(answer, ModelError):
        answer.calls = (*log["calls"], *answer.calls)
    for ended in (answer, read):
        if isinstance(ended, BaseException):
            raise ended
    note = {
        "id": page["id"],
        "url": page["url"],
        "turn": state["turn"],
        **answer.value.model_dump(),
    }
    runtime.stream_writer({"event": "judgement", **note})
    library = await library_of_case(state)
    await library.add_decision(state["run"], "judgement", note)
    return {
        "judgements": [note],
        **update,
        **{name: [*answer.log[name], *log[name]] for name in log},
    }


async def _read_meanwhile(state: ResearchState, runtime: Runtime[Context]) -> tuple[JSON, JSON]:
    """Read the pages that have arrived, if none is read and waits for its judgement; return the update, and the log."""
    nothing: JSON = {"calls": [], "warnings": []}
    if state.get("read_pages") or not state["pending"] or is_stepped_through(state, runtime):
        return {}, nothing
    if await (await library_of_case(state)).replay_order(
        state["turn"], [each["url"] for each in state["pending"]]
    ):
        return {}, nothing  # a replay goes the way that the archived run went
    pages, log = await crawl.read_arrived_pages(state, runtime, seconds=0, kept=1)
    return {"read_pages": pages}, log


@agent
async def check_sufficiency(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Ask whether the evidence suffices (phase 2c), unless there is none, or no further turn is left."""
    await crawl.end_crawl(state)
    context = context_of(state)
    library = await library_of_case(state)
    unasked = None
    if not state.get("evidence"):
        unasked = {"sufficient": False, "missing": "no page that was read had evidence"}
    elif state["turn"] >= context.max_turns:
        unasked = {"sufficient": False, "missing": ""}
    if unasked:
        await library.add_decision(state["run"], "sufficiency", {"turn": state["turn"], **unasked})
        return unasked
    answer = await ask_archived(
        ENOUGH,
        state,
        runtime,
        "enough",
        str(state["turn"]),
        judgement=judgements_so_far(state),
        evidence=evidence_shown(evidence_of(state)),
    )
    await library.add_decision(
        state["run"], "sufficiency", {"turn": state["turn"], **answer.value.model_dump()}
    )
    runtime.stream_writer(
        {"event": "sufficiency", "turn": state["turn"], **answer.value.model_dump()}
    )
    return {**answer.value.model_dump(), **answer.log}


def judgements_so_far(state: ResearchState) -> Material | Ours:
    """Return every judgement with its reason, in order, as material in a prompt: the chain accumulates."""
    judgements = state.get("judgements", [])
    if not judgements:
        return ours("Undecided: no evidence has been weighed yet.")
    read = {page["id"]: ", ".join(page.get("evidence") or []) for page in state.get("pages", [])}
    listed = []
    for place, each in enumerate(judgements, start=1):
        fields = [("after", read.get(each["id"]) or each["url"]), ("reasoning", each["reasoning"])]
        listed.append(Entry(ours("{}. {}", place, each["judgement"]), fields))
    return entries("judgement", listed)


@router
async def to_next_turn(state: ResearchState) -> Literal["not enough yet", "enough, or turns done"]:
    """Go back to the queries, unless it is enough, or turns, calls, tokens or seconds are spent."""
    context = context_of(state)
    over = (
        state["turn"] >= context.max_turns
        or state.get("budget_spent")
        or seconds_left(state, context) <= 0
    )
    over = over or state.get("sufficient") or is_closed(state)
    return "enough, or turns done" if over else "not enough yet"


@agent
async def decide_by_evidence(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Decide HATE or NON-HATE, with confidence and steps that cite evidence by id (phase 3); sees all of it."""
    context = context_of(state)
    evidence = evidence_of(state)
    researched = context.mode != "no-knowledge"
    ids = tuple(each.id for each in evidence)
    strike = strike_unknown_citations(state, "claim", each="steps", who="judge")
    known = strike_unknown_clauses(await policy_of(state, runtime), "judge")
    answer = await ask(
        replace(VERDICT, form=citing_form(same_form(verdict_form(ids)))),
        state,
        runtime,
        mend=chain_menders(_citation_mender(ids), strike, known, mend_percent),
        researched=researched,
        cites=bool(ids),
        judgement=judgements_so_far(state) if researched else "",
        evidence=evidence_shown(evidence) if evidence else ours("None was found."),
        details=context.mode != "no-details",
    )
    finding = answer.value
    steps = tuple(Step(claim=each.claim, evidence=tuple(each.evidence)) for each in finding.steps)
    marks = [f" [{', '.join(step.evidence)}]" if step.evidence else "" for step in steps]
    claimed = [
        (step.claim.rstrip("."), mark)
        for step, mark in zip(steps, marks, strict=True)
        if step.claim
    ]
    words = " ".join(f"{claim}{mark}." for claim, mark in claimed)
    warnings = [*answer.log["warnings"]]
    if researched and not evidence:
        warnings.append("no evidence was found on any page: only the post decided")
    if researched and not state.get("sufficient"):
        if seconds_left(state, context) <= 0:
            warnings.append(f"the research was ended after {context.max_seconds:g} s")
        elif state["turn"] >= context.max_turns:
            warnings.append(f"the evidence was not found to be enough in {context.max_turns} turns")
    library = await library_of_case(state)
    warnings += library.warnings_for_run(state["run"])
    label = int(finding.label == "HATE")
    log = {"calls": answer.log["calls"], "warnings": warnings}
    # It states a confidence in any case; where none is wanted, a missing one is no fault.
    unsure = answer.confidence is not None and answer.confidence < USUAL_THRESHOLD
    if confidence_wanted(context):
        unsure = await is_uncertain(state, label, "binary", answer.confidence)
    how: JSON = {"confidence": answer.confidence, "uncertain": unsure, "steps": steps}
    how["clauses"] = cited_clauses(finding)
    done = await deliver(label, "binary", words, state, runtime, log, **how)
    await library.add_decision(state["run"], "verdict", done["outcome"])
    return done


@agent
async def answer_zero_shot(state: ResearchState, runtime: Runtime[Context]) -> JSON:
    """Answer in one zero-shot call, in words, without a confidence: the baseline (Appendix D)."""
    given = await ask(ZERO_SHOT, state, runtime)
    label = int(given.value.hateful)
    words = given.value.reason
    unsure = await is_uncertain(state, label, "binary", None)
    done = await deliver(label, "binary", words, state, runtime, given.log, uncertain=unsure)
    return {"track": "baseline", **done}


def _citation_mender(ids: Sequence[str]) -> Mend[VerdictForm]:
    """Return a mender: each step cites evidence by its ids, each once; one that no evidence has is struck out."""
    held = dict(zip(map(_bare_id, ids), ids, strict=True))

    def mend(answer: VerdictForm, warnings: list[str]) -> VerdictForm:
        steps = []
        for step in answer.steps:
            unknown = ", ".join(each for each in step.evidence if _bare_id(each) not in held)
            if unknown:
                warnings.append(
                    f"the judge cited {unknown}, which this case doesn't hold; that was struck out"
                )
            known = dict.fromkeys(
                held[_bare_id(each)] for each in step.evidence if _bare_id(each) in held
            )
            steps.append(step.model_copy(update={"evidence": list(known)}))
        return answer.model_copy(update={"steps": steps})

    return mend


def _bare_id(cited: str) -> str:
    """Return an id however it is written: [E1], e1."""
    return unicodedata.normalize("NFKC", cited).strip(" []()").upper()
