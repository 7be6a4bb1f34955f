"""Going back to a step inside a subgraph: the edit counts, nothing before it is paid again, the case ends as usual."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from tests.doubles.web import SearchServer, Site, SitePage
from tests.where_heeded import where_heeded
from tribunal.graphs import builder
from tribunal.pieces import (
    Case,
    PostInput,
    Ruling,
    court_judge,
    deep_trial,
    panel,
    panel_debate,
    receive,
)
from tribunal.schema import JSON
from tribunal.settings.context import Context

IMPLICIT, EXPLICIT = (
    "Immigrants: the weeds in our garden.",
    "Immigrants are vermin and should be deported.",
)
EDIT = "whispered"  # a word that no prompt has, and that changes no answer of the rehearsal model
RUN: Any = {"configurable": {"thread_id": "one"}}
HEARD = ["example-harm", "example-newsroom"]


class Way(NamedTuple):
    """A subgraph of a graph, and the node before which the test goes back."""

    graph: str
    place: str
    node: str
    settings: JSON
    text: str = IMPLICIT
    as_node: str | None = None  # as whom the step is edited, where several nodes led to it
    until: int | None = (
        None  # so many calls of the subgraph are shown the edit, where it is called again later
    )
    again: int = 0  # the how manieth time that the node is the next, from the first on

    def __str__(self) -> str:
        return "-".join([self.graph, self.place, self.node, str(self.again)])


COURT: JSON = {"rounds": 2, "early_exit": False}
FULL: JSON = {**COURT, "web": True, "perspectives": HEARD, "triage": "rehearsal"}
WAYS = [
    Way("arcade", "deep_dive", "defend", COURT),
    Way("arcade", "deep_dive", "defend", COURT, again=1),
    Way("arcade", "deep_dive", "investigate", COURT),
    Way("arcade", "fast_track", "defend", {}, EXPLICIT),
    Way("multiround", "deep_dive", "prosecute", COURT),
    Way("tribunal", "deep_dive", "prosecute", FULL),
    Way("tribunal", "fast_track", "defend", {}, EXPLICIT),
    Way("tribunal", "web", "research", FULL),
    Way("tribunal", "web|research", "weigh", FULL),
    Way("tribunal", "perspectives", "perspective", FULL),
    Way("predict", "perspectives", "perspective", {"perspectives": HEARD}),
    Way("predict", "debate", "answer_non_hate", {"perspectives": HEARD}),
    Way("antihate", "research", "weigh", {}),
    Way("mv_debate", "debate_round", "select", {"rounds": 2}, as_node="reflect", until=3),
    Way("mv_debate", "debate_round", "view", {"rounds": 2}, again=1),
]


class Sent(NamedTuple):
    """A call to a model: the graphs around it, outermost first, the role that was asked, and all that it was sent."""

    place: str
    role: str
    words: str


class Thread:
    """Cases on one thread of a graph, and the calls that the last run made."""

    def __init__(self, made: StateGraph[Any, Any, Any, Any], *, sync: bool = False) -> None:
        self.graph = made.compile(checkpointer=InMemorySaver())
        self.sync = sync
        self.sent: list[Sent] = []
        self.waits: dict[str, Any] = {}

    async def run(
        self, given: Any, place: Any = None, context: Context | None = None, **more: Any
    ) -> JSON:
        how: Any = {
            "context": context,
            "stream_mode": ["custom", "values"],
            "subgraphs": True,
            **more,
        }
        if self.sync:
            parts = await asyncio.to_thread(
                lambda: list(self.graph.stream(given, place or RUN, **how))
            )
        else:
            parts = [each async for each in self.graph.astream(given, place or RUN, **how)]
        self.sent = [
            Sent(names_in(space), event["role"], "\n".join(words for _, words in event["prompt"]))
            for space, mode, event in parts
            if mode == "custom" and event["event"] == "call"
        ]
        values = [event for space, mode, event in parts if mode == "values" and not space]
        self.waits = {each.id: each for event in values for each in event.get("__interrupt__", ())}
        return {name: value for name, value in values[-1].items() if name != "__interrupt__"}

    async def go_on(self) -> JSON:
        """Go on from every stop."""
        return await self.run(Command(resume=dict.fromkeys(self.waits, "go on")))

    async def steps(self, place: str, node: str) -> list[Any]:
        """The steps inside a subgraph that a node comes next to, the first one first."""
        at: Any = {"configurable": {**RUN["configurable"], "checkpoint_ns": place}}
        return [
            each
            for each in [step async for step in self.graph.aget_state_history(at)][::-1]
            if node in each.next
        ]

    async def edit(self, step: Any, as_node: str | None = None) -> Any:
        post = step.values["post"]
        edited = {**post, "text": f"{post['text']} {EDIT}"}
        return await self.graph.aupdate_state(step.config, {"post": edited}, as_node)


def names_in(space: tuple[str, ...]) -> str:
    return "|".join(each.partition(":")[0] for each in space)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JSON]:
    page = "<html><title>Weeds</title><body><p>Calling immigrants weeds in a garden is an insult.</p></body></html>"
    pages: dict[str, SitePage | str] = {"/1": page}
    async with (
        Site(pages) as site,
        SearchServer(
            lambda query: [{"url": f"{site.url}/1", "title": "immigrants, weeds"}]
        ) as search,
    ):
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        yield {"search": "searxng", "searxng_url": search.url, "max_turns": 2}


def context_of(name: str, settings: JSON, world: JSON, **more: Any) -> Context:
    return Context(**where_heeded(name, world, **settings), trace=True, **more)


def roles(state: JSON) -> Counter[str]:
    return Counter(call["role"] for call in state["calls"])


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_fork_inside_a_subgraph_keeps_the_edit_and_pays_nothing_again(
    way: Way, sync: bool, world: JSON
) -> None:
    thread = Thread(builder(way.graph), sync=sync)
    first = await thread.run({"text": way.text}, context=context_of(way.graph, way.settings, world))
    step = (await thread.steps(way.place, way.node))[way.again]
    state = await thread.run(None, await thread.edit(step, way.as_node))
    assert state["outcome"]["outcome"] == "verdict"
    assert roles(state) == roles(first)
    before = {call["id"] for call in step.values["calls"]}
    assert [call for call in state["calls"] if call["id"] in before] == step.values["calls"]
    assert len(thread.sent) == len(first["calls"]) - len(before)
    inside = [sent for sent in thread.sent if f"{sent.place}|".startswith(f"{way.place}|")]
    until = way.until or len(inside)
    assert inside
    assert all(EDIT in sent.words for sent in inside[:until])
    assert not any(EDIT in sent.words for sent in inside[until:])


async def test_the_parent_takes_the_result_of_a_fork() -> None:
    thread = Thread(builder("arcade"))
    await thread.run({"text": IMPLICIT}, context=Context(**COURT, trace=True))
    step = (await thread.steps("deep_dive", "defend"))[0]
    [cue] = step.values["cues"]
    edited = [{**cue, "claim": "are called a nuisance"}]
    turn = {**step.values["transcript"][-1], "cues": edited}
    state = await thread.run(
        None, await thread.graph.aupdate_state(step.config, {"transcript": [turn], "cues": edited})
    )
    assert state["cues"] == edited
    assert turn in state["transcript"]
    assert thread.sent[-1].role == "judge"
    assert all("are called a nuisance" in sent.words for sent in thread.sent)


@pytest.mark.parametrize("ended", [False, True], ids=["stopped", "ended"])
@pytest.mark.parametrize(("place", "node"), [("deep_dive", "defend"), ("web|research", "enough")])
async def test_a_fork_that_stops_at_its_first_agent_goes_on_from_there(
    place: str, node: str, ended: bool, world: JSON
) -> None:
    thread = Thread(builder("tribunal"))
    context = context_of("tribunal", FULL, world, stops=["defend", "enough"])
    await thread.run({"text": IMPLICIT}, context=context)
    while thread.waits if ended else place == "deep_dive" and not await thread.steps(place, node):
        await thread.go_on()
    step = (await thread.steps(place, node))[0]
    await thread.run(None, await thread.edit(step))
    assert not any(sent.place.startswith(place) for sent in thread.sent)
    [wait] = [each for each in thread.waits.values() if each.value["stopped_before"] == node]
    assert EDIT in str(wait.value["question"])
    await thread.run(Command(resume={wait.id: "go on"}))
    inside = [sent for sent in thread.sent if sent.place.startswith(place)]
    assert inside
    assert all(EDIT in sent.words for sent in inside)


def without_chance(state: Any) -> Any:
    """A state without what differs from one run to the next."""
    chance = {"seconds", "id", "started", "run", "case", "created", "when", "crawl", "budget_from"}
    if isinstance(state, dict):
        return {name: without_chance(each) for name, each in state.items() if name not in chance}
    return [without_chance(each) for each in state] if isinstance(state, list) else state


WEEDS = "Refugees: the weeds in our street."
SECOND = "Our neighbours are a plague, they say."
CASES = [("arcade", COURT), ("multiround", COURT), ("tribunal", FULL), ("predict", {"perspectives": HEARD}),
         ("antihate", {}), ("mv_debate", {"rounds": 2})]  # fmt: skip
NESTED = {
    "arcade": ["fast_track", "deep_dive"], "multiround": ["deep_dive"], "predict": ["perspectives", "debate"],
    "tribunal": ["web", "perspectives", "fast_track", "deep_dive"], "antihate": ["research"],
    "mv_debate": ["debate_round"],
}  # fmt: skip


@pytest.mark.parametrize(
    "first", ["ended", "left at a stop", "ended, then stopped before each subgraph"]
)
@pytest.mark.parametrize(("name", "settings"), CASES, ids=[name for name, _ in CASES])
async def test_a_second_case_on_a_thread_has_nothing_of_the_first(
    name: str, settings: JSON, first: str, world: JSON
) -> None:
    context = context_of(name, settings, world)
    alone, thread = Thread(builder(name)), Thread(builder(name))
    expected = await alone.run({"text": SECOND}, context=context)
    stops = ["all"] if first == "left at a stop" else []
    await thread.run({"text": IMPLICIT}, context=context_of(name, settings, world, stops=stops))
    for _ in range(3 if stops else 0):
        await thread.go_on()
    assert bool(thread.waits) == bool(stops)
    before = NESTED[name] if "stopped before" in first else ()
    sent: list[Sent] = []
    state = await thread.run({"text": SECOND}, context=context, interrupt_before=before)
    sent += thread.sent
    while (await thread.graph.aget_state(RUN)).next:
        state = await thread.run(None, interrupt_before=before)
        sent += thread.sent
    assert without_chance(state) == without_chance(expected)
    assert sorted(sent) == sorted(alone.sent)


def own_graph(*steps: tuple[str, Any], loop: int = 0) -> StateGraph[Any, Any, Any, Any]:
    """A pipeline of one's own: these nodes one after the other, and the first of them again while `loop` says so."""
    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    nodes = [("receive", receive), *steps, ("judge", court_judge)]
    first = steps[0][0]
    for name, node in nodes:
        made.add_node(name, node)
    made.add_edge(START, "receive")
    for (name, _), (after, _) in pairwise(nodes):
        if name == steps[-1][0] and loop:
            made.add_conditional_edges(
                name,
                lambda state: (
                    first if heard(state) < loop and not state.get("outcome") else "judge"
                ),
            )
        else:
            made.add_edge(name, after)
    made.add_edge("judge", END)
    return made


def heard(state: JSON) -> int:
    return roles(state)["prosecutor.investigation"]


async def hear_twice(state: Case) -> JSON:
    """Call a subgraph twice in one node."""
    first = await deep_trial.ainvoke(state)
    second = await deep_trial.ainvoke({**state, **first})
    return {name: second[name] for name in ("transcript", "cues", "calls", "track")}


def send_twice(state: Case) -> list[Send]:
    return [
        Send("debate", {**state, "question": question})
        for question in ("first-question", "second-question")
    ]


def fanned_out() -> StateGraph[Any, Any, Any, Any]:
    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    for name, node in (
        ("receive", receive),
        ("panel", panel),
        ("debate", panel_debate),
        ("judge", court_judge),
    ):
        made.add_node(name, node)
    made.add_edge(START, "receive")
    made.add_edge("receive", "panel")
    made.add_conditional_edges("panel", send_twice, ["debate"])
    made.add_edge("debate", "judge")
    made.add_edge("judge", END)
    return made


OWN: dict[str, StateGraph[Any, Any, Any, Any]] = {
    "loop": own_graph(("trial", deep_trial), loop=2),
    "two nodes": own_graph(("trial", deep_trial), ("again", deep_trial)),
    "twice in a node": own_graph(("trial", hear_twice)),
    "inside a graph of one's own": own_graph(
        ("outer", own_graph(("trial", deep_trial)).compile()), ("again", deep_trial)
    ),
    "sent twice": fanned_out(),
}


@pytest.mark.parametrize(
    "kept", [True, False], ids=["stopped at every agent", "without a checkpointer"]
)
@pytest.mark.parametrize("name", OWN)
async def test_a_graph_of_one_s_own_calls_a_piece_several_times(name: str, kept: bool) -> None:
    settings = Context(rounds=1, trace=True, perspectives=HEARD if name == "sent twice" else [])
    plain = Thread(OWN[name])
    expected = await plain.run({"text": WEEDS}, context=settings)
    if not kept:
        alone = OWN[name].compile()
        for place in (None, RUN):
            state = await alone.ainvoke({"text": WEEDS}, place, context=settings)
            assert roles(state) == roles(expected)
        return
    thread = Thread(OWN[name])
    if (
        name != "sent twice"
    ):  # two at the same time can't both hand back that there is no outcome yet
        await thread.run({"text": IMPLICIT}, context=settings)
    state = await thread.run(
        {"text": WEEDS}, context=Context(**settings.model_dump(exclude_unset=True), stops=["all"])
    )
    sent = thread.sent
    while thread.waits:
        state = await thread.go_on()
        sent = sent + thread.sent
    told = [{name: each[name] for name in ("outcome", "transcript", "cues", "calls") if name in each}
            for each in (state, expected)]  # fmt: skip
    assert without_chance(told[0]) == without_chance(told[1])
    # A call that is made at a stop is a task of its own, one graph further in.
    assert sorted(each[1:] for each in sent) == sorted(each[1:] for each in plain.sent)


async def test_a_fork_in_a_loop_of_one_s_own_edits_one_call_alone() -> None:
    thread = Thread(OWN["loop"])
    await thread.run({"text": IMPLICIT}, context=Context(rounds=1, trace=True))
    state = await thread.run(None, await thread.edit((await thread.steps("trial", "defend"))[0]))
    shown = [(sent.role, EDIT in sent.words) for sent in thread.sent]
    assert shown == [
        ("defender", True),
        ("prosecutor.investigation", False),
        ("defender", False),
        ("judge", False),
    ]
    assert heard(state) == 2


async def test_a_subgraph_can_be_called_by_itself() -> None:
    taken_in = await own_graph(("trial", deep_trial)).compile().ainvoke({"text": IMPLICIT})
    case = {name: taken_in[name] for name in ("post", "policy", "prompts")}
    for place in (None, RUN):
        assert (await deep_trial.ainvoke(case, place, context=Context(rounds=1)))[
            "cues"
        ] == taken_in["cues"]
        assert deep_trial.invoke(case, place, context=Context(rounds=1))["cues"] == taken_in["cues"]
