"""The Summary agent of MV-Debate: what the debate has come to, and why (paper, Debate Loop)."""

from __future__ import annotations

from typing import Annotated, Literal

from langgraph.runtime import Runtime
from pydantic import create_model

from tribunal.context import Context, context_of
from tribunal.errors import ModelError, Refused
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.clauses import cited_clauses, mend_decision
from tribunal.nodes.forms import (
    REASON,
    Form,
    citing_form,
    one_of,
    same_form,
    text_bounds,
)
from tribunal.nodes.mv_debate.history import (
    answers_in_words,
    history_in_words,
    round_entry,
    turns_at_stage,
    view_of_turn,
)
from tribunal.nodes.mv_debate.views import NO, YES
from tribunal.nodes.state import Views, log_of_fault
from tribunal.nodes.verdict import deliver, is_closed, with_confidence
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON


class SummaryForm(Form):
    """An explanation, and the answer to the task's question."""

    explanation: Annotated[str, text_bounds(REASON, least=1)]
    answer: str


_FORM = citing_form(same_form(create_model("Summary", __base__=SummaryForm, answer=(one_of((YES, NO)), ...))))
SUMMARY = Role("summary", "summary", "mv_debate/summary", _FORM, 0.0, falls_to="judge_model", system="task", final=True)


@router
async def to_next_round(state: Views) -> Literal["no agreement yet", "agreed, or K rounds done", "too few left"]:
    """Go to the Summary on consensus, after the last round, or when the budget is spent."""
    if is_closed(state):
        return "too few left"
    over = state.get("budget_spent") or round_entry(state).get("consensus")
    over = over or state["round"] >= context_of(state).rounds
    return "agreed, or K rounds done" if over else "no agreement yet"


@agent
async def summarise_debate(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide; sees the post, the history, and the answers of a last round that nobody weighed.

    Where all agreed, their answer stands even if the Summary refuses or fails.
    """
    entry = round_entry(state)
    unweighed = [] if entry.get("best") else turns_at_stage(state, "answer", state["round"])
    agreed, responses = bool(entry.get("consensus")), answers_in_words(unweighed)
    cited: tuple[str, ...] = ()
    try:
        answer = await ask(
            with_confidence(SUMMARY, state),
            state,
            runtime,
            mend=mend_decision(await policy_of(state, runtime), "summary"),
            history=history_in_words(state),
            responses=responses,
            agreed=agreed,
        )
    except ModelError as fault:
        if not agreed:
            raise
        side, confidence = unweighed[0].stance, None
        reasons = [f"{view_of_turn(turn)}: {turn.text}" for turn in unweighed]
        words = " ".join([f"All {len(unweighed)} views that answered say {side}.", *reasons])
        how = "refused" if isinstance(fault, Refused) else "failed"
        log = log_of_fault(fault, f"summary {how}; the answer that all views agreed on stands as the verdict: {fault}")
    else:
        side, words, log = answer.value.answer, answer.value.explanation, answer.log
        confidence, cited = answer.confidence, cited_clauses(answer.value)
    return await deliver(int(side == YES), "binary", words, state, runtime, log, confidence=confidence, clauses=cited)
