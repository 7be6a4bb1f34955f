"""DebUnc: equal agents are shown the others' answers with a confidence from 1 to 10, round after round, and vote.

Yoffe, Amayuelas and Wang, *DebUnc: Mitigating Hallucinations in Large Language Model Agent Communication with
Uncertainty Estimations*, 2024 (arXiv:2407.06426). Three agents, three rounds, sampled at temperature 1. The confidence
stands in the text ("confidence in prompt"), scaled over the agents of a round as in the published code
(`unc_to_confidence`). An agent is shown everything that was said in earlier rounds, and never its own confidence.

Where this differs: the uncertainty is what an agent states with its answer. The paper takes it from token
probabilities, and its other variant scales attention; a chat API offers neither. All words are ours; a tied vote is NO.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import Field

from debate_peers import rounds
from tribunal import pieces

SYSTEM = pieces.System(
    name="debunc",
    about="equal agents see each other's answers with a confidence for some rounds, then vote",
    seats=("agent",),
    heeds=rounds.HEEDS,
    prompts="debate_peers:prompts/debunc",
)
AGENTS = 3
LEAST_UNCERTAINTY = 0.01


class SureAnswer(rounds.Answer):
    """An answer, and how sure the agent is of it."""

    confidence: Annotated[float, Field(ge=0, le=1)]


class UncertainDebate(rounds.Debate, total=False):
    """A debate, with how sure each agent was in each round."""

    stated: Annotated[list[dict[str, Any]], operator.add]


def scale_confidences(stated: Sequence[float]) -> list[int]:
    """Return the confidences of a round from 1 to 10, which are 5 on average, from those that agents state (0 to 1)."""
    certainties = [1 / max(LEAST_UNCERTAINTY, 1 - each) for each in stated]
    scaled = [14 * each / sum(certainties) + 1 / len(certainties) for each in certainties]
    return [round(min(10, max(1, each))) for each in scaled]


def confidences_of(state: UncertainDebate) -> dict[str, int]:
    """Return the confidence of each turn so far, by the turn's id."""
    stated = {each["turn"]: each["confidence"] for each in state.get("stated", ())}
    scaled: dict[str, int] = {}
    for number in range(1, state["round"]):
        turns = [turn.id for turn in rounds.answers_in(state, number)]
        scaled |= zip(turns, scale_confidences([stated[turn] for turn in turns]), strict=True)
    return scaled


def debater(number: int) -> Any:
    """Return the node of an agent."""
    seat = f"agent:{number}"
    role = rounds.role_of(seat, "debunc/answer", 1.0, SureAnswer)

    @pieces.agent
    async def speak(state: UncertainDebate, runtime: Runtime[pieces.Context]) -> Any:
        scaled = confidences_of(state)
        history = rounds.said_so_far(
            state, seat, lambda turn: pieces.ours(", confidence {} of 10", scaled[turn.id])
        )
        # The agents have one prompt. The number tells their requests apart, so that a cache doesn't answer all alike.
        return await rounds.take_turn(
            role,
            state,
            runtime,
            also=lambda said, turn: {"stated": [{"turn": turn.id, "confidence": said.confidence}]},
            number=number,
            history=history,
        )

    return pieces.piece(
        needs=["post", "round"], uses=["transcript", "stated"], writes=(*rounds.SPOKEN, "stated")
    )(speak)


AGENT_NODES = [f"agent_{number}" for number in range(1, AGENTS + 1)]


def to_agents(state: UncertainDebate) -> list[str]:
    """Send the round to all agents at once, or the debate to the vote."""
    return ["vote"] if rounds.is_over(state) == "over" else AGENT_NODES


builder = rounds.begin(SYSTEM, UncertainDebate)
builder.add_node("next_round", rounds.open_round(calls=AGENTS))
builder.add_edge("receive", "next_round")
for number, node in enumerate(AGENT_NODES, start=1):
    builder.add_node(node, debater(number))
    builder.add_edge(node, "next_round")
builder.add_node("vote", rounds.vote)
builder.add_conditional_edges("next_round", to_agents, [*AGENT_NODES, "vote"])
graph = rounds.close(builder, SYSTEM)
