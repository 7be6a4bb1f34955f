"""ChatEval: referees with different roles speak one after another, hear all that was said, and answer in the last one.

Chan et al., *ChatEval: Towards Better LLM-based Evaluators through Multi-Agent Debate*, ICLR 2024. The communication
is one-by-one, the three roles are those of the published configurations (`two_turns_sequential/
three_different_role`): the general public, a critic, a news author; temperature 0. Before the last round they only
discuss; in it each gives an answer, and the majority decides. The paper has two rounds: `--set rounds=2`.

Where this differs: the referees judge a post and not a text of a model, so their roles are told in other words; a
referee that fails has no vote; a tied vote is NO.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from debate_peers import rounds
from tribunal import pieces

SYSTEM = pieces.System(
    name="chateval",
    about="referees of different roles discuss one after another, then each answers and the majority decides",
    seats=("referee",),
    heeds=rounds.HEEDS,
    prompts="debate_peers:prompts/chateval",
)
REFEREES = ("public", "critic", "author")


class Talk(BaseModel):
    """What a referee says before the last round."""

    reason: Annotated[str, Field(min_length=1, max_length=1200)]


def referee(name: str, *, last: bool) -> Any:
    """Return the node of a referee, who discusses or, in the last round, answers."""
    seat = f"referee:{name}"
    form, task = (rounds.Answer, "answer") if last else (Talk, "talk")
    role = rounds.role_of(seat, f"chateval/{name}", 0.0, form, task)

    @pieces.agent
    async def speak(state: rounds.Debate, runtime: Runtime[pieces.Context]) -> Any:
        history = rounds.said_so_far(state, seat)
        return await rounds.take_turn(role, state, runtime, history=history, last=int(last))

    return pieces.piece(needs=["post", "round"], uses=["transcript"], writes=rounds.SPOKEN)(speak)


builder = rounds.begin(SYSTEM)
builder.add_node("next_round", rounds.open_round(calls=len(REFEREES), closing=1))
builder.add_edge("receive", "next_round")
for name in REFEREES:
    builder.add_node(name, referee(name, last=False))
    builder.add_node(f"{name}_answers", referee(name, last=True))
for first, second in pairwise(REFEREES):
    builder.add_edge(first, second)
    builder.add_edge(f"{first}_answers", f"{second}_answers")
builder.add_edge(REFEREES[-1], "next_round")
builder.add_node("vote", rounds.vote)
builder.add_edge(f"{REFEREES[-1]}_answers", "vote")
ways: dict[Hashable, str] = {"round": REFEREES[0], "over": f"{REFEREES[0]}_answers"}
builder.add_conditional_edges("next_round", rounds.is_over, ways)
graph = rounds.close(builder, SYSTEM)
