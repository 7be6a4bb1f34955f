"""The gatekeeper: a rapid scan for explicit cues, which decides the track (ARCADE, equation 4: the gate Φ)."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.cues import cues_form, numbered
from tribunal.nodes.state import Court, spoke
from tribunal.schema import JSON, Turn

MOST_CUES = 2

GATEKEEPER = Role(
    name="gatekeeper",
    seat="gatekeeper",
    prompt="arcade/gatekeeper",
    form=cues_form(("Direct",), MOST_CUES),
    temperature=0.0,
)


@agent
async def gatekeeper(state: Court, runtime: Runtime[Context]) -> JSON:
    """Scan the post; sees the post alone."""
    answer = await ask(GATEKEEPER, state, runtime)
    cues, extra = numbered(answer.value.cues, MOST_CUES, "gatekeeper")
    turn = Turn(id="gatekeeper/0", seat="gatekeeper", stage="scan", round=0, cues=tuple(cues))
    return {"scan": [cue.dump() for cue in cues], **spoke(turn, answer, runtime, extra)}


# Routers are coroutines because LangGraph sends a plain function to a thread, which costs more than the function does.
@router
async def to_track(state: Court) -> Literal["explicit cue", "no cue"]:
    """Φ = 1, an explicit cue was found: the fast track. Φ = 0: the deep dive."""
    return "explicit cue" if state.get("scan") else "no cue"
