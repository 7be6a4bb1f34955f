"""Compile a subgraph that keeps its steps on the thread, so that a run can go on from any of them.

LangGraph keeps the steps of a subgraph under its node's name only if it is compiled with `checkpointer=True`. It then
also begins each call with the state in which the last one ended, and a resumed run may take the result of an earlier
case for that of the next. `Subgraph` adds what is missing: a call goes on only from a step of its own, and otherwise
begins with nothing but its input.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from itertools import count
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig, ensure_config
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from tribunal.nodes.channels import SENT_ALONE

_NO_CHECKPOINT = (
    "00000000-0000-0000-0000-000000000000"  # LangGraph finds none of this id, and begins anew
)
_COORDINATES = {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}


class _Start(NamedTuple):
    """Where a call of a subgraph starts."""

    config: RunnableConfig | None
    edited: RunnableConfig | None = None  # an edited step, on which the call may not write


_Lookups = Generator[RunnableConfig, StateSnapshot, _Start]


class Subgraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph for a node of another graph; called by itself, it keeps nothing."""

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Iterator[Any]:
        """Run as `CompiledStateGraph.stream`, from the step that this call was at, or from the beginning."""
        graph = self if _can_keep_steps(input, config) else self.copy({"checkpointer": None})
        if graph is self:
            config = self._find_start(input, config)
        with closing(cast("Any", super(Subgraph, graph).stream(input, config, **options))) as parts:
            yield from parts

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        """Run as `CompiledStateGraph.astream`, from the step that this call was at, or from the beginning."""
        graph = self if _can_keep_steps(input, config) else self.copy({"checkpointer": None})
        if graph is self:
            config = await self._afind_start(input, config)
        async with aclosing(
            cast("Any", super(Subgraph, graph).astream(input, config, **options))
        ) as parts:
            async for part in parts:
                yield part

    def _find_start(self, input: Any, config: RunnableConfig | None) -> RunnableConfig | None:
        lookups = _look_for_start(input, config)
        try:
            wanted = next(lookups)
            while True:
                wanted = lookups.send(self.get_state(wanted))
        except StopIteration as found:
            start = cast("_Start", found.value)
        except ValueError as error:
            start = _without_checkpointer(config, error)
        if start.edited:
            self.update_state(start.edited, None, as_node="__copy__")
        return start.config

    async def _afind_start(
        self, input: Any, config: RunnableConfig | None
    ) -> RunnableConfig | None:
        lookups = _look_for_start(input, config)
        try:
            wanted = next(lookups)
            while True:
                wanted = lookups.send(await self.aget_state(wanted))
        except StopIteration as found:
            start = cast("_Start", found.value)
        except ValueError as error:
            start = _without_checkpointer(config, error)
        if start.edited:
            await self.aupdate_state(start.edited, None, as_node="__copy__")
        return start.config


def compile_subgraph(
    builder: StateGraph[Any, Any, Any, Any], name: str, recursion_limit: int | None = None
) -> Subgraph:
    """Compile a graph to be a node of another, whose steps a run can go back to.

    Args:
        builder: the graph.
        name: its name.
        recursion_limit: after how many steps it fails; None: after as many as the graph around it.
    """
    graph = Subgraph(**vars(builder.compile(name=name, checkpointer=True)))
    return graph.with_config(recursion_limit=recursion_limit) if recursion_limit else graph


def _can_keep_steps(input: Any, config: RunnableConfig | None) -> bool:
    """Return whether the steps of a call can be kept under the name of the node that makes it.

    The graph around it must keep its own steps by name. Tasks that `Send` begins run at the same time under one name,
    and keep their steps under their ids instead, unless what they are sent says that there is only one.
    """
    place = _place_of(config)
    if "checkpoint_map" not in place or ":" in place["checkpoint_ns"].rpartition("|")[0]:
        return False
    path = ensure_config(config).get("metadata", {}).get("langgraph_path") or ("",)
    return not str(path[0]).endswith("push") or (isinstance(input, Mapping) and SENT_ALONE in input)


def _place_of(config: RunnableConfig | None) -> dict[str, Any]:
    """Return where a call of a graph stands: as it was given, or else as the node that makes it stands."""
    given = (config or {}).get("configurable", {})
    around = {} if given.keys() & _COORDINATES else ensure_config().get("configurable", {})
    return {**around, **given}


def _look_for_start(input: Any, config: RunnableConfig | None) -> _Lookups:
    """Ask for the steps that the call could go on from, each by its place, and return where it starts."""
    place = _place_of(config)
    if not place.get("thread_id"):
        return _Start(config)
    steps = dict(place["checkpoint_map"])
    edited = None
    parent = place["checkpoint_ns"].rpartition("|")[0]
    node = "|".join(part.partition(":")[0] for part in place["checkpoint_ns"].split("|"))
    for call in count():  # a node that is a function may call a subgraph several times
        here = f"{node}|{call}" if call else node
        at_here = {**place, "checkpoint_ns": here, "checkpoint_id": None}
        step = last = yield RunnableConfig(configurable=at_here)
        if last.created_at is None:
            break
        begun_at_same_time = _parents_of(last).get(parent) == steps.get(parent)
        chosen = steps.get(here)
        if chosen and chosen != _NO_CHECKPOINT:
            if chosen != _id_of(last):
                step = yield RunnableConfig(configurable={**at_here, "checkpoint_id": chosen})
            begins_anew = not _knows_calls(step, input)
            if (
                not begins_anew
                and step is last
                and not begun_at_same_time
                and _source_of(last) in ("update", "fork")
            ):
                # LangGraph would note a stop on the edited step itself, under the parent's old checkpoint, and a
                # resume wouldn't find it. It saves a step of its own once the edited one isn't the last.
                edited = RunnableConfig(configurable={**at_here, "checkpoint_id": chosen})
        else:
            begins_anew = not begun_at_same_time
        if begins_anew:
            steps = {
                name: id for name, id in steps.items() if not f"{name}|".startswith(f"{here}|")
            }
            steps[here] = _NO_CHECKPOINT
    return _Start({**(config or {}), "configurable": {**place, "checkpoint_map": steps}}, edited)


def _without_checkpointer(config: RunnableConfig | None, error: ValueError) -> _Start:
    """Return the start of a call in a graph that has a thread and keeps nothing. Raises any other error."""
    if str(error) != "No checkpointer set":
        raise error
    return _Start(config)


def _knows_calls(step: StateSnapshot, input: Any) -> bool:
    """Return whether every call that the parent knows of was made before this step.

    If not, the step belongs to an earlier call of the subgraph than the one that begins: a run that went back to a step
    still names it when it comes to the subgraph again.
    """
    known = {call["id"] for call in step.values.get("calls", ())}
    return all(
        call["id"] in known
        for call in (input.get("calls", ()) if isinstance(input, Mapping) else ())
    )


def _parents_of(step: StateSnapshot) -> dict[str, str]:
    return dict((step.metadata or {}).get("parents", {}))


def _source_of(step: StateSnapshot) -> str:
    return str((step.metadata or {}).get("source"))


def _id_of(step: StateSnapshot) -> str:
    return str(step.config["configurable"]["checkpoint_id"])
