"""A graph of ours as a node of a parent graph, whose context is its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from tribunal.errors import BadInput
from tribunal.graphs import graph
from tribunal.settings.context import Context

POST = "Immigrants: the weeds in our garden."
OURS: dict[str, Any] = {"rounds": 1, "scheme": "binary"}


class Feed(TypedDict, total=False):
    """The state of a parent: it shares a text with the court, and an outcome."""

    text: str
    outcome: Any
    transcript: Any
    warnings: Any
    seen: str


@dataclass
class Tenant:
    """The context of a parent: settings of its own, and ours under `tribunal`."""

    model: str = "the parent's own"
    tribunal: Any = None


class Reader(TypedDict, total=False):
    """The same, as a table."""

    model: str
    tribunal: Any


class Desk(BaseModel):
    """The same, as a model."""

    model: str = "the parent's own"
    tribunal: Context | None = None


@dataclass
class Stranger:
    """A context that knows nothing of us."""

    rounds: str = "many"
    names: list[str] = field(default_factory=list)


def parent(schema: Any, court: Any = "arcade") -> StateGraph[Any, Any, Any, Any]:
    async def look(state: Feed, runtime: Runtime[Any]) -> Feed:
        return {"seen": type(runtime.context).__name__}

    builder = StateGraph(Feed, context_schema=schema)
    builder.add_node("look", look)
    builder.add_node("court", graph(court) if isinstance(court, str) else court)
    builder.add_edge(START, "look")
    builder.add_edge("look", "court")
    builder.add_edge("court", END)
    return builder


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Tenant, Tenant(tribunal=OURS)),
        (Tenant, Tenant(tribunal=Context(**OURS))),
        (Tenant, {"tribunal": OURS}),
        (Reader, {"tribunal": OURS, "model": "the parent's own"}),
        (Desk, Desk(tribunal=Context(**OURS))),
        (Desk, {"tribunal": OURS}),
        (None, {"tribunal": OURS}),
    ],
)
async def test_our_settings_are_what_the_parent_s_context_holds_as_tribunal(
    schema: Any, context: Any
) -> None:
    state = await parent(schema).compile().ainvoke({"text": POST}, context=context)
    assert state["outcome"]["category"] in ("NotHate", "Hateful")
    assert max(turn["round"] for turn in state["transcript"]) == 1
    assert not any("not heeded" in each for each in state["warnings"])


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (None, None),
        (Tenant, None),
        (Tenant, Tenant()),
        (Stranger, Stranger()),
        (Reader, {"model": "x"}),
        (None, {}),
    ],
)
async def test_without_it_a_court_has_its_defaults(schema: Any, context: Any) -> None:
    state = await parent(schema).compile().ainvoke({"text": POST}, context=context)
    alone = await graph("arcade").ainvoke({"text": POST})
    assert state["outcome"] == alone["outcome"]


async def test_a_court_that_a_node_calls_finds_them_too() -> None:
    async def call(state: Feed) -> Feed:
        done = await graph("arcade").ainvoke({"text": state["text"]})
        return {"outcome": done["outcome"], "transcript": done["transcript"]}

    state = (
        await parent(Tenant, call).compile().ainvoke({"text": POST}, context=Tenant(tribunal=OURS))
    )
    assert max(turn["round"] for turn in state["transcript"]) == 1


async def test_a_node_that_calls_a_court_with_settings_of_its_own_is_heard() -> None:
    async def call(state: Feed) -> Feed:
        done = await graph("arcade").ainvoke({"text": state["text"]}, context=Context(rounds=2))
        return {"outcome": done["outcome"], "transcript": done["transcript"]}

    state = (
        await parent(Tenant, call).compile().ainvoke({"text": POST}, context=Tenant(tribunal=OURS))
    )
    assert max(turn["round"] for turn in state["transcript"]) == 2


async def test_a_parent_with_a_checkpointer_steps_through_the_court() -> None:
    compiled = parent(Tenant).compile(checkpointer=InMemorySaver())
    run: Any = {"configurable": {"thread_id": "1"}}
    context = Tenant(tribunal={"stops": ["defend"], "rounds": 1})
    stopped = await compiled.ainvoke({"text": POST}, run, context=context)
    [stop] = stopped["__interrupt__"]
    assert (stop.value["stopped_before"], stop.value["inside"]) == ("defend", "court/deep_dive")
    done = await compiled.ainvoke(Command(resume={stop.id: "go on"}), run, context=context)
    assert done["outcome"]["outcome"] == "verdict"


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (
            "rounds=1",
            "tribunal: str: is no settings; give a Context, or a table of settings by name",
        ),
        ({"rounds": 99}, "rounds: 99: "),
        ({"rouns": 1}, "rouns: no such setting; did you mean rounds"),
    ],
)
async def test_what_is_no_settings_is_refused_in_one_line(held: Any, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        await parent(Tenant).compile().ainvoke({"text": POST}, context=Tenant(tribunal=held))
    assert str(refused.value).startswith(says)
