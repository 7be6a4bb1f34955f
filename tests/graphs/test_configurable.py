"""Settings in a config's `configurable`, where older graphs of LangGraph had theirs, are refused and not ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

import tribunal
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, builder, graph
from tribunal.nodes.intake import receive
from tribunal.nodes.outputs import Ruling
from tribunal.nodes.state import Case, PostInput
from tribunal.settings.context import Context

POST: Any = {"text": "Good morning, everybody."}


def refusal(run: Any) -> str:
    with pytest.raises(BadInput) as refused:
        run()
    return str(refused.value)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_refuses_a_setting_that_is_given_as_configurable(name: str) -> None:
    said = refusal(lambda: graph(name).invoke(POST, {"configurable": {"rounds": 2, "theirs": 1}}))
    assert said.startswith("rounds: 2: ")
    assert 'context={"rounds": 2}' in said
    assert refusal(
        lambda: graph(name).with_config(configurable={"policy": "x"}).invoke(POST)
    ).startswith("policy: 'x'")


@pytest.mark.parametrize(
    ("configurable", "context", "refused"),
    [
        ({"rounds": 2}, {"rounds": 3}, "rounds: 2"),
        ({"rounds": 2, "mode": "full"}, {"rounds": 2}, "mode: 'full'"),
        ({"rounds": 2}, None, "rounds: 2"),
        ({"model": "rehearsal"}, {"rounds": 1}, "model: 'rehearsal'"),
        ({"rounds": "many"}, {"rounds": 1}, "rounds: 'many'"),
        # LangGraph's server gives what a client sent in both places.
        (
            {"rounds": 2, "seats": {"judge": "rehearsal"}},
            {"rounds": 2, "seats": {"judge": "rehearsal"}},
            None,
        ),
        (
            {
                "thread_id": "1",
                "langgraph_auth_user": {"identity": "kim"},
                "assistant_id": "a",
                "theirs": 1,
            },
            None,
            None,
        ),
    ],
)
def test_what_is_given_elsewhere_too_or_is_no_setting_passes(
    configurable: dict[str, Any], context: Any, refused: str | None
) -> None:
    court = builder("arcade").compile(checkpointer=InMemorySaver())
    run: Any = {"configurable": {"thread_id": "1", **configurable}}
    if refused is None:
        assert court.invoke(POST, run, context=context)["outcome"]["outcome"] == "verdict"
    else:
        assert refusal(lambda: court.invoke(POST, run, context=context)).startswith(refused)


def test_entry_functions_refuse_it_too() -> None:
    config: RunnableConfig = {"configurable": {"rounds": 2}}
    assert refusal(lambda: tribunal.judge("Good morning.", config=config)).endswith("give rounds=2")
    assert refusal(lambda: tribunal.as_tool(config=config)).endswith("give rounds=2")


def test_a_pipeline_of_one_s_own_refuses_it_but_for_what_its_own_models_may_read() -> None:
    seen: list[Any] = []

    def note(state: Case, config: RunnableConfig) -> Case:
        seen.append(config["configurable"]["model"])
        return {}

    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    made.add_node("receive", receive)
    made.add_node("note", note)
    made.add_edge(START, "receive")
    made.add_edge("receive", "note")
    made.add_edge("note", END)
    mine = made.compile(name="mine")
    assert refusal(lambda: mine.invoke(POST, {"configurable": {"rounds": 2}})).startswith(
        "rounds: 2"
    )
    mine.invoke(POST, {"configurable": {"model": "theirs"}})
    assert seen == ["theirs"]


def test_a_model_object_may_be_chosen_by_it() -> None:
    answer = '{"category": "NotHate", "explanation": "It greets."}'
    model: Any = RunnableLambda(lambda messages: AIMessage(answer), name="theirs")
    run: Any = {"configurable": {"model": "small", "max_tokens": 200}}
    done = graph("baseline").invoke(POST, run, context=Context(model=model))
    assert done["outcome"]["outcome"] == "verdict", done
    run["configurable"]["rounds"] = 2
    assert refusal(
        lambda: graph("baseline").invoke(POST, run, context=Context(model=model))
    ).startswith("rounds: 2")


@dataclass
class Tenant:
    """The context of a parent, which knows nothing of us."""

    name: str = "acme"


class Feed(TypedDict, total=False):
    """The state of a parent."""

    text: str
    outcome: Any


@pytest.mark.parametrize("schema", [None, Tenant])
@pytest.mark.parametrize("as_node", [True, False])
def test_inside_a_parent_graph_it_is_the_parent_s_own(schema: Any, as_node: bool) -> None:
    def call(state: Feed) -> Any:
        return {"outcome": graph("arcade").invoke(POST)["outcome"]}

    made = StateGraph(Feed, context_schema=schema)
    made.add_node("court", graph("arcade") if as_node else call)
    made.add_edge(START, "court")
    made.add_edge("court", END)
    run: Any = {"configurable": {"model": "the parent's", "mode": "the parent's"}}
    assert made.compile().invoke(POST, run)["outcome"]["outcome"] == "verdict"


def test_the_config_of_a_node_is_its_graph_s() -> None:
    def call(state: Feed, config: RunnableConfig) -> Any:
        return {"outcome": tribunal.judge("Good morning.", graph="arcade", config=config).outcome}

    made = StateGraph(Feed)
    made.add_node("court", call)
    made.add_edge(START, "court")
    made.add_edge("court", END)
    assert (
        made.compile().invoke(POST, {"configurable": {"mode": "the parent's"}})["outcome"]
        == "verdict"
    )
