"""Nodes and routers made of async functions; an agent takes part in a case while it is open.

Each runs with an event loop (`ainvoke`) and without one (`invoke`), and names the channel that it can't read. LangGraph
injects into a function what its signature names: `runtime`, `config`, `store`, `writer`, `previous`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.graph import StateGraph
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

from tribunal.core.calls import was_rehearsed
from tribunal.errors import BadInput, BudgetSpent, ModelError, WrongState
from tribunal.models.saved_calls import RUNS_IN_THREADS
from tribunal.models.stops import stop_if_unanswered, stops_in_force, stops_passed_by
from tribunal.nodes.channels import find_wrong_channel
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


def asking_node(function: Part) -> Part:
    """Return an async function that asks a model as a node: the setting `stops` may name it."""
    return cast("Part", NodeFunction(_name_wrong_channel(function), asks_a_model=True))


def router(function: Part) -> Part:
    """Return an async function of the state as a router that runs in `invoke` and in `ainvoke` of a graph."""
    named = _name_wrong_channel(function)

    @functools.wraps(named)
    def route(state: Any) -> Any:
        return run_in_background(lambda: named(state))

    return cast("Part", RunnableLambda(route, named, name=function.__name__))


def agent(function: Node) -> Node:
    """Return the node of an agent that asks a model: it takes part in a case while it is open."""
    return asking_node(_act_while_open(function))


def take_part_while_open(function: Node) -> Node:
    """Return a node that acts in a case only while it is open, and whose faults end the case as the outcome they are.

    A refusal becomes a `Refusal` and a technical failure a `Failure`; both keep the log of every call. A spent
    budget leaves the seat silent, and the verdict says so. In a trial that can wait, one that nobody answered stops the
    graph here instead.
    """
    return node(_act_while_open(function))


def _act_while_open(function: Node) -> Node:
    @functools.wraps(function)
    async def take_part(state: Any, *more: Any, **injected: Any) -> JSON:
        if is_closed(state):
            return {}
        runtime = get_runtime(Context)
        warnings = warn_of_overruled_settings(state, runtime)
        try:
            update = await function(state, *more, **injected)
            if update.get("outcome") and (names := stops_in_force(state, runtime)):
                warnings += stops_passed_by(
                    names, [*state.get("warnings", ()), *update.get("warnings", ())]
                )
            return (
                {**update, "warnings": [*update.get("warnings", ()), *warnings]}
                if warnings
                else update
            )
        except BudgetSpent as spent:
            return {"budget_spent": True, "calls": list(spent.calls), "warnings": [str(spent)]}
        except ModelError as fault:
            stop_if_unanswered(fault)
            by_rules = was_rehearsed(
                [*state.get("calls", ()), *fault.calls], state.get("warnings", ())
            )
            outcome = {**outcome_of(fault), "rehearsed": by_rules}
            return {**announce_outcome(state, outcome, runtime), **log_of_fault(fault)}

    return cast("Node", take_part)


def _name_wrong_channel(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Return the function, wrapped so that an error caused by an unreadable channel is raised as `WrongState`."""

    @functools.wraps(function)
    async def call_and_name(state: Any, *more: Any, **named: Any) -> Any:
        try:
            return await function(state, *more, **named)
        except (ModelError, BadInput):
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            wrong = find_wrong_channel(state, channel_forms())
            if wrong:
                raise WrongState(wrong[1]) from error
            raise

    return call_and_name


class NodeFunction(Runnable[Any, Any]):
    """A node: an async function that LangGraph runs in `invoke` too, on the background loop of the process.

    You can still call it like the function. LangGraph runs an async function only in `ainvoke`, so this class holds two
    nodes that LangGraph makes of the function: one for `invoke`, one for `ainvoke`. LangGraph injects into both.
    """

    def __init__(
        self, function: Callable[..., Coroutine[Any, Any, Any]], *, asks_a_model: bool = False
    ) -> None:
        """Take the function, and whether it asks a model, so that `stops` may name it."""
        # a function that wraps another node has that one's fields
        functools.update_wrapper(self, function, updated=())

        @functools.wraps(function, updated=())
        def call(node: NodeFunction, *given: Any, **named: Any) -> Any:
            return function(*given, **named)

        # LangGraph reads the schema of the state, and where a `Command` may lead, off the annotations of `__call__`.
        vars(self)["__call__"] = MethodType(call, self)
        self.name = function.__name__
        self.asks_a_model = asks_a_model or getattr(function, "asks_a_model", False)
        self._function = function

    def __call__(self, *given: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        """Return the function's coroutine."""
        return self._function(*given, **named)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """Run the function on the background loop, and return its result."""
        token = RUNS_IN_THREADS.set(True)
        try:
            with _trust_of_run():
                return self._in_thread.invoke(input, config, **more)
        finally:
            RUNS_IN_THREADS.reset(token)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """Return the function's result."""
        token = RUNS_IN_THREADS.set(False)
        try:
            with _trust_of_run():
                return await self._in_loop.ainvoke(input, config, **more)
        finally:
            RUNS_IN_THREADS.reset(token)

    @functools.cached_property
    def _in_loop(self) -> Runnable[Any, Any]:
        return _as_langgraph_node(self._function)

    @functools.cached_property
    def _in_thread(self) -> Runnable[Any, Any]:
        @functools.wraps(self._function)
        def run(*given: Any, **named: Any) -> Any:
            return run_in_background(lambda: self._function(*given, **named))

        return _as_langgraph_node(run)


class _NoState(TypedDict):
    """The state of a builder that runs nothing."""


def _as_langgraph_node(function: Callable[..., Any]) -> Runnable[Any, Any]:
    """Return the runnable that LangGraph makes of a function: it injects what the signature names."""
    builder = StateGraph(_NoState)
    builder.add_node("node", function, input_schema=_NoState)
    return cast("Runnable[Any, Any]", builder.nodes["node"].runnable)


def _trust_of_run() -> AbstractContextManager[None]:
    """Return a context in which a node of a run that LangGraph's server began takes all for its clients'.

    The run itself says so, also where `langgraph.json` names a graph that isn't `as_served`.
    """
    runtime = current_runtime()
    return untrusted() if runtime and runtime.server_info else nullcontext()
