"""DICT: two debaters argue from what the perspectives said, answer each other, and are judged (PREDICT, section 3.2).

The moderator is the fixed text of the prompts; it makes no call.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import create_model

from tribunal.core.calls import was_rehearsed
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.exhibits import show_exhibits
from tribunal.nodes.forms import (
    Form,
    Reason,
    cited_clauses,
    citing_form,
    mend_decision,
    one_of,
    same_form,
)
from tribunal.nodes.predict.perspective import ANNOTATOR, StanceForm, stance_form
from tribunal.nodes.state import CaseRuntime, PanelState, opinions_of, transcript_of, write_turn
from tribunal.nodes.verdict import (
    announce_outcome,
    deliver,
    is_closed,
    vote_confidence,
    with_confidence,
)
from tribunal.prompts.marks import Material, Ours, listing, ours, quote, together
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Stance
from tribunal.settings.context import context_of

# The modes that hold no debate. Those of a perspective with half of what it knows are measured by stances (Table 4).
COUNTED = ("majority", "single", "criterion-only", "examples-only")
SIDES: dict[Stance, str] = {"not_hate": "non-hate", "hate": "hate"}


class SpeechForm(Form):
    """One argument."""

    argument: Reason


class ResponseForm(SpeechForm):
    """An answer to the other side. The stance is empty where a set of prompts doesn't ask for it."""

    stance: str


_RESPONSE = same_form(
    create_model("Response", __base__=ResponseForm, stance=(one_of(("agree", "rebut")), ...))
)


_PROMPTS: dict[Stance, str] = {
    "not_hate": "predict/opening_non_hate",
    "hate": "predict/opening_hate",
}
OPENINGS: dict[Stance, Role[SpeechForm]] = {
    side: Role(
        f"debater.opening.{side}",
        f"debater:{side}",
        prompt,
        same_form(SpeechForm),
        0.0,
        system="panel",
    )
    for side, prompt in _PROMPTS.items()
}
RESPONSES: dict[Stance, Role[ResponseForm]] = {
    side: Role(
        f"debater.response.{side}",
        f"debater:{side}",
        "predict/response",
        _RESPONSE,
        0.0,
        system="panel",
    )
    for side in SIDES
}
JUDGE = Role(
    "judge.debate",
    "judge",
    "predict/judge",
    citing_form(stance_form("hate", "non-hate")),
    0.0,
    falls_to="judge_model",
    system="panel",
    final=True,
)


async def _respond(
    side: Stance,
    opposing: str,
    state: PanelState,
    runtime: CaseRuntime,
    before: str = "",
    stance: str = "",
) -> JSON:
    """Take the second turn of a side, which is shown its first one, and the other side's turn of this id.

    One that remembers the whole debate is shown again what it was shown in round 1: its reference, and the other side's
    turn `before` its own.
    """
    whole = _remembers_all(state)
    return await _speak(
        RESPONSES[side],
        2,
        state,
        runtime,
        side=ours("{}", SIDES[side]),
        reference=_reference_of(side, state) if whole else "",
        before=_turn_in_words(state, before) if whole and before else "",
        own=_turn_in_words(state, f"debater:{side}/1"),
        opposing=_turn_in_words(state, opposing),
        stance=ours("{}", stance),
    )


def _reference_of(side: Stance, state: PanelState) -> Material | Ours:
    """Return the reasons of the perspectives that took a side; empty if none did."""
    reasons = [opinion.reason for opinion in opinions_of(state) if opinion.stance == side]
    return listing("reference", reasons) if reasons else ours("")


def _remembers_all(state: PanelState) -> bool:
    """Return whether debaters and judge are shown the references after round 1, as in PREDICT's published code."""
    return context_of(state).debate_memory == "whole"


async def _speak(
    role: Role[Any], round: Literal[1, 2], state: PanelState, runtime: CaseRuntime, **material: Any
) -> JSON:
    """Take the turn of a side; sees what the case holds beside the post, too, but for the opinions.

    These reach each side as its reference.
    """
    stage = "opening" if round == 1 else "response"
    answer = await ask(
        role, state, runtime, shared=show_exhibits(state, opinions=False), **material
    )
    stance = getattr(answer.value, "stance", None) or None
    return write_turn(
        answer, runtime, role.seat, stage, round, text=answer.value.argument, stance=stance
    )


def _turn_in_words(state: PanelState, turn_id: str) -> Material | Ours:
    found = next((turn for turn in transcript_of(state) if turn.id == turn_id), None)
    return quote(found.stage, found.text) if found else ours("Nothing.")


@agent
async def open_non_hate(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Open for the non-hate side (step 1); sees its own reference."""
    return await _speak(
        OPENINGS["not_hate"], 1, state, runtime, reference=_reference_of("not_hate", state)
    )


@agent
async def open_hate(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Open for the hate side (step 2); sees the other side's argument and its own reference."""
    opposing = _turn_in_words(state, "debater:not_hate/1")
    return await _speak(
        OPENINGS["hate"],
        1,
        state,
        runtime,
        reference=_reference_of("hate", state),
        opposing=opposing,
    )


@agent
async def answer_non_hate(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Answer for the non-hate side (step 3); sees its own argument and the hate side's."""
    return await _respond("not_hate", "debater:hate/1", state, runtime)


@agent
async def answer_hate(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Answer for the hate side (step 4); sees its own argument and the other side's response, with its stance."""
    stances = [
        turn.stance or "" for turn in transcript_of(state) if turn.id == "debater:not_hate/2"
    ]
    first = "debater:not_hate/1"
    return await _respond(
        "hate", "debater:not_hate/2", state, runtime, before=first, stance="".join(stances)
    )


@router
async def to_responses(state: PanelState) -> Literal["both opened", "no responses"]:
    """Go to round 2, unless the mode stops after round 1, the case is closed, or the budget is spent."""
    over = is_closed(state) or state.get("budget_spent") or context_of(state).mode == "round-1-only"
    return "no responses" if over else "both opened"


@agent
async def judge_panel(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Decide (step 5); sees the whole debate and the post, and the references if the debate's memory is whole."""
    heard = []
    for own in SIDES if _remembers_all(state) and transcript_of(state) else ():
        reference = _reference_of(own, state)
        if reference:
            heard.append(
                together(
                    [ours("The {} side began with these reasons:", SIDES[own]), reference], "\n"
                )
            )
    for turn in transcript_of(state):
        side = SIDES["hate" if turn.seat == "debater:hate" else "not_hate"]
        how = ours(" ({}s)", turn.stance) if turn.stance else ours("")
        head = ours("The {} side, round {}{}:", side, turn.round, how)
        heard.append(together([head, quote(turn.stage, turn.text)], "\n"))
    debate = together(heard or [ours("Neither side was heard.")])
    shared = show_exhibits(state, opinions=False)
    return await _decide(JUDGE, "judge", state, runtime, shared=shared, debate=debate)


@agent
async def annotate_post(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Decide as the base agent: one call, without criterion, examples or debate (PREDICT, Table 1)."""
    return await _decide(
        ANNOTATOR, "annotator", state, runtime, hate=ours("hate"), not_hate=ours("non-hate")
    )


async def _decide(
    role: Role[StanceForm], who: str, state: PanelState, runtime: CaseRuntime, **asked: Any
) -> JSON:
    """Return the verdict of one who decides by a stance; `asked` is what `ask` is given."""
    mend = mend_decision(await policy_of(state, runtime), who)
    answer = await ask(with_confidence(role, state), state, runtime, mend=mend, **asked)
    how: JSON = {"confidence": answer.confidence, "clauses": cited_clauses(answer.value)}
    label = int(answer.value.label == "hate")
    return await deliver(label, "binary", answer.value.reason, state, runtime, answer.log, **how)


@take_part_while_open
async def decide_by_majority(state: PanelState, runtime: CaseRuntime) -> JSON:
    """Decide without debate, as more than half of the perspectives do; a tie is non-hate, and marked."""
    opinions = opinions_of(state)
    if not opinions:
        return {}
    hate = sum(opinion.stance == "hate" for opinion in opinions)
    tie = hate * 2 == len(opinions)
    if len(opinions) == 1:
        words = opinions[0].reason
    else:
        words = f"{hate} of {len(opinions)} perspectives called it hate" + (
            "; a tie counts as non-hate" if tie else ""
        )
    label = int(hate * 2 > len(opinions))
    votes = hate if label else len(opinions) - hate
    confidence = vote_confidence(state, votes, len(opinions), state.get("calls", ()))
    return await deliver(label, "binary", words, state, runtime, tie=tie, confidence=confidence)


@node
async def end_if_unheard(state: PanelState, runtime: CaseRuntime) -> JSON:
    """End the case as the first perspective did, if none could be heard at all."""
    if (
        is_closed(state)
        or state.get("opinions")
        or state.get("budget_spent")
        or not state.get("absent")
    ):
        return {}
    outcome = {name: value for name, value in state["absent"][0].items() if name != "id"}
    outcome["rehearsed"] = was_rehearsed(state.get("calls", []), state.get("warnings", []))
    return announce_outcome(state, outcome, runtime)


@router
async def to_debate_or_vote(
    state: PanelState,
) -> Literal["stances taken", "mode without debate", "nobody heard"]:
    """Go to the debate, or count the perspectives."""
    if is_closed(state):
        return "nobody heard"
    return "mode without debate" if context_of(state).mode in COUNTED else "stances taken"


@router
async def to_perspectives_or_annotator(state: PanelState) -> Literal["heard", "mode base"]:
    """Hear the perspectives, unless the mode is the zero-shot base agent."""
    return "mode base" if context_of(state).mode == "base" else "heard"
