"""A graph that is run straight from its builder, where nobody streams, traces or resumes it.

LangGraph's loop writes a checkpoint of every step, versions every channel and tells LangChain's callbacks of every
node, whether or not anybody keeps or hears them: more than half of what a model call costs a bulk run. This runs the
same nodes over the same channels in the same steps, and keeps the state alone.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Overwrite, Send
from typing_extensions import is_typeddict

from tribunal.context import RUNNING, Context
from tribunal.graphs.served import Served
from tribunal.graphs.ways import by
from tribunal.schema import JSON

MOST_STEPS = 10_007  # LangGraph's own, of a graph that names no other

_Run = Callable[[Any, Runtime[Context]], Awaitable[JSON | None]]
_Route = Callable[[JSON], Awaitable[Any]]
_Done = tuple[JSON, list[str | Send]]
_KINDS = (CompiledStateGraph, Served)  # and no kind of one's own, which may do more
# What only LangGraph does, of a graph and of a node.
_OF_LANGGRAPH = (
    "checkpointer", "store", "cache", "retry_policy", "step_timeout", "debug", "interrupt_before_nodes",
    "interrupt_after_nodes",
)  # fmt: skip
_CHANNELS = {LastValue, BinaryOperatorAggregate}
_WAITS = "tribunal.nodes.court.review"  # for a person, by LangGraph: where it is always reached, every run may have to
_OF_A_NODE = ("retry_policy", "cache_policy", "defer", "timeout", "error_handler_node", "is_error_handler", "ends")


@dataclass(frozen=True, slots=True)
class _Node:
    run: _Run
    reads: tuple[str, ...]
    onward: tuple[str, ...]
    routes: tuple[tuple[_Route, Mapping[Any, str]], ...]

    def of(self, state: JSON) -> JSON:
        """What it reads of a state."""
        return {name: state[name] for name in self.reads if name in state}


@dataclass(frozen=True, slots=True)
class Straight:
    """A graph, as `straight` reads it.

    Attributes:
        nodes: by name.
        joins: nodes that wait for several others: whom, and which.
        first: the nodes that it begins with.
        takes, gives: the channels of what it takes, and of what it gives as a part of another graph.
        channels: all of them.
        reducers: how a channel takes in what is new; one that has none holds the last value.
        begins: the channels that hold something from the start.
        most_steps: it may take so many, less one.
    """

    nodes: Mapping[str, _Node]
    joins: tuple[tuple[frozenset[str], str], ...]
    first: tuple[str, ...]
    takes: frozenset[str]
    gives: tuple[str, ...]
    channels: frozenset[str]
    reducers: Mapping[str, Callable[[Any, Any], Any]]
    begins: JSON
    most_steps: int

    async def run(self, given: Mapping[str, Any], context: Context) -> JSON:
        """Run it.

        Args:
            given: what the graph takes.
            context: the settings.

        Returns:
            its last state, every channel that holds something: what `astream` of the compiled graph ends with, where
            its values are asked for.

        Raises:
            GraphRecursionError: it didn't end in as many steps as it may take.
            InvalidUpdateError: two nodes of a step wrote a channel that takes one value.
            Exception: what a node raised, as it was raised; what ran beside it is cancelled.
        """
        # A trial that waits for nobody (the rehearsal model, a first look) would keep the loop for all those after it.
        await asyncio.sleep(0)
        runtime = Runtime(context=context)
        before = RUNNING.set(runtime)
        try:
            return await self._steps(given, runtime)
        finally:
            RUNNING.reset(before)

    async def part(self, given: Mapping[str, Any], runtime: Runtime[Context]) -> JSON:
        """Run it as a node of another graph: what it gives is what the other takes in."""
        state = await self._steps(given, runtime)
        return {name: state[name] for name in self.gives if name in state}

    async def _steps(self, given: Mapping[str, Any], runtime: Runtime[Context]) -> JSON:
        state = {name: copy(value) for name, value in self.begins.items()}
        self._take(state, [{name: value for name, value in given.items() if name in self.takes}])
        called: Iterable[str] = self.first
        sent: list[Send] = []
        come: list[set[str]] = [set() for _ in self.joins]
        for _ in range(self.most_steps):
            step = [(self.nodes[each.node], each.arg) for each in sent]
            step += [(self.nodes[name], self.nodes[name].of(state)) for name in sorted(called)]
            begun = [self._at(node, shown, state, runtime) for node, shown in step]
            if not begun:
                return state
            done = await _all(begun)
            joined = self._joined(come, {*called, *(each.node for each in sent)})
            done = done[len(sent) :] + done[: len(sent)]  # LangGraph begins with what was sent, and takes that in last
            self._take(state, [update for update, _ in done])
            ways = [way for _, ways in done for way in ways]
            sent = [way for way in ways if isinstance(way, Send)]
            called = {*joined, *(way for way in ways if not isinstance(way, Send))}
        raise GraphRecursionError(f"Recursion limit of {self.most_steps} reached without hitting a stop condition.")

    def _joined(self, come: list[set[str]], ended: set[str]) -> Iterator[str]:
        """The nodes that waited for several others, of which the last has come by now; `come` is of each join."""
        for (awaited, node), here in zip(self.joins, come, strict=True):
            here |= awaited & ended
            if here == awaited:
                here.clear()
                yield node

    async def _at(self, node: _Node, given: Any, state: JSON, runtime: Runtime[Context]) -> _Done:
        """What a node writes to this state, and where it goes on to."""
        try:
            # A lone node runs in the task of its run: what it sets in a context variable it has to take back.
            update = await node.run(given, runtime) or {}
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError("a node gave up: what it waited for was cancelled") from error
        ways: list[str | Send] = [*node.onward]
        if node.routes:
            seen = dict(state)
            self._take(seen, [update])
            shown = {**update, **node.of(seen)}
            for route, ends in node.routes:
                to = await route(shown)
                chosen = to if isinstance(to, list | tuple) else [to]
                ways += [way if isinstance(way, Send) else ends[way] for way in chosen]
        return update, [way for way in ways if way != END]

    def _take(self, state: JSON, updates: Iterable[JSON]) -> None:
        """Take in what the nodes of one step wrote."""
        alone: set[str] = set()  # one value a step, whole
        for update in updates:
            for name, value in update.items():
                if name not in self.channels:
                    continue
                if name in self.reducers and not isinstance(value, Overwrite):
                    if name not in alone:
                        state[name] = self.reducers[name](state[name], value) if name in state else value
                elif name in alone:
                    raise InvalidUpdateError(f"At key {name!r}: Can receive only one value per step.")
                else:
                    alone.add(name)
                    state[name] = value.value if isinstance(value, Overwrite) else value


async def _all(begun: list[Coroutine[Any, Any, _Done]]) -> list[_Done]:
    """What each comes to. Where one fails, the others are cancelled."""
    if len(begun) == 1:
        return [await begun[0]]
    tasks = [asyncio.create_task(each) for each in begun]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        await _end(tasks)
        raise
    failures = [error for task in tasks if task in done and (error := task.exception())]
    if failures:
        await _end(tasks)
        raise failures[0]
    return [task.result() for task in tasks]


async def _end(tasks: Iterable[asyncio.Task[_Done]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def straight(compiled: Any) -> Straight | None:
    """The same graph, to be run straight.

    Args:
        compiled: a compiled graph, or what stands in place of one.

    Returns:
        None where it has something that only LangGraph knows: a node that isn't ours, which may ask LangGraph for
        whatever it likes, a checkpointer, a retry policy.
    """
    return _read(compiled, None) if type(compiled) in _KINDS else None


@lru_cache(maxsize=64)
def _read(compiled: Any, most_steps: int | None) -> Straight | None:
    """Args: most_steps: of the graph around it, where that names them; else it is the graph's own."""
    builder = compiled.builder
    if any(getattr(compiled, name) for name in _OF_LANGGRAPH) or (compiled.config or {}).get("callbacks"):
        return None
    if builder.managed or START in builder.branches or not _as_compiled(compiled):
        return None
    if not all(map(is_typeddict, builder.schemas)) or {*map(type, builder.channels.values())} - _CHANNELS:
        return None
    limit: int | None = most_steps or (compiled.config or {}).get("recursion_limit")
    ends = {end for _, end in (*builder.edges, *builder.waiting_edges)}
    nodes = {}
    for name, spec in builder.nodes.items():
        run, routes = _function(spec, limit), _routes(builder.branches.get(name, {}).values())
        if run is None or routes is None or (name in ends and getattr(run, "__module__", "") == _WAITS):
            return None
        onward = tuple(end for start, end in sorted(builder.edges) if start == name)
        nodes[name] = _Node(run, tuple(builder.schemas[spec.input_schema]), onward, routes)
    reduced = {
        name: channel for name, channel in builder.channels.items() if isinstance(channel, BinaryOperatorAggregate)
    }
    return Straight(
        nodes=nodes,
        joins=tuple((frozenset(starts), end) for starts, end in sorted(builder.waiting_edges) if end != END),
        first=tuple(end for start, end in builder.edges if start == START and end != END),
        takes=frozenset(builder.schemas[builder.input_schema]),
        gives=tuple(builder.schemas[builder.output_schema]),
        channels=frozenset(builder.channels),
        reducers={name: channel.operator for name, channel in reduced.items()},
        begins={name: channel.get() for name, channel in reduced.items() if channel.is_available()},
        most_steps=limit or MOST_STEPS,
    )


def _as_compiled(compiled: Any) -> bool:
    """Whether nothing was added to the builder since: what was compiled has a writer for a node's channels, and one
    for each way on."""
    builder = compiled.builder
    if {*compiled.nodes} != {START, *builder.nodes} or not {*compiled.channels} >= {*builder.channels}:
        return False
    ways = Counter(start for start, end in builder.edges if end != END)
    ways.update({start: len(branches) for start, branches in builder.branches.items()})
    ways.update(start for starts, end in builder.waiting_edges if end != END for start in starts)
    return all(len(node.writers) == 1 + ways[name] for name, node in compiled.nodes.items())


def _function(spec: Any, most_steps: int | None) -> _Run | None:
    """What runs a node; None where LangGraph has to."""
    if any(getattr(spec, name) for name in _OF_A_NODE):
        return None
    if type(spec.runnable) in _KINDS:
        part = _read(spec.runnable, most_steps)
        return part.part if part else None
    function = getattr(spec.runnable, "afunc", None)
    if not inspect.iscoroutinefunction(function) or not function.__module__.startswith("tribunal."):
        return None
    return cast("_Run", function) if [*inspect.signature(function).parameters] == ["state", "runtime"] else None


def _routes(branches: Iterable[Any]) -> tuple[tuple[_Route, Mapping[Any, str]], ...] | None:
    """Who chooses the ways on from a node; None where LangGraph has to ask."""
    asked = [(branch.path, branch.ends, branch.input_schema) for branch in branches]
    if not all(isinstance(path, by) and ends and schema is None for path, ends, schema in asked):
        return None
    return tuple((path.afunc, ends) for path, ends, _ in asked)
