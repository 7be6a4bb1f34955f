"""DICT: two debaters argue from what the perspectives said, answer each other, and are judged (PREDICT, section 3.2).

The moderator is the fixed text of the prompts; it makes no call.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import create_model

from tribunal.context import Context, context_of
from tribunal.models.ask import Answer, ask
from tribunal.models.question import Shown
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.chat import answered
from tribunal.nodes.exhibits import exhibits
from tribunal.nodes.forms import REASON, Form, always, one_of, words
from tribunal.nodes.predict.perspective import ANNOTATOR, StanceForm, stance_form
from tribunal.nodes.state import Panel, closed, opinions_of, spoke, transcript_of
from tribunal.nodes.verdict import deliver
from tribunal.prompts.marks import Material, Ours, listing, ours, quote, together
from tribunal.rehearsed import rehearsed
from tribunal.schema import JSON, Stance, Turn
from tribunal.telling import tell

# The modes that hold no debate. Those of a perspective with half of what it knows are measured by stances (Table 4).
COUNTED = ("majority", "single", "criterion-only", "examples-only")
SIDES: dict[Stance, str] = {"not_hate": "non-hate", "hate": "hate"}


class SpeechForm(Form):
    """One argument."""

    argument: Annotated[str, words(REASON, least=1)]


class ResponseForm(SpeechForm):
    """An answer to the other side."""

    stance: str


_RESPONSE = always(create_model("Response", __base__=ResponseForm, stance=(one_of(("agree", "rebut")), ...)))
_SPEECH = always(SpeechForm)


def opening(side: Stance) -> Role[SpeechForm]:
    return Role(
        name=f"debater.opening.{side}",
        seat=f"debater:{side}",
        prompt=f"predict/opening_{'hate' if side == 'hate' else 'non_hate'}",
        form=_SPEECH,
        temperature=0.0,
        system="panel",
    )


def response(side: Stance) -> Role[ResponseForm]:
    return Role(
        name=f"debater.response.{side}",
        seat=f"debater:{side}",
        prompt="predict/response",
        form=_RESPONSE,
        temperature=0.0,
        system="panel",
    )


JUDGE = Role(
    name="judge.debate",
    seat="judge",
    prompt="predict/judge",
    form=stance_form("hate", "non-hate"),
    temperature=0.0,
    falls_to="judge_model",
    system="panel",
    final=True,
)


def reference(state: Panel, side: Stance) -> Material | Ours:
    """The reasons of the perspectives that took this side, as material; empty where none did."""
    reasons = [opinion.reason for opinion in opinions_of(state) if opinion.stance == side]
    return listing("reference", reasons) if reasons else ours("")


def _exhibits(state: Panel) -> Shown | None:
    """What the case holds beside the post; what the perspectives said reaches each side as its reference."""
    return exhibits(state, opinions=False)


def _said(state: Panel, turn_id: str) -> Turn | None:
    return next((turn for turn in transcript_of(state) if turn.id == turn_id), None)


def turn_in_words(state: Panel, turn_id: str) -> Material | Ours:
    """One turn's words, as material."""
    found = _said(state, turn_id)
    return quote(found.stage, found.text) if found else ours("Nothing.")


def _turn(side: Stance, round: int, stage: Literal["opening", "response"], answer: Any) -> Turn:
    return Turn(
        id=f"debater:{side}/{round}",
        seat=f"debater:{side}",
        stage=stage,
        round=round,
        stance=getattr(answer, "stance", None),
        text=answer.argument,
    )


@agent
async def open_non_hate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Step 1: sees its own reference."""
    answer = await ask(
        opening("not_hate"), state, runtime, shared=_exhibits(state), reference=reference(state, "not_hate")
    )
    return spoke(_turn("not_hate", 1, "opening", answer.value), answer, runtime)


@agent
async def open_hate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Step 2: sees the other side's argument and its own reference."""
    answer = await ask(
        opening("hate"),
        state,
        runtime,
        shared=_exhibits(state),
        opposing=turn_in_words(state, "debater:not_hate/1"),
        reference=reference(state, "hate"),
    )
    return spoke(_turn("hate", 1, "opening", answer.value), answer, runtime)


@agent
async def answer_non_hate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Step 3: sees its own argument and the hate side's."""
    answer = await ask(
        response("not_hate"),
        state,
        runtime,
        shared=_exhibits(state),
        side=ours("non-hate"),
        own=turn_in_words(state, "debater:not_hate/1"),
        opposing=turn_in_words(state, "debater:hate/1"),
        stance="",
    )
    return spoke(_turn("not_hate", 2, "response", answer.value), answer, runtime)


@agent
async def answer_hate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Step 4: sees its own argument and the non-hate side's response, with its stance."""
    opposing = _said(state, "debater:not_hate/2")
    answer = await ask(
        response("hate"),
        state,
        runtime,
        shared=_exhibits(state),
        side=ours("hate"),
        own=turn_in_words(state, "debater:hate/1"),
        opposing=turn_in_words(state, "debater:not_hate/2"),
        stance=ours("{}", (opposing and opposing.stance) or ""),
    )
    return spoke(_turn("hate", 2, "response", answer.value), answer, runtime)


@router
async def to_responses(state: Panel) -> Literal["both opened", "no responses"]:
    """Round 2, but for the ablation that stops after round 1, and for a case that is closed or out of budget."""
    over = closed(state) or state.get("budget_spent") or context_of(state).mode == "round-1-only"
    return "no responses" if over else "both opened"


@agent
async def judge_debate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Step 5: sees the whole debate and the post."""
    heard = [_heard(turn) for turn in transcript_of(state)]
    debate = together(heard or [ours("Neither side was heard.")])
    answer = await ask(JUDGE, state, runtime, shared=_exhibits(state), debate=debate)
    return await _ruled(answer, state, runtime)


def _heard(turn: Turn) -> Material:
    side = SIDES["hate" if turn.seat == "debater:hate" else "not_hate"]
    how = ours(" ({}s)", turn.stance) if turn.stance else ours("")
    head = ours("The {} side, round {}{}:", side, turn.round, how)
    return together([head, quote(turn.stage, turn.text)], "\n")


@agent
async def annotate(state: Panel, runtime: Runtime[Context]) -> JSON:
    """The base agent: one call, without criterion, examples or debate (PREDICT, Table 1)."""
    answer = await ask(ANNOTATOR, state, runtime, hate=ours("hate"), not_hate=ours("non-hate"))
    return await _ruled(answer, state, runtime)


async def _ruled(answer: Answer[StanceForm], state: Panel, runtime: Runtime[Context]) -> JSON:
    """The verdict that one answer is."""
    label, words = _label(answer.value), answer.value.reason
    return {**await deliver(label, "binary", words, state, runtime, answer.log["calls"]), **answer.log}


@take_part_while_open
async def vote(state: Panel, runtime: Runtime[Context]) -> JSON:
    """No debate: the label that more than half of the perspectives gave; a tie is non-hate, and marked."""
    opinions = opinions_of(state)
    if not opinions:
        return {}
    hate = sum(opinion.stance == "hate" for opinion in opinions)
    tie = hate * 2 == len(opinions)
    if len(opinions) == 1:
        words = opinions[0].reason
    else:
        words = f"{hate} of {len(opinions)} perspectives called it hate" + ("; a tie counts as non-hate" if tie else "")
    return await deliver(int(hate * 2 > len(opinions)), "binary", words, state, runtime, tie=tie)


@node
async def heard(state: Panel, runtime: Runtime[Context]) -> JSON:
    """Where no perspective could be heard at all, the case ends as the first of them did."""
    if closed(state) or state.get("opinions") or state.get("budget_spent") or not state.get("absent"):
        return {}
    outcome = {name: value for name, value in state["absent"][0].items() if name != "id"}
    outcome["rehearsed"] = rehearsed(state.get("calls", []), state.get("warnings", []))
    tell(runtime, {"event": "outcome", **outcome})
    return {"outcome": outcome, **answered(state, outcome)}


@router
async def to_debate_or_vote(state: Panel) -> Literal["stances taken", "mode without debate", "nobody heard"]:
    """How the perspectives come to one verdict: by debate, or by counting them."""
    if closed(state):
        return "nobody heard"
    return "mode without debate" if context_of(state).mode in COUNTED else "stances taken"


@router
async def to_perspectives_or_annotator(state: Panel) -> Literal["heard", "mode base"]:
    """The zero-shot base agent hears no perspective."""
    return "mode base" if context_of(state).mode == "base" else "heard"


def _label(answer: StanceForm) -> int:
    return int(answer.label == "hate")
