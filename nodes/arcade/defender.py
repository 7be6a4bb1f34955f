"""The defender: presumes innocence, rests on explicit evidence, concedes what it can't refute (ARCADE, section 4.1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, router
from tribunal.nodes.arcade.cues import arguments_form, arguments_from_form, concede_unanswered
from tribunal.nodes.arcade.prosecutor import admissible_arguments, exits_early, show_turn
from tribunal.nodes.exhibits import show_exhibits
from tribunal.nodes.state import CaseRuntime, CaseState, cues_in, last_turn, write_turn
from tribunal.nodes.verdict import is_closed
from tribunal.schema import JSON
from tribunal.settings.context import context_of

# It refutes cues, and concedes one by leaving it out.
answers_form = partial(
    arguments_form, ("refute",), left_out="concede", says="A cue that is left out is conceded."
)
# Track I: one answer to an indictment.
REBUTTAL = Role("defender", "defender", "arcade/rebuttal", answers_form(), 0.8)
# Track II: an answer in each round.
DEFENCE = replace(REBUTTAL, prompt="arcade/defence")


@agent
async def defend_post(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Answer the cues in round k; sees the post, the prosecutor's round k and its own round k−1 (equation 6)."""
    k = state["round"]
    cues = cues_in(state)
    own = show_turn(state, "defender", k - 1) if last_turn(state, "defender", k - 1) else ""
    fast = state.get("track") == "fast_track"
    debate: JSON = {} if fast else {"round": k, "own": own}
    form = answers_form(tuple(cue.id for cue in cues))
    answer = await ask(
        replace(REBUTTAL if fast else DEFENCE, form=form),
        state,
        runtime,
        mend=admissible_arguments(state, "defender"),
        shared=show_exhibits(state),
        prosecution=show_turn(state, "prosecutor", k, whole=True),
        **debate,
    )
    said = arguments_from_form(answer.value)
    arguments = (*said, *concede_unanswered(cues, said))
    return write_turn(answer, runtime, "defender", "rebuttal", k, arguments=arguments)


@router
async def to_prosecution_or_rest(
    state: CaseState,
) -> Literal["next round", "no cue in dispute", "K rounds done"]:
    """Go on with rounds 2…K, unless the case is closed, the budget spent, or no cue in dispute."""
    if is_closed(state) or state.get("budget_spent") or state["round"] >= context_of(state).rounds:
        return "K rounds done"
    return "no cue in dispute" if exits_early(state) else "next round"
