"""A graph that nobody watches runs straight from its builder, and comes to the same as by LangGraph."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send
from typing_extensions import TypedDict

from tests.golden.playing import Player
from tests.provider_forms import sent_to
from tests.where_heeded import where_heeded
from tribunal.cases.following import follow
from tribunal.cases.session import as_given
from tribunal.context import Context, context_from
from tribunal.eval.doubles.scripted import Fault, Reply, Request, ScriptedServer
from tribunal.graphs import GRAPHS, graph
from tribunal.graphs.straight import straight
from tribunal.graphs.ways import by
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


@pytest.mark.parametrize("name", GRAPHS)
async def test_trials_that_wait_for_nobody_let_others_have_their_turn(name: str) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    context = context_from(where_heeded(name, {"search": "none", "web": False, "rounds": 1}, model="rehearsal"))
    post, beside = await as_given(POST), asyncio.create_task(other())
    for _ in range(5):
        await follow(graph(name), name, post, None, None, context=context)
    beside.cancel()
    assert turns >= 5


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
JOINS = st.tuples(st.sets(st.sampled_from(NODES), min_size=2, max_size=3), st.sampled_from([*NODES, END]))


class Made:
    """What a node of a made-up graph does, and what it saw when it began."""

    def __init__(self, draw: st.DrawFn, depth: int = 0) -> None:
        self.writes = {name: draw(WRITES) for name in NODES}
        self.raises = draw(st.sampled_from([*NODES, *[""] * 12]))
        self.edges = {name: draw(st.lists(st.sampled_from([*NODES, END]), max_size=2, unique=True)) for name in NODES}
        self.routes = {name: draw(st.lists(WAYS, max_size=1)) for name in NODES}
        self.first = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=2, unique=True))
        self.most_steps = draw(st.none() | st.integers(1, 5)) if depth else draw(st.integers(1, 5))
        self.joins = draw(st.lists(JOINS, max_size=2))
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
        for starts, end in self.joins:
            builder.add_edge(sorted(starts), end)
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
