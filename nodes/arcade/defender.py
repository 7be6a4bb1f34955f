"""The defender: presumes innocence, rests on explicit evidence, concedes what it can't refute (ARCADE, section 4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.cues import arguments_form, arguments_in, quoted
from tribunal.nodes.arcade.prosecutor import admissible, settled
from tribunal.nodes.exhibits import exhibits
from tribunal.nodes.state import Court, closed, cues_in, last_turn, spoke
from tribunal.prompts.marks import ours
from tribunal.schema import JSON, Turn

ANSWERING = ("refute", "concede")
# Track I: one answer to an indictment.
REBUTTAL = Role(
    name="defender",
    seat="defender",
    prompt="arcade/rebuttal",
    form=arguments_form(ANSWERING),
    temperature=0.8,
)
# Track II: an answer in each round.
DEFENCE = replace(REBUTTAL, prompt="arcade/defence")


@agent
async def defend(state: Court, runtime: Runtime[Context]) -> JSON:
    """Round k: sees the post, the prosecutor's round k and, from round 2 on, its own round k−1 (equation 6)."""
    k, cues = state["round"], cues_in(state)
    pressed, own = last_turn(state, "prosecutor", k), last_turn(state, "defender", k - 1)
    fast = state.get("track") == "fast_track"
    debate: JSON = {} if fast else {"round": k, "own": quoted(own, cues) if own else ""}
    answer = await ask(
        replace(REBUTTAL if fast else DEFENCE, form=arguments_form(ANSWERING, tuple(cue.id for cue in cues))),
        state,
        runtime,
        mend=admissible(state, "defender"),
        shared=exhibits(state),
        evidence=bool(state.get("evidence")),
        prosecution=quoted(pressed, cues, whole=True) if pressed else ours("Nothing."),
        **debate,
    )
    turn = Turn(id=f"defender/{k}", seat="defender", stage="rebuttal", round=k, arguments=arguments_in(answer.value))
    return spoke(turn, answer, runtime)


@router
async def to_prosecution_or_rest(state: Court) -> Literal["next round", "no cue in dispute", "K rounds done"]:
    """Rounds 2…K; a closed case or a spent budget ends the debate where it stands, an early exit where it settles."""
    if closed(state) or state.get("budget_spent") or state["round"] >= context_of(state).rounds:
        return "K rounds done"
    return "no cue in dispute" if settled(state) else "next round"
