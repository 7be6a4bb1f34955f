"""Calls that are saved inside a node: each answer is a LangGraph task, stored with the checkpoint.

LangGraph saves the update of a node when the node ends, so a node that is cut after seven of eight calls would make all
eight again. A task is saved as soon as it ends, and a run that continues from the checkpoint reads it from there. A run
without a thread has no checkpoints and makes its calls directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.func import task
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from tribunal.core.calls import was_rehearsed
from tribunal.errors import (
    LOCKED_OUT,
    UNANSWERED,
    BadModelOutput,
    BudgetSpent,
    CallFailed,
    ModelError,
    Refused,
)
from tribunal.models.role import Filled, Role
from tribunal.models.stops import can_stop, is_stepped_through
from tribunal.models.substance import empty_the_fields
from tribunal.process.loops import run_in_background
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of

# A call that nobody answered is made again when the run goes on.
_NOT_SAVED = (*UNANSWERED, *LOCKED_OUT)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer(Generic[Filled]):
    """The filled-in form, and the update of the state that goes with it: `calls` and `warnings`."""

    value: Filled
    log: JSON = field(default_factory=dict)

    @property
    def confidence(self) -> float | None:
        """Return the confidence that the form states, from 0 to 1, or None; the rehearsal model is never sure."""
        # the last call is the one that answered
        by_rules = was_rehearsed(self.log.get("calls", ())[-1:])
        return None if by_rules else getattr(self.value, "confidence", None)


_make: ContextVar[Callable[[], Awaitable[JSON]]] = ContextVar("call that a task makes")
RUNS_IN_THREADS: ContextVar[bool] = ContextVar(
    "the graph was invoked without an event loop", default=False
)


async def saved_step() -> JSON:
    """Return the result of the step that is being begun: the body of a task."""
    return await _make.get()()


def saved_step_in_thread() -> JSON:
    """Return the same in a graph without an event loop, which runs its tasks in threads."""
    make = _make.get()

    async def run() -> JSON:
        return await make()

    return run_in_background(run)


# The functions keep names of their own: LangGraph prepares a function once only if it finds it under its name.
_step = task(saved_step)
_step_in_thread = task(saved_step_in_thread)


def _can_save(runtime: Runtime[Context]) -> bool:
    # With a limit on tasks at the same time, LangGraph counts the node too: it could wait for its own calls forever.
    return can_stop(runtime) and not get_config().get("max_concurrency")


def save_result(runtime: Runtime[Context], make: Callable[[], Awaitable[JSON]]) -> Awaitable[JSON]:
    """Begin a step of a node, and return its result: the saved one, if the run goes on from a checkpoint that has it.

    LangGraph numbers the steps of a node, so they must begin in the same order each time: this function begins the step
    before it returns.

    Args:
        runtime: that of the run.
        make: makes the result, as plain JSON. An error is raised, and not saved.
    """
    if not _can_save(runtime):
        return make()
    token = _make.set(make)
    try:
        begun: Any = _step_in_thread() if RUNS_IN_THREADS.get() else _step()
    finally:
        _make.reset(token)
    return cast(
        "Awaitable[JSON]", asyncio.wrap_future(begun) if isinstance(begun, Future) else begun
    )


def save_call(
    key: str,
    role: Role[Any],
    state: Any,
    runtime: Runtime[Context],
    make: Callable[[], Awaitable[Answer[Any]]],
) -> Awaitable[Answer[Any]]:
    """Begin a call to a model as `save_result` begins a step, and return its answer.

    A refusal or an unusable answer is saved too; a call that nobody answered is not.

    Args:
        key: names the call within its node. A saved answer with another key is not used.
        role: the role that is asked; its form reads the saved answer.
        state: the case.
        runtime: that of the run.
        make: asks the model.

    Raises:
        ModelError: as `make`.
    """
    if not _can_save(runtime) or is_stepped_through(state, runtime):  # then `ask` saves the call
        return make()

    async def load_form() -> type[BaseModel]:
        return role.form(await policy_of(state, runtime), context_of(state, runtime).scheme)

    return _save_answer(key, runtime, make, load_form)


def save_answer(
    form: type[Filled], runtime: Runtime[Context], make: Callable[[], Awaitable[Answer[Filled]]]
) -> Awaitable[Answer[Filled]]:
    """Return the answer that `make` gives in this form, saved as by `save_call`.

    Raises:
        ModelError: as `make`.
    """
    if not _can_save(runtime):
        return make()

    async def load_form() -> type[BaseModel]:
        return form

    return _save_answer("", runtime, make, load_form)


def _save_answer(
    key: str,
    runtime: Runtime[Context],
    make: Callable[[], Awaitable[Answer[Any]]],
    load_form: Callable[[], Awaitable[type[BaseModel]]],
) -> Awaitable[Answer[Any]]:
    """Begin the call at once, and return its answer."""
    answers: list[Answer[Any]] = []  # empty if the call is a saved one, and so are the faults
    faults: list[ModelError] = []

    async def make_and_dump() -> JSON:
        try:
            answer = await make()
        except ModelError as fault:
            if isinstance(fault, BudgetSpent) or getattr(fault, "kind", "") in _NOT_SAVED:
                raise
            faults.append(fault)
            return {"key": key, "fault": _dump_fault(fault)}
        answers.append(answer)
        return {"key": key, "value": answer.value.model_dump(mode="json"), "log": answer.log}

    begun = save_result(runtime, make_and_dump)

    async def read() -> Answer[Any]:
        saved = await begun
        if saved["key"] != key:
            return await make()
        if "fault" in saved:
            raise faults[0] if faults else _load_fault(saved["fault"])
        if answers:
            return answers[0]
        try:
            return Answer(_load_value(await load_form(), saved), saved["log"])
        except ValidationError:  # the form is another one now: the settings were edited
            return await make()

    return read()


async def gather_calls(
    calls: Iterable[Awaitable[Result]], *, in_turn: bool
) -> list[Result | BaseException]:
    """Return the result or the exception of each call.

    Args:
        calls: the awaitables.
        in_turn: whether to await one after the other, as in a case that is stepped through: LangGraph numbers the
            interrupts of a node, so its questions must come in the same order each time.
    """
    if not in_turn:
        return await asyncio.gather(*calls, return_exceptions=True)
    results: list[Result | BaseException] = []
    for call in calls:
        try:
            results.append(await call)
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 (as `asyncio.gather`)
            results.append(error)
    return results


def _load_value(form: type[BaseModel], saved: JSON) -> BaseModel:
    """Return the form, filled in. A reason that says nothing was left empty, which the form itself would not take."""
    emptied = (saved["log"].get("calls") or [{}])[-1].get("emptied", ())
    value = saved["value"]
    for path in emptied:
        value = _with_text_at(value, path.split("."))
    filled = form.model_validate(value)
    return cast("BaseModel", empty_the_fields(filled, set(emptied))) if emptied else filled


def _with_text_at(value: Any, path: list[str]) -> Any:
    """Return plain JSON with some text at a path."""
    if not path:
        return "-"
    if isinstance(value, list):
        return [
            _with_text_at(each, path[1:]) if str(number) == path[0] else each
            for number, each in enumerate(value)
        ]
    return (
        {**value, path[0]: _with_text_at(value.get(path[0]), path[1:])}
        if isinstance(value, dict)
        else value
    )


def _dump_fault(fault: ModelError) -> JSON:
    return {
        "refusal": fault.form if isinstance(fault, Refused) else None,
        "kind": getattr(fault, "kind", ""),
        "words": str(fault),
        "asked": {"seat": fault.seat, "role": fault.role, "model": fault.model},
        "calls": list(fault.calls),
        "warnings": list(fault.warnings),
    }


def _load_fault(saved: JSON) -> ModelError:
    words = saved["words"]
    asked = saved["asked"]
    fault: ModelError
    if saved["refusal"] is not None:
        fault = Refused(words, form=saved["refusal"], **asked)
    elif saved["kind"] == "bad_output":
        fault = BadModelOutput(words, **asked)
    else:
        fault = CallFailed(words, kind=saved["kind"], **asked)
    fault.calls = saved["calls"]
    fault.warnings = saved["warnings"]
    return fault
