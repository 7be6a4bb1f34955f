"""The prosecutor: presumes guilt, and presses every cue for which there is a reason (ARCADE, sections 4.1 and 4.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from langgraph.runtime import Runtime

from tribunal.context import Context, context_of
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.arcade.cues import (
    CuesForm,
    arguments_form,
    arguments_in,
    arguments_mended,
    cues_form,
    held_over,
    numbered,
    quoted,
)
from tribunal.nodes.arcade.gatekeeper import GATEKEEPER
from tribunal.nodes.certainty import dismissal_is_uncertain
from tribunal.nodes.exhibits import citations_mended, exhibits
from tribunal.nodes.forms import Maker, Mend, in_turn
from tribunal.nodes.state import Court, closed, cues_in, last_turn, post_of, spoke, transcript_of
from tribunal.nodes.verdict import deliver
from tribunal.prompts.marks import ours
from tribunal.rehearsed import NOTHING_FOUND, rehearsed
from tribunal.schema import JSON, CueType, Saving, Track, Turn
from tribunal.telling import tell

MOST_CHARGES = 3
MOST_IMPLICIT = 2

_CHARGED: tuple[CueType, ...] = ("Direct", "Socio-cultural", "Metaphor")
_IMPLIED: tuple[CueType, ...] = ("Socio-cultural", "Metaphor")
# The same forms with a box a cue, where the setting `boxes` asks for them and the post has an image.
_BOXED_CHARGES = cues_form(_CHARGED, MOST_CHARGES, least=1, boxes=True)
_BOXED_IMPLICIT = cues_form(_IMPLIED, MOST_IMPLICIT, boxes=True)

INDICTMENT = Role(
    name="prosecutor.indictment",
    seat="prosecutor",
    prompt="arcade/indictment",
    form=cues_form(_CHARGED, MOST_CHARGES, least=1),
    temperature=0.8,
)
INVESTIGATION = Role(
    name="prosecutor.investigation",
    seat="prosecutor",
    prompt="arcade/investigation",
    form=cues_form(_IMPLIED, MOST_IMPLICIT),
    temperature=0.8,
)
DISMISSED = (
    "Summary dismissal: the scan found nothing explicit, and the prosecutor's investigation found nothing implied "
    "that could be held against the post."
)
# Of the rehearsal model's search, which finds a few attacks and misses most.
BY_RULES = f"Nothing was brought against the post. {NOTHING_FOUND}"
PRESSING = ("press", "withdraw")
PROSECUTION = Role(
    name="prosecutor.argument",
    seat="prosecutor",
    prompt="arcade/prosecution",
    form=arguments_form(PRESSING),
    temperature=0.8,
)


@agent
async def indict(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track I: one to three cues of any type; sees the post, and what the case holds beside it."""
    return await _charged(INDICTMENT, _BOXED_CHARGES, MOST_CHARGES, "indictment", "fast_track", state, runtime)


@agent
async def investigate(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track II, round 1: at most two implicit cues, or none; sees the post, and what the case holds beside it."""
    return await _charged(INVESTIGATION, _BOXED_IMPLICIT, MOST_IMPLICIT, "investigation", "deep_dive", state, runtime)


async def _charged(
    role: Role[CuesForm],
    boxed: Maker[CuesForm],
    most: int,
    stage: Literal["indictment", "investigation"],
    track: Track,
    state: Court,
    runtime: Runtime[Context],
) -> JSON:
    """The cues that open a track, in the prosecution's first turn."""
    if context_of(state, runtime).boxes and post_of(state).image:
        role = replace(role, form=boxed)
    mend = citations_mended(state, "justification", each="cues", who="prosecutor")
    answer = await ask(role, state, runtime, mend=mend, shared=exhibits(state))
    seen = "image" in (answer.log["calls"][-1]["shown"] or ())
    cues, extra = numbered(answer.value.cues, most, "prosecutor", seen=seen)
    turn = Turn(id="prosecutor/1", seat="prosecutor", stage=stage, round=1, cues=tuple(cues))
    heard = {"track": track, "round": 1, "cues": [cue.dump() for cue in cues]}
    return {**heard, **spoke(turn, answer, runtime, extra)}


@agent
async def prosecute(state: Court, runtime: Runtime[Context]) -> JSON:
    """Track II, round k = 2…K: sees the post, its own round k−1 and the defender's (equation 5).

    A cue that it leaves out and never withdrew is held: it stands as it stood, and the defence still sees it.
    """
    k, cues = state["round"] + 1, cues_in(state)
    own, defence = last_turn(state, "prosecutor", k - 1), last_turn(state, "defender", k - 1)
    answer = await ask(
        replace(PROSECUTION, form=arguments_form(PRESSING, tuple(cue.id for cue in cues))),
        state,
        runtime,
        mend=admissible(state, "prosecutor"),
        shared=exhibits(state),
        round=k,
        own=quoted(own, cues, whole=True) if own else ours("Nothing."),
        defence=quoted(defence, cues) if defence else ours("Nothing."),
    )
    said = arguments_in(answer.value)
    held = held_over(cues, [turn for turn in transcript_of(state) if turn.round < k], said)
    turn = Turn(id=f"prosecutor/{k}", seat="prosecutor", stage="argument", round=k, arguments=(*said, *held))
    left_out = ", ".join(each.cue_id for each in held)
    warnings = [f"the prosecutor left out {left_out} in round {k}; what it said of it before stands"] if held else []
    return {"round": k, **spoke(turn, answer, runtime, warnings)}


def admissible(state: Court, who: str) -> Mend[Any]:
    """A mender of arguments: they speak of the cues of the case, and cite nothing that it doesn't hold."""
    return in_turn(
        arguments_mended(cues_in(state), who), citations_mended(state, "argument", each="arguments", who=who)
    )


def settled(state: Court) -> bool:
    """Whether an early exit is on, and no cue is in dispute: by the last word on each, it is conceded or withdrawn."""
    wanted = context_of(state).early_exit
    if not (state.get("early_exit", False) if wanted is None else wanted):
        return False
    last: dict[str, dict[str, str]] = {"prosecutor": {}, "defender": {}}
    for turn in transcript_of(state):
        for argument in turn.arguments:
            last[turn.seat][argument.cue_id] = argument.stance
    return all(
        last["defender"].get(cue.id) == "concede" or last["prosecutor"].get(cue.id) == "withdraw"
        for cue in cues_in(state)
    )


@router
async def to_defence_or_rest(state: Court) -> Literal["argued", "no cue in dispute"]:
    """The defence answers, unless nothing is left to answer."""
    open_still = not closed(state) and not state.get("budget_spent")
    return "no cue in dispute" if open_still and settled(state) else "argued"


@node
async def rest(state: Court, runtime: Runtime[Context]) -> JSON:
    """No cue is in dispute any more, so the sides rest; what is left of the rounds is spared."""
    k, rounds = state["round"], context_of(state).rounds
    spared = 2 * (rounds - k) + (last_turn(state, "defender", k) is None)
    how = f"no cue was in dispute after round {k} of {rounds}"
    tell(runtime, {"event": "rest", "round": k, "rounds": rounds})
    return {"saved": [*state.get("saved", []), Saving(id="early_exit", calls=spared, how=how).dump()]}


@router
async def to_defence_or_dismissal(state: Court) -> Literal["a cue", "no cue", "no answer"]:
    """Cues go to the defence; an investigation that found none is dismissed; one that was never held ends here."""
    if closed(state) or state.get("cues") is None:
        return "no answer"
    return "a cue" if state["cues"] else "no cue"


@take_part_while_open
async def dismiss(state: Court, runtime: Runtime[Context]) -> JSON:
    """Summary dismissal: label 0, with a reason, and no further call (Algorithm 1).

    It states no confidence, so a fitted threshold that doesn't hold for such verdicts makes it one for a person.
    """
    searched = [call for call in state.get("calls", []) if call["role"] in (GATEKEEPER.name, INVESTIGATION.name)]
    words = BY_RULES if rehearsed(searched) else DISMISSED
    scheme, unsure = context_of(state).scheme, await dismissal_is_uncertain(state)
    verdict = await deliver(0, scheme, words, state, runtime, track="dismissed", uncertain=unsure)
    return {"track": "dismissed", **verdict}
