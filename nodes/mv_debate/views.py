"""The debate agents of MV-Debate: views that look at a post each in a way of their own (paper, Multi-View Debate).

All views of a round answer at the same time, and so do those that answer again after a reflection. A view that refuses
or fails drops out of that round; with fewer than two left the case ends, and its outcome says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Overwrite, Send
from pydantic import create_model
from typing_extensions import TypedDict

from tribunal.budget import Budget
from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.line_up import in_force
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes import channels as ch
from tribunal.nodes.agents import node, router, take_part_while_open
from tribunal.nodes.chat import answered
from tribunal.nodes.forms import REASON, Form, always, one_of, words
from tribunal.nodes.mv_debate.gate import agreed
from tribunal.nodes.mv_debate.history import answer_in_words, history, reflection_in_words, round_entry, turns_of
from tribunal.nodes.state import Views, closed, outcome_of, spoke
from tribunal.prompts.marks import ours
from tribunal.schema import JSON, Turn
from tribunal.seats import VIEWS
from tribunal.stops import stop_at_head
from tribunal.telling import tell

YES, NO = "YES", "NO"


class ViewForm(Form):
    """Why, and an answer to the task's question."""

    reason: Annotated[str, words(REASON, least=1)]
    answer: str


answer_form = always(create_model("Answer", __base__=ViewForm, answer=(one_of((YES, NO)), ...)))

ANSWER = Role(
    name="view.answer", seat="view", prompt="mv_debate/answer", form=answer_form, temperature=0.0, system="task"
)
REVISION = replace(ANSWER, name="view.revision", prompt="mv_debate/revision")


class ViewSeat(TypedDict, total=False):
    """What one view is sent: the post, who it is, and what it is shown."""

    post: JSON
    context: JSON
    prompts: JSON | None
    view: ch.ViewNamed
    round: int
    transcript: list[JSON]
    debate: list[JSON]
    own: ch.OwnAnswer
    reflection: ch.Reflected


async def views_of(state: Views | ViewSeat) -> list[str]:
    """The views in force, in the order that breaks ties."""
    return (await in_force(context_of(state), state)).views or list(VIEWS)


def out_of_budget(budget: Budget, what: str) -> JSON:
    """That the budget didn't reach for a step, as an update of the state."""
    return {"budget_spent": True, "warnings": [f"the budget of {budget.limits} left out {what}"]}


@node
async def open_debate(state: Views, runtime: Runtime[Context]) -> JSON:
    """Clear the table of what an earlier post on this thread left. The verdict is YES or NO, whatever the scheme."""
    return {"scheme": "binary", "debate": Overwrite([]), "dropped": Overwrite([])}


@node
async def call_round(state: Views, runtime: Runtime[Context]) -> JSON:
    """Open the next round, if the budget pays for it."""
    number, views = state.get("round", 0) + 1, await views_of(state)
    budget = Budget.of(context_of(state), state)
    return {"round": number} if budget.affords(len(views)) else out_of_budget(budget, f"round {number}")


@router
async def to_views(state: Views) -> list[Send] | Literal["budget spent"]:
    """Every view at once, each with what was said."""
    if state.get("budget_spent"):
        return "budget spent"
    shared = {name: state.get(name) for name in ("post", "context", "prompts", "round")}
    shared |= {name: state.get(name, []) for name in ("transcript", "debate")}
    return [Send("view", {**shared, "view": view}) for view in await views_of(state)]


@node
@stop_at_head
async def view(state: ViewSeat, runtime: Runtime[Context]) -> JSON:
    """One view's answer; sees the post and, from round 2 on, the history."""
    name = state["view"]
    shown = history(state)
    return await take_turn(ANSWER, f"view:{name}", "answer", state, runtime, view=ours("{}", name), history=shown)


@node
@stop_at_head
async def revise(state: ViewSeat, runtime: Runtime[Context]) -> JSON:
    """One view's second answer; sees the post, its first answer, and the reflection."""
    name, own = state["view"], answer_in_words(Turn.model_validate(state["own"]))
    said = reflection_in_words(state["reflection"].splitlines())
    return await take_turn(
        REVISION, f"view:{name}", "revision", state, runtime, view=ours("{}", name), own=own, reflection=said
    )


async def take_turn(
    role: Role[ViewForm],
    seat: str,
    stage: Literal["answer", "revision"],
    state: Mapping[str, Any],
    runtime: Runtime[Context],
    **asked: Any,
) -> JSON:
    """What one of several equals says in a round; one that refuses or fails drops out of it.

    Args:
        seat: which of them it is.
        state: what it was sent; `round` is read.
        asked: as for `ask`.
    """
    number = state["round"]
    try:
        answer: Answer[ViewForm] = await ask(replace(role, seat=seat), state, runtime, **asked)
    except ModelError as fault:
        return dropped_out(fault, stage, number)
    turn = Turn(
        id=turn_id(seat, stage, number),
        seat=seat,
        stage=stage,
        round=number,
        stance=answer.value.answer,
        text=answer.value.reason,
    )
    return spoke(turn, answer, runtime)


def turn_id(seat: str, stage: str, round: int) -> str:
    """What a turn is known by: who, in which round, and whether it was said again after the reflection."""
    return f"{seat}/{round}/again" if stage == "revision" else f"{seat}/{round}"


def dropped_out(fault: ModelError, stage: str, round: int) -> JSON:
    """That a seat drops out of a round, as an update of the state."""
    gone = {"id": turn_id(fault.seat, stage, round), "round": round, "stage": stage, **outcome_of(fault)}
    how = "refused" if gone["outcome"] == "refusal" else "failed"
    said = f"{fault.seat} {how} in round {round} and dropped out of it ({stage}): {fault}"
    return {"dropped": [gone], "calls": list(fault.calls), "warnings": [*fault.warnings, said]}


@take_part_while_open
async def compare(state: Views, runtime: Runtime[Context]) -> JSON:
    """The answers of a round side by side: too few to go on, all alike, or to be scored."""
    context, number = context_of(state), state["round"]
    answers = {turn.seat.partition(":")[2]: turn.stance or "" for turn in turns_of(state, "answer", number)}
    entry: JSON = {
        "id": f"round/{number}",
        "round": number,
        "answers": {view: answers[view] for view in await views_of(state) if view in answers},
        "consensus": len(answers) > 1 and agreed(answers.values()),
        "dropped": dropouts(state),
    }
    if len(answers) < 2:
        return {"debate": [entry], **too_few_left(state, len(answers), runtime)}
    if entry["consensus"]:
        tell(runtime, {"event": "round", **entry})
        return {"debate": [entry]}
    calls = 1 if context.reflection_mode == "none" else 2
    budget = Budget.of(context, state)
    spent = {} if budget.affords(calls) else out_of_budget(budget, f"the scores of round {number}")
    return {"debate": [entry], **spent}


def dropouts(state: Views) -> list[JSON]:
    """Who dropped out of the round under way, at which stage, and why."""
    kept = ("seat", "stage", "outcome", "explanation")
    gone = [each for each in state.get("dropped", []) if each["round"] == state["round"]]
    return [{name: each[name] for name in kept} for each in gone]


def too_few_left(state: Views, left: int, runtime: Runtime[Context]) -> JSON:
    """The outcome of a case with too few to debate it: that of the first who dropped out, with everybody's reasons."""
    number = state["round"]
    gone = [each for each in state.get("dropped", []) if each["round"] == number]
    reasons = "; ".join(f"{each['seat']}: {each['explanation']}" for each in gone)
    words = f"{left} of {left + len(gone)} answered in round {number}, which is too few for a debate. {reasons}"
    named = {name: value for name, value in gone[0].items() if name not in ("id", "round", "stage")}
    outcome = {**named, "explanation": words}
    tell(runtime, {"event": "outcome", **outcome})
    return {"outcome": outcome, **answered(state, outcome)}


@router
async def to_control(state: Views) -> list[str] | Literal["all agree, or too few"]:
    """Who looks at the answers: the Judge and the Reflection at the same time, since neither waits for the other."""
    if closed(state) or state.get("budget_spent") or round_entry(state)["consensus"]:
        return "all agree, or too few"
    scored = ["answers differ"]
    return scored if context_of(state).reflection_mode == "none" else [*scored, "with reflection"]
