"""The control agents of a round of MV-Debate: the Judge, who scores, the Reflection, and the Δ-gain gate between them.

Judge and Reflection see the same answers and not each other, so they work at the same time (paper, Top-k Δ-Reflection
Gating). The gate itself is `tribunal.nodes.mv_debate.gate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from tribunal.budget import Budget
from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.forms import Form, always
from tribunal.nodes.mv_debate.gate import adopts, best, exact, gain, top
from tribunal.nodes.mv_debate.views import (
    answer_in_words,
    answers_in_words,
    dropouts,
    dropped_out,
    out_of_budget,
    round_entry,
    turn_id,
    turns_of,
    views_of,
)
from tribunal.nodes.state import Views, agent, closed, spoke
from tribunal.prompts import quote
from tribunal.schema import JSON, Turn


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a score is a number between 0 and 1")
    return value


Score = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]


class ScoresForm(Form):
    """A score for each answer, under its view's name."""

    reason: str = Field(min_length=1)
    scores: Any


class Criticism(Form):
    """What the Reflection says of one answer."""

    errors: str = Field(min_length=1)
    suggestion: str = Field(min_length=1)


class ReflectionForm(Form):
    """What the Reflection says of each answer, under its view's name."""

    feedback: Any


@lru_cache(maxsize=128)
def _by_view(name: str, kind: Any, views: tuple[str, ...]) -> type[BaseModel]:
    """A form with a field for each of these views, and no other: less, or more, is asked for again."""
    fields: dict[str, Any] = dict.fromkeys(views, (kind, ...))
    return create_model(name, __config__=ConfigDict(extra="forbid", str_strip_whitespace=True), **fields)


@lru_cache(maxsize=128)
def judge_of(views: tuple[str, ...]) -> Role[ScoresForm]:
    """The Judge of the answers of these views."""
    form = create_model("Scores", __base__=ScoresForm, scores=(_by_view("ScoreOfEach", Score, views), ...))
    return replace(_JUDGE, form=always(form))


@lru_cache(maxsize=128)
def reflection_on(views: tuple[str, ...]) -> Role[ReflectionForm]:
    """The Reflection on the answers of these views."""
    form = create_model("Reflection", __base__=ReflectionForm, feedback=(_by_view("OnEach", Criticism, views), ...))
    return replace(_REFLECTION, form=always(form))


_JUDGE = Role(
    name="judge.scores",
    seat="judge",
    prompt="mv_debate/score",
    form=always(ScoresForm),
    temperature=0.0,
    falls_to="judge_model",
    system="task",
)
_REFLECTION = Role(
    name="reflection",
    seat="reflection",
    prompt="mv_debate/reflection",
    form=always(ReflectionForm),
    temperature=0.0,
    falls_to="judge_model",
    system="task",
)


@agent
async def score(state: Views, runtime: Runtime[Context]) -> JSON:
    """Score the answers of a round; sees the post and every answer."""
    answers = turns_of(state, "answer", state["round"])
    scores, said = await _scored(answers, "", state, runtime)
    return {**said, "debate": [{**round_entry(state), "scores": scores}]}


@agent
async def rescore(state: Views, runtime: Runtime[Context]) -> JSON:
    """Score the second answers; sees the post and them."""
    answers = turns_of(state, "revision", state["round"])
    if not answers:
        return {}
    scores, said = await _scored(answers, "revision", state, runtime)
    return {**said, "debate": [{**round_entry(state), "new_scores": scores}]}


async def _scored(
    answers: Sequence[Turn], again: Literal["", "revision"], state: Views, runtime: Runtime[Context]
) -> tuple[dict[str, float], JSON]:
    views = tuple(turn.seat.partition(":")[2] for turn in answers)
    answer: Answer[ScoresForm] = await ask(judge_of(views), state, runtime, responses=answers_in_words(answers))
    scores = {view: getattr(answer.value.scores, view) for view in views}
    listed = ", ".join(f"{view} {value:g}" for view, value in scores.items())
    turn = Turn(
        id=turn_id("judge", again or "score", state["round"]),
        seat="judge",
        stage="score",
        round=state["round"],
        text=f"{listed}. {answer.value.reason}",
    )
    return scores, spoke(turn, answer, runtime)


async def reflect(state: Views, runtime: Runtime[Context]) -> JSON:
    """Point out errors and suggest revisions; sees the post and every answer. Without it the first answers stand."""
    answers = turns_of(state, "answer", state["round"])
    views = tuple(turn.seat.partition(":")[2] for turn in answers)
    try:
        answer: Answer[ReflectionForm] = await ask(
            reflection_on(views), state, runtime, responses=answers_in_words(answers)
        )
    except ModelError as fault:
        return dropped_out(fault, "reflection", state["round"])
    lines = [_criticised(view, getattr(answer.value.feedback, view)) for view in views]
    turn = Turn(
        id=turn_id("reflection", "reflection", state["round"]),
        seat="reflection",
        stage="reflection",
        round=state["round"],
        text="\n".join(lines),
    )
    return spoke(turn, answer, runtime)


def _criticised(view: str, said: Criticism) -> str:
    """One line of a reflection, whatever line breaks a model put into it."""
    return f"{view}: {' '.join(said.errors.split())} Suggestion: {' '.join(said.suggestion.split())}"


@agent
async def select(state: Views, runtime: Runtime[Context]) -> JSON:
    """The top k of a round, who answer again, where there is a reflection and the budget pays for it."""
    context, entry = context_of(runtime), round_entry(state)
    if not turns_of(state, "reflection", state["round"]):
        return {}
    k = context.top_k or max(1, len(await views_of(runtime)) // 2)
    chosen = top(_exact(entry["scores"], await views_of(runtime)), k)
    budget = Budget.of(context, state)
    if not budget.affords(len(chosen) + 1):
        return out_of_budget(budget, f"the second answers of round {state['round']}")
    return {"debate": [{**entry, "top": chosen}]}


async def to_revise(state: Views) -> list[Send] | Literal["close", "__end__"]:
    """The top k at once, each with its own answer and the reflection."""
    if closed(state):
        return "__end__"
    answers = {turn.seat: turn for turn in turns_of(state, "answer", state["round"])}
    reflections = turns_of(state, "reflection", state["round"])
    chosen = round_entry(state).get("top", [])
    if not chosen or not reflections:
        return "close"
    shared = {
        "post": state["post"],
        "round": state["round"],
        "reflection": quote("reflection", reflections[-1].text),
    }
    return [
        Send("revise", {**shared, "view": view, "own": answer_in_words(answers[f"view:{view}"])}) for view in chosen
    ]


@agent
async def close(state: Views, runtime: Runtime[Context]) -> JSON:
    """The gate: adopt the second answers, or let the first stand; and name what joins the history."""
    context, views, entry = context_of(runtime), await views_of(runtime), dict(round_entry(state))
    final = old = _exact(entry["scores"], views)
    if entry.get("new_scores"):
        new = _exact(entry["new_scores"], views)
        entry["delta"] = float(gain(old, new))
        entry["adopted"] = context.reflection_mode == "always" or adopts(old, new, exact(context.tau))
        final = {**old, **new} if entry["adopted"] else old
    entry["best"] = best(final)
    entry["kept"] = [entry["best"]] if context.history == "best" else list(final)
    entry["dropped"] = dropouts(state)
    runtime.stream_writer({"event": "round", **entry})
    return {"debate": [entry]}


def _exact(scores: dict[str, float], views: Iterable[str]) -> dict[str, Decimal]:
    """Scores as decimals, in the order of the views."""
    return {view: exact(scores[view]) for view in views if view in scores}
