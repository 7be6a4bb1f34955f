"""The Summary agent of MV-Debate: what the debate has come to, and why (paper, Debate Loop)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from pydantic import create_model

from tribunal.context import Context, context_of
from tribunal.errors import ModelError, Refused
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.forms import REASON, Form, always, one_of, words
from tribunal.nodes.mv_debate.history import answers_in_words, history, round_entry, turns_of, view_of
from tribunal.nodes.mv_debate.views import NO, YES
from tribunal.nodes.state import Views, closed
from tribunal.nodes.verdict import deliver
from tribunal.schema import JSON, Turn


class SummaryForm(Form):
    """An explanation, and the answer to the task's question."""

    explanation: Annotated[str, words(REASON, least=1)]
    answer: str


SUMMARY = Role(
    name="summary",
    seat="summary",
    prompt="mv_debate/summary",
    form=always(create_model("Summary", __base__=SummaryForm, answer=(one_of((YES, NO)), ...))),
    temperature=0.0,
    falls_to="judge_model",
    system="task",
    final=True,
)


@router
async def to_next_round(state: Views) -> Literal["no agreement yet", "agreed, or K rounds done", "too few left"]:
    """Consensus, the last round and a spent budget lead to the Summary."""
    if closed(state):
        return "too few left"
    over = state.get("budget_spent") or round_entry(state).get("consensus")
    over = over or state["round"] >= context_of(state).rounds
    return "agreed, or K rounds done" if over else "no agreement yet"


@agent
async def summarise(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide; sees the post and the history, and the answers of a last round that nobody weighed, as on consensus.

    Where all agreed, their answer stands even if the Summary refuses or fails.
    """
    entry = round_entry(state)
    unweighed = [] if entry.get("best") else turns_of(state, "answer", state["round"])
    agreed = bool(entry.get("consensus"))
    try:
        answer = await ask(
            SUMMARY,
            state,
            runtime,
            history=history(state),
            responses=answers_in_words(unweighed),
            agreed=agreed,
        )
    except ModelError as fault:
        if not agreed:
            raise
        return await _consensus(unweighed, fault, state, runtime)
    label = int(answer.value.answer == YES)
    return {
        **await deliver(label, "binary", answer.value.explanation, state, runtime, answer.log["calls"]),
        **answer.log,
    }


async def _consensus(answers: Sequence[Turn], fault: ModelError, state: Views, runtime: Runtime[Context]) -> JSON:
    """The verdict that all views agreed on, in their own words."""
    side = answers[0].stance
    how = "refused" if isinstance(fault, Refused) else "failed"
    reasons = [f"{view_of(turn)}: {turn.text}" for turn in answers]
    explanation = " ".join([f"All {len(answers)} views that answered say {side}.", *reasons])
    said = f"summary {how}; the answer that all views agreed on stands as the verdict: {fault}"
    verdict = await deliver(int(side == YES), "binary", explanation, state, runtime, fault.calls)
    return {**verdict, "calls": list(fault.calls), "warnings": [*fault.warnings, said]}
