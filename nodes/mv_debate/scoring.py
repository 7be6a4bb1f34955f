"""The control agents of a round of MV-Debate: the Judge, who scores, the Reflection, and the Δ-gain gate between them.

Judge and Reflection see the same answers and not each other, so they work at the same time (paper, Top-k Δ-Reflection
Gating).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from langgraph.types import Send
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)

from tribunal.budget import Budget
from tribunal.context import Context, context_of
from tribunal.errors import ModelError
from tribunal.models.ask import ask
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, node, router, take_part_while_open
from tribunal.nodes.forms import CLAIM, LEAST_PERCENT, REASON, Form, name_meant, same_form, text_bounds
from tribunal.nodes.mv_debate.history import (
    answer_in_words,
    answers_in_words,
    round_entry,
    turns_at_stage,
    view_of_turn,
)
from tribunal.nodes.mv_debate.views import dropout_update, dropouts_of_round, new_turn, spent_budget_update, views_of
from tribunal.nodes.state import Views, case_for_seat, write_turn
from tribunal.nodes.verdict import is_closed
from tribunal.prompts.marks import Material, ours, together
from tribunal.schema import JSON, Turn
from tribunal.stops import stop_at_head

Scores = Mapping[str, Decimal]


def exact_decimal(number: float | str | Decimal) -> Decimal:
    """Return the decimal that was written: 0.1 is a tenth."""
    return Decimal(str(number))


def top_views(scores: Scores, k: int) -> list[str]:
    """Return the k views with the highest scores, the best first."""
    return sorted(scores, key=lambda view: -scores[view])[:k]


def mean_gain(old: Scores, new: Scores) -> Fraction:
    """Return Δ, the mean of (new − old) over the views that answered again; 0 if none did."""
    return Fraction(sum((new[view] - old[view] for view in new), Decimal(0))) / max(1, len(new))


def is_adopted(old: Scores, new: Scores, tau: Decimal) -> bool:
    """Return whether Δ ≥ τ: the gate. Nothing is adopted if no view answered again."""
    return bool(new) and mean_gain(old, new) >= Fraction(tau)


def _read_score(value: Any, read: ValidatorFunctionWrapHandler) -> float:
    """Read a score. One in percent is left to `mend_percentages`."""
    score: float = read(value)
    if isinstance(value, bool) or not 0 <= score <= 100:
        raise ValueError("a score is a number from 0 to 1")
    return score


Score = Annotated[float, WrapValidator(_read_score), Field(json_schema_extra={"minimum": 0, "maximum": 1})]


class ScoresForm(Form):
    """A score for each answer, under its view's name."""

    reason: Annotated[str, text_bounds(REASON, least=1)]
    scores: Any


class Criticism(Form):
    """What the Reflection says of one answer."""

    errors: Annotated[str, text_bounds(CLAIM, least=1)]
    suggestion: Annotated[str, text_bounds(CLAIM, least=1)]


class ReflectionForm(Form):
    """What the Reflection says of each answer, under its view's name."""

    feedback: Any


class _FormByView(BaseModel):
    """A form with a field for each of some views, and no other: less, or more, is asked for again."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _views_as_named(cls, given: Any) -> Any:
        """Spell the views as they are named; two spellings of one view stay as they are."""
        if not isinstance(given, dict):
            return given
        views = tuple(cls.model_fields)
        named = {name_meant(views, key): value for key, value in given.items()}
        return named if len(named) == len(given) else given


@lru_cache(maxsize=128)
def _form_by_view(name: str, kind: Any, views: tuple[str, ...]) -> type[_FormByView]:
    fields: dict[str, Any] = dict.fromkeys(views, (kind, ...))
    return create_model(name, __base__=_FormByView, **fields)


@lru_cache(maxsize=128)
def judge_role(views: tuple[str, ...]) -> Role[ScoresForm]:
    """Return the Judge of the answers of these views."""
    form = create_model("Scores", __base__=ScoresForm, scores=(_form_by_view("ScoreOfEach", Score, views), ...))
    return Role("judge.scores", "judge", "mv_debate/score", same_form(form), 0.0, falls_to="judge_model", system="task")


@lru_cache(maxsize=128)
def reflection_role(views: tuple[str, ...]) -> Role[ReflectionForm]:
    """Return the Reflection on the answers of these views."""
    of_each = _form_by_view("OnEach", Criticism, views)
    form = same_form(create_model("Reflection", __base__=ReflectionForm, feedback=(of_each, ...)))
    return Role("reflection", "reflection", "mv_debate/reflection", form, 0.0, falls_to="judge_model", system="task")


def mend_percentages(answer: ScoresForm, warnings: list[str]) -> ScoresForm:
    """Take scores that were given in percent as parts of one, with a warning.

    Raises:
        ValueError: it isn't plain on which scale a score is.
    """
    given: dict[str, float] = dict(answer.scores)
    highest = max(given.values())
    if highest <= 1:
        return answer
    for view, score in given.items():
        if score == 1 or highest <= LEAST_PERCENT:  # it may be out of five or of ten
            raise ValueError(f"scores.{view}: {score:g}: give a number from 0 to 1")
    taken = {view: float(exact_decimal(score) / 100) if score > 1 else score for view, score in given.items()}
    listed = ", ".join(f"{view} {score:g}" for view, score in given.items() if score > 1)
    warnings.append(f"judge: scores in percent were taken as parts of one: {listed}")
    return answer.model_copy(update={"scores": answer.scores.model_copy(update=taken)})


@agent
async def score_answers(state: Views, runtime: Runtime[Context]) -> JSON:
    """Score the answers of a round; sees the post and every answer."""
    answers = turns_at_stage(state, "answer", state["round"])
    scores, said = await _ask_judge(answers, state, runtime)
    return {**said, "debate": [{**round_entry(state), "scores": scores}]}


@agent
async def score_revisions(state: Views, runtime: Runtime[Context]) -> JSON:
    """Score the second answers; sees the post, them, and the same views' first answers with their scores.

    Δ is a difference of the two scores, so the first ones are shown as the scale for the second ones.
    """
    answers = turns_at_stage(state, "revision", state["round"])
    if not answers:
        return {}
    old, again = round_entry(state)["scores"], {turn.seat for turn in answers}
    before = [turn for turn in turns_at_stage(state, "answer", state["round"]) if turn.seat in again]
    heads = [ours("{}, score {:g}: ", view_of_turn(turn), old[view_of_turn(turn)]) for turn in before]
    shown = [together([head, answer_in_words(turn)], "") for head, turn in zip(heads, before, strict=True)]
    scores, said = await _ask_judge(answers, state, runtime, before=together(shown))
    return {**said, "debate": [{**round_entry(state), "new_scores": scores}]}


async def _ask_judge(
    answers: Sequence[Turn], state: Views, runtime: Runtime[Context], before: Material | None = None
) -> tuple[dict[str, float], JSON]:
    """Return the scores of answers by view, and the Judge's turn; `before` says what was scored before these."""
    views, words = tuple(map(view_of_turn, answers)), answers_in_words(answers)
    answer = await ask(judge_role(views), state, runtime, mend=mend_percentages, responses=words, before=before)
    scores = {view: getattr(answer.value.scores, view) for view in views}
    listed = ", ".join(f"{view} {value:g}" for view, value in scores.items())
    said = f"{listed}. {answer.value.reason}"
    turn = new_turn("judge", "score", state["round"], said, again=before is not None)
    return scores, write_turn(turn, answer, runtime)


@node
@stop_at_head
async def reflect_on_answers(state: Views, runtime: Runtime[Context]) -> JSON:
    """Point out errors and suggest revisions; sees the post and every answer. Without it the first answers stand."""
    answers = turns_at_stage(state, "answer", state["round"])
    views = tuple(map(view_of_turn, answers))
    try:
        answer = await ask(reflection_role(views), state, runtime, responses=answers_in_words(answers))
    except ModelError as fault:
        return dropout_update(fault, "reflection", state["round"])
    lines = []
    for view in views:
        said: Criticism = getattr(answer.value.feedback, view)
        # One line each, whatever line breaks a model put into it.
        lines.append(f"{view}: {' '.join(said.errors.split())} Suggestion: {' '.join(said.suggestion.split())}")
    turn = new_turn("reflection", "reflection", state["round"], "\n".join(lines))
    return write_turn(turn, answer, runtime)


@take_part_while_open
async def select_views(state: Views, runtime: Runtime[Context]) -> JSON:
    """Choose the top k of a round to answer again, if there is a reflection and the budget pays for it."""
    context, entry = context_of(state), round_entry(state)
    if not turns_at_stage(state, "reflection", state["round"]):
        return {}
    k = context.top_k or max(1, len(await views_of(state)) // 2)
    chosen = top_views(_exact_scores(entry["scores"], await views_of(state)), k)
    budget = Budget.from_state(context, state)
    if not budget.affords(len(chosen) + 1):
        return spent_budget_update(budget, f"the second answers of round {state['round']}")
    return {"debate": [{**entry, "top": chosen}]}


@router
async def to_revise(state: Views) -> list[Send] | Literal["revised", "no reflection", "no answer"]:
    """Send the top k at once, each with its own answer and the reflection.

    Those who have answered again, or dropped out, aren't asked once more: a person edited the case after they spoke.
    """
    if is_closed(state):
        return "no answer"
    answers = {turn.seat: turn for turn in turns_at_stage(state, "answer", state["round"])}
    reflections = turns_at_stage(state, "reflection", state["round"])
    chosen = round_entry(state).get("top", [])
    if not chosen or not reflections:
        return "no reflection"
    done = {turn.seat for turn in turns_at_stage(state, "revision", state["round"])}
    done |= {each["seat"] for each in dropouts_of_round(state) if each["stage"] == "revision"}
    if not (left := [view for view in chosen if f"view:{view}" not in done]):
        return "revised"
    shared = {**case_for_seat(state, "round"), "reflection": reflections[-1].text}
    return [Send("revise", {**shared, "view": view, "own": answers[f"view:{view}"].dump()}) for view in left]


@take_part_while_open
async def close_round(state: Views, runtime: Runtime[Context]) -> JSON:
    """Adopt the second answers, or let the first stand (the gate), and name what joins the history."""
    context, views, entry = context_of(state), await views_of(state), dict(round_entry(state))
    final = old = _exact_scores(entry["scores"], views)
    if entry.get("new_scores"):
        new = _exact_scores(entry["new_scores"], views)
        entry["delta"] = float(mean_gain(old, new))
        entry["adopted"] = context.reflection_mode == "always" or is_adopted(old, new, exact_decimal(context.tau))
        final = {**old, **new} if entry["adopted"] else old
    entry["best"] = top_views(final, 1)[0]
    entry["kept"] = [entry["best"]] if context.history == "best" else list(final)
    entry["dropped"] = dropouts_of_round(state)
    runtime.stream_writer({"event": "round", **entry})
    return {"debate": [entry]}


def _exact_scores(scores: dict[str, float], views: Iterable[str]) -> dict[str, Decimal]:
    """Return scores as decimals, in the order of the views."""
    return {view: exact_decimal(scores[view]) for view in views if view in scores}
