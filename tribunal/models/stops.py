"""Where a case stops: before the questions that `stops` names, and at a model that gives no answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from tribunal.errors import LOCKED_OUT, UNANSWERED, CallFailed, ModelError
from tribunal.models.providers import ModelName
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of, own_context
from tribunal.settings.names import ALL

GO_ON = "Resume with any value. To change what is asked, edit the state first."
_MARK = re.compile(r"^stopped before (\S+) \((.+?)\):")


def is_stopped_at(seat: str, state: Mapping[str, Any], runtime: Runtime[Context]) -> bool:
    """Return whether the node that runs stops before it asks this seat: `stops` names the node, the seat or all."""
    names = stops_in_force(state, runtime)
    return bool(
        names and can_stop(runtime) and {ALL, _current_node(), seat, kind_of(seat)} & {*names}
    )


def stop_before(question: JSON, runtime: Runtime[Context]) -> str:
    """Stop the graph until a person resumes it, and return the warning that notes the stop.

    The node runs again from its head when the run goes on, so whatever it has asked before must be saved
    (`tribunal.models.saved_calls`).

    Args:
        question: who is asked what, as a person is shown it; it has a `seat`.
        runtime: that of the run.

    Raises:
        GraphInterrupt: nobody has resumed this stop yet.
    """
    node = _current_node()
    inside = _graphs_around(runtime)
    request = {"stopped_before": node, **({"inside": inside} if inside else {})}
    interrupt({**request, "question": question, "to_go_on": GO_ON})
    return (
        f"stopped before {node} ({kind_of(question['seat'])}): a person could change the case there"
    )


def _current_node() -> str:
    return str(get_config()["metadata"]["langgraph_node"])


def stops_in_force(state: Mapping[str, Any], runtime: Runtime[Context]) -> list[str]:
    """Return the stops of this part of the run if it has any, otherwise the stops of the case."""
    given = own_context(runtime.context)
    return (
        given.stops
        if given and "stops" in given.model_fields_set
        else context_of(state, runtime).stops
    )


def is_stepped_through(state: Mapping[str, Any], runtime: Runtime[Context]) -> bool:
    """Return whether some stop is in force: then a node asks one question after the other."""
    return bool(stops_in_force(state, runtime))


def can_stop(runtime: Runtime[Context]) -> bool:
    """Return whether a run can be stopped and gone on with: it has a thread, which only a checkpointer keeps."""
    return runtime.execution_info is not None and runtime.execution_info.thread_id is not None


def stops_passed_by(names: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """Return a warning for each stop that a case never came to.

    Args:
        names: the names of the stops.
        warnings: of the case, in which every stop is noted.
    """
    marks = [mark.groups() for mark in map(_MARK.match, warnings) if mark]
    reached = {name for node, seats in marks for name in (ALL, node, *seats.split(", "))}
    return [
        f"stops: {name!r}: this case came to its end without it"
        for name in names
        if name not in reached and kind_of(name) not in reached
    ]


def kind_of(seat: str) -> str:
    """Return the kind of a seat of which there are several: `view` of `view:surface`."""
    return seat.partition(":")[0]


def _graphs_around(runtime: Runtime[Context]) -> str:
    """Return the nodes that are graphs around the current node, outermost first: `web/research`."""
    place = runtime.execution_info.checkpoint_ns if runtime.execution_info else ""
    return "/".join(each.partition(":")[0] for each in place.split("|")[:-1])


_UNANSWERED = "unanswered"  # of the value by which such a stop is told from a question to a person


@dataclass
class PatientCalls:
    """The calls of one trial that can wait.

    Attributes:
        made: every call so far, as JSON. The state of the graph lacks the calls of a stopped agent.
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
    calls = _calls.get()
    if calls is not None:
        calls.made.append(made)


def stop_if_unanswered(fault: ModelError) -> None:
    """Stop the graph before this agent if nobody answered its call, in a trial that can wait; otherwise do nothing.

    A fault of a seat without a call is about an earlier node: running this node again would not ask that seat again.
    """
    calls = _calls.get()
    is_of_earlier_node = bool(fault.seat) and not fault.calls
    if calls is None or calls.given_up or is_of_earlier_node or not isinstance(fault, CallFailed):
        return
    if fault.kind in (*UNANSWERED, *LOCKED_OUT):
        asked = {"seat": fault.seat, "role": fault.role, "model": fault.model}
        while True:  # a person's answer to a question of the same agent is given back first, and is none to this
            interrupt({_UNANSWERED: {**asked, "error": fault.kind, "explanation": str(fault)}})


def find_stop(value: Any) -> JSON | None:
    """Return the failure for which a graph stopped, from the value of an interrupt; None: it asks a person."""
    return value[_UNANSWERED] if isinstance(value, dict) and _UNANSWERED in value else None
