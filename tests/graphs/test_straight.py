"""A graph that nobody watches runs straight from its builder, and comes to the same as by LangGraph."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, RetryPolicy, Send
from typing_extensions import TypedDict

from tests.golden.playing import Player
from tests.provider_forms import sent_to
from tests.where_heeded import where_heeded
from tribunal.cases.following import follow
from tribunal.cases.session import as_given
from tribunal.context import Context, context_from
from tribunal.errors import BadInput
from tribunal.eval.doubles.scripted import Fault, Reply, Request, ScriptedServer
from tribunal.graphs import GRAPHS, graph
from tribunal.graphs.straight import straight
from tribunal.graphs.ways import by, ways
from tribunal.nodes.court.review import review
from tribunal.pieces import evidence_from
from tribunal.schema import JSON

POST = "Immigrants: the weeds in our garden."
BY_LANGGRAPH: JSON = {"configurable": {}}  # whoever gives a config has LangGraph run it


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_of_ours_runs_straight(name: str) -> None:
    assert straight(graph(name)) is not None


def faulty(fault_at: int) -> Callable[[Request], Reply | Fault]:
    """A model that fills any form, but for one request; -1: for none."""
    player, asked = Player(explicit=fault_at % 2 == 0), iter(range(10_000))

    def said(request: Request) -> Reply | Fault:
        reply = player(request)
        return Fault(500) if next(asked) == fault_at else reply

    return said


@pytest.mark.parametrize("world", [{}, {"max_calls": 3}, {"fault": 0}, {"fault": 2}, {"fault": 4}], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
async def test_every_model_is_asked_the_same_and_the_case_ends_the_same(name: str, world: JSON) -> None:
    came = []
    for run in (None, BY_LANGGRAPH):
        async with ScriptedServer(faulty(world.get("fault", -1))) as server:
            told: list[JSON] = []
            state = await follow(
                graph(name), name, await as_given(POST), run, told.append, context=context_for(name, server, world)
            )
        bodies = [request.body for request in server.requests]
        came.append((lasting(state), sorted(map(str, bodies)), sorted(map(kind, told))))
    assert came[0] == came[1]
    assert came[0][1]


def context_for(name: str, server: ScriptedServer, world: JSON) -> Context:
    wanted = {name: value for name, value in world.items() if name != "fault"}
    about = {"search": "none", "max_turns": 1, "web": False, "perspectives": ["example-harm"], "rounds": 2, **wanted}
    return context_from(where_heeded(name, about, model=sent_to(server, "openai"), attempts=1, timeout=10))


def lasting(state: JSON) -> JSON:
    """The last state of a case without what differs from run to run. What began it, and the order, is the same."""
    calls = [{**call, "id": "", "seconds": 0, "began": 0, "when": ""} for call in state["calls"]]
    held = {name: value for name, value in state.items() if name not in ("messages", "run", "started")}
    return {**held, "calls": calls, "asked": [message.content for message in state.get("messages") or []]}


def kind(event: JSON) -> str:
    """What an event tells of, and of whom."""
    return f"{event['event']} {event.get('seat')} {event.get('agent')} {event.get('round')}"


class State(TypedDict, total=False):
    """Of a graph made up by a test: two channels of one value, two that gather, and what a graph is given."""

    post: str
    one: str
    other: str
    seen: Annotated[list[str], operator.add]
    kept: Annotated[dict[str, str], operator.or_]


class Part(TypedDict, total=False):
    """What a graph takes that is a node of another one, and what it gives: less than its state."""

    one: str
    seen: Annotated[list[str], operator.add]


NODES = ("a", "b", "c", "d")
WRITES = st.fixed_dictionaries(
    {}, optional={"one": st.just(""), "other": st.just(""), "kept": st.sampled_from(["", "over"]), "no": st.just("")}
)
WAYS = st.lists(
    st.lists(st.sampled_from([*NODES, END, *(f">{name}" for name in NODES)]), max_size=2), min_size=1, max_size=3
)


class Made:
    """What a node of a made-up graph does, and what it saw when it began."""

    def __init__(self, draw: st.DrawFn, depth: int = 0) -> None:
        self.writes = {name: draw(WRITES) for name in NODES}
        self.raises = draw(st.sampled_from([*NODES, *[""] * 12]))
        self.edges = {name: draw(st.lists(st.sampled_from([*NODES, END]), max_size=2, unique=True)) for name in NODES}
        self.routes = {name: draw(st.lists(WAYS, max_size=1)) for name in NODES}
        self.first = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=2, unique=True))
        self.most_steps = draw(st.none() | st.integers(1, 5)) if depth else draw(st.integers(1, 5))
        self.inner = Made(draw, depth + 1) if not depth and draw(st.booleans()) else None
        self.reads = {name: draw(st.sampled_from([State, Part])) for name in NODES}
        self.begun: list[tuple[str, str]] = []
        self.routed: list[tuple[str, str]] = []

    def compiled(self, depth: int = 0) -> Any:
        """The graph."""
        self.begun, self.routed = [], []
        own = {"input_schema": Part, "output_schema": Part} if depth else {}
        builder: Any = StateGraph(State, **own)
        for name in NODES:
            if name == "d" and self.inner:
                builder.add_node(name, self.inner.compiled(1))
            else:
                builder.add_node(name, self._node(name), input_schema=self.reads[name])
            for end in self.edges[name]:
                builder.add_edge(name, end)
            for at, several in enumerate(self.routes[name]):
                builder.add_conditional_edges(
                    name, by(self._route(f"{name}{at}", several)), {e: e for e in (*NODES, END)}
                )
        for name in self.first:
            builder.add_edge(START, name)
        compiled = builder.compile()
        return compiled if self.most_steps is None else compiled.with_config(recursion_limit=self.most_steps)

    def _node(self, name: str) -> Any:
        async def node(state: Any, runtime: Any) -> Any:
            self.begun.append((name, str(state)))
            await asyncio.sleep(0)
            if name == self.raises:
                raise ValueError(name)
            wrote = {key: f"{name} {len(state.get('seen', []))}" for key in self.writes[name]}
            if "kept" in wrote:
                held = {name: wrote["kept"]}
                wrote["kept"] = Overwrite(held) if self.writes[name]["kept"] else held  # type: ignore[assignment]
            return {"seen": [name], **wrote} if name != "c" or wrote else None

        node.__module__ = "tribunal.nodes.made_up"
        return node

    def _route(self, name: str, several: list[list[str]]) -> Any:
        async def route(state: Any) -> Any:
            self.routed.append((name, str(sorted(state.items(), key=str))))
            chosen = several[len(state.get("seen", [])) % len(several)]
            return [Send(way[1:], {"one": name, "seen": []}) if way[0] == ">" else way for way in chosen]

        route.__name__ = name
        return route


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_graph_comes_to_the_same(data: st.DataObject) -> None:
    made = Made(data.draw)  # type: ignore[arg-type]

    async def came_to(run: JSON | None) -> Any:
        compiled = made.compiled()
        assert straight(compiled) is not None
        try:
            state = await follow(compiled, "made_up.py:graph", {"post": "p", "no": 1}, run, None, context=Context())
        except (ValueError, InvalidUpdateError, GraphRecursionError) as error:
            return type(error)
        return state, made.begun, sorted(made.routed)

    assert asyncio.run(came_to(None)) == asyncio.run(came_to(BY_LANGGRAPH))


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


def with_a_join() -> Any:
    builder: Any = made_of(ours)
    return builder.add_node("other", ours).add_edge(START, "other").add_edge(["node", "other"], END).compile()


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
    "a join": with_a_join,
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
    "a router added since": lambda: with_more_than_was_compiled(
        lambda builder: builder.add_conditional_edges("node", by(route), ways(__end__="always"))
    ),
}


@pytest.mark.parametrize("what", OF_LANGGRAPH)
def test_a_graph_with_something_only_langgraph_knows_is_langgraphs(what: str) -> None:
    assert straight(OF_LANGGRAPH[what]()) is None


async def test_a_node_that_fails_ends_those_beside_it_and_raises_what_it_raised() -> None:
    begun, ended = asyncio.Event(), []
    failure = BadInput("post: 'p': is none")

    async def slow(state: Any, runtime: Any) -> JSON:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("slow")
        return {}

    async def fails(state: Any, runtime: Any) -> JSON:
        await begun.wait()
        raise failure from OSError("because")

    slow.__module__ = fails.__module__ = "tribunal.nodes.made_up"
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
    ended: list[str] = []
    begun = asyncio.Event()

    async def slow(state: Any, runtime: Any) -> JSON:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("slow")
        return {}

    slow.__module__ = "tribunal.nodes.made_up"
    builder: Any = made_of(slow).add_node("other", slow).add_edge(START, "other")
    run = asyncio.create_task(ran(builder.compile()))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["slow", "slow"]
