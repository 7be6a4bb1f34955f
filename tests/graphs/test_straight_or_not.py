"""Which graphs run straight, and which runs of them; and what becomes of a node that fails, or is cut off."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import RetryPolicy
from typing_extensions import TypedDict

from tests import PROJECT
from tribunal.cases.following import follow
from tribunal.context import Context
from tribunal.errors import BadInput
from tribunal.graphs import graph
from tribunal.graphs.straight import straight
from tribunal.graphs.ways import by, ways
from tribunal.nodes.court.review import review
from tribunal.pieces import evidence_from
from tribunal.schema import JSON


class State(TypedDict, total=False):
    """Of a graph made up by a test."""

    post: str
    one: str
    seen: Annotated[list[str], operator.add]


async def ours(state: Any, runtime: Any) -> JSON:
    """A node that notes which run it is in: whether LangGraph's config stands around it."""
    return {"one": "LangGraph's" if var_child_runnable_config.get() is not None else "straight"}


ours.__module__ = "tribunal.nodes.made_up"


def made_of(node: Any, **spec: Any) -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("node", node, **spec)
    builder.add_edge(START, "node")
    return builder


async def ran(compiled: Any) -> str:
    """In which way a graph is run."""
    return str((await follow(compiled, "made_up.py:graph", {"post": "p"}, None, None, context=Context()))["one"])


@contextmanager
def debugging() -> Iterator[None]:
    set_debug(True)
    try:
        yield
    finally:
        set_debug(False)


async def test_a_run_that_somebody_traces_is_langgraphs() -> None:
    compiled = made_of(ours).compile()
    assert await ran(compiled) == "straight"
    with collect_runs() as collected:
        assert await ran(compiled) == "LangGraph's"
    assert [run.name for run in collected.traced_runs] == ["LangGraph"]
    with get_usage_metadata_callback():
        assert await ran(compiled) == "LangGraph's"
    with debugging():
        assert await ran(compiled) == "LangGraph's"
    assert await ran(compiled) == "straight"


async def test_a_run_within_another_of_langchains_is_langgraphs() -> None:
    async def around(_: Any) -> str:
        return await ran(made_of(ours).compile())

    names: list[str] = []

    class Heard(BaseCallbackHandler):
        def on_chain_start(self, *given: Any, **named: Any) -> None:
            names.append(named["name"])

    assert await RunnableLambda(around).ainvoke(0, {"callbacks": [Heard()]}) == "LangGraph's"
    assert "node" in names


async def theirs(state: Any, runtime: Any) -> JSON:
    """A node of one's own, which may ask LangGraph for whatever it likes."""
    return await ours(state, runtime)


async def of_the_state_alone(state: Any) -> JSON:
    return await ours(state, None)


of_the_state_alone.__module__ = "tribunal.nodes.made_up"


async def route(state: Any) -> str:
    return "__end__"


def with_a_plain_router() -> Any:
    builder: Any = made_of(ours)
    return builder.add_conditional_edges("node", route, ["node", END]).compile()


def with_a_router_at_the_start() -> Any:
    builder: Any = made_of(ours)
    return builder.add_conditional_edges(START, by(route), ways(__end__="always")).compile()


def as_a_part() -> Any:
    return made_of(made_of(theirs).compile()).compile()


def with_more_than_was_compiled(more: Callable[[Any], Any]) -> Any:
    builder: Any = made_of(ours).add_node("other", ours)
    compiled = builder.compile()
    more(builder)
    return compiled


class Watched(CompiledStateGraph):  # type: ignore[type-arg]
    """A graph of one's own kind, which may do more when it is run."""


def of_ones_own_kind() -> Any:
    compiled = made_of(ours).compile()
    compiled.__class__ = Watched
    return compiled


OF_LANGGRAPH: dict[str, Callable[[], Any]] = {
    "a node of one's own": lambda: made_of(theirs).compile(),
    "a node that asks a retriever of one's own": lambda: made_of(evidence_from(RunnableLambda(len))).compile(),
    "a node of another form": lambda: made_of(of_the_state_alone).compile(),
    "a part with such a node": as_a_part,
    "a retry policy": lambda: made_of(ours, retry_policy=RetryPolicy()).compile(),
    "a deferred node": lambda: made_of(ours, defer=True).compile(),
    "a plain router": with_a_plain_router,
    "a router at the start": with_a_router_at_the_start,
    "a checkpointer": lambda: made_of(ours).compile(checkpointer=InMemorySaver()),
    "a stop": lambda: made_of(ours).compile(interrupt_before=["node"]),
    "a handler of its own": lambda: made_of(ours).compile().with_config(callbacks=[BaseCallbackHandler()]),
    "a person in every case": lambda: made_of(review).compile(),
    "a wrapped graph": lambda: made_of(ours).compile().with_retry(),
    "a kind of one's own": of_ones_own_kind,
    "a node added since": lambda: with_more_than_was_compiled(lambda builder: builder.add_node("late", ours)),
    "an edge added since": lambda: with_more_than_was_compiled(lambda builder: builder.add_edge("node", "other")),
    "a first node added since": lambda: with_more_than_was_compiled(lambda builder: builder.add_edge(START, "other")),
    "a join added since": lambda: with_more_than_was_compiled(
        lambda builder: builder.add_edge(["node", "other"], "other")
    ),
    "a router added since": lambda: with_more_than_was_compiled(
        lambda builder: builder.add_conditional_edges("node", by(route), ways(__end__="always"))
    ),
}


@pytest.mark.parametrize("what", OF_LANGGRAPH)
def test_a_graph_with_something_only_langgraph_knows_is_langgraphs(what: str) -> None:
    assert straight(OF_LANGGRAPH[what]()) is None


def test_nothing_else_about_these_graphs_keeps_them_from_running_straight() -> None:
    assert straight(made_of(ours).compile()) is not None
    assert straight(made_of(made_of(ours).compile()).compile()) is not None
    assert straight(with_more_than_was_compiled(lambda builder: None)) is not None


def test_a_pipeline_of_our_pieces_alone_runs_straight() -> None:
    assert straight(graph(f"{PROJECT}/examples/web_then_debate.py:graph")) is not None


def slow_node() -> tuple[Any, asyncio.Event, list[str]]:
    """A node that takes an hour, what says that it has begun, and a list that is added to when it ends."""
    begun, ended = asyncio.Event(), list[str]()

    async def slow(state: Any, runtime: Any) -> JSON:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("slow")
        return {}

    slow.__module__ = "tribunal.nodes.made_up"
    return slow, begun, ended


async def test_a_node_that_fails_ends_those_beside_it_and_raises_what_it_raised() -> None:
    slow, begun, ended = slow_node()
    failure = BadInput("post: 'p': is none")

    async def fails(state: Any, runtime: Any) -> JSON:
        await begun.wait()
        raise failure from OSError("because")

    fails.__module__ = "tribunal.nodes.made_up"
    builder: Any = made_of(slow).add_node("fails", fails).add_edge(START, "fails")
    with pytest.raises(BadInput) as raised:
        await ran(builder.compile())
    assert raised.value is failure
    assert isinstance(failure.__cause__, OSError)
    assert not isinstance(failure.__context__, BaseExceptionGroup)
    assert ended == ["slow"]


async def test_what_a_node_does_to_its_own_state_stays_in_that_run() -> None:
    async def careless(state: Any, runtime: Any) -> JSON:
        state["seen"].append("mine")
        return {"one": str(state["seen"])}

    careless.__module__ = "tribunal.nodes.made_up"
    compiled = made_of(careless).compile()
    assert [await ran(compiled), await ran(compiled)] == ["['mine']", "['mine']"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_node_that_gives_up_is_a_failure_and_no_cancelled_run(beside: bool) -> None:
    async def gives_up(state: Any, runtime: Any) -> JSON:
        raise asyncio.CancelledError

    gives_up.__module__ = "tribunal.nodes.made_up"
    builder: Any = made_of(gives_up)
    if beside:
        builder.add_node("other", ours).add_edge(START, "other")
    with pytest.raises(RuntimeError, match="gave up"):
        await ran(builder.compile())


async def test_a_run_that_takes_too_long_says_so_whatever_its_nodes_do_then() -> None:
    begun = asyncio.Event()

    async def fails_late(state: Any, runtime: Any) -> JSON:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            raise ValueError("of tidying up")

    fails_late.__module__ = "tribunal.nodes.made_up"
    builder: Any = made_of(fails_late).add_node("other", ours).add_edge(START, "other")

    async def within(patience: asyncio.Timeout) -> None:
        async with patience:
            await ran(builder.compile())

    patience = asyncio.timeout(None)
    run = asyncio.create_task(within(patience))
    await begun.wait()
    patience.reschedule(0)
    with pytest.raises(TimeoutError):
        await run


async def test_a_run_that_is_cancelled_ends_every_node_of_it() -> None:
    slow, begun, ended = slow_node()
    builder: Any = made_of(slow).add_node("other", slow).add_edge(START, "other")
    run = asyncio.create_task(ran(builder.compile()))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["slow", "slow"]
