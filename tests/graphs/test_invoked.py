"""`graph.invoke` and `graph.stream`, where no event loop runs: they give what `ainvoke` gives."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from tests.untyped import builder, graph
from tribunal.graphs import GRAPHS

POST = {"text": "Immigrants: the weeds in our garden."}
REHEARSED = {"model": "rehearsal"}
OFFLINE = {"antihate": {"mode": "no-knowledge"}}


@pytest.mark.parametrize("name", GRAPHS)
def test_invoke_gives_what_ainvoke_gives(name: str) -> None:
    settings = {**REHEARSED, **OFFLINE.get(name, {})}
    waited = graph(name).invoke(POST, context=settings)
    awaited = asyncio.run(graph(name).ainvoke(POST, context=settings))
    assert waited["outcome"] == awaited["outcome"]
    assert [_without_chance(call) for call in waited["calls"]] == [
        _without_chance(call) for call in awaited["calls"]
    ]
    assert waited.keys() == awaited.keys()


def _without_chance(call: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name not in ("id", "seconds")}


def test_stream_gives_events_and_updates() -> None:
    modes = ["custom", "updates"]
    streamed = list(
        graph("arcade").stream(POST, context=REHEARSED, stream_mode=modes, subgraphs=True)
    )
    events = [event["event"] for _, mode, event in streamed if mode == "custom"]
    steps = [
        step
        for place, mode, update in streamed
        if mode == "updates" and not place
        for step in update
    ]
    assert steps == ["receive", "gatekeeper", "deep_dive", "judge"]
    assert events.count("asking") == events.count("call") == 8


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_synchronous_checkpointer_stops_and_goes_on(kind: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "cases.sqlite", check_same_thread=False)
    saver: BaseCheckpointSaver[Any] = (
        InMemorySaver() if kind == "memory" else SqliteSaver(connection)
    )
    court = builder("tribunal").compile(checkpointer=saver)
    run: Any = {"configurable": {"thread_id": "one"}}
    settings = {**REHEARSED, "review": True, "review_rule": ["all"]}
    waiting = court.invoke(POST, run, context=settings)
    [request] = waiting["__interrupt__"][0].value
    assert request["action_request"]["action"] == "decide"
    decided = court.invoke(
        Command(resume={"type": "accept", "reviewer": "kim"}), run, context=settings
    )
    assert decided["review"]["action"] == "accept"
    connection.close()


async def test_invoke_works_where_a_loop_runs() -> None:
    ruled = graph("baseline").invoke(POST, context=REHEARSED)
    assert ruled["outcome"]["outcome"] == "verdict"


def test_traces_have_the_names_of_nodes_and_routers() -> None:
    class Names(BaseCallbackHandler):
        def __init__(self) -> None:
            self.names: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
            self.names.append(more["name"])

    waited, awaited = Names(), Names()
    graph("multiround").invoke(POST, {"callbacks": [waited]}, context=REHEARSED)
    asyncio.run(graph("multiround").ainvoke(POST, {"callbacks": [awaited]}, context=REHEARSED))
    assert waited.names == awaited.names
    assert {
        "receive",
        "deep_dive",
        "investigate",
        "to_defence_or_dismissal",
        "defend",
        "to_judge",
        "judge",
    } <= {*waited.names}


@pytest.mark.long
def test_a_program_that_invoked_a_graph_ends() -> None:
    program = (
        "from tribunal.graphs import graph\n"
        f"print(graph('baseline').invoke({POST!r}, context={REHEARSED!r})['outcome']['outcome'])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("verdict\n", "")
