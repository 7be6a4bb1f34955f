"""What the peers share: turns in rounds, what an agent is shown of them, the budget of a round, and the vote.

With `max_tokens`, or `tribunal eval --budget-from RUN`, no round begins that would cost more tokens than are left, as
far as the rounds before it tell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field

from tribunal import BadInput, pieces
from tribunal.errors import CallFailed, ModelError, Refused

HEEDS = ("task", "rounds")
HEADING = 15  # tokens of what stands around an answer where it is shown
SPOKEN = ("transcript", "silent")  # the channels that an agent writes


class Answer(BaseModel):
    """Why, and the answer to the question of the task."""

    reason: Annotated[str, Field(min_length=1, max_length=1200)]
    answer: Literal["YES", "NO"]


class Debate(pieces.Case, total=False):
    """A case; the number of calls before the round under way; whether no round is to come; agents without an answer."""

    paid: int
    over: bool
    silent: Annotated[list[dict[str, Any]], operator.add]


def role_of(
    seat: str, prompt: str, temperature: float, form: type[BaseModel] = Answer, task: str = "answer"
) -> pieces.Role[Any]:
    """Return the role of an agent. It is asked whatever the budget says: the budget is checked before a round."""
    name = f"{seat.partition(':')[0]}.{task}"
    return pieces.Role(
        name, seat, prompt, lambda policy, scheme: form, temperature, system="task", final=True
    )


def begin(system: pieces.System, state: type[Debate] = Debate) -> StateGraph[Any, Any, Any, Any]:
    """Return the builder of a system, whose first node takes the post in."""
    builder = StateGraph(
        state,
        context_schema=pieces.Context,
        input_schema=pieces.PostInput,
        output_schema=pieces.Ruling,
    )
    builder.add_node("receive", pieces.received_by(system.name))
    builder.add_edge(START, "receive")
    return builder


def open_round(*, calls: int, closing: int = 0) -> Any:
    """Return the node that opens the next round, if one is to come and the budget reaches for it.

    Args:
        calls: the requests of a round.
        closing: the rounds that follow in any case once this node opens no more.
    """

    @pieces.piece(needs=["post"], uses=["calls"], writes=["round", "paid", "over", "silent"])
    async def next_round(state: Debate) -> Any:
        context, number, log = (
            pieces.context_of(state),
            state.get("round", 0),
            state.get("calls", []),
        )
        begun: dict[str, Any] = {}
        if not number:
            _check_settings(context, calls * (1 + closing))
            begun = {"over": False, "silent": Overwrite([])}
        if number >= context.rounds - closing:
            return {**begun, "over": True, "round": number + closing}
        if number and not _reaches(context, log, log[state["paid"] :], calls, 1 + closing):
            left_out = [f"the budget left out round {number + 1 + closing}"]
            return {
                "over": True,
                "round": number + closing,
                "budget_spent": True,
                "warnings": left_out,
            }
        return {**begun, "round": number + 1, "paid": len(log)}

    return next_round


def _check_settings(context: pieces.Context, calls: int) -> None:
    if context.scheme != "binary":
        raise BadInput(
            f"scheme: {context.scheme}: these agents answer yes or no; give --scheme binary"
        )
    if context.max_calls is not None and context.max_calls < calls:
        raise BadInput(
            f"max_calls: {context.max_calls}: this debate takes {calls} calls; give as many, or more"
        )


def _reaches(
    context: pieces.Context,
    log: Sequence[Mapping[str, Any]],
    last: Sequence[Mapping[str, Any]],
    calls: int,
    rounds: int,
) -> bool:
    """Return whether the budget reaches for so many rounds, as far as one can know.

    Each round costs what the one before did, and every call of it reads one round of answers more.
    """

    def tokens(paid: Sequence[Mapping[str, Any]]) -> int:
        return sum(
            each["prompt_tokens"] + each["completion_tokens"] for each in paid if not each["cached"]
        )

    requests = sum(each["attempts"] for each in log if not each["cached"])
    read = calls * sum(each["completion_tokens"] + HEADING for each in last)
    is_within_calls = context.max_calls is None or requests + calls * rounds <= context.max_calls
    return is_within_calls and (
        context.max_tokens is None
        or tokens(log) + rounds * tokens(last) + rounds * (rounds + 1) // 2 * read
        <= context.max_tokens
    )


def is_over(state: Debate) -> Literal["over", "round"]:
    """Return whether no round is to come."""
    return "over" if state.get("over") or state.get("outcome") else "round"


def said_so_far(
    state: Debate, seat: str, note: Callable[[pieces.Turn], Any] = lambda turn: pieces.ours("")
) -> Any:
    """Return what was said so far, as material in a prompt; `note` is our own words on a turn of another agent."""
    shown = []
    for turn in map(pieces.Turn.model_validate, state.get("transcript", ())):
        if turn.seat == seat:
            head = pieces.ours("Round {}, you:", turn.round)
        else:
            head = pieces.ours("Round {}, {}{}:", turn.round, turn.seat, note(turn))
        shown.append(pieces.Entry(head, [("answer", turn.stance or ""), ("words", turn.text)]))
    return pieces.entries("history", shown) if shown else ""


async def take_turn(
    role: pieces.Role[Any],
    state: Debate,
    runtime: Runtime[pieces.Context],
    *,
    before: str = "",
    also: Callable[[Any, pieces.Turn], dict[str, Any]] = lambda said, turn: {},
    **material: Any,
) -> Any:
    """Ask an agent, and write its turn. One that gives no answer drops out of the round.

    Args:
        role: of the agent.
        state: the case.
        runtime: that of the run.
        before: what stands in the turn before the reason.
        also: makes further channels from the answer and the turn.
        **material: what the prompt shows.
    """
    try:
        answer = await pieces.ask(role, state, runtime, **material)
    except ModelError as fault:
        return drop_out(fault, state["round"])
    said, number = answer.value, state["round"]
    turn = pieces.Turn(
        id=f"{role.seat}/{number}",
        seat=role.seat,
        stage="answer" if getattr(said, "answer", None) else "response",
        round=number,
        stance=getattr(said, "answer", None),
        text="\n".join(filter(None, [before, said.reason])),
    )
    runtime.stream_writer({"event": "turn", **turn.dump()})
    return {"transcript": [turn.dump()], **also(said, turn), **answer.log}


def drop_out(fault: ModelError, number: int) -> Any:
    """Return the update of the state for an agent that gave no answer in a round."""
    how = "refused" if isinstance(fault, Refused) else "failed"
    gone = {"round": number, "message": str(fault), "form": getattr(fault, "form", "")}
    gone |= {
        "kind": getattr(fault, "kind", ""),
        "seat": fault.seat,
        "role": fault.role,
        "model": fault.model,
    }
    said = f"{fault.seat} {how} in round {number} and dropped out of it: {fault}"
    return {"silent": [gone], "calls": list(fault.calls), "warnings": [*fault.warnings, said]}


def answers_in(state: Debate, number: int) -> list[pieces.Turn]:
    """Return the answers of a round."""
    turns = map(pieces.Turn.model_validate, state.get("transcript", ()))
    return [turn for turn in turns if turn.round == number and turn.stance]


def first_fault(state: Debate) -> ModelError:
    """Return the fault of the first agent that gave no answer, as the reason why a case has no verdict."""
    gone = next(each for each in state["silent"] if each["round"] == state["round"])
    asked = {name: gone[name] for name in ("seat", "role", "model")}
    words = f"no agent answered in round {gone['round']}. {gone['seat']}: {gone['message']}"
    return (
        Refused(words, form=gone["form"], **asked)
        if gone["form"]
        else CallFailed(words, kind=gone["kind"], **asked)
    )


async def decide(state: Debate, turns: Sequence[pieces.Turn], how: str, **more: Any) -> Any:
    """Return the verdict that more than half of these answers give; a tie counts as NO, and is marked."""
    yes = sum(turn.stance == "YES" for turn in turns)
    side = "YES" if yes * 2 > len(turns) else "NO"
    count = yes if side == "YES" else len(turns) - yes
    words = f"{how.format(count=count, of=len(turns), side=side)} {next(t.text for t in turns if t.stance == side)}"
    policy = await pieces.policy_of(state)
    category = policy.categories("binary")[int(side == "YES")].name
    return await pieces.verdict(state, category, words, tie=yes * 2 == len(turns), **more)


@pieces.piece(needs=["transcript"], uses=["silent"], writes=["outcome"])
@pieces.agent
async def vote(state: Debate, runtime: Runtime[pieces.Context]) -> Any:
    """Decide by more than half of the last round's answers; a tie counts as NO."""
    turns = answers_in(state, state["round"])
    if not turns:
        raise first_fault(state)
    yes = sum(turn.stance == "YES" for turn in turns)
    share = max(yes, len(turns) - yes) / len(turns) if len(turns) > 1 else None
    return await decide(state, turns, "{count} of {of} agents answered {side}.", confidence=share)


def close(builder: StateGraph[Any, Any, Any, Any], system: pieces.System) -> Any:
    """Return the compiled graph, which ends with its last node."""
    builder.add_edge([*builder.nodes][-1], END)
    return pieces.checked(builder).compile(name=system.name).with_config(recursion_limit=200)
