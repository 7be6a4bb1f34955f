"""The gatekeeper: a rapid scan for explicit cues, which decides the track (ARCADE, equation 4: the gate Φ)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.cues import cues_form, number_cues
from tribunal.nodes.state import CaseRuntime, CaseState, write_turn
from tribunal.schema import JSON, CueType
from tribunal.settings.context import context_of

MOST_CUES = 2
_TYPES: tuple[CueType, ...] = ("Direct",)

GATEKEEPER = Role(
    "gatekeeper", "gatekeeper", "arcade/gatekeeper", cues_form(_TYPES, MOST_CUES), 0.0
)


@agent
async def scan_post(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Scan the post; sees only the post."""
    most = context_of(state, runtime).cue_limit
    answer = await ask(replace(GATEKEEPER, form=cues_form(_TYPES, most)), state, runtime)
    cues, extra = number_cues(answer.value.cues, most, "gatekeeper")
    turn = write_turn(answer, runtime, "gatekeeper", "scan", 0, cues=tuple(cues), warnings=extra)
    return {"scan": [cue.dump() for cue in cues], **turn}


# Routers are coroutines because LangGraph sends a plain function to a thread, which costs more than the function does.
@router
async def to_track(state: CaseState) -> Literal["explicit cue", "no cue"]:
    """Take the fast track if an explicit cue was found (Φ = 1), else the deep dive (Φ = 0)."""
    return "explicit cue" if state.get("scan") else "no cue"
