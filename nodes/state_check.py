"""Check what lies in a case: each channel by its form, and the outcome by the policy in force."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tribunal.calls import parts_shown
from tribunal.context import Context, context_of
from tribunal.errors import BadInput, WrongState
from tribunal.nodes.verdict import PLAIN
from tribunal.prompts.policy import load_policy, parse_policy, suggest_known
from tribunal.schema import JSON, Failure, Outcome, Scheme, Verdict

_OUTCOME: TypeAdapter[Any] = TypeAdapter(Outcome, config=ConfigDict(defer_build=True))
_KINDS = ("verdict", "refusal", "failure")
_LONGEST = 80  # characters of a value in a message


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    """Return what reads a form, made when it is first asked for: nodes read few of the channels."""
    return TypeAdapter(form)


def read_as(form: Any, channel: str, value: Any) -> Any:
    """Return the value of a channel in its form.

    Raises:
        WrongState: it has another form.
    """
    try:
        return _adapter(form).validate_python(value)
    except (ValidationError, TypeError) as error:
        raise WrongState(_fault_of_channel(channel, value, error)) from error


def find_wrong_channel(state: Mapping[str, Any], forms: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first channel that has another form than nodes read, and a line that says what is wrong with it.

    The outcome is left out: `find_wrong_outcome` checks it.
    """
    for channel in forms:
        if channel in state and channel != "outcome":
            try:
                _adapter(forms[channel]).validate_python(state[channel])
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
    shown, names = parts_shown(state.get("calls") or []), PLAIN[verdict.task]
    if shown is not None and "policy" not in shown and verdict.label in (0, 1):
        # No model was shown the policy: a plain yes or no has a name of its own.
        hateful = bool(verdict.label) if verdict.task == "hate" else None
        if verdict.category == names[verdict.label] and verdict.hateful == hateful:
            return None
    try:
        text = (state.get("context") or {}).get("policy")
        in_force = parse_policy(text, context.policy) if isinstance(text, str) else load_policy(context.policy)
    except BadInput as error:
        return str(error)
    categories = in_force.categories(scheme)
    known = [category.name for category in categories]
    if verdict.category not in known:
        lacks = f"the policy {in_force.name} has no such category in the scheme {scheme}"
        return f"outcome.category: {_shortened(verdict.category)}: {lacks}{suggest_known(verdict.category, known)}"
    label = known.index(verdict.category)
    if verdict.label != label:
        return f"outcome.label: {verdict.label}: is not the label of {verdict.category}; give {label}"
    hateful = in_force.is_hate(scheme, label)
    if verdict.hateful != hateful:
        return f"outcome.hateful: {verdict.hateful}: contradicts the category {verdict.category}; give {hateful}"
    return None


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


def is_closed(state: Mapping[str, Any]) -> bool:
    """Return whether the case has its outcome, so that nobody has anything to add.

    Raises:
        WrongState: the outcome is none, or the policy in force doesn't have it.
    """
    if state.get("outcome") is not None and (fault := find_wrong_outcome(state, context_of(state))):
        raise WrongState(fault)
    return state.get("outcome") is not None
