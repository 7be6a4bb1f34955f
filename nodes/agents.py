"""Nodes and routers made of async functions; an agent takes part in a case while it is open.

Each runs with an event loop (`ainvoke`) and without one (`invoke`), and names the channel that it can't read.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.runtime import Runtime, get_runtime

from tribunal.core.calls import was_rehearsed
from tribunal.errors import BadInput, BudgetSpent, ModelError, WrongState
from tribunal.models.stops import stop_at_head, stop_if_unanswered, stops_in_force, stops_passed_by
from tribunal.nodes.channels import find_wrong_channel
from tribunal.nodes.saved_calls import RUNS_IN_THREADS
from tribunal.nodes.state import channel_forms, log_of_fault, outcome_of
from tribunal.nodes.verdict import announce_outcome, is_closed
from tribunal.process.loops import run_in_background
from tribunal.schema import JSON
from tribunal.settings.context import Context, current_runtime, warn_of_overruled_settings
from tribunal.trust import untrusted

Node = TypeVar("Node", bound=Callable[..., Awaitable[JSON]])
Part = TypeVar("Part", bound=Callable[..., Awaitable[Any]])


def node(function: Part) -> Part:
    """Return an async function as a node that runs in `invoke` and in `ainvoke` of a graph."""
    return cast("Part", NodeFunction(_name_wrong_channel(function)))


def router(function: Part) -> Part:
    """Return an async function of the state as a router that runs in `invoke` and in `ainvoke` of a graph."""
    named = _name_wrong_channel(function)

    @functools.wraps(named)
    def route(state: Any) -> Any:
        return run_in_background(lambda: named(state))

    return cast("Part", RunnableLambda(route, named, name=function.__name__))


def agent(function: Node) -> Node:
    """Return the node of an agent that asks a model: it takes part, and is stopped at where `stops` names it."""
    return take_part_while_open(stop_at_head(function))


def take_part_while_open(function: Node) -> Node:
    """Return a node that acts in a case only while it is open, and whose faults end the case as the outcome they are.

    A refusal becomes a `Refusal` and a technical failure a `Failure`; both keep the log of every call. A spent
    budget leaves the seat silent, and the verdict says so. In a trial that can wait, one that nobody answered stops the
    graph here instead.
    """

    @functools.wraps(function)
    async def take_part(state: Any, runtime: Runtime[Context]) -> JSON:
        if is_closed(state):
            return {}
        warnings = warn_of_overruled_settings(state, runtime)
        try:
            update = await function(state, runtime)
            if update.get("outcome") and (names := stops_in_force(state, runtime)):
                warnings += stops_passed_by(names, [*state.get("warnings", ()), *update.get("warnings", ())])
            return {**update, "warnings": [*update.get("warnings", ()), *warnings]} if warnings else update
        except BudgetSpent as spent:
            return {"budget_spent": True, "calls": list(spent.calls), "warnings": [str(spent)]}
        except ModelError as fault:
            stop_if_unanswered(fault)
            by_rules = was_rehearsed([*state.get("calls", ()), *fault.calls], state.get("warnings", ()))
            outcome = {**outcome_of(fault), "rehearsed": by_rules}
            return {**announce_outcome(state, outcome, runtime), **log_of_fault(fault)}

    return cast("Node", node(take_part))


def _name_wrong_channel(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return the function, which raises `WrongState` for what it breaks on if a channel holds what it can't read."""

    @functools.wraps(function)
    async def call_and_name(state: Any, *more: Any, **named: Any) -> Any:
        try:
            return await function(state, *more, **named)
        except (ModelError, BadInput):
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if wrong := find_wrong_channel(state, channel_forms()):
                raise WrongState(wrong[1]) from error
            raise

    return call_and_name


class NodeFunction(Runnable[Any, Any]):
    """A node: an async function of the state, and of the runtime where it takes one.

    A graph without an event loop runs it on the background loop of the process. It can still be called as the function,
    and LangGraph reads its input schema from the function's annotations.
    """

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        """Take the function."""
        functools.update_wrapper(self, function)

        @functools.wraps(function)
        def call(node: NodeFunction, *given: Any, **named: Any) -> Any:
            return function(*given, **named)

        # LangGraph reads the schema of the state, and where a `Command` may lead, off the annotations of `__call__`.
        vars(self)["__call__"] = MethodType(call, self)
        self.name = function.__name__
        self._function = function
        self._takes_runtime = "runtime" in inspect.signature(function).parameters

    def __call__(self, *given: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        """Return the function's coroutine."""
        return self._function(*given, **named)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """Run the function on the background loop, and return what it returns."""
        token = RUNS_IN_THREADS.set(True)
        try:
            with _trust_of_run():
                return run_in_background(lambda: self._begin(input))
        finally:
            RUNS_IN_THREADS.reset(token)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """Return what the function returns."""
        token = RUNS_IN_THREADS.set(False)
        try:
            with _trust_of_run():
                return await self._begin(input)
        finally:
            RUNS_IN_THREADS.reset(token)

    def _begin(self, state: Any) -> Coroutine[Any, Any, Any]:
        return self._function(state, get_runtime(Context)) if self._takes_runtime else self._function(state)


def _trust_of_run() -> AbstractContextManager[None]:
    """Return a context in which a node of a run that LangGraph's server began takes all for its clients'.

    The run itself says so, also where `langgraph.json` names a graph that isn't `as_served`.
    """
    runtime = current_runtime()
    return untrusted() if runtime and runtime.server_info else nullcontext()
