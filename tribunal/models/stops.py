"""Where a case stops: before the agents of `stops`, and at a model that gives no answer."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

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
Node = TypeVar("Node", bound=Callable[..., Awaitable[JSON]])


class QuestionShown(BaseException):
    """Ends the first pass of a node at its first question. No node catches it: it is no `Exception`."""


@dataclass
class _FirstPass:
    """The first pass of a node: the names of the stops, the node, and what it would ask at the same time."""

    names: frozenset[str]
    node: str
    questions: list[JSON] = field(default_factory=list)
    over: bool = False

    def stops_at(self, seat: str) -> bool:
        """Return whether the node stops before it asks this seat. Once a call was let through, it doesn't any more."""
        if not self.names & {ALL, self.node, seat, kind_of(seat)}:
            self.over = True
        return not self.over


_FIRST_PASS: ContextVar[_FirstPass | None] = ContextVar("tribunal_first_pass", default=None)


async def show_question(seat: str, describe: Callable[[], Awaitable[JSON]]) -> None:
    """Hand over a question in place of asking it, where the node is to be stopped at.

    Args:
        seat: who is asked.
        describe: makes the question as a person is shown it.

    Raises:
        QuestionShown: the node is to be stopped at.
    """
    first_pass = _FIRST_PASS.get()
    if first_pass is not None and first_pass.stops_at(seat):
        first_pass.questions.append(await describe())
        raise QuestionShown


def stops_before(seat: str) -> bool:
    """Return whether the node that runs is to be stopped at before it asks this seat."""
    first_pass = _FIRST_PASS.get()
    return first_pass is not None and first_pass.stops_at(seat)


def stop_at_head(node: Node) -> Node:
    """Return the node, stopped at before it asks a model, where the setting `stops` names it or its seat."""

    @functools.wraps(node)
    async def stopped(state: Any, runtime: Runtime[Context]) -> JSON:
        names = stops_in_force(state, runtime)
        if not names:
            return await node(state, runtime)
        first_pass = _FirstPass(frozenset(names), str(get_config()["metadata"]["langgraph_node"]))
        token = _FIRST_PASS.set(first_pass)
        try:
            return await node(state, runtime)
        except QuestionShown:
            pass
        finally:
            _FIRST_PASS.reset(token)
        interrupt(_request(first_pass, runtime))
        update = await node(state, runtime)
        return {**update, "warnings": [*update.get("warnings", ()), _mark(first_pass)]}

    vars(stopped)["asks_a_model"] = True
    return cast("Node", stopped)


def stops_in_force(state: Mapping[str, Any], runtime: Runtime[Context]) -> list[str]:
    """Return the names of the stops: those that this part of the run was given, else those of the case."""
    given = own_context(runtime.context)
    return given.stops if given and "stops" in given.model_fields_set else context_of(state, runtime).stops


def can_stop(runtime: Runtime[Context]) -> bool:
    """Return whether a run can be stopped and gone on with: it has a thread, which only a checkpointer keeps."""
    return runtime.execution_info is not None and runtime.execution_info.thread_id is not None


def stops_passed_by(names: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """Return a warning for each stop that a case never came to.

    Args:
        names: those of the stops.
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


def _request(first_pass: _FirstPass, runtime: Runtime[Context]) -> JSON:
    """Return what a person is shown at a stop: each question once, with the number of times that it is asked."""
    inside = _graphs_around(runtime)
    questions: list[JSON] = []
    for question in first_pass.questions:
        times = first_pass.questions.count(question)
        if (shown := {**question, **({"times": times} if times > 1 else {})}) not in questions:
            questions.append(shown)
    return {
        "stopped_before": first_pass.node,
        **({"inside": inside} if inside else {}),
        "questions": questions,
        "to_go_on": GO_ON,
    }


def _graphs_around(runtime: Runtime[Context]) -> str:
    """Return the nodes that are graphs around the one that runs, outermost first: `web/research`."""
    place = runtime.execution_info.checkpoint_ns if runtime.execution_info else ""
    return "/".join(each.partition(":")[0] for each in place.split("|")[:-1])


def _mark(first_pass: _FirstPass) -> str:
    seats = ", ".join(dict.fromkeys(kind_of(each["seat"]) for each in first_pass.questions))
    return f"stopped before {first_pass.node} ({seats}): a person could change the case there"


_UNANSWERED = "unanswered"  # of the value by which such a stop is told from a question to a person


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
            interrupt({_UNANSWERED: {**asked, "error": fault.kind, "explanation": str(fault)}})


def find_stop(value: Any) -> JSON | None:
    """Return the failure for which a graph stopped, from the value of an interrupt; None: it asks a person."""
    return value[_UNANSWERED] if isinstance(value, dict) and _UNANSWERED in value else None
