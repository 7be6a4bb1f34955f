"""Self-correction: one agent answers, then reviews and revises its own answer, round after round. Nobody else is heard.

Huang et al., *Large Language Models Cannot Self-Correct Reasoning Yet*, ICLR 2024: intrinsic self-correction
in three steps, an answer, a review that looks for problems in it, and a revised answer; no feedback from outside.
Three rounds are an answer and two corrections. Given the tokens of a debate (`--budget-from RUN --set rounds=10`), it
says what the other agents add.

Where this differs: all words are ours; the temperature is 0, as in the zero-shot baseline.
"""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from debate_peers import rounds
from tribunal import pieces
from tribunal.errors import ModelError

SYSTEM = pieces.System(
    name="self_correction",
    about="one agent answers, then reviews and revises its own answer for some rounds",
    seats=("agent",),
    heeds=rounds.HEEDS,
    prompts="debate_peers:prompts/self_correction",
)


class Review(BaseModel):
    """The problems that an agent finds in its own answer."""

    problems: Annotated[str, Field(min_length=1, max_length=1200)]


ANSWER = rounds.role_of("agent", "self_correction/answer", 0.0)
REVIEW = rounds.role_of("agent", "self_correction/review", 0.0, Review, "review")
REVISION = rounds.role_of("agent", "self_correction/revise", 0.0, task="revision")


@pieces.piece(needs=["post", "round"], uses=["transcript"], writes=rounds.SPOKEN)
@pieces.agent
async def correct(state: rounds.Debate, runtime: Runtime[pieces.Context]) -> Any:
    """Answer in the first round; in each later one review the last answer, then revise it."""
    history = rounds.said_so_far(state, "agent")
    if not history:
        return await rounds.take_turn(ANSWER, state, runtime)
    try:
        review = await pieces.ask(REVIEW, state, runtime, history=history)
    except ModelError as fault:
        return rounds.drop_out(fault, state["round"])
    problems = review.value.problems
    shown = pieces.quote("review", problems, lines=True)
    said = await rounds.take_turn(
        REVISION, state, runtime, before=problems, history=history, review=shown
    )
    return {**said, **{name: [*review.log[name], *said[name]] for name in ("calls", "warnings")}}


@pieces.piece(needs=["transcript"], uses=["silent"], writes=["outcome"])
@pieces.agent
async def take_last_answer(state: rounds.Debate, runtime: Runtime[pieces.Context]) -> Any:
    """Decide by the last answer that was given."""
    given = [
        turn for number in range(state["round"] + 1) for turn in rounds.answers_in(state, number)
    ]
    if not given:
        raise rounds.first_fault(state)
    return await rounds.decide(state, given[-1:], "The agent's last answer is {side}.")


builder = rounds.begin(SYSTEM)
builder.add_node("next_round", rounds.open_round(calls=2))
builder.add_node("correct", correct)
builder.add_node("decide", take_last_answer)
builder.add_edge("receive", "next_round")
builder.add_conditional_edges("next_round", rounds.is_over, {"round": "correct", "over": "decide"})
builder.add_edge("correct", "next_round")
graph = rounds.close(builder, SYSTEM)
