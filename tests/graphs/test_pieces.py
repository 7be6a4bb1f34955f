"""Composing a pipeline of one's own: what fits runs, and what doesn't fails when it is built, by the channel's name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

from tests import PROJECT
from tests.court import court_script, decide
from tests.graphs.hybrid import PASSAGE, hybrid, part
from tribunal.cases.session import hear
from tribunal.errors import BadInput
from tribunal.eval.doubles.scripted import ScriptedServer
from tribunal.graphs import (
    Case,
    Context,
    PostInput,
    WrongComposition,
    checked,
    court_judge,
    deep_trial,
    panel,
    panel_debate,
    piece,
    receive,
    scan,
    web_evidence,
)
from tribunal.graphs.pieces import PIECES
from tribunal.nodes.state import Court

EXAMPLES = PROJECT / "examples"


def chain(*nodes: tuple[str, Any], state: Any = Case) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(state, context_schema=Context, input_schema=PostInput)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder


async def a_stranger(state: Case) -> Case:
    return {}


class Looser(Court, total=False):
    """A state in which what is found replaces what was found before."""

    run: str
    pages: list[dict[str, Any]]


@pytest.mark.parametrize(
    ("builder", "channel", "says"),
    [
        (lambda: chain(("judge", court_judge)), "post", "judge: needs the channel 'post'"),
        (lambda: chain(("receive", receive), ("judge", court_judge)), "transcript", "nothing before it writes"),
        (lambda: chain(("receive", receive), ("debate", panel_debate)), "opinions", "debate: needs the channel"),
        (lambda: chain(("receive", receive), ("deep", deep_trial)), None, None),
        (lambda: chain(("receive", receive), ("scan", scan)), "outcome", "no piece writes the channel 'outcome'"),
        (lambda: chain(("receive", receive), ("mine", a_stranger)), "mine", "is no piece"),
        (lambda: chain(("receive", receive), ("panel", panel), state=Court), "absent", "'absent' is not in the graph"),
        (
            lambda: chain(("receive", receive), ("web", web_evidence), state=Looser),
            "evidence",
            "merges the channel 'evidence' otherwise",
        ),
    ],
)  # fmt: skip
def test_a_wrong_composition_names_the_channel(builder: Any, channel: str | None, says: str | None) -> None:
    if channel is None:
        with pytest.raises(WrongComposition, match="outcome"):
            checked(builder())
        return
    with pytest.raises(WrongComposition, match=says) as raised:
        checked(builder())
    assert raised.value.channel == channel


@pytest.mark.parametrize("place", PIECES)
def test_every_contract_is_of_a_piece(place: str) -> None:
    module, _, name = place.partition(":")
    assert callable(getattr(import_module(module), name)) or hasattr(getattr(import_module(module), name), "ainvoke")


def test_a_channel_may_come_by_another_branch() -> None:
    builder = chain(("receive", receive), ("trial", deep_trial), ("judge", court_judge))
    assert checked(builder) is builder

    @piece(needs=["evidence"], writes=["warnings"])
    async def late(state: Case) -> Case:
        return {}

    with pytest.raises(WrongComposition, match="'evidence'"):
        checked(chain(("receive", receive), ("late", late), ("trial", deep_trial), ("judge", court_judge)))


@pytest.mark.parametrize("name", ["web_then_debate", "own_retriever"])
def test_an_example_is_under_thirty_lines(name: str) -> None:
    lines = (EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) < 30


async def test_web_then_debate_shows_the_debate_what_was_read() -> None:
    async with hybrid() as it:
        record = await decide(
            it.model,
            "the weeds in our garden",
            graph=str(EXAMPLES / "web_then_debate.py"),
            perspectives=["example-harm", "example-newsroom"],
            **it.settings,
        )
    assert record.outcome == "verdict"
    debate = ["open_non_hate", "open_hate", "answer_non_hate", "answer_hate", "judge"]
    assert it.parts[-5:] == debate
    for request in it.model.requests[-5:]:
        assert PASSAGE in request.text, part(request)
    assert "words-of-open_hate" in it.model.requests[-1].text
    assert [turn.stage for turn in record.transcript] == ["opening", "opening", "response", "response"]
    assert len(record.opinions) == 2


async def test_a_retriever_of_ones_own_feeds_the_deep_dive() -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(server, "the weeds", graph=f"{EXAMPLES / 'own_retriever.py'}:graph", rounds=1)
    assert all("[G1] supports · weeds" in request.text for request in server.requests)
    assert [each.id for each in record.evidence] == ["G1"]
    async with ScriptedServer(court_script()) as server:
        await decide(server, "a post", graph=f"{EXAMPLES / 'own_retriever.py'}:graph", rounds=1)
    assert not any("What is known" in request.text for request in server.requests)


@pytest.mark.parametrize(
    ("name", "says"),
    [("nobody", "there is none"), ("nobody.py", "there is no file"), ("mine.py:other", "no compiled graph")],
)
async def test_a_graph_that_is_none(name: str, says: str) -> None:
    Path("mine.py").write_text("graph = 1\n")
    with pytest.raises(BadInput, match=says):
        await hear("a post", graph=name, context=Context())
