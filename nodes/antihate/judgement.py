"""The judgement as it grows: weighed after each page, and asked after each turn whether it is enough (section 3)."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.nodes.agents import agent, router
from tribunal.nodes.antihate import crawl
from tribunal.nodes.antihate.asking import asked, library_of
from tribunal.nodes.antihate.opening import seconds_left
from tribunal.nodes.antihate.roles import ENOUGH, WEIGH
from tribunal.nodes.exhibits import citations_mended, evidence_of, evidence_shown
from tribunal.nodes.state import Research, closed
from tribunal.prompts.marks import Entry, Material, Ours, entries, ours
from tribunal.schema import JSON
from tribunal.telling import tell


@agent
async def weigh(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2b: the judgement, updated by the page just read; sees the post again, all evidence and every judgement."""
    page = state.get("page")
    if not page or not page["evidence"]:
        return {}
    context = context_of(state)
    evidence = evidence_of(state)
    fresh = [each for each in evidence if each.id in page["evidence"]]
    known = [each for each in evidence if each.id not in page["evidence"]]
    answer = await asked(
        WEIGH,
        state,
        runtime,
        "weigh",
        f"{state['turn']}: {page['url']}",
        mend=citations_mended(state, "reasoning", who="researcher"),
        judgement=judgements_so_far(state),
        known=evidence_shown(known) if known else ours("None."),
        evidence=evidence_shown(fresh),
        details=context.mode != "no-details",
    )
    note = {"id": page["id"], "url": page["url"], "turn": state["turn"], **answer.value.model_dump()}
    tell(runtime, {"event": "judgement", **note})
    library = await library_of(state)
    await library.decided(state["run"], "judgement", note)
    return {"judgements": [note], **answer.log}


@agent
async def enough(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 2c: whether the evidence suffices; not asked where there is none, or where no further turn is left."""
    await crawl.end(state.get("crawl"))
    context, library = context_of(state), await library_of(state)
    unasked = None
    if not state.get("evidence"):
        unasked = {"sufficient": False, "missing": "no page that was read held evidence"}
    elif state["turn"] >= context.max_turns:
        unasked = {"sufficient": False, "missing": ""}
    if unasked:
        await library.decided(state["run"], "sufficiency", {"turn": state["turn"], **unasked})
        return unasked
    answer = await asked(
        ENOUGH,
        state,
        runtime,
        "enough",
        str(state["turn"]),
        judgement=judgements_so_far(state),
        evidence=evidence_shown(evidence_of(state)),
        details=context.mode != "no-details",
    )
    await library.decided(state["run"], "sufficiency", {"turn": state["turn"], **answer.value.model_dump()})
    tell(runtime, {"event": "sufficiency", "turn": state["turn"], **answer.value.model_dump()})
    return {**answer.value.model_dump(), **answer.log}


def judgements_so_far(state: Research) -> Material | Ours:
    """Every judgement with its reason, in order, as material in a prompt: the chain accumulates."""
    judgements = state.get("judgements", [])
    if not judgements:
        return ours("Undecided: no evidence has been weighed yet.")
    read = {page["id"]: ", ".join(page.get("evidence") or []) for page in state.get("pages", [])}
    return entries(
        "judgement",
        (
            Entry(
                ours("{}. {}", place, each["judgement"]),
                [("after", read.get(each["id"]) or each["url"]), ("reasoning", each["reasoning"])],
            )
            for place, each in enumerate(judgements, start=1)
        ),
    )


@router
async def to_next_turn(state: Research) -> Literal["not enough yet", "enough, or turns done"]:
    """Back to the queries, unless it is enough, or a limit is reached: turns, calls, tokens or seconds."""
    context = context_of(state)
    over = state["turn"] >= context.max_turns or state.get("budget_spent") or seconds_left(state, context) <= 0
    over = over or state.get("sufficient") or closed(state)
    return "enough, or turns done" if over else "not enough yet"
