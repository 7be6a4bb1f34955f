"""Phase 3: the verdict, which cites its evidence; and the baseline, which has none (section 3, Appendix D)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import ask
from tribunal.nodes.agents import agent
from tribunal.nodes.antihate.asking import library_of
from tribunal.nodes.antihate.judgement import judgements_so_far
from tribunal.nodes.antihate.opening import seconds_left
from tribunal.nodes.antihate.roles import VERDICT, ZERO_SHOT, VerdictForm, verdict_form
from tribunal.nodes.exhibits import citations_mended, evidence_of, evidence_shown
from tribunal.nodes.forms import Mend, always, in_percent, in_turn
from tribunal.nodes.state import Research
from tribunal.nodes.verdict import deliver
from tribunal.prompts.marks import ours
from tribunal.schema import JSON, Step


@agent
async def conclude(state: Research, runtime: Runtime[Context]) -> JSON:
    """Phase 3: HATE or NON-HATE, with confidence, and a rationale whose steps cite evidence by id; sees all of it."""
    context, evidence = context_of(state), evidence_of(state)
    researched, ids = context.mode != "no-knowledge", tuple(each.id for each in evidence)
    answer = await ask(
        replace(VERDICT, form=always(verdict_form(ids))),
        state,
        runtime,
        mend=in_turn(_cited_alone(ids), citations_mended(state, "claim", each="steps", who="judge"), in_percent),
        researched=researched,
        cites=bool(ids),
        judgement=judgements_so_far(state) if researched else "",
        evidence=evidence_shown(evidence) if evidence else ours("None was found."),
        details=context.mode != "no-details",
    )
    finding = answer.value
    steps = tuple(Step(claim=each.claim, evidence=tuple(each.evidence)) for each in finding.steps)
    words = " ".join(f"{step.claim.rstrip('.')}{_marks(step)}." for step in steps)
    done = await deliver(
        int(finding.label == "HATE"),
        "binary",
        words,
        state,
        runtime,
        answer.log["calls"],
        confidence=answer.confidence,
        steps=steps,
    )
    warnings = (
        [] if evidence or not researched else ["no page could be read with evidence kept: the post alone decided"]
    )
    warnings += _limits_reached(state, context) if researched else []
    library = await library_of(state)
    await library.decided(state["run"], "verdict", done["outcome"])
    return {**done, **answer.log, "warnings": [*answer.log["warnings"], *warnings, *library.warnings(state["run"])]}


@agent
async def answer(state: Research, runtime: Runtime[Context]) -> JSON:
    """The baseline: one zero-shot call, answered in words (Appendix D)."""
    given = await ask(ZERO_SHOT, state, runtime)
    return {
        "track": "baseline",
        **await deliver(int(given.value.hateful), "binary", given.value.reason, state, runtime, given.log["calls"]),
        **given.log,
    }


def _cited_alone(ids: Sequence[str]) -> Mend[VerdictForm]:
    """A mender: each step cites evidence by its ids, each once; one that no evidence has is struck out."""
    held = dict(zip(map(_bare, ids), ids, strict=True))

    def mend(answer: VerdictForm, warnings: list[str]) -> VerdictForm:
        steps = []
        for step in answer.steps:
            if unknown := [each for each in step.evidence if _bare(each) not in held]:
                warnings.append(
                    f"the judge cited {', '.join(unknown)}, which this case doesn't hold; that was struck out"
                )
            known = dict.fromkeys(held[_bare(each)] for each in step.evidence if _bare(each) in held)
            steps.append(step.model_copy(update={"evidence": list(known)}))
        return answer.model_copy(update={"steps": steps})

    return mend


def _bare(cited: str) -> str:
    """An id however it is written: [E1], e1."""
    return unicodedata.normalize("NFKC", cited).strip(" []()").upper()


def _marks(step: Step) -> str:
    return f" [{', '.join(step.evidence)}]" if step.evidence else ""


def _limits_reached(state: Research, context: Context) -> list[str]:
    if state.get("sufficient"):
        return []
    if seconds_left(state, context) <= 0:
        return [f"the research was ended after {context.max_seconds:g} s"]
    if state["turn"] >= context.max_turns:
        return [f"the evidence was not found to be enough in {context.max_turns} turns"]
    return []
