"""The debate agents of MV-Debate: views that look at a post each in a way of their own (paper, Multi-View Debate).

All views of a round answer at the same time, and so do those that answer again after a reflection. A view that refuses
or fails drops out of that round; with fewer than two left the case ends, and its outcome says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from langgraph.types import Overwrite, Send
from pydantic import create_model

from tribunal.errors import ModelError, WrongState
from tribunal.models.ask import Answer, ask
from tribunal.models.budget import Budget
from tribunal.models.role import Role
from tribunal.nodes.agents import asking_node, node, router, take_part_while_open
from tribunal.nodes.channels import Like, says
from tribunal.nodes.forms import Form, Reason, cited_clauses, one_of, same_form
from tribunal.nodes.state import (
    CaseRuntime,
    SeatState,
    Views,
    case_for_seat,
    log_of_fault,
    outcome_of,
    write_turn,
)
from tribunal.nodes.verdict import announce_outcome, is_closed
from tribunal.prompts.marks import Entry, Material, Ours, entries, ours, quote, together
from tribunal.schema import JSON, Turn
from tribunal.settings.contents import apply_line_up
from tribunal.settings.context import context_of
from tribunal.settings.names import VIEWS

YES = "YES"
NO = "NO"


class ViewForm(Form):
    """Why, and an answer to the task's question."""

    reason: Reason
    answer: str


answer_form = same_form(create_model("Answer", __base__=ViewForm, answer=(one_of((YES, NO)), ...)))

ANSWER = Role("view.answer", "view", "mv_debate/answer", answer_form, 0.0, system="task")
REVISION = replace(ANSWER, name="view.revision", prompt="mv_debate/revision")


class ViewSeat(SeatState, total=False):
    """The input of one view: the post, the view's name, and the material that it is shown."""

    view: Annotated[str, says("Which view speaks, by name.")]
    round: int
    transcript: list[JSON]
    debate: list[JSON]
    own: Annotated[JSON, Like(Turn, "The answer that this view revises.")]
    reflection: Annotated[str, says("What the reflection said of the answers.")]


async def views_of(state: Views | ViewSeat) -> list[str]:
    """Return the views in force, in the order that breaks ties."""
    return (await apply_line_up(context_of(state), state)).views or list(VIEWS)


def spent_budget_update(budget: Budget, what: str) -> JSON:
    """Return the update of the state that says that the budget didn't reach for a step."""
    return {"budget_spent": True, "warnings": [f"the budget of {budget.limits} left out {what}"]}


@node
async def open_debate(state: Views, runtime: CaseRuntime) -> JSON:
    """Clear the state of an earlier post on this thread. The verdict is YES or NO in every scheme."""
    return {"scheme": "binary", "debate": Overwrite([]), "dropped": Overwrite([])}


@node
async def call_round(state: Views, runtime: CaseRuntime) -> JSON:
    """Open the next round, if the budget pays for it."""
    number = state.get("round", 0) + 1
    views = await views_of(state)
    budget = Budget.from_state(context_of(state), state)
    return (
        {"round": number}
        if budget.affords(len(views))
        else spent_budget_update(budget, f"round {number}")
    )


@router
async def to_views(state: Views) -> list[Send] | Literal["budget spent"]:
    """Send the round to every view at once, each with the earlier turns."""
    if state.get("budget_spent"):
        return "budget spent"
    shared = case_for_seat(state, "round", "transcript", "debate")
    return [Send("view", {**shared, "view": view}) for view in await views_of(state)]


@asking_node
async def answer_as_view(state: ViewSeat, runtime: CaseRuntime) -> JSON:
    """Answer as one view; sees the post and, from round 2 on, the history."""
    name = state["view"]
    shown = history_in_words(state)
    return await take_turn(
        ANSWER, f"view:{name}", "answer", state, runtime, view=ours("{}", name), history=shown
    )


@asking_node
async def revise_answer(state: ViewSeat, runtime: CaseRuntime) -> JSON:
    """Answer as one view a second time; sees the post, its first answer, and the reflection."""
    name = state["view"]
    own = answer_in_words(Turn.model_validate(state["own"]))
    said = reflection_in_words(state["reflection"].splitlines())
    return await take_turn(
        REVISION,
        f"view:{name}",
        "revision",
        state,
        runtime,
        view=ours("{}", name),
        own=own,
        reflection=said,
    )


async def take_turn(
    role: Role[ViewForm],
    seat: str,
    stage: Literal["answer", "revision"],
    state: Mapping[str, Any],
    runtime: CaseRuntime,
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
    said = answer.value
    turn_id = turn_id_in_round(seat, number, again=stage == "revision")
    about: JSON = {"stance": said.answer, "text": said.reason, "clauses": cited_clauses(said)}
    return write_turn(answer, runtime, seat, stage, number, id=turn_id, **about)


def turn_id_in_round(seat: str, round: int, *, again: bool) -> str:
    """Return the id of a turn: who speaks, in which round, and whether it is said `again` after the reflection."""
    return f"{seat}/{round}/again" if again else f"{seat}/{round}"


def dropout_update(fault: ModelError, stage: str, round: int) -> JSON:
    """Return the update of the state that says that a seat drops out of a round."""
    gone_id = turn_id_in_round(fault.seat, round, again=stage == "revision")
    gone = {"id": gone_id, "round": round, "stage": stage, **outcome_of(fault)}
    how = "refused" if gone["outcome"] == "refusal" else "failed"
    said = f"{fault.seat} {how} in round {round} and dropped out of it ({stage}): {fault}"
    return {"dropped": [gone], **log_of_fault(fault, said)}


@take_part_while_open
async def compare_answers(state: Views, runtime: CaseRuntime) -> JSON:
    """Compare the answers of a round: too few to go on, all alike, or to be scored."""
    context = context_of(state)
    number = state["round"]
    answers = {view_of_turn(turn): turn.stance or "" for turn in turns_at_stage(state, "answer")}
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
    spent = (
        {}
        if budget.affords(calls)
        else spent_budget_update(budget, f"the scores of round {number}")
    )
    return {"debate": [entry], **spent}


def dropouts_of_round(state: Views) -> list[JSON]:
    """Return who dropped out of the round under way, at which stage, and why."""
    kept = ("seat", "stage", "outcome", "explanation")
    gone = [each for each in state.get("dropped", []) if each["round"] == state["round"]]
    return [{name: each[name] for name in kept} for each in gone]


def outcome_of_dropouts(state: Views, left: int, runtime: CaseRuntime) -> JSON:
    """Return the outcome of a case with too few to debate it: the first dropout's, with everybody's reasons."""
    number = state["round"]
    gone = [each for each in state.get("dropped", []) if each["round"] == number]
    if not gone:  # the state was edited
        raise WrongState(
            f"dropped: nobody dropped out of round {number}, and {left} answered; give who dropped out"
        )
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


# The history of a debate, as later speakers are shown it (paper, History Update)


def turns_at_stage(state: Mapping[str, Any], stage: str, round: int | None = None) -> list[Turn]:
    """Return the turns at a stage of a round (by default the current round), in the order of the speakers."""
    wanted = (stage, state["round"] if round is None else round)
    turns = state.get("transcript", [])
    return [Turn.model_validate(turn) for turn in turns if (turn["stage"], turn["round"]) == wanted]


def round_entry(state: Mapping[str, Any]) -> JSON:
    """Return the state's entry for the current round. Don't change it in place."""
    return next(
        (entry for entry in state.get("debate", []) if entry["round"] == state["round"]), {}
    )


def answers_in_words(turns: Iterable[Turn], title: Ours | None = None) -> Material:
    """Return answers as material in a prompt, each under its view's name."""
    return together(
        together([ours("{}{}: ", title or "", view_of_turn(turn)), answer_in_words(turn)], "")
        for turn in turns
    )


def answer_in_words(turn: Turn) -> Material:
    """Return one answer as material in a prompt."""
    return together([ours("{}", turn.stance or ""), quote("answer", turn.text)], "\n")


def reflection_in_words(lines: Iterable[str]) -> Material:
    """Return a reflection on each view, one line each, as material in a prompt."""
    said = (line.partition(": ") for line in lines)
    return entries("reflection", [Entry(None, [(view, words)]) for view, _, words in said])


def view_of_turn(turn: Turn) -> str:
    """Return the name of the view whose turn this is."""
    return turn.seat.partition(":")[2]


def history_in_words(state: Mapping[str, Any]) -> Material:
    """Return the results of the rounds so far, as material in a prompt.

    Of each round the answers that it kept (the best, or all). Where a reflection was adopted, they stand as they were
    first given, then what the reflection said of them, then the revised answers: nobody reads a reflection on an
    answer that isn't shown.
    """
    shown: list[Ours | Material] = []
    for entry in state.get("debate", []):
        number = entry["round"]
        kept = entry.get("kept", [])
        adopted = entry.get("adopted")
        first = _turns_of_views(kept, turns_at_stage(state, "answer", number))
        if not first:
            continue
        which = ours("The best answer") if len(kept) == 1 else ours("All answers")
        as_given = ours(", as first given") if adopted else ours("")
        shown.append(ours("Round {}. {}{}:", number, which, as_given))
        shown.append(answers_in_words(first))
        if not adopted:
            continue
        reflections = turns_at_stage(state, "reflection", number)
        lines = [
            line
            for turn in reflections
            for line in turn.text.splitlines()
            if line.partition(": ")[0] in kept
        ]
        if lines:
            shown.append(ours("What a reviewer said of {}:", "it" if len(kept) == 1 else "them"))
            shown.append(reflection_in_words(lines))
        revised = _turns_of_views(kept, turns_at_stage(state, "revision", number))
        if revised:
            gain = ours("{:+g}", entry["delta"]) if "delta" in entry else ours("unknown")
            shown.append(
                ours(
                    "Revised after that. The new answers were adopted (mean change of their scores: {}):",
                    gain,
                )
            )
            shown.append(answers_in_words(revised))
    return together(shown)


def _turns_of_views(views: Sequence[str], turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns of these views, in the order of the views."""
    by_view = {view_of_turn(turn): turn for turn in turns}
    return [by_view[view] for view in views if view in by_view]
