"""The prosecutor: presumes guilt, and presses every cue for which there is a reason (ARCADE, sections 4.1 and 4.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from tribunal.core.calls import NOTHING_FOUND, was_rehearsed
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.arcade.contradictions import check_cues
from tribunal.nodes.arcade.cues import (
    argument_mender,
    arguments_form,
    arguments_from_form,
    carry_over_arguments,
    cues_form,
    number_cues,
    quote_turn,
)
from tribunal.nodes.arcade.gatekeeper import GATEKEEPER
from tribunal.nodes.exhibits import show_exhibits, strike_unknown_citations
from tribunal.nodes.forms import Mend, chain_menders, strike_unknown_clauses
from tribunal.nodes.state import (
    CaseRuntime,
    CaseState,
    cues_in,
    last_turn,
    post_of,
    transcript_of,
    write_turn,
)
from tribunal.nodes.verdict import deliver, dismissal_is_uncertain, is_closed
from tribunal.prompts.marks import Material, Ours, ours, short_word, together
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, CueType, Saving, Track
from tribunal.settings.context import context_of

MOST_CHARGES = 3
MOST_IMPLICIT = 2

_CHARGED: tuple[CueType, ...] = ("Direct", "Socio-cultural", "Metaphor")
_IMPLIED: tuple[CueType, ...] = ("Socio-cultural", "Metaphor")
_CHARGES = cues_form(_CHARGED, MOST_CHARGES)
_IMPLICIT = cues_form(_IMPLIED, MOST_IMPLICIT)

INDICTMENT = Role("prosecutor.indictment", "prosecutor", "arcade/indictment", _CHARGES, 0.8)
INVESTIGATION = Role(
    "prosecutor.investigation", "prosecutor", "arcade/investigation", _IMPLICIT, 0.8
)
DISMISSED = (
    "Summary dismissal: the scan found nothing explicit, and the prosecutor's investigation found nothing implied "
    "that could be held against the post."
)
# Of the rehearsal model's search, which finds a few attacks and misses most.
BY_RULES = f"Nothing was brought against the post. {NOTHING_FOUND}"
# ARCADE's prosecutor never withdraws. Only what was looked up or asked beside the post can prove a cue wrong.
PRESSING = ("press",)
PRESSING_OR_WITHDRAWING = ("press", "withdraw")
PROSECUTION = Role(
    "prosecutor.argument", "prosecutor", "arcade/prosecution", arguments_form(PRESSING), 0.8
)


@agent
async def indict_post(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Bring at most three cues of any type (track I); sees the post and the case's material beside it.

    With none, the defence and the judge are still asked, as in the published code.
    """
    return await _bring_cues("fast_track", _CHARGED, MOST_CHARGES, state, runtime)


@agent
async def investigate_post(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Bring at most `cue_limit` implicit cues, or none (track II, round 1); sees the post and the exhibits."""
    return await _bring_cues(
        "deep_dive", _IMPLIED, context_of(state, runtime).cue_limit, state, runtime
    )


async def _bring_cues(
    track: Track, types: tuple[CueType, ...], most: int, state: CaseState, runtime: CaseRuntime
) -> JSON:
    """Return the cues that open a track, in the prosecution's first turn."""
    fast = track == "fast_track"
    role, stage = (INDICTMENT, "indictment") if fast else (INVESTIGATION, "investigation")
    # A box a cue, where the setting `boxes` asks for them and the post has an image.
    boxes = context_of(state, runtime).boxes and post_of(state).image is not None
    role = replace(role, form=cues_form(types, most, boxes=boxes))
    policy = await policy_of(state, runtime)
    mend = chain_menders(
        strike_unknown_citations(state, "justification", each="cues", who="prosecutor"),
        strike_unknown_clauses(policy, "prosecutor"),
    )
    answer = await ask(
        role, state, runtime, mend=mend, check=check_cues(policy), shared=show_exhibits(state)
    )
    seen = "image" in (answer.log["calls"][-1]["shown"] or ())
    cues, extra = number_cues(answer.value.cues, most, "prosecutor", seen=seen)
    heard = {"track": track, "round": 1, "cues": [cue.dump() for cue in cues]}
    return {
        **heard,
        **write_turn(answer, runtime, "prosecutor", stage, 1, cues=tuple(cues), warnings=extra),
    }


@agent
async def press_cues(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Press the cues in round k = 2…K (track II); sees its own round and the defender's (equation 5).

    It may withdraw one where the case holds exhibits. A cue that it leaves out and never withdrew is held: it stands as
    it stood, and the defence still sees it.
    """
    k = state["round"] + 1
    cues = cues_in(state)
    shared = show_exhibits(state)
    stances = PRESSING_OR_WITHDRAWING if shared else PRESSING
    answer = await ask(
        replace(PROSECUTION, form=arguments_form(stances, tuple(cue.id for cue in cues))),
        state,
        runtime,
        mend=admissible_arguments(state, "prosecutor"),
        shared=shared,
        round=k,
        own=show_turn(state, "prosecutor", k - 1, whole=True),
        defence=show_turn(state, "defender", k - 1),
    )
    said = arguments_from_form(answer.value)
    held = carry_over_arguments(
        cues, [turn for turn in transcript_of(state) if turn.round < k], said
    )
    left_out = ", ".join(each.cue_id for each in held)
    warnings = (
        [f"the prosecutor left out {left_out} in round {k}; what it said of it before stands"]
        if held
        else []
    )
    about: JSON = {"arguments": (*said, *held), "warnings": warnings}
    return {"round": k, **write_turn(answer, runtime, "prosecutor", "argument", k, **about)}


def show_turn(state: CaseState, seat: str, round: int, *, whole: bool = False) -> Material | Ours:
    """Return a turn as a side of the debate is shown it.

    With `turns_shown` none, the sides of a deep dive are told the ids of the cues, and nothing that was said of them.
    The published code tells them not even these; without them no answer could be laid to a cue.
    """
    cues = cues_in(state)
    turn = last_turn(state, seat, round)
    if context_of(state).turns_shown == "none" and state.get("track") == "deep_dive":
        return together([ours("Not shown. Cues:"), *(short_word(cue.id) for cue in cues)], " ")
    return quote_turn(turn, cues, whole=whole) if turn else ours("Nothing.")


def admissible_arguments(state: CaseState, who: str) -> Mend[Any]:
    """Return a mender of arguments: they speak of the cues of the case, and cite nothing that it doesn't hold."""
    return chain_menders(
        argument_mender(cues_in(state), who),
        strike_unknown_citations(state, "argument", each="arguments", who=who),
    )


def exits_early(state: CaseState) -> bool:
    """Return whether an early exit is on, and no cue is in dispute: each is conceded or withdrawn."""
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
async def to_defence_or_rest(state: CaseState) -> Literal["argued", "no cue in dispute"]:
    """Send the cues to the defence, unless nothing is left to answer."""
    open_still = not is_closed(state) and not state.get("budget_spent")
    return "no cue in dispute" if open_still and exits_early(state) else "argued"


@node
async def rest_case(state: CaseState, runtime: CaseRuntime) -> JSON:
    """End the debate early, since no cue is in dispute; the remaining rounds are saved."""
    k = state["round"]
    rounds = context_of(state).rounds
    spared = 2 * (rounds - k) + (last_turn(state, "defender", k) is None)
    how = f"no cue was in dispute after round {k} of {rounds}"
    runtime.stream_writer({"event": "rest", "round": k, "rounds": rounds})
    return {
        "saved": [*state.get("saved", []), Saving(id="early_exit", calls=spared, how=how).dump()]
    }


@router
async def to_defence_or_dismissal(state: CaseState) -> Literal["a cue", "no cue", "no answer"]:
    """Send cues to the defence, an investigation without any to dismissal, and one never held to the end."""
    if is_closed(state) or state.get("cues") is None:
        return "no answer"
    return "a cue" if state["cues"] else "no cue"


@take_part_while_open
async def dismiss_case(state: CaseState, runtime: CaseRuntime) -> JSON:
    """Dismiss the case: label 0, with a reason, and no further call (Algorithm 1).

    It states no confidence, so a fitted threshold that doesn't hold for such verdicts makes it one for a person.
    """
    searched = [
        call
        for call in state.get("calls", [])
        if call["role"] in (GATEKEEPER.name, INVESTIGATION.name)
    ]
    words = BY_RULES if was_rehearsed(searched) else DISMISSED
    scheme = context_of(state).scheme
    unsure = await dismissal_is_uncertain(state)
    verdict = await deliver(0, scheme, words, state, runtime, track="dismissed", uncertain=unsure)
    return {"track": "dismissed", **verdict}
