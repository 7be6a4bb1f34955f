"""Check what lies in a case: each channel by its form, and the outcome by the policy in force."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tribunal.context import Context
from tribunal.errors import BadInput, WrongState
from tribunal.nodes.channels import Like
from tribunal.nodes.verdict import PLAIN
from tribunal.prompts.policy import Policy, near, parsed, policy
from tribunal.schema import JSON, Failure, Outcome, Scheme, Verdict
from tribunal.shown import shown_in

Forms = Mapping[str, TypeAdapter[Any]]

_OUTCOME: TypeAdapter[Any] = TypeAdapter(Outcome)
_KINDS = ("verdict", "refusal", "failure")
_LONGEST = 80  # characters of a value in a message


def forms_of(*states: type) -> Forms:
    """Return the form of each channel of these states: the model that nodes read it as, or its plain type."""
    forms: dict[str, TypeAdapter[Any]] = {}
    for state in states:
        for name, hint in get_type_hints(state, include_extras=True).items():
            like = next((each.form for each in get_args(hint)[1:] if isinstance(each, Like)), hint)
            forms.setdefault(name, TypeAdapter(like))
    return forms


def read_as(form: TypeAdapter[Any], channel: str, value: Any) -> Any:
    """Return the value of a channel in its form.

    Raises:
        WrongState: it has another form.
    """
    try:
        return form.validate_python(value)
    except (ValidationError, TypeError) as error:
        raise WrongState(_fault_of_channel(channel, value, error)) from error


def find_wrong_channel(state: Mapping[str, Any], forms: Forms) -> tuple[str, str] | None:
    """Return the first channel that has another form than nodes read, and a line that says what is wrong with it.

    The outcome is left out: `find_wrong_outcome` checks it.
    """
    for channel, form in forms.items():
        if channel in state and channel != "outcome":
            try:
                form.validate_python(state[channel])
            except (ValidationError, TypeError) as error:
                return channel, _fault_of_channel(channel, state[channel], error)
    return None


def find_wrong_outcome(state: Mapping[str, Any], context: Context) -> str | None:
    """Return a line that says what is wrong with the outcome of a case; None if nothing is.

    Args:
        state: the case.
        context: its settings.
    """
    outcome = state.get("outcome")
    if outcome is None or outcome == {}:
        return f"outcome: there is none; a node has to write one of {', '.join(_KINDS)}"
    if not isinstance(outcome, dict):
        return f"outcome: {_shortened(outcome)}: is no JSON object; write what `.dump()` of a Verdict gives"
    kind = outcome.get("outcome")
    if kind not in _KINDS:
        return f"outcome.outcome: {_shortened(kind)}: is no outcome; give one of {', '.join(_KINDS)}"
    try:
        # In JSON, so that a list passes for a tuple, and strictly, so that a label is no text.
        read = _OUTCOME.validate_json(json.dumps(outcome), strict=True)
    except ValidationError as error:
        return _fault_of_outcome(kind, error)
    except (TypeError, ValueError, RecursionError) as error:
        return f"outcome: holds something else than JSON ({error}); write what `.dump()` of a Verdict gives"
    if not read.explanation.strip():
        return "outcome.explanation: is empty; say why the case ended so"
    return _fault_by_policy(read, state, context) if isinstance(read, Verdict) else None


def _fault_by_policy(verdict: Verdict, state: Mapping[str, Any], context: Context) -> str | None:
    if verdict.task != context.task:
        return f"outcome.task: {verdict.task!r}: is not the task of this run; give {context.task!r}"
    scheme: Scheme = state.get("scheme") or context.scheme
    shown = shown_in(state.get("calls") or [])
    if shown is not None and "policy" not in shown and _has_plain_name(verdict):
        return None
    try:
        in_force = _policy_of(state, context)
    except BadInput as error:
        return str(error)
    categories = in_force.categories(scheme)
    names = [category.name for category in categories]
    if verdict.category not in names:
        lacks = f"the policy {in_force.name} has no such category in the scheme {scheme}"
        return f"outcome.category: {_shortened(verdict.category)}: {lacks}{near(verdict.category, names)}"
    label = names.index(verdict.category)
    if verdict.label != label:
        return f"outcome.label: {verdict.label}: is not the label of {verdict.category}; give {label}"
    hateful = in_force.hate(scheme, label)
    if verdict.hateful != hateful:
        return f"outcome.hateful: {verdict.hateful}: contradicts the category {verdict.category}; give {hateful}"
    return None


def _has_plain_name(verdict: Verdict) -> bool:
    """Return whether a verdict has the name of a plain yes or no, as where no model was shown the policy."""
    names = PLAIN[verdict.task]
    hateful = bool(verdict.label) if verdict.task == "hate" else None
    return verdict.label in (0, 1) and verdict.category == names[verdict.label] and verdict.hateful == hateful


def _policy_of(state: Mapping[str, Any], context: Context) -> Policy:
    text = (state.get("context") or {}).get("policy")
    return parsed(context.policy, text) if isinstance(text, str) else policy(context.policy)


def _fault_of_outcome(kind: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # Its place begins with the kind, by which pydantic has chosen the model.
    field = ".".join(["outcome", *map(str, first["loc"][1:])])
    if first["type"] == "extra_forbidden":
        return f"{field}: is no field of a {kind}; leave it out"
    if first["type"] == "missing":
        return f"{field}: is missing; a {kind} has one"
    return f"{field}: {_shortened(first['input'])}: {_reason(first['msg'])}"


def _fault_of_channel(channel: str, value: Any, error: ValidationError | TypeError) -> str:
    if not isinstance(error, ValidationError):
        return f"{channel}: {_shortened(value)}: {error}"
    first = error.errors(include_url=False)[0]
    field = ".".join([channel, *(str(part) for part in first["loc"])])
    way = "see the state's schema for its form"
    if first["type"] == "missing":
        return f"{field}: is missing; {way}"
    return f"{field}: {_shortened(first['input'])}: {_reason(first['msg'])}; {way}"


def _reason(message: str) -> str:
    return re.sub(r" or instance of \w+", "", message.removeprefix("Value error, ").removeprefix("Input "))


def _shortened(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def failure_of(kind: str, message: str) -> JSON:
    """Return the failure that a case ends in when its state or its outcome is wrong."""
    return Failure(seat="", role="", model="", error=kind, explanation=message).dump()
