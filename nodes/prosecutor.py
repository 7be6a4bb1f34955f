"""The prosecutor: presumes guilt, and presses every cue for which there is a reason (ARCADE, sections 4.1 and 4.2)."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime

from nodes.context import Context, context_of
from nodes.cues import arguments_form, cues_form, known_cues, numbered, quoted, spoken
from nodes.model import Role, ask
from nodes.schema import JSON, Cue, Turn
from nodes.state import Court, agent, closed, last_turn, spoke
from nodes.verdict import deliver

MOST_CHARGES = 3
MOST_IMPLICIT = 2

INDICTMENT = Role(
    name="prosecutor.indictment",
    seat="prosecutor",
    prompt="arcade/indictment",
    form=cues_form(("Direct", "Socio-cultural", "Metaphor"), least=1),
    temperature=0.8,
)
INVESTIGATION = Role(
    name="prosecutor.investigation",
    seat="prosecutor",
    prompt="arcade/investigation",
    form=cues_form(("Socio-cultural", "Metaphor")),
    temperature=0.8,
)
PROSECUTION = Role(
    name="prosecutor.argument",
    seat="prosecutor",
    prompt="arcade/prosecution",
    form=arguments_form("press", "withdraw"),
    temperature=0.8,
)


@agent
async def indict(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track I: one to three cues of any type; sees the post alone."""
    answer = await ask(INDICTMENT, state, runtime)
    cues, extra = numbered(answer.value.cues, MOST_CHARGES, "prosecutor")
    turn = Turn(id="prosecutor/1", seat="prosecutor", stage="indictment", round=1, cues=tuple(cues))
    heard = {"track": "fast_track", "round": 1, "cues": [cue.dump() for cue in cues]}
    return {**heard, **spoke(turn, answer, runtime, extra)}


@agent
async def investigate(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track II, round 1: at most two implicit cues, or none; sees the post alone."""
    answer = await ask(INVESTIGATION, state, runtime)
    cues, extra = numbered(answer.value.cues, MOST_IMPLICIT, "prosecutor")
    turn = Turn(id="prosecutor/1", seat="prosecutor", stage="investigation", round=1, cues=tuple(cues))
    heard = {"track": "deep_dive", "round": 1, "cues": [cue.dump() for cue in cues]}
    return {**heard, **spoke(turn, answer, runtime, extra)}


@agent
async def prosecute(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track II, round k = 2…K: sees the post, its own round k−1 and the defender's (equation 6)."""
    k = state["round"] + 1
    own, defence = last_turn(state, "prosecutor", k - 1), last_turn(state, "defender", k - 1)
    answer = await ask(
        PROSECUTION,
        state,
        runtime,
        check=known_cues(cues_of(state)),
        round=k,
        own=quoted(own) if own else "Nothing.",
        defence=quoted(defence) if defence else "Nothing.",
    )
    turn = Turn(id=f"prosecutor/{k}", seat="prosecutor", stage="argument", round=k, arguments=spoken(answer.value))
    return {"round": k, **spoke(turn, answer, runtime)}


def cues_of(state: Court) -> list[Cue]:
    return [Cue.model_validate(cue) for cue in state.get("cues") or []]


async def charges(state: Court) -> Literal["defend", "dismiss", "__end__"]:
    """Cues go to the defence; an investigation that found none is dismissed; one that was never held ends here."""
    if closed(state) or state.get("cues") is None:
        return "__end__"
    return "defend" if state["cues"] else "dismiss"


async def dismiss(state: Court, runtime: Runtime[Context]) -> JSON:
    """Summary dismissal: label 0, with a reason, and no further call (Algorithm 1)."""
    words = (
        "Summary dismissal: the scan found nothing explicit, and the prosecutor's investigation found nothing implied "
        "that could be held against the post."
    )
    return {"track": "dismissed", **await deliver(0, context_of(runtime).scheme, words, runtime, track="dismissed")}
