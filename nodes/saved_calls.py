"""Calls that a node makes at the same time: each is saved as soon as it is answered, and draws are counted.

LangGraph saves what a node returns when the node ends, so a node that is cut after seven of eight calls would make all
eight again. Here each call is a LangGraph task inside its node: the answer is saved with the checkpoint, and a run that
goes on from that checkpoint reads it from there. A run without a thread has no checkpoints, and makes its calls
directly. Draws that vote are made in waves, and no more of them than the count needs: of five, three first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from langgraph.config import get_config
from langgraph.func import task
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from tribunal.errors import LOCKED_OUT, UNANSWERED, BadModelOutput, BudgetSpent, CallFailed, ModelError, Refused
from tribunal.models.ask import Answer
from tribunal.models.role import Role
from tribunal.models.stops import can_stop, stops_before
from tribunal.models.substance import empty_the_fields
from tribunal.process.loops import run_in_background
from tribunal.prompts.policy import policy_of
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_of

# A call that nobody answered is made again when the run goes on.
_NOT_SAVED = (*UNANSWERED, *LOCKED_OUT)

_make: ContextVar[Callable[[], Awaitable[JSON]]] = ContextVar("call that a task makes")
RUNS_IN_THREADS: ContextVar[bool] = ContextVar("the graph was invoked without an event loop", default=False)


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
    return cast("Awaitable[JSON]", asyncio.wrap_future(begun) if isinstance(begun, Future) else begun)


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
    if not _can_save(runtime) or stops_before(role.seat):
        return make()
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
        form = role.form(await policy_of(state, runtime), context_of(state, runtime).scheme)
        try:
            return Answer(_load_value(form, saved), saved["log"])
        except ValidationError:  # the form is another one now: the settings were edited
            return await make()

    return read()


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
        return [_with_text_at(each, path[1:]) if str(number) == path[0] else each for number, each in enumerate(value)]
    return {**value, path[0]: _with_text_at(value.get(path[0]), path[1:])} if isinstance(value, dict) else value


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
    words, asked = saved["words"], saved["asked"]
    fault: ModelError
    if saved["refusal"] is not None:
        fault = Refused(words, form=saved["refusal"], **asked)
    elif saved["kind"] == "bad_output":
        fault = BadModelOutput(words, **asked)
    else:
        fault = CallFailed(words, kind=saved["kind"], **asked)
    fault.calls, fault.warnings = saved["calls"], saved["warnings"]
    return fault


Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Poll(Generic[Drawn]):
    """The draws in their order, and how they voted.

    `winner` is the choice that most gave, of several with as many the one that was given first, and None if nobody
    voted; `tie` says that there were several. `faults` are those of the draws that gave nothing. `spared` is the number
    of draws that could not have turned the vote.
    """

    drawn: tuple[Drawn, ...]
    winner: Hashable | None
    tie: bool
    faults: tuple[ModelError, ...]
    spared: int


async def poll(most: int, draw: Callable[[int], Awaitable[Drawn]], choice: Callable[[Drawn], Hashable]) -> Poll[Drawn]:
    """Draw until the vote can't turn, at most so many times.

    Args:
        most: how many draws there may be.
        draw: makes the draw of this number, from 0; a `ModelError` that it raises is an abstention.
        choice: what a draw votes for.
    """
    drawn: list[Drawn] = []
    faults: list[ModelError] = []
    asked = 0
    while asked < most and (wave := _wave(Counter(map(choice, drawn)), most - asked)):
        results = await asyncio.gather(*(draw(asked + each) for each in range(wave)), return_exceptions=True)
        asked += wave
        for result in results:
            if isinstance(result, ModelError):
                faults.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                drawn.append(result)
    counted = Counter(map(choice, drawn)).most_common()
    return Poll(
        drawn=tuple(drawn),
        winner=counted[0][0] if counted else None,
        tie=len(counted) > 1 and counted[0][1] == counted[1][1],
        faults=tuple(faults),
        spared=most - asked,
    )


def _wave(votes: Counter[Hashable], left: int) -> int:
    """Return the fewest further draws that can settle the vote; 0 where it is settled."""
    counts = [count for _, count in votes.most_common(2)] + [0, 0]
    lead, second = counts[0], counts[1]
    if lead > second + left:
        return 0
    return min(left, (second + left - lead) // 2 + 1)
