"""DMAD, diverse multi-agent debate: three agents think by three methods, round after round, and vote.

Liu, Cao, Li and He, *Breaking Mental Set to Improve Reasoning through Diverse Multi-Agent Debate*, ICLR 2025. Methods
and flow are those of the multimodal experiments (`main_DMAD.py`): one agent answers directly (IO), one writes down a
scene graph first (CCoT), one splits the question into sub-questions first (DDCoT); three rounds at temperature 0.3. In
later rounds each agent thinks by its own method again, and is shown everything that was said in earlier rounds.

Where this differs: all words are ours, the scene is also that of a post without an image, and a tied vote is NO.
"""

from __future__ import annotations

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from debate_peers import rounds
from tribunal import pieces
from tribunal.errors import ModelError

SYSTEM = pieces.System(
    name="dmad",
    about="three agents that think by different methods debate in rounds, then vote",
    seats=("agent",),
    heeds=rounds.HEEDS,
    prompts="debate_peers:prompts/dmad",
    experiments="debate_peers:experiments",
)
TEMPERATURE = 0.3
Line = Annotated[str, Field(min_length=1, max_length=300)]


class Scene(BaseModel):
    """What the post shows or speaks about."""

    objects: Annotated[list[Line], Field(max_length=10)]
    attributes: Annotated[list[Line], Field(max_length=10)]
    relations: Annotated[list[Line], Field(max_length=10)]


class Parts(BaseModel):
    """The sub-questions of the question, each followed by its answer."""

    questions: Annotated[list[Line], Field(min_length=1, max_length=6)]
    answers: Annotated[list[Line], Field(min_length=1, max_length=6)]


THOUGHTS: dict[str, type[BaseModel]] = {"scene": Scene, "questions": Parts}
METHODS = ("direct", *THOUGHTS)


def thinker(method: str) -> Any:
    """Return the node of the agent of a method: it thinks, if its method says so, and answers."""
    seat = f"agent:{method}"
    role = rounds.role_of(seat, f"dmad/{method}", TEMPERATURE)
    form = THOUGHTS.get(method)
    thinking = (
        rounds.role_of(seat, f"dmad/{method}_thought", TEMPERATURE, form, "thought")
        if form
        else None
    )

    @pieces.agent
    async def speak(state: rounds.Debate, runtime: Runtime[pieces.Context]) -> Any:
        history = rounds.said_so_far(state, seat)
        if thinking is None:
            return await rounds.take_turn(role, state, runtime, history=history)
        try:
            thought = await pieces.ask(thinking, state, runtime, history=history)
        except ModelError as fault:
            return rounds.drop_out(fault, state["round"])
        lines = [f"{name}: {'; '.join(listed)}" for name, listed in thought.value]
        shown = pieces.listing("thought", lines)
        said = await rounds.take_turn(
            role, state, runtime, before="\n".join(lines), history=history, thought=shown
        )
        return {
            **said,
            **{name: [*thought.log[name], *said[name]] for name in ("calls", "warnings")},
        }

    return pieces.piece(needs=["post", "round"], uses=["transcript"], writes=rounds.SPOKEN)(speak)


builder = rounds.begin(SYSTEM)
builder.add_node("next_round", rounds.open_round(calls=5))
builder.add_edge("receive", "next_round")
for method in METHODS:
    builder.add_node(method, thinker(method))
    builder.add_edge(method, "next_round")
builder.add_node("vote", rounds.vote)


def to_agents(state: rounds.Debate) -> list[str]:
    """Send the round to all agents at once, or the debate to the vote."""
    return ["vote"] if rounds.is_over(state) == "over" else [*METHODS]


builder.add_conditional_edges("next_round", to_agents, [*METHODS, "vote"])
graph = rounds.close(builder, SYSTEM)
