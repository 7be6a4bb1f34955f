"""What becomes of a run whose node fails, gives up, takes too long or is cancelled; and what a run leaves to others."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langgraph.errors import NodeCancelledError
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from tests.untyped import graph
from tests.where_heeded import where_heeded
from tribunal.docket.graph_run import run_graph
from tribunal.docket.records import graph_input
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS
from tribunal.schema import JSON
from tribunal.settings.context import Context, context_from

POST = "Immigrants: the weeds in our garden."


class State(TypedDict, total=False):
    """The state of a graph that a test makes up."""

    post: str
    one: str
    seen: Annotated[list[str], operator.add]


def builder_of(node: Any) -> Any:
    builder: Any = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder


async def ran(compiled: Any) -> JSON:
    return await run_graph(
        compiled, "made_up.py:graph", {"post": "p"}, None, None, context=Context()
    )


async def return_at_once(state: Any, runtime: Any) -> JSON:
    return {"one": "done"}


@pytest.mark.parametrize("name", GRAPHS)
async def test_trials_that_wait_for_nobody_let_others_have_their_turn(name: str) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    context = context_from(
        where_heeded(name, {"search": "none", "web": False, "rounds": 1}, model="rehearsal")
    )
    post, beside = await graph_input(POST), asyncio.create_task(count_turns())
    for _ in range(5):
        await run_graph(graph(name), name, post, None, None, context=context)
    beside.cancel()
    assert turns >= 5


def slow_node() -> tuple[Any, asyncio.Event, list[str]]:
    """Return a node that takes an hour, an event that tells that it has begun, and a list that grows when it ends."""
    begun, ended = asyncio.Event(), list[str]()

    async def slow(state: Any, runtime: Any) -> JSON:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("slow")
        return {}

    return slow, begun, ended


async def test_a_node_that_fails_ends_those_beside_it_and_raises_what_it_raised() -> None:
    slow, begun, ended = slow_node()
    failure = BadInput("post: 'p': is none")

    async def fails(state: Any, runtime: Any) -> JSON:
        await begun.wait()
        raise failure from OSError("because")

    builder = builder_of(slow).add_node("fails", fails).add_edge(START, "fails")
    with pytest.raises(BadInput) as raised:
        await ran(builder.compile())
    assert raised.value is failure
    assert isinstance(failure.__cause__, OSError)
    assert ended == ["slow"]


async def test_what_a_node_does_to_its_own_state_stays_in_that_run() -> None:
    async def careless(state: Any, runtime: Any) -> JSON:
        state["seen"].append("mine")
        return {"one": str(state["seen"])}

    compiled = builder_of(careless).compile()
    runs = [await ran(compiled), await ran(compiled)]
    assert [run["one"] for run in runs] == ["['mine']", "['mine']"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_node_that_gives_up_is_a_failure_and_no_cancelled_run(beside: bool) -> None:
    async def gives_up(state: Any, runtime: Any) -> JSON:
        raise asyncio.CancelledError

    builder = builder_of(gives_up)
    if beside:
        builder.add_node("other", return_at_once).add_edge(START, "other")
    with pytest.raises(NodeCancelledError, match="node"):
        await ran(builder.compile())


async def test_a_run_that_takes_too_long_says_so_whatever_its_nodes_do_then() -> None:
    begun = asyncio.Event()

    async def fails_late(state: Any, runtime: Any) -> JSON:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            raise ValueError("of tidying up")

    builder = builder_of(fails_late).add_node("other", return_at_once).add_edge(START, "other")

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
    builder = builder_of(slow).add_node("other", slow).add_edge(START, "other")
    run = asyncio.create_task(ran(builder.compile()))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["slow", "slow"]


@pytest.mark.parametrize("kind", ["TypedDict", "dataclass"])
async def test_a_graph_of_a_file_may_have_annotations_that_are_strings(
    kind: str, tmp_path: Path
) -> None:
    own = {
        "TypedDict": "class Own(TypedDict, total=False):\n    post: Post\n    outcome: Note\n",
        "dataclass": "@dataclass\nclass Own:\n    post: Post\n    outcome: Note | None = None\n",
    }[kind]
    file = tmp_path / "pipeline.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from typing import Any\n"
        "from typing_extensions import TypedDict\n"
        "from langgraph.graph import START, StateGraph\n"
        "Post = dict[str, Any]\n"
        "Note = dict[str, Any]\n"
        f"{own}"
        "builder = StateGraph(Own)\n"
        "builder.add_node('decide', lambda state: {'outcome': {'seen': True}})\n"
        "builder.add_edge(START, 'decide')\n"
        "graph = builder.compile()\n"
    )
    assert (await graph(f"{file}:graph").ainvoke({"post": {"text": "word-0."}}))["outcome"] == {
        "seen": True
    }
