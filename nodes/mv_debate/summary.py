"""The Summary agent of MV-Debate: what the debate has come to, and why (paper, Debate Loop)."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime
from pydantic import Field, create_model

from tribunal.context import Context, context_of
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.forms import Form, always, one_of
from tribunal.nodes.mv_debate.views import NO, YES, answers_in_words, history, round_entry, turns_of
from tribunal.nodes.state import Views, agent, closed
from tribunal.nodes.verdict import deliver
from tribunal.schema import JSON


class SummaryForm(Form):
    """The answer to the task's question, and an explanation."""

    answer: str
    explanation: str = Field(min_length=1)


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


async def to_next_round(state: Views, runtime: Runtime[Context]) -> Literal["debate_round", "summarise", "__end__"]:
    """Consensus, the last round and a spent budget lead to the Summary."""
    if closed(state):
        return "__end__"
    over = state.get("budget_spent") or round_entry(state).get("consensus")
    return "summarise" if over or state["round"] >= context_of(runtime).rounds else "debate_round"


@agent
async def summarise(state: Views, runtime: Runtime[Context]) -> JSON:
    """Decide; sees the post and the history, and the answers of a last round that nobody weighed, as on consensus."""
    entry = round_entry(state)
    unweighed = [] if entry.get("best") else turns_of(state, "answer", state["round"])
    answer = await ask(
        SUMMARY,
        state,
        runtime,
        history=history(state),
        responses=answers_in_words(unweighed),
        agreed=bool(entry.get("consensus")),
    )
    label = int(answer.value.answer == YES)
    return {**await deliver(label, "binary", answer.value.explanation, runtime), **answer.log}
