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
from tribunal.errors import ModelError, WrongState
from tribunal.line_up import apply_line_up
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import node, router, take_part_while_open
from tribunal.nodes.channels import Like, says
from tribunal.nodes.clauses import cited_clauses
from tribunal.nodes.forms import REASON, Form, one_of, same_form, text_bounds
from tribunal.nodes.mv_debate.history import (
    answer_in_words,
    history_in_words,
    reflection_in_words,
    round_entry,
    turns_at_stage,
)
from tribunal.nodes.state import Views, case_for_seat, log_of_fault, outcome_of, write_turn
from tribunal.nodes.verdict import announce_outcome, is_closed
from tribunal.prompts.marks import ours
from tribunal.schema import JSON, Turn
from tribunal.shared_settings import VIEWS
from tribunal.stops import stop_at_head

YES, NO = "YES", "NO"


class ViewForm(Form):
    """Why, and an answer to the task's question."""

    reason: Annotated[str, text_bounds(REASON, least=1)]
    answer: str


answer_form = same_form(create_model("Answer", __base__=ViewForm, answer=(one_of((YES, NO)), ...)))

ANSWER = Role("view.answer", "view", "mv_debate/answer", answer_form, 0.0, system="task")
REVISION = replace(ANSWER, name="view.revision", prompt="mv_debate/revision")


class ViewSeat(TypedDict, total=False):
    """What one view is sent: the post, who it is, and what it is shown."""

    post: JSON
    context: JSON
    prompts: JSON | None
    view: Annotated[str, says("Which view speaks, by name.")]
    round: int
    transcript: list[JSON]
    debate: list[JSON]
    own: Annotated[JSON, Like(Turn), says("The answer that this view revises.")]
    reflection: Annotated[str, says("What the reflection said of the answers.")]


async def views_of(state: Views | ViewSeat) -> list[str]:
    """Return the views in force, in the order that breaks ties."""
    return (await apply_line_up(context_of(state), state)).views or list(VIEWS)


def spent_budget_update(budget: Budget, what: str) -> JSON:
    """Return the update of the state that says that the budget didn't reach for a step."""
    return {"budget_spent": True, "warnings": [f"the budget of {budget.limits} left out {what}"]}


@node
async def open_debate(state: Views, runtime: Runtime[Context]) -> JSON:
    """Clear the table of what an earlier post on this thread left. The verdict is YES or NO, whatever the scheme."""
    return {"scheme": "binary", "debate": Overwrite([]), "dropped": Overwrite([])}


@node
async def call_round(state: Views, runtime: Runtime[Context]) -> JSON:
    """Open the next round, if the budget pays for it."""
    number, views = state.get("round", 0) + 1, await views_of(state)
    budget = Budget.from_state(context_of(state), state)
    return {"round": number} if budget.affords(len(views)) else spent_budget_update(budget, f"round {number}")


@router
async def to_views(state: Views) -> list[Send] | Literal["budget spent"]:
    """Send every view at once, each with what was said."""
    if state.get("budget_spent"):
        return "budget spent"
    shared = case_for_seat(state, "round", "transcript", "debate")
    return [Send("view", {**shared, "view": view}) for view in await views_of(state)]


@node
@stop_at_head
async def answer_as_view(state: ViewSeat, runtime: Runtime[Context]) -> JSON:
    """Answer as one view; sees the post and, from round 2 on, the history."""
    name = state["view"]
    shown = history_in_words(state)
    return await take_turn(ANSWER, f"view:{name}", "answer", state, runtime, view=ours("{}", name), history=shown)


@node
@stop_at_head
async def revise_answer(state: ViewSeat, runtime: Runtime[Context]) -> JSON:
    """Answer as one view a second time; sees the post, its first answer, and the reflection."""
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
    """Take the turn of one of several equals in a round; one that refuses or fails drops out of it.

    `asked` is what `ask` is given.
    """
    number = state["round"]
    try:
        answer: Answer[ViewForm] = await ask(replace(role, seat=seat), state, runtime, **asked)
    except ModelError as fault:
        return dropout_update(fault, stage, number)
    turn = new_turn(seat, stage, number, answer.value.reason, stance=answer.value.answer, again=stage == "revision")
    return write_turn(turn.model_copy(update={"clauses": cited_clauses(answer.value)}), answer, runtime)


def new_turn(seat: str, stage: Any, round: int, text: str, *, stance: Any = None, again: bool = False) -> Turn:
    """Return a turn, whose id says who speaks, in which round, and whether it is said `again` after the reflection."""
    turn_id = f"{seat}/{round}/again" if again else f"{seat}/{round}"
    return Turn(id=turn_id, seat=seat, stage=stage, round=round, stance=stance, text=text)


def dropout_update(fault: ModelError, stage: str, round: int) -> JSON:
    """Return the update of the state that says that a seat drops out of a round."""
    again = "/again" if stage == "revision" else ""
    gone = {"id": f"{fault.seat}/{round}{again}", "round": round, "stage": stage, **outcome_of(fault)}
    how = "refused" if gone["outcome"] == "refusal" else "failed"
    said = f"{fault.seat} {how} in round {round} and dropped out of it ({stage}): {fault}"
    return {"dropped": [gone], **log_of_fault(fault, said)}


@take_part_while_open
async def compare_answers(state: Views, runtime: Runtime[Context]) -> JSON:
    """Compare the answers of a round: too few to go on, all alike, or to be scored."""
    context, number = context_of(state), state["round"]
    answers = {turn.seat.partition(":")[2]: turn.stance or "" for turn in turns_at_stage(state, "answer", number)}
    entry: JSON = {
        "id": f"round/{number}",
        "round": number,
        "answers": {view: answers[view] for view in await views_of(state) if view in answers},
        "consensus": len(answers) > 1 and len(set(answers.values())) == 1,
        "dropped": dropouts_of_round(state),
    }
    if len(answers) < 2:
        return {"debate": [entry], **outcome_of_dropouts(state, len(answers), runtime)}
    if entry["consensus"]:
        runtime.stream_writer({"event": "round", **entry})
        return {"debate": [entry]}
    calls = 1 if context.reflection_mode == "none" else 2
    budget = Budget.from_state(context, state)
    spent = {} if budget.affords(calls) else spent_budget_update(budget, f"the scores of round {number}")
    return {"debate": [entry], **spent}


def dropouts_of_round(state: Views) -> list[JSON]:
    """Return who dropped out of the round under way, at which stage, and why."""
    kept = ("seat", "stage", "outcome", "explanation")
    gone = [each for each in state.get("dropped", []) if each["round"] == state["round"]]
    return [{name: each[name] for name in kept} for each in gone]


def outcome_of_dropouts(state: Views, left: int, runtime: Runtime[Context]) -> JSON:
    """Return the outcome of a case with too few to debate it: the first dropout's, with everybody's reasons."""
    number = state["round"]
    gone = [each for each in state.get("dropped", []) if each["round"] == number]
    if not gone:  # the state was edited
        raise WrongState(f"dropped: nobody dropped out of round {number}, and {left} answered; give who dropped out")
    reasons = "; ".join(f"{each['seat']}: {each['explanation']}" for each in gone)
    words = f"{left} of {left + len(gone)} answered in round {number}, which is too few for a debate. {reasons}"
    named = {name: value for name, value in gone[0].items() if name not in ("id", "round", "stage")}
    outcome = {**named, "explanation": words}
    return announce_outcome(state, outcome, runtime)


@router
async def to_control(state: Views) -> list[str] | Literal["all agree, or too few"]:
    """Send the answers to the Judge and the Reflection at the same time: neither waits for the other."""
    if is_closed(state) or state.get("budget_spent") or round_entry(state)["consensus"]:
        return "all agree, or too few"
    scored = ["answers differ"]
    return scored if context_of(state).reflection_mode == "none" else [*scored, "with reflection"]
