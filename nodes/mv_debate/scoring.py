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
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from tribunal.budget import Budget
from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.models.ask import Answer, ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.forms import CLAIM, REASON, Form, always, one_of, words
from tribunal.nodes.mv_debate.gate import adopts, best, exact, gain, top
from tribunal.nodes.mv_debate.history import answer_in_words, answers_in_words, round_entry, turns_of, view_of
from tribunal.nodes.mv_debate.views import dropouts, dropped_out, out_of_budget, turn_id, views_of
from tribunal.nodes.state import Views, closed, spoke
from tribunal.prompts.marks import Material, ours, together
from tribunal.schema import JSON, Turn
from tribunal.stops import stop_at_head
from tribunal.telling import tell

_LEAST_PERCENT = 10  # scores up to this may be out of five or of ten


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a score is a number from 0 to 1")
    return value


def _in_range(value: float) -> float:
    if not 0 <= value <= 100:
        raise ValueError("a score is a number from 0 to 1")
    return value


# One in percent is left to `in_percent`.
Score = Annotated[
    float,
    BeforeValidator(_number),
    AfterValidator(_in_range),
    Field(json_schema_extra={"minimum": 0, "maximum": 1}),
]


class ScoresForm(Form):
    """A score for each answer, under its view's name."""

    reason: Annotated[str, words(REASON, least=1)]
    scores: Any


class Criticism(Form):
    """What the Reflection says of one answer."""

    errors: Annotated[str, words(CLAIM, least=1)]
    suggestion: Annotated[str, words(CLAIM, least=1)]


class ReflectionForm(Form):
    """What the Reflection says of each answer, under its view's name."""

    feedback: Any


class _ByView(BaseModel):
    """A form with a field for each of some views, and no other: less, or more, is asked for again."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _views_as_named(cls, given: Any) -> Any:
        """The same under the names of the views, where these are spelt otherwise; two for one view stay as they are."""
        if not isinstance(given, dict):
            return given
        named = {_as_named(tuple(cls.model_fields), key): value for key, value in given.items()}
        return named if len(named) == len(given) else given


def _as_named(views: tuple[str, ...], key: Any) -> Any:
    try:
        return _view_names(views).validate_python(key)
    except ValidationError:
        return key


@lru_cache(maxsize=128)
def _view_names(views: tuple[str, ...]) -> TypeAdapter[str]:
    return TypeAdapter(one_of(views))


@lru_cache(maxsize=128)
def _by_view(name: str, kind: Any, views: tuple[str, ...]) -> type[_ByView]:
    fields: dict[str, Any] = dict.fromkeys(views, (kind, ...))
    return create_model(name, __base__=_ByView, **fields)


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


def in_percent(answer: ScoresForm, warnings: list[str]) -> ScoresForm:
    """A mender: scores that were given in percent as parts of one, with a warning.

    Raises:
        ValueError: it isn't plain on which scale a score is.
    """
    given: dict[str, float] = dict(answer.scores)
    highest = max(given.values())
    if highest <= 1:
        return answer
    unclear = [view for view, score in given.items() if score == 1 or highest <= _LEAST_PERCENT]
    if unclear:
        view = unclear[0]
        raise ValueError(f"scores.{view}: {given[view]:g}: give a number from 0 to 1")
    taken = {view: float(exact(score) / 100) if score > 1 else score for view, score in given.items()}
    listed = ", ".join(f"{view} {score:g}" for view, score in given.items() if score > 1)
    warnings.append(f"judge: scores in percent were taken as parts of one: {listed}")
    return answer.model_copy(update={"scores": answer.scores.model_copy(update=taken)})


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
    scores, said = await _scored(answers, state, runtime)
    return {**said, "debate": [{**round_entry(state), "scores": scores}]}


@agent
async def rescore(state: Views, runtime: Runtime[Context]) -> JSON:
    """Score the second answers; sees the post, them, and the same views' first answers with their scores.

    Δ is a difference of the two scores, so the first ones are shown as the scale for the second ones.
    """
    answers = turns_of(state, "revision", state["round"])
    if not answers:
        return {}
    old, again = round_entry(state)["scores"], {turn.seat for turn in answers}
    before = [turn for turn in turns_of(state, "answer", state["round"]) if turn.seat in again]
    heads = [ours("{}, score {:g}: ", view_of(turn), old[view_of(turn)]) for turn in before]
    shown = [together([head, answer_in_words(turn)], "") for head, turn in zip(heads, before, strict=True)]
    scores, said = await _scored(answers, state, runtime, before=together(shown))
    return {**said, "debate": [{**round_entry(state), "new_scores": scores}]}


async def _scored(
    answers: Sequence[Turn], state: Views, runtime: Runtime[Context], before: Material | None = None
) -> tuple[dict[str, float], JSON]:
    """The scores of answers by view, and the Judge's turn; `before` says what was scored before these."""
    views = tuple(map(view_of, answers))
    answer: Answer[ScoresForm] = await ask(
        judge_of(views), state, runtime, mend=in_percent, responses=answers_in_words(answers), before=before
    )
    scores = {view: getattr(answer.value.scores, view) for view in views}
    listed = ", ".join(f"{view} {value:g}" for view, value in scores.items())
    turn = Turn(
        id=turn_id("judge", "revision" if before else "score", state["round"]),
        seat="judge",
        stage="score",
        round=state["round"],
        text=f"{listed}. {answer.value.reason}",
    )
    return scores, spoke(turn, answer, runtime)


@node
@stop_at_head
async def reflect(state: Views, runtime: Runtime[Context]) -> JSON:
    """Point out errors and suggest revisions; sees the post and every answer. Without it the first answers stand."""
    answers = turns_of(state, "answer", state["round"])
    views = tuple(map(view_of, answers))
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


@take_part_while_open
async def select(state: Views, runtime: Runtime[Context]) -> JSON:
    """The top k of a round, who answer again, where there is a reflection and the budget pays for it."""
    context, entry = context_of(state), round_entry(state)
    if not turns_of(state, "reflection", state["round"]):
        return {}
    k = context.top_k or max(1, len(await views_of(state)) // 2)
    chosen = top(_exact(entry["scores"], await views_of(state)), k)
    budget = Budget.of(context, state)
    if not budget.affords(len(chosen) + 1):
        return out_of_budget(budget, f"the second answers of round {state['round']}")
    return {"debate": [{**entry, "top": chosen}]}


@router
async def to_revise(state: Views) -> list[Send] | Literal["revised", "no reflection", "no answer"]:
    """The top k at once, each with its own answer and the reflection.

    Those who have answered again, or dropped out, aren't asked once more: a person edited the case after they spoke.
    """
    if closed(state):
        return "no answer"
    answers = {turn.seat: turn for turn in turns_of(state, "answer", state["round"])}
    reflections = turns_of(state, "reflection", state["round"])
    chosen = round_entry(state).get("top", [])
    if not chosen or not reflections:
        return "no reflection"
    done = {turn.seat for turn in turns_of(state, "revision", state["round"])}
    done |= {each["seat"] for each in dropouts(state) if each["stage"] == "revision"}
    if not (left := [view for view in chosen if f"view:{view}" not in done]):
        return "revised"
    shared = {
        "post": state["post"],
        "context": state.get("context"),
        "prompts": state.get("prompts"),
        "round": state["round"],
        "reflection": reflections[-1].text,
    }
    return [Send("revise", {**shared, "view": view, "own": answers[f"view:{view}"].dump()}) for view in left]


@take_part_while_open
async def close(state: Views, runtime: Runtime[Context]) -> JSON:
    """The gate: adopt the second answers, or let the first stand; and name what joins the history."""
    context, views, entry = context_of(state), await views_of(state), dict(round_entry(state))
    final = old = _exact(entry["scores"], views)
    if entry.get("new_scores"):
        new = _exact(entry["new_scores"], views)
        entry["delta"] = float(gain(old, new))
        entry["adopted"] = context.reflection_mode == "always" or adopts(old, new, exact(context.tau))
        final = {**old, **new} if entry["adopted"] else old
    entry["best"] = best(final)
    entry["kept"] = [entry["best"]] if context.history == "best" else list(final)
    entry["dropped"] = dropouts(state)
    tell(runtime, {"event": "round", **entry})
    return {"debate": [entry]}


def _exact(scores: dict[str, float], views: Iterable[str]) -> dict[str, Decimal]:
    """Scores as decimals, in the order of the views."""
    return {view: exact(scores[view]) for view in views if view in scores}
