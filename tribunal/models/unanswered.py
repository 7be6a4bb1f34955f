"""Calls that no model answers, in a trial that can wait: the graph stops at them, and goes on from there later.

The other agents of the same step end first, so nothing that they were answered is asked again. Only a fault that would
end the case stops it: a perspective that fails is left out, as in any trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langgraph.types import interrupt

from tribunal.errors import LOCKED_OUT, UNANSWERED, CallFailed, ModelError
from tribunal.models.providers import ModelName
from tribunal.schema import JSON

_MARK = "unanswered"  # of the value by which such a stop is told from a question to a person


@dataclass
class PatientCalls:
    """The calls of one trial that can wait.

    Attributes:
        made: every call so far, as JSON. The state of the graph lacks those of an agent that was stopped.
        given_up: providers that aren't asked any more, by name; each with the kind of its failure and the words. With
            one here, nothing stops the graph: a call that isn't answered fails, as in any other trial.
    """

    made: list[JSON] = field(default_factory=list)
    given_up: dict[str, tuple[str, str]] = field(default_factory=dict)


_calls: ContextVar[PatientCalls | None] = ContextVar("patient calls", default=None)


@contextmanager
def wait_for_answers(calls: PatientCalls | None) -> Iterator[None]:
    """Have the graphs that run in this block stop where no model answers; None: they don't."""
    token = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(token)


def find_given_up(model: ModelName, seat: str, role: str) -> CallFailed | None:
    """Return the failure of a call that isn't made, since the trial has given the provider up; None: it is made.

    The failure has the record of the same call, if this trial has made it before.
    """
    calls = _calls.get()
    if calls is None or model.provider not in calls.given_up:
        return None
    kind, words = calls.given_up[model.provider]
    fault = CallFailed(words, kind=kind, seat=seat, role=role, model=str(model))
    same = {"seat": seat, "role": role, "model": str(model), "error": kind}
    fault.calls = [call for call in calls.made if same.items() <= call.items()][-1:]
    return fault


def note_call(made: JSON) -> None:
    """Note a call that was made, answered or not."""
    if (calls := _calls.get()) is not None:
        calls.made.append(made)


def stop_if_unanswered(fault: ModelError) -> None:
    """Stop the graph before this agent if nobody answered it, in a trial that can wait; else do nothing."""
    calls = _calls.get()
    if calls is None or calls.given_up or not isinstance(fault, CallFailed):
        return
    if fault.kind in (*UNANSWERED, *LOCKED_OUT):
        asked = {"seat": fault.seat, "role": fault.role, "model": fault.model}
        while True:  # a person's answer to a question of the same agent is given back first, and is none to this
            interrupt({_MARK: {**asked, "error": fault.kind, "explanation": str(fault)}})


def find_stop(value: Any) -> JSON | None:
    """Return the failure for which a graph stopped, from the value of an interrupt; None: it asks a person."""
    return value[_MARK] if isinstance(value, dict) and _MARK in value else None
