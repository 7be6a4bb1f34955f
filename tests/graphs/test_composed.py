"""The settings of a composed graph are those that its pieces heed; the pieces of the hybrid court are public."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

import tribunal
from tests import PROJECT
from tribunal.errors import BadInput
from tribunal.pieces import (
    Case,
    Context,
    PostInput,
    Ruling,
    checked,
    context_of,
    court_judge,
    deep_trial,
    open_case,
    panel,
    piece,
    receive,
    scan,
    seat,
    to_trial,
    triage,
)
from tribunal.schema import JSON
from tribunal.testing import ScriptedModel

EXAMPLES = PROJECT / "examples"


class Tone(BaseModel):
    """What a seat of one's own answers."""

    tone: str


def trial(*nodes: tuple[str, Any]) -> StateGraph[Any, Any, Any, Any]:
    """Return a deep dive with these nodes before it, one after the other."""
    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    before = START
    for name, node in [
        ("take_in", receive),
        *nodes,
        ("deep", deep_trial),
        ("decider", court_judge),
    ]:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.add_edge(before, END)


@piece(needs=["post"], writes=["warnings"], heeds=["hits"])
async def counts_hits(state: Case) -> Case:
    return {"warnings": [str(context_of(state).hits)]}


TONE = seat("tone", prompt="Say what the tone is.", form=Tone)


@pytest.mark.parametrize(
    ("nodes", "settings", "refused"),
    [
        ([], {"rounds": 1, "boxes": True}, ""),
        ([], {"seats": {"judge": "rehearsal"}}, ""),
        (
            [],
            {"web": True},
            "web: True: is a setting of the graph tribunal, and this graph has no use for it",
        ),
        (
            [],
            {"hits": 2},
            "hits: 2: is a setting of the graphs tribunal and antihate, and this graph",
        ),
        ([], {"review": True}, "review: True: is a setting of the graph tribunal"),
        ([], {"task": "sarcasm"}, "task: 'sarcasm': is a setting of the graphs"),
        ([], {"mode": "no-search"}, "mode: 'no-search': is a mode of the graphs"),
        (
            [],
            {"seats": {"gatekeeper": "rehearsal"}},
            "seats.gatekeeper: nobody of that name sits in this graph",
        ),
        (
            [],
            {"draw_temperature": 0.2},
            "draw_temperature: 0.2: this graph has no use for it here: the judge is drawn",
        ),
        ([("scan", scan)], {"seats": {"gatekeeper": "rehearsal"}}, ""),
        ([("hits", counts_hits)], {"hits": 2}, ""),
        ([("tone", TONE)], {"seats": {"tone": "rehearsal"}, "temperatures": {"tone": 0}}, ""),
        ([("panel", panel)], {"mode": "criterion-only"}, ""),
        (
            [("panel", panel)],
            {"mode": "criterion-only", "examples_k": 2},
            "the mode criterion-only shows no text",
        ),
        ([("panel", panel)], {"mode": "no-search"}, "mode: 'no-search': is a mode of the graphs"),
        (
            [("open", open_case)],
            {"review_rule": ["all"]},
            "review_rule: ['all']: is a setting of the graph tribunal",
        ),
        ([("triage", triage)], {"triage_confidence": 0.5}, "triage is off; set triage as well"),
    ],
)
@pytest.mark.parametrize(
    "given", [dict, lambda settings: Context(**settings)], ids=["table", "Context"]
)
async def test_a_composed_graph_takes_the_settings_that_its_pieces_heed(
    nodes: Any, settings: JSON, refused: str, given: Any
) -> None:
    graph: Any = checked(trial(*nodes)).compile()
    if not refused:
        state = await graph.ainvoke({"text": "These weeds."}, context=given(settings))
        assert state["outcome"]["outcome"] == "verdict"
        return
    with pytest.raises(BadInput) as caught:
        await graph.ainvoke({"text": "These weeds."}, context=given(settings))
    assert refused in str(caught.value)


def test_studio_offers_a_setting_at_the_nodes_of_a_composed_graph_that_read_it() -> None:
    graph: Any = checked(trial(("tone", TONE), ("hits", counts_hits))).compile()
    offered = graph.get_context_jsonschema()["properties"]
    assert not {"web", "mode", "task", "search"} & {*offered}
    nodes = {name: form.get("langgraph_nodes") for name, form in offered.items()}
    assert nodes["rounds"] == ["deep", "deep:defend"]
    assert (nodes["judge_rejects"], nodes["hits"], nodes["max_text"]) == (
        ["decider"],
        ["hits"],
        ["take_in"],
    )
    assert nodes["judge_model"] == ["decider"]
    assert {"tone", "deep", "deep:prosecute"} <= {*nodes["aux_model"]}
    assert {*offered["seats"]["properties"]} == {"prosecutor", "defender", "judge", "tone"}


def test_a_file_s_graph_is_checked_before_the_first_post() -> None:
    with pytest.raises(BadInput, match=r"web: True: .* and this graph has no use for it"):
        tribunal.as_tool(graph=f"{EXAMPLES / 'own_retriever.py'}:graph", web=True)


def test_a_piece_heeds_settings_that_there_are() -> None:
    with pytest.raises(
        BadInput, match="piece: heeds 'ronds', which is no setting that it can heed; did you"
    ):
        piece(writes=[], heeds=["ronds"])


def test_a_context_of_ones_own_is_no_subclass_of_ours() -> None:
    with pytest.raises(
        BadInput, match="Mine: Context can't be subclassed; write a dataclass of your own"
    ):
        type("Mine", (Context,), {})


async def test_a_composed_court_is_reviewed_and_sent_back() -> None:
    """The example: a gatekeeper, the fast or the deep trial, a judge, and a person."""
    builder: Any = runpy.run_path(str(EXAMPLES / "court_with_review.py"))["builder"]
    graph = builder.compile(checkpointer=InMemorySaver())
    run, settings = (
        {"configurable": {"thread_id": "1"}},
        Context(review=True, review_rule=["all"], rounds=1),
    )
    for post, track in (
        ("Immigrants: the weeds in our garden.", "deep_dive"),
        ("Immigrants are vermin and should be deported.", "fast"),
    ):
        state = await graph.ainvoke({"text": post}, run, context=settings)
        assert state["__interrupt__"], track
        assert state["track"].startswith(track)
        state = await graph.ainvoke(
            Command(resume=[{"type": "response", "args": "Who?"}]), run, context=settings
        )
        assert "reviewer's question" in state["__interrupt__"][0].value[0]["description"]
        state = await graph.ainvoke(
            Command(resume=[{"type": "accept", "args": None}]), run, context=settings
        )
        assert (state["review"]["action"], len(state["trials"])) == ("accept", 1)
    ended = await graph.ainvoke(
        {"text": "Good morning."}, {"configurable": {"thread_id": "2"}}, context=Context()
    )
    assert ended["outcome"]["category"] == "NotHate"


def test_the_example_of_a_composed_court_is_short() -> None:
    code = (EXAMPLES / "court_with_review.py").read_text("utf-8").split('"""')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


@pytest.mark.parametrize(("clear", "asked"), [(0.95, ["triage"]), (0.5, ["triage", "gatekeeper"])])
def test_a_clear_triage_spares_a_composed_trial(
    clear: float, asked: list[str], scripted_model: ScriptedModel
) -> None:
    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    for name, node in (("receive", receive), ("triage", triage), ("scan", scan)):
        builder.add_node(name, node)
    builder.add_edge(START, "receive")
    builder.add_edge("receive", "triage")
    builder.add_conditional_edges(
        "triage", to_trial, {"not clear": "scan", "for review": END, "clear": END}
    )
    builder.add_edge("scan", END)
    scripted_model.answer(
        "triage", {"category": "NotHate", "explanation": "A greeting.", "confidence": clear}
    )
    settings = Context(triage="openai:scripted", model="openai:scripted")
    state = checked(builder).compile().invoke({"text": "Good morning."}, context=settings)
    assert [call["seat"] for call in state["calls"]] == asked
