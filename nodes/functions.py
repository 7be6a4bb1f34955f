"""Nodes and routers: async functions that a graph can run with an event loop (`ainvoke`) and without one (`invoke`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.runtime import get_runtime

from tribunal.context import Context
from tribunal.loops import run_in_background


class NodeFunction(Runnable[Any, Any]):
    """A node: an async function of the state, and of the runtime where it takes one.

    A graph without an event loop runs it on the background loop of the process. It can still be called as the function,
    and LangGraph reads its input schema from the function's annotations.
    """

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> None:
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
        return run_in_background(lambda: self._begin(input))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:
        """Return what the function returns."""
        return await self._begin(input)

    def _begin(self, state: Any) -> Coroutine[Any, Any, Any]:
        return self._function(state, get_runtime(Context)) if self._takes_runtime else self._function(state)


def make_router(function: Callable[..., Coroutine[Any, Any, Any]]) -> Runnable[Any, Any]:
    """Return an async function of the state as a router that runs in `invoke` and in `ainvoke` of a graph."""

    @functools.wraps(function)
    def route(state: Any) -> Any:
        return run_in_background(lambda: function(state))

    return RunnableLambda(route, function, name=function.__name__)
