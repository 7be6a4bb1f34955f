"""The control agents of MV-Debate: the Judge, who scores, the Reflection, the Δ-gain gate, and the Summary.

Judge and Reflection see the same answers and not each other, so they work at the same time (paper, Top-k Δ-Reflection
Gating).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.types import Send
from pydantic import (
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)

from tribunal.errors import ModelError, Refused
from tribunal.models.ask import ask
from tribunal.models.budget import Budget
from tribunal.models.role import Role
from tribunal.nodes.agents import agent, asking_node, router, take_part_while_open
from tribunal.nodes.forms import (
    CLAIM,
    LEAST_PERCENT,
    Form,
    Reason,
    cited_clauses,
    citing_form,
    mend_decision,
    name_meant,
    one_of,
    same_form,
    text_bounds,
)
from tribunal.nodes.mv_debate.views import (
    NO,
    YES,
    answer_in_words,
    answers_in_words,
    dropout_update,
    dropouts_of_round,
    history_in_words,
    round_entry,
    spent_budget_update,
    turn_id_in_round,
    turns_at_stage,
    view_of_turn,
    views_of,
)
from tribunal.nodes.state import CaseRuntime, Views, case_for_seat, log_of_fault, write_turn
from tribunal.nodes.verdict import deliver, is_closed, with_confidence
from tribunal.prompts.marks import Material, ours, together
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON, Turn
from tribunal.settings.context import context_of

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


Score = Annotated[
    float, WrapValidator(_read_score), Field(json_schema_extra={"minimum": 0, "maximum": 1})
]


class ScoresForm(Form):
    """A score for each answer, under its view's name."""

    reason: Reason
    scores: Any


class Criticism(Form):
    """The Reflection's criticism of one answer."""

    errors: Annotated[str, text_bounds(CLAIM, least=1)]
    suggestion: Annotated[str, text_bounds(CLAIM, least=1)]


class ReflectionForm(Form):
    """The Reflection's criticism of each answer, under its view's name."""

    feedback: Any


class _FormByView(Form):
    """A form with a field for each of some views: less is asked for again."""

    @model_validator(mode="before")
    @classmethod
    def _views_as_named(cls, given: Any) -> Any:
        """Spell the views as they are named."""
        if not isinstance(given, dict):
            return given
        views = tuple(cls.model_fields)
        named = [name_meant(views, key) for key in given]
        twice = next((view for view in views if named.count(view) > 1), None)
        if twice:
            raise ValueError(f"{twice}: is there twice; give it once")
        return dict(zip(named, given.values(), strict=True))


@lru_cache(maxsize=128)
def _form_by_view(name: str, kind: Any, views: tuple[str, ...]) -> type[_FormByView]:
    fields: dict[str, Any] = dict.fromkeys(views, (kind, ...))
    return create_model(name, __base__=_FormByView, **fields)


@lru_cache(maxsize=128)
def judge_role(views: tuple[str, ...]) -> Role[ScoresForm]:
    """Return the Judge of the answers of these views."""
    form = create_model(
        "Scores", __base__=ScoresForm, scores=(_form_by_view("ScoreOfEach", Score, views), ...)
    )
    return Role(
        "judge.scores",
        "judge",
        "mv_debate/score",
        same_form(form),
        0.0,
        falls_to="judge_model",
        system="task",
    )


@lru_cache(maxsize=128)
def reflection_role(views: tuple[str, ...]) -> Role[ReflectionForm]:
    """Return the Reflection on the answers of these views."""
    of_each = _form_by_view("OnEach", Criticism, views)
    form = same_form(create_model("Reflection", __base__=ReflectionForm, feedback=(of_each, ...)))
    return Role(
        "reflection",
        "reflection",
        "mv_debate/reflection",
        form,
        0.0,
        falls_to="judge_model",
        system="task",
    )


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
    taken = {
        view: float(exact_decimal(score) / 100) if score > 1 else score
        for view, score in given.items()
    }
    listed = ", ".join(f"{view} {score:g}" for view, score in given.items() if score > 1)
    warnings.append(f"judge: scores in percent were taken as parts of one: {listed}")
    return answer.model_copy(update={"scores": answer.scores.model_copy(update=taken)})


@agent
async def score_answers(state: Views, runtime: CaseRuntime) -> JSON:
    """Score the answers of a round; sees the post and every answer."""
    return await _ask_judge("scores", turns_at_stage(state, "answer"), state, runtime)


@agent
async def score_revisions(state: Views, runtime: CaseRuntime) -> JSON:
    """Score the second answers; sees the post, them, and the same views' first answers with their scores.

    Δ is a difference of the two scores, so the first ones are shown as the scale for the second ones.
    """
    answers = turns_at_stage(state, "revision")
    if not answers:
        return {}
    old = round_entry(state)["scores"]
    again = {turn.seat for turn in answers}
    before = [
        together([ours("{}, score {:g}: ", view, old[view]), answer_in_words(turn)], "")
        for turn in turns_at_stage(state, "answer")
        if turn.seat in again
        for view in [view_of_turn(turn)]
    ]
    return await _ask_judge("new_scores", answers, state, runtime, together(before))


async def _ask_judge(
    field: str,
    answers: Sequence[Turn],
    state: Views,
    runtime: CaseRuntime,
    before: Material | None = None,
) -> JSON:
    """Take the Judge's turn, which puts its scores into this field of the round; `before` is what it scored first."""
    views = tuple(map(view_of_turn, answers))
    words = answers_in_words(answers)
    answer = await ask(
        judge_role(views), state, runtime, mend=mend_percentages, responses=words, before=before
    )
    scores = dict(answer.value.scores)
    listed = ", ".join(f"{view} {value:g}" for view, value in scores.items())
    number = state["round"]
    text = f"{listed}. {answer.value.reason}"
    turn_id = turn_id_in_round("judge", number, again=before is not None)
    turn = write_turn(answer, runtime, "judge", "score", number, id=turn_id, text=text)
    return {**turn, "debate": [{**round_entry(state), field: scores}]}


@asking_node
async def reflect_on_answers(state: Views, runtime: CaseRuntime) -> JSON:
    """Point out errors and suggest revisions; sees the post and every answer. Without it the first answers are kept."""
    answers = turns_at_stage(state, "answer")
    views = tuple(map(view_of_turn, answers))
    try:
        answer = await ask(
            reflection_role(views), state, runtime, responses=answers_in_words(answers)
        )
    except ModelError as fault:
        return dropout_update(fault, "reflection", state["round"])
    lines = []
    for view in views:
        said: Criticism = getattr(answer.value.feedback, view)
        # One line each, whatever line breaks a model put into it.
        lines.append(
            f"{view}: {' '.join(said.errors.split())} Suggestion: {' '.join(said.suggestion.split())}"
        )
    return write_turn(
        answer, runtime, "reflection", "reflection", state["round"], text="\n".join(lines)
    )


@take_part_while_open
async def select_views(state: Views, runtime: CaseRuntime) -> JSON:
    """Choose the top k of a round to answer again, if there is a reflection and the budget pays for it."""
    context = context_of(state)
    entry = round_entry(state)
    if not turns_at_stage(state, "reflection"):
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
    answers = {view_of_turn(turn): turn for turn in turns_at_stage(state, "answer")}
    reflections = turns_at_stage(state, "reflection")
    chosen = round_entry(state).get("top", [])
    if not chosen or not reflections:
        return "no reflection"
    done = {turn.seat for turn in turns_at_stage(state, "revision")}
    done |= {each["seat"] for each in dropouts_of_round(state) if each["stage"] == "revision"}
    left = [view for view in chosen if f"view:{view}" not in done]
    if not left:
        return "revised"
    shared = {**case_for_seat(state, "round"), "reflection": reflections[-1].text}
    return [Send("revise", {**shared, "view": view, "own": answers[view].dump()}) for view in left]


@take_part_while_open
async def close_round(state: Views, runtime: CaseRuntime) -> JSON:
    """Adopt the second answers, or let the first stand (the gate), and name what joins the history."""
    context = context_of(state)
    views = await views_of(state)
    entry = dict(round_entry(state))
    final = old = _exact_scores(entry["scores"], views)
    if entry.get("new_scores"):
        new = _exact_scores(entry["new_scores"], views)
        entry["delta"] = float(mean_gain(old, new))
        entry["adopted"] = context.reflection_mode == "always" or is_adopted(
            old, new, exact_decimal(context.tau)
        )
        final = {**old, **new} if entry["adopted"] else old
    entry["best"] = top_views(final, 1)[0]
    entry["kept"] = [entry["best"]] if context.history == "best" else list(final)
    entry["dropped"] = dropouts_of_round(state)
    runtime.stream_writer({"event": "round", **entry})
    return {"debate": [entry]}


def _exact_scores(scores: dict[str, float], views: Iterable[str]) -> dict[str, Decimal]:
    """Return scores as decimals, in the order of the views."""
    return {view: exact_decimal(scores[view]) for view in views if view in scores}


# The Summary: the verdict on the debate (paper, Debate Loop)


class SummaryForm(Form):
    """An explanation, and the answer to the task's question."""

    explanation: Reason
    answer: str


_FORM = citing_form(
    same_form(create_model("Summary", __base__=SummaryForm, answer=(one_of((YES, NO)), ...)))
)
SUMMARY = Role(
    "summary",
    "summary",
    "mv_debate/summary",
    _FORM,
    0.0,
    falls_to="judge_model",
    system="task",
    final=True,
)


@router
async def to_next_round(
    state: Views,
) -> Literal["no agreement yet", "agreed, or K rounds done", "too few left"]:
    """Go to the Summary on consensus, after the last round, or when the budget is spent."""
    if is_closed(state):
        return "too few left"
    over = state.get("budget_spent") or round_entry(state).get("consensus")
    over = over or state["round"] >= context_of(state).rounds
    return "agreed, or K rounds done" if over else "no agreement yet"


@agent
async def summarise_debate(state: Views, runtime: CaseRuntime) -> JSON:
    """Decide; sees the post, the history, and the answers of a last round that nobody weighed.

    If all views agreed, their answer is kept even if the Summary refuses or fails.
    """
    entry = round_entry(state)
    unweighed = [] if entry.get("best") else turns_at_stage(state, "answer")
    agreed = bool(entry.get("consensus"))
    responses = answers_in_words(unweighed)
    cited: tuple[str, ...] = ()
    try:
        answer = await ask(
            with_confidence(SUMMARY, state),
            state,
            runtime,
            mend=mend_decision(await policy_of(state, runtime), "summary"),
            history=history_in_words(state),
            responses=responses,
            agreed=agreed,
        )
    except ModelError as fault:
        if not agreed:
            raise
        side = unweighed[0].stance
        confidence = None
        reasons = [f"{view_of_turn(turn)}: {turn.text}" for turn in unweighed]
        words = " ".join([f"All {len(unweighed)} views that answered say {side}.", *reasons])
        how = "refused" if isinstance(fault, Refused) else "failed"
        log = log_of_fault(
            fault,
            f"summary {how}; the answer that all views agreed on stands as the verdict: {fault}",
        )
    else:
        side = answer.value.answer
        words = answer.value.explanation
        log = answer.log
        confidence = answer.confidence
        cited = cited_clauses(answer.value)
    return await deliver(
        int(side == YES), "binary", words, state, runtime, log, confidence=confidence, clauses=cited
    )
