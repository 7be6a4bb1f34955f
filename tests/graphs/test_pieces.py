"""Composing a pipeline of one's own: what fits runs, and what doesn't fails when it is built, by the channel's name."""

from __future__ import annotations

import runpy
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from tests import PROJECT
from tests.court import court_script, decide
from tests.doubles import ScriptedServer
from tests.graphs.hybrid import PASSAGE, hybrid, part
from tribunal.docket.session import judge_post
from tribunal.errors import BadInput
from tribunal.graphs.contracts import LOG, PIECES
from tribunal.nodes.state import CaseState
from tribunal.pieces import (
    Case,
    Context,
    Evidence,
    PostInput,
    WrongComposition,
    checked,
    court_judge,
    deep_trial,
    evidence_from,
    panel,
    panel_debate,
    piece,
    receive,
    scan,
    web_evidence,
)
from tribunal.schema import JSON

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


class Looser(CaseState, total=False):
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
        (
            lambda: chain(("receive", receive), ("panel", panel), state=CaseState),
            "absent",
            "'absent' is not in the graph",
        ),
        (
            lambda: chain(("receive", receive), ("web", web_evidence), state=Looser),
            "evidence",
            "merges the channel 'evidence' otherwise",
        ),
    ],
)  # fmt: skip
def test_a_wrong_composition_names_the_channel(
    builder: Any, channel: str | None, says: str | None
) -> None:
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
    assert callable(getattr(import_module(module), name)) or hasattr(
        getattr(import_module(module), name), "ainvoke"
    )


@pytest.mark.parametrize("place", [each for each in PIECES if each.startswith("graphs.")])
def test_a_graph_of_ours_gives_what_it_declares_and_no_more(place: str) -> None:
    given = set(import_module(f"tribunal.{place.partition(':')[0]}").graph.output_channels)
    contract = PIECES[place]
    assert given - set(LOG) == {*contract.writes, *contract.besides} - set(LOG)
    assert not set(contract.writes) & set(contract.besides)


def test_a_channel_may_come_by_another_branch() -> None:
    builder = chain(("receive", receive), ("trial", deep_trial), ("judge", court_judge))
    assert checked(builder) is builder

    @piece(needs=["evidence"], writes=["warnings"])
    async def late(state: Case) -> Case:
        return {}

    with pytest.raises(WrongComposition, match="'evidence'"):
        checked(
            chain(
                ("receive", receive), ("late", late), ("trial", deep_trial), ("judge", court_judge)
            )
        )


@piece(writes=[])
async def to_trial(state: Case) -> Command[Literal["deep_dive"]]:
    return Command(goto="deep_dive")


@piece(writes=[])
async def somewhere(state: Case) -> Any:
    return Command(goto="deep_dive")


@pytest.mark.parametrize(
    ("router", "how"), [(to_trial, {}), (somewhere, {"destinations": ("deep_dive",)})]
)
async def test_a_node_that_says_itself_where_it_goes_stands_before_it(
    router: Any, how: Any
) -> None:
    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput)
    builder.add_node("receive", receive)
    builder.add_node("router", router, **how)
    builder.add_node("deep_dive", deep_trial)
    builder.add_node("judge", court_judge)
    for start, end in (
        (START, "receive"),
        ("receive", "router"),
        ("deep_dive", "judge"),
        ("judge", END),
    ):
        builder.add_edge(start, end)
    state = (
        await checked(builder)
        .compile()
        .ainvoke({"text": "These weeds."}, context=Context(rounds=1))
    )
    assert state["outcome"]["outcome"] == "verdict"


def test_a_node_that_goes_somewhere_unsaid_stands_before_nothing() -> None:
    builder = StateGraph(Case, context_schema=Context, input_schema=PostInput)
    for name, node in (
        ("receive", receive),
        ("router", somewhere),
        ("deep_dive", deep_trial),
        ("judge", court_judge),
    ):
        builder.add_node(name, node)
    for start, end in (
        (START, "receive"),
        ("receive", "router"),
        ("deep_dive", "judge"),
        ("judge", END),
    ):
        builder.add_edge(start, end)
    with pytest.raises(
        WrongComposition,
        match="deep_dive: needs the channel 'post', which nothing before it writes",
    ):
        checked(builder)


def test_an_editor_completes_every_channel() -> None:
    stub = runpy.run_path(str(PROJECT / "tribunal" / "typed_names.pyi"))
    assert set(get_args(stub["Channel"])) == set(StateGraph(Case).channels)


@tool
def found(query: str) -> str:
    """What a search finds."""
    return query


def test_two_pieces_can_t_give_evidence_of_the_same_ids() -> None:
    trial = ("trial", deep_trial), ("judge", court_judge)
    with pytest.raises(
        WrongComposition, match="second: the ids of its evidence begin with R, like those of first"
    ):
        checked(
            chain(
                ("receive", receive),
                ("first", evidence_from(found)),
                ("second", evidence_from(found)),
                *trial,
            )
        )
    both = (
        ("first", evidence_from(found)),
        ("second", evidence_from(found, letter="S")),
        ("web", web_evidence),
    )
    checked(chain(("receive", receive), *both, *trial))


@piece(needs=["post"], writes=["evidence"])
async def undeclared(state: Case) -> JSON:
    return {"evidence": [], "evidences": []}


@piece(needs=["post"], writes=["evidence"])
def undeclared_too(state: Case) -> Any:
    return Command(update={"opinions": []})


@piece(needs=["post"], writes=["evidence"])
def no_channels(state: Case) -> Any:
    return "a passage"


class Librarian:
    """A piece that is an object."""

    async def __call__(self, state: Case) -> JSON:
        return {"questions": "who?"}


@pytest.mark.parametrize(
    ("mine", "channel", "says"),
    [
        (
            undeclared,
            "evidences",
            "undeclared: returned the channel 'evidences', which it doesn't declare; did you mean",
        ),
        (
            undeclared_too,
            "opinions",
            "undeclared_too: returned the channel 'opinions', .*; add it to writes",
        ),
        (no_channels, "no_channels", "no_channels: returned str; return a dict of channels"),
        (
            piece(needs=["post"], writes=["question"])(Librarian()),
            "questions",
            "Librarian: returned the channel",
        ),
        (
            piece(needs=["post"], writes=["question"])(
                RunnableLambda(lambda state: {"run": "r"}, name="mine")
            ),
            "run",
            "mine: returned the channel 'run'",
        ),
    ],
)
async def test_what_a_piece_doesn_t_declare_it_can_t_write(
    mine: Any, channel: str, says: str
) -> None:
    """LangGraph itself drops a channel that the state doesn't have, without a word."""
    graph = checked(
        chain(("receive", receive), ("mine", mine), ("trial", deep_trial), ("judge", court_judge))
    ).compile()
    with pytest.raises(WrongComposition, match=says) as raised:
        await graph.ainvoke({"text": "a post"})
    assert raised.value.channel == channel


class Asked(TypedDict):
    """What a graph of one's own gives back."""

    question: str
    warnings: list[str]


async def test_a_compiled_graph_gives_back_what_it_declares_and_no_more() -> None:
    def wonder(state: Case) -> JSON:
        return {"question": "Who is meant?", "warnings": ["wondered"], "run": "its own"}

    def compiled(**schemas: Any) -> Any:
        inner = StateGraph(Case, context_schema=Context, **schemas).add_node("wonder", wonder)
        return inner.add_edge(START, "wonder").add_edge("wonder", END).compile(name="wondering")

    with pytest.raises(
        WrongComposition,
        match=r"wondering: its output schema has the channel .*; compile it with an",
    ):
        piece(needs=["post"], writes=["question"])(compiled())
    mine = piece(needs=["post"], writes=["question"])(compiled(output_schema=Asked))
    graph = checked(
        chain(("receive", receive), ("mine", mine), ("trial", deep_trial), ("judge", court_judge))
    ).compile()
    last: JSON = {}
    async for values in graph.astream({"text": "a post"}, stream_mode="values"):
        last = dict(values)
    assert (last["question"], last["warnings"].count("wondered"), last.get("run")) == (
        "Who is meant?",
        1,
        None,
    )


async def test_a_piece_may_write_its_log_and_return_nothing() -> None:
    @piece(needs=["post"], writes=["evidence"])
    async def quiet(state: Case, runtime: Any) -> JSON | None:
        return {"warnings": ["quiet"]} if runtime.context is None else None

    graph = checked(
        chain(("receive", receive), ("mine", quiet), ("trial", deep_trial), ("judge", court_judge))
    ).compile()
    assert "quiet" in (await graph.ainvoke({"text": "a post"}))["warnings"]
    assert "quiet" not in (await graph.ainvoke({"text": "a post"}, context=Context()))["warnings"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("G1", "words", "for", "t"), "stance: 'for': is none; give supports, refutes, neutral"),
        (
            ("1", "words", "neutral", "t"),
            "id: '1': can't be cited; give a capital letter and a number, such as G1",
        ),
        (("G1", " ", "neutral", "t"), "passage: of G1: is empty"),
    ],
)
def test_wrong_evidence_is_one_line(given: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says) as raised:
        Evidence.of(*given)
    assert "\n" not in str(raised.value)


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
    assert [turn.stage for turn in record.transcript] == [
        "opening",
        "opening",
        "response",
        "response",
    ]
    assert len(record.opinions) == 2


async def test_a_retriever_of_ones_own_feeds_the_deep_dive() -> None:
    async with ScriptedServer(court_script()) as server:
        record = await decide(
            server, "the weeds", graph=f"{EXAMPLES / 'own_retriever.py'}:graph", rounds=1
        )
    assert all(
        "[G1] supports that the post is hateful\n  title: weeds" in request.text
        for request in server.requests
    )
    assert [each.id for each in record.evidence] == ["G1"]
    async with ScriptedServer(court_script()) as server:
        await decide(server, "a post", graph=f"{EXAMPLES / 'own_retriever.py'}:graph", rounds=1)
    assert not any("What is known" in request.text for request in server.requests)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nobody", "there is none"),
        ("nobody.py", "there is no file"),
        ("mine.py:other", "no compiled graph"),
    ],
)
async def test_a_graph_that_is_none(name: str, says: str) -> None:
    Path("mine.py").write_text("graph = 1\n")
    with pytest.raises(BadInput, match=says):
        await judge_post("a post", graph=name, context=Context())
