"""The defender: presumes innocence, rests on explicit evidence, concedes what it can't refute (ARCADE, section 4.1)."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.arcade.cues import arguments_form, arguments_in, quoted
from tribunal.nodes.arcade.prosecutor import admissible, settled
from tribunal.nodes.exhibits import exhibits
from tribunal.nodes.state import Court, agent, closed, last_turn, spoke
from tribunal.schema import JSON, Turn

DEFENCE = Role(
    name="defender",
    seat="defender",
    prompt="arcade/defence",
    form=arguments_form("refute", "concede"),
    temperature=0.8,
)


@agent
async def defend(state: Court, runtime: Runtime[Context]) -> JSON:
    """Round k: sees the post, the prosecutor's round k and, from round 2 on, its own round k−1 (equations 5 and 6)."""
    k = state["round"]
    pressed, own = last_turn(state, "prosecutor", k), last_turn(state, "defender", k - 1)
    answer = await ask(
        DEFENCE,
        state,
        runtime,
        check=admissible(state),
        shared=exhibits(state),
        round=k,
        own=quoted(own) if own else "",
        evidence=bool(state.get("evidence")),
        prosecution=quoted(pressed) if pressed else "Nothing.",
    )
    turn = Turn(id=f"defender/{k}", seat="defender", stage="rebuttal", round=k, arguments=arguments_in(answer.value))
    return spoke(turn, answer, runtime)


async def to_prosecution_or_rest(state: Court, runtime: Runtime[Context]) -> Literal["prosecute", "rest", "__end__"]:
    """Rounds 2…K; a closed case or a spent budget ends the debate where it stands, an early exit where it settles."""
    if closed(state) or state.get("budget_spent") or state["round"] >= context_of(runtime).rounds:
        return "__end__"
    return "rest" if settled(state, runtime) else "prosecute"
