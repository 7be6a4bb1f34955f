"""The outcome of a case: a verdict in the names of the policy in force, how sure it is, and what a wrong one lacks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tribunal.core.calls import lacks_a_reason, parts_shown, was_rehearsed
from tribunal.core.text import shorten_repr
from tribunal.errors import BadInput, WrongState
from tribunal.models.role import Role
from tribunal.nodes.channels import answer_message, plain_reason
from tribunal.nodes.forms import Filled, sure_form
from tribunal.nodes.state import CaseRuntime
from tribunal.nodes.threshold import THRESHOLDS, Threshold, parse_threshold
from tribunal.prompts.policy import load_policy, parse_policy, policy_of
from tribunal.prompts.policy_parts import suggest_known
from tribunal.schema import JSON, Failure, Outcome, Scheme, Task, Verdict, without_former_fields
from tribunal.settings.base import GRAPH_SETTINGS
from tribunal.settings.context import Context, context_of

# What the two labels are called where no policy was shown that names them.
PLAIN: dict[Task, tuple[str, str]] = {
    "hate": ("NotHate", "Hateful"),
    "sarcasm": ("NO", "YES"),
    "misinformation": ("NO", "YES"),
}


async def deliver(
    label: int,
    scheme: Scheme,
    words: str,
    state: Mapping[str, Any],
    runtime: CaseRuntime,
    log: Mapping[str, Any] = MappingProxyType({}),
    *,
    confidence: float | None = None,
    tie: bool = False,
    uncertain: bool | None = None,
    reviewed: bool = False,
    by_policy: bool = False,
    **more: Any,
) -> JSON:
    """Return the outcome that a label is, as an update of the state.

    A policy that nobody was shown has no part in it: the label then has the plain name of a yes or a no. Only where
    there are more labels than two (prompts of one's own may ask for their numbers) are they called as in the policy.

    Args:
        label: the number of a category of the scheme.
        scheme: the scheme of the label.
        words: the explanation.
        state: the case so far.
        runtime: that of the run.
        log: the calls that led to the verdict and aren't in the state yet, and their warnings; part of the update.
        confidence: from 0 to 1; None if none was stated.
        tie: whether it is a vote in which no side had more than half.
        uncertain: whether it is one for a person; None: a tie is, and a confidence that isn't enough (`is_uncertain`).
            A verdict is uncertain in any case if a reason in this trial says nothing.
        reviewed: whether it is a person's, who is shown the policy's categories. It is never uncertain.
        by_policy: whether the label is one of the policy in force, though no call says that a model was shown it.
        **more: further fields of `Verdict`: track, votes, steps, clauses.
    """
    context = context_of(state, runtime)
    led = [*state.get("calls", ()), *log.get("calls", ())]
    told = parts_shown(led)
    by_policy = by_policy or reviewed or told is None or "policy" in told or scheme == "fine"
    if by_policy:
        policy = await policy_of(state, runtime)
        category = policy.categories(scheme)[label].name
        hateful = policy.is_hate(scheme, label)
    else:
        category = PLAIN[context.task][label]
        hateful = bool(label) if context.task == "hate" else None
    if lacks_a_reason(led[state.get("budget_from") or 0 :]):  # the calls of this trial
        uncertain = True
    elif uncertain is None:
        uncertain = tie or await is_uncertain(state, label, scheme, confidence)
    verdict = Verdict(
        task=context.task,
        label=label,
        category=category,
        hateful=hateful,
        explanation=words,
        rehearsed=was_rehearsed(led, state.get("warnings", ())),
        confidence=confidence,
        tie=tie,
        uncertain=uncertain and not reviewed,
        **more,
    ).dump()
    by_person = "Decided by a reviewer." if reviewed else ""
    ending = announce_outcome(state, verdict, runtime, by_person, log.get("warnings", ()))
    return {**ending, **({} if by_policy else {"policy": {}}), **log}


def announce_outcome(
    state: Mapping[str, Any],
    outcome: JSON,
    runtime: CaseRuntime,
    reviewed: str = "",
    warnings: Iterable[str] = (),
) -> JSON:
    """Stream the outcome of a case to whoever watches, and return the update that ends the case with it.

    Args:
        state: the case.
        outcome: its outcome.
        runtime: that of the run.
        reviewed: a person's decision about the outcome, for the answer to the post's message.
        warnings: warnings of calls that aren't in the state yet, for the same.
    """
    runtime.stream_writer({"event": "outcome", **outcome})
    answered = answer_message(state, outcome, reviewed, warnings) if state.get("messages") else {}
    return {"outcome": outcome, **answered}


def failure_of(kind: str, message: str) -> JSON:
    """Return the failure that a case ends in when its state or its outcome is wrong."""
    return Failure(seat="", role="", model="", error=kind, explanation=message).dump()


# How sure a verdict is

USUAL_THRESHOLD = 0.75


def confidence_wanted(context: Context) -> bool:
    """Return whether anything in this run needs a confidence; if nothing does, it isn't asked for."""
    return bool(
        context.review
        or context.judge_draws > 1
        or context.threshold is not None
        or context.threshold_file
    )


def with_confidence(role: Role[Filled], state: Mapping[str, Any]) -> Role[Filled]:
    """Return the role of the deciding agent, which is asked for a confidence if this run needs it."""
    return (
        replace(role, form=sure_form(role.form)) if confidence_wanted(context_of(state)) else role
    )


def vote_confidence(
    state: Mapping[str, Any], votes: int, of: int, calls: Iterable[Mapping[str, Any]]
) -> float | None:
    """Return the confidence of a vote: the winner's share, if a confidence is wanted; else None.

    A single vote shows no agreement, and the rehearsal model is never sure: these have none.

    Args:
        state: the case.
        votes: how many chose the winner.
        of: how many voted.
        calls: the calls of the voters.
    """
    if (
        of < 2
        or not confidence_wanted(context_of(state))
        or was_rehearsed(calls, state.get("warnings", ()))
    ):
        return None
    return round(votes / of, 4)


async def is_uncertain(
    state: Mapping[str, Any], label: int, scheme: Scheme, confidence: float | None
) -> bool:
    """Return whether a verdict is one for a person: a confidence is wanted, and this one isn't enough.

    Args:
        state: the case.
        label: that the verdict chose: the number of a category of the scheme.
        scheme: the scheme of the label.
        confidence: that it states, from 0 to 1.

    Raises:
        BadInput: the threshold file that the run names isn't one.
    """
    context = context_of(state)
    if not confidence_wanted(context):
        return False
    fitted = await fitted_threshold(context, state)
    if fitted is None:
        return confidence is None or confidence < (
            USUAL_THRESHOLD if context.threshold is None else context.threshold
        )
    hate = (await policy_of(state)).is_hate(scheme, label)
    return not fitted.accepts(
        "hateful" if (label > 0 if hate is None else hate) else "harmless", confidence
    )


async def dismissal_is_uncertain(state: Mapping[str, Any]) -> bool:
    """Return whether a summary dismissal, which states no confidence, is one for a person.

    It is if the run names a fitted threshold that wasn't shown to hold for such verdicts. A threshold that is a number,
    or the usual one, says nothing of them.

    Raises:
        BadInput: as `is_uncertain`.
    """
    fitted = await fitted_threshold(context_of(state), state)
    return fitted is not None and not fitted.accepts("harmless", None)


async def fitted_threshold(
    context: Context, case: Mapping[str, Any] | None = None
) -> Threshold | None:
    """Return the threshold of the file that the run names, if it names one and sets no threshold of its own.

    Args:
        context: the settings of a run.
        case: a case that has begun: the file whose text lies in it is the one.

    Raises:
        BadInput: it isn't one, or a client of this server may not set what lies in the case.
    """
    name = context.threshold_file
    if context.threshold is not None or not name:
        return None
    return parse_threshold(await THRESHOLDS.text_of_case(case, name), name)


def describe_misfits(
    fitted: Threshold, graph: str | None, context: Context, policy_sha: str
) -> list[str]:
    """Return differences between the data that a threshold was fitted to and this run; no graph: one without a name."""
    yes_or_no = (
        graph in GRAPH_SETTINGS and "scheme" not in GRAPH_SETTINGS[graph].model_fields
    ) or context.mode == "zero-shot"
    models = {
        name: getattr(context, name) for name in ("model", "aux_model", "judge_model", "seats")
    }
    differ = {
        "graph": (fitted.graph, graph or fitted.graph),
        "scheme": (fitted.scheme, "binary" if yes_or_no else context.scheme),
        "policy": ((fitted.policy or "")[:12], policy_sha[:12]),
        "line-up of models": (
            fitted.models,
            {name: value for name, value in models.items() if value},
        ),
    }
    return [
        f"the threshold was fitted to another {what} ({then}, now {now}), and promises nothing for this one"
        for what, (then, now) in differ.items()
        if then != now
    ]


# What is wrong with an outcome

_OUTCOME: TypeAdapter[Any] = TypeAdapter(Outcome, config=ConfigDict(defer_build=True))
_KINDS = ("verdict", "refusal", "failure")


def is_closed(state: Mapping[str, Any]) -> bool:
    """Return whether the case has its outcome, so that nobody has anything to add.

    Raises:
        WrongState: the outcome is none, or the policy in force doesn't have it.
    """
    if state.get("outcome") is not None and (fault := find_wrong_outcome(state, context_of(state))):
        raise WrongState(fault)
    return state.get("outcome") is not None


def find_wrong_outcome(state: Mapping[str, Any], context: Context) -> str | None:
    """Return a line that names the problem of a case's outcome; None if there is none.

    Args:
        state: the case.
        context: its settings.
    """
    outcome = without_former_fields(state.get("outcome"))
    if outcome is None or outcome == {}:
        return f"outcome: there is none; a node has to write one of {', '.join(_KINDS)}"
    if not isinstance(outcome, dict):
        return f"outcome: {shorten_repr(outcome)}: is no JSON object; write what `.dump()` of a Verdict gives"
    kind = outcome.get("outcome")
    if kind not in _KINDS:
        return (
            f"outcome.outcome: {shorten_repr(kind)}: is no outcome; give one of {', '.join(_KINDS)}"
        )
    try:
        # In JSON, so that a list passes for a tuple, and strictly, so that a label is no text.
        read = _OUTCOME.validate_json(json.dumps(outcome), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # Its place begins with the kind, by which pydantic has chosen the model.
        field = ".".join(["outcome", *map(str, first["loc"][1:])])
        if first["type"] == "extra_forbidden":
            return f"{field}: is no field of a {kind}; leave it out"
        if first["type"] == "missing":
            return f"{field}: is missing; a {kind} has one"
        return f"{field}: {shorten_repr(first['input'])}: {plain_reason(first['msg'])}"
    except (TypeError, ValueError, RecursionError) as error:
        return f"outcome: holds something else than JSON ({error}); write what `.dump()` of a Verdict gives"
    if not read.explanation.strip() and not lacks_a_reason(state.get("calls", ())):
        return "outcome.explanation: is empty; say why the case ended so"
    return _fault_by_policy(read, state, context) if isinstance(read, Verdict) else None


def _fault_by_policy(verdict: Verdict, state: Mapping[str, Any], context: Context) -> str | None:
    if verdict.task != context.task:
        return f"outcome.task: {verdict.task!r}: is not the task of this run; give {context.task!r}"
    scheme: Scheme = state.get("scheme") or context.scheme
    shown = parts_shown(state.get("calls") or [])
    names = PLAIN[verdict.task]
    if shown is not None and "policy" not in shown and verdict.label in (0, 1):
        # No model was shown the policy: a plain yes or no has a name of its own.
        hateful = bool(verdict.label) if verdict.task == "hate" else None
        if verdict.category == names[verdict.label] and verdict.hateful == hateful:
            return None
    try:
        text = (state.get("context") or {}).get("policy")
        in_force = (
            parse_policy(text, context.policy)
            if isinstance(text, str)
            else load_policy(context.policy)
        )
    except BadInput as error:
        return str(error)
    categories = in_force.categories(scheme)
    known = [category.name for category in categories]
    if verdict.category not in known:
        lacks = f"the policy {in_force.name} has no such category in the scheme {scheme}"
        return f"outcome.category: {shorten_repr(verdict.category)}: {lacks}{suggest_known(verdict.category, known)}"
    label = known.index(verdict.category)
    if verdict.label != label:
        return (
            f"outcome.label: {verdict.label}: is not the label of {verdict.category}; give {label}"
        )
    unknown = next((each for each in verdict.clauses if in_force.find_clause(each) is None), None)
    if unknown:
        ids = [each.id for each in in_force.clauses]
        meant = suggest_known(unknown, ids) if ids else "; it numbers none"
        return f"outcome.clauses: {shorten_repr(unknown)}: the policy {in_force.name} has no such clause{meant}"
    hateful = in_force.is_hate(scheme, label)
    if verdict.hateful != hateful:
        return f"outcome.hateful: {verdict.hateful}: contradicts the category {verdict.category}; give {hateful}"
    return None
