"""What LangGraph injects into a node reaches a wrapped one: by name, in `invoke` and in `ainvoke`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.errors import NodeError
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import StreamWriter

from tribunal.nodes.agents import agent, asking_node, node, take_part_while_open
from tribunal.pieces import Case, Context, piece

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "piece": piece(writes=["warnings"]),
    "node": node,
    "asking_node": asking_node,
    "agent": agent,
    "take_part_while_open": take_part_while_open,
    "piece of an agent": lambda function: piece(writes=["warnings"])(agent(function)),
    "node of a node": lambda function: node(node(function)),
}


async def reads_config(state: Case, config: RunnableConfig) -> Case:
    return {"warnings": [f"config {config['configurable']['tenant']}"]}


async def reads_store(state: Case, *, store: BaseStore) -> Case:
    item = await store.aget(("names",), "greeting")
    return {"warnings": [f"store {item and item.value['word']}"]}


async def reads_writer(state: Case, writer: StreamWriter) -> Case:
    writer({"written": "by the node"})
    return {"warnings": ["writer"]}


async def reads_previous(state: Case, previous: Any) -> Case:
    return {"warnings": [f"previous {previous}"]}


async def reads_runtime(state: Case, runtime: Runtime[Context]) -> Case:
    return {"warnings": [f"runtime {runtime.context.policy}"]}


async def reads_all(
    state: Case,
    config: RunnableConfig,
    *,
    store: BaseStore,
    writer: StreamWriter,
    runtime: Runtime[Context],
    previous: Any = None,
) -> Case:
    assert runtime.store is store
    return {"warnings": [f"all {config['configurable']['tenant']} {callable(writer)} {previous}"]}


FUNCTIONS = {
    reads_config: "config acme",
    reads_store: "store hello",
    reads_writer: "writer",
    reads_previous: "previous None",
    reads_runtime: "runtime own",
    reads_all: "all acme True None",
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
async def test_each_parameter_that_langgraph_injects_reaches_the_function(
    wrapper: str, function: Callable[..., Any]
) -> None:
    builder = StateGraph(Case, context_schema=Context)
    builder.add_node("one", WRAPPERS[wrapper](function))
    builder.add_edge(START, "one")
    store = InMemoryStore()
    store.put(("names",), "greeting", {"word": "hello"})
    graph = builder.compile(store=store)
    config: RunnableConfig = {"configurable": {"tenant": "acme"}}
    given: Any = {"text": "Good morning."}
    context = Context(policy="own")
    for state in (
        await graph.ainvoke(given, config, context=context),
        graph.invoke(given, config, context=context),
    ):
        assert state["warnings"] == [FUNCTIONS[function]]
    written = [
        each async for each in graph.astream(given, config, context=context, stream_mode="custom")
    ]
    assert written == ([{"written": "by the node"}] if function is reads_writer else [])


async def test_an_error_handler_may_be_a_wrapped_node() -> None:
    async def fail(state: Case) -> Case:
        raise OSError("no disk")

    async def recover(state: Case, error: NodeError) -> Case:
        return {"warnings": [f"{error.node}: {error.error}"]}

    builder = StateGraph(Case, context_schema=Context)
    builder.add_node("failing", node(fail), error_handler=node(recover))
    builder.add_edge(START, "failing")
    graph = builder.compile()
    given: Any = {"text": "Good morning."}
    assert (await graph.ainvoke(given, context=Context()))["warnings"] == ["failing: no disk"]
    assert graph.invoke(given, context=Context())["warnings"] == ["failing: no disk"]
