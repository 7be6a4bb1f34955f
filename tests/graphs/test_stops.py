"""Stepping through: each agent stops before it is asked, shows every word that it is sent, and asks once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from PIL import Image

import tribunal
from tests.court import court_script, part
from tests.doubles import ScriptedServer
from tests.doubles.web import SearchServer, Site, SitePage
from tests.where_heeded import where_heeded
from tribunal.errors import BadInput
from tribunal.graphs import GRAPHS, builder
from tribunal.nodes.arcade.defender import defend_post
from tribunal.pieces import Case, PostInput, Ruling, court_judge, deep_trial, receive
from tribunal.schema import JSON
from tribunal.settings.context import Context
from tribunal.settings.names import agents_of

POST = "Immigrants: the weeds in our garden."
EXPLICIT = "Immigrants are vermin and should be deported."
HEARD = ["example-harm", "example-newsroom"]
RUN: Any = {"configurable": {"thread_id": "case"}}
# For each graph, posts and settings by which every agent of it is asked.
WAYS: dict[str, list[tuple[str, JSON]]] = {
    "tribunal": [
        (
            POST,
            {
                "rounds": 2,
                "early_exit": False,
                "web": True,
                "perspectives": HEARD,
                "triage": "rehearsal",
            },
        ),
        (EXPLICIT, {"judge_draws": 3}),
    ],
    "arcade": [(POST, {"rounds": 2}), (EXPLICIT, {})],
    "multiround": [(POST, {"rounds": 2})],
    "predict": [(POST, {"perspectives": HEARD}), (POST, {"mode": "base"})],
    "antihate": [(POST, {}), (POST, {"mode": "zero-shot"})],
    "mv_debate": [(POST, {"rounds": 2})],
    "baseline": [(POST, {}), (POST, {"mode": "zero-shot"})],
    "self_consistency": [(POST, {"draws": 3})],
    "symmetric_debate": [(POST, {"rounds": 2, "agents": 3})],
}

# Graphs that never ask two seats at the same time: each question is shown, then sent, in the same order.
ONE_AT_A_TIME = ("arcade", "multiround", "baseline", "self_consistency")


class Steps:
    """A case that is stepped through on a checkpointer: what its stops showed, and what its models were sent."""

    def __init__(self, made: StateGraph[Any, Any, Any, Any]) -> None:
        self.graph = made.compile(checkpointer=InMemorySaver())
        self.stops: list[JSON] = []
        self.sent: list[list[str]] = []
        self.state: JSON = {}

    async def go_on(self, given: Any, context: Context | None = None) -> list[Any]:
        """Run to the next stops, or to the end."""
        waits: dict[str, Any] = {}
        streamed: Any = self.graph.astream(
            given,
            RUN,
            context=context,
            stream_mode=["custom", "values"],
            subgraphs=True,
            durability="sync",
        )
        async for place, mode, event in streamed:
            if mode == "custom" and event["event"] == "call":
                self.sent.append([words for _, words in event.get("prompt", ())])
            elif mode == "values" and not place:
                waits |= {each.id: each for each in event.get("__interrupt__", ())}
                self.state |= event
        self.stops += [each.value for each in waits.values()]
        return list(waits.values())

    async def to_the_end(self, post: JSON, context: Context) -> JSON:
        """Go on from every stop as it is."""
        waits = await self.go_on(post, context)
        while waits:
            waits = await self.go_on(Command(resume={each.id: "go on" for each in waits}))
        return self.state

    @property
    def shown(self) -> list[list[str]]:
        """Every prompt that was shown, as often as it is sent."""
        questions = [stop["question"] for stop in self.stops if "prompt" in stop["question"]]
        return [[part["content"] for part in each["prompt"]] for each in questions]


def words_of(state: JSON) -> tuple[Any, ...]:
    outcome = state["outcome"]
    return outcome["category"], outcome["explanation"], [call["role"] for call in state["calls"]]


@pytest.fixture
def picture(tmp_path: Path) -> str:
    Image.new("RGB", (20, 10), "red").save(tmp_path / "post.png")
    return str(tmp_path / "post.png")


@pytest.mark.parametrize("name", GRAPHS)
async def test_every_agent_is_stopped_at_shows_what_it_is_sent_and_asks_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "<html><title>Weeds</title><body><p>Calling immigrants weeds in a garden is an insult.</p></body></html>"
    pages: dict[str, SitePage | str] = {"/1": page}
    reached: set[str] = set()
    async with (
        Site(pages) as site,
        SearchServer(
            lambda query: [{"url": f"{site.url}/1", "title": "immigrants, weeds"}]
        ) as search,
    ):
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        world = {"search": "searxng", "searxng_url": search.url, "max_turns": 2}
        for text, settings in WAYS[name]:
            own = {**where_heeded(name, world, **settings), "trace": True}
            plain = await Steps(builder(name)).to_the_end({"text": text}, Context(**own))
            steps = Steps(builder(name))
            state = await steps.to_the_end({"text": text}, Context(**own, stops=["all"]))
            assert words_of(state) == words_of(plain)
            assert (
                steps.shown == steps.sent
                if name in ONE_AT_A_TIME
                else sorted(steps.shown) == sorted(steps.sent)
            )
            reached |= {stop["stopped_before"] for stop in steps.stops}
            assert not any("came to its end without" in each for each in state["warnings"])
    assert reached == set(agents_of(name))


async def test_a_stop_says_who_is_asked_what_and_where(
    picture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedServer(court_script()) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        steps = Steps(builder("arcade"))
        settings = Context(stops=["defend"], rounds=2, model="openai:seeing")
        await steps.go_on({"text": POST, "image": picture}, settings)
        asked_so_far = [part(request) for request in server.requests]
    assert asked_so_far == ["gatekeeper", "investigation"]
    [stop] = steps.stops
    asked = stop["question"]
    assert (stop["stopped_before"], stop["inside"]) == ("defend", "deep_dive")
    assert (asked["seat"], asked["role"], asked["round"], asked["image"]) == (
        "defender",
        "defender",
        1,
        picture,
    )
    assert asked["model"] == "openai:seeing"
    system, user = asked["prompt"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert POST in user["content"]
    assert "# Your part: the Defender" in user["content"]


@pytest.mark.parametrize(
    ("stops", "before"),
    [
        (["judge"], ["judge"]),
        (["defender"], ["defend", "defend"]),
        (["prosecutor", "judge"], ["investigate", "prosecute", "judge"]),
        ([], []),
    ],
)
async def test_names_of_nodes_and_of_seats_choose_the_stops(
    stops: list[str], before: list[str]
) -> None:
    steps = Steps(builder("arcade"))
    await steps.to_the_end({"text": POST}, Context(stops=stops, rounds=2))
    assert [each["stopped_before"] for each in steps.stops] == before


async def test_the_agent_is_shown_what_was_edited_while_it_waited() -> None:
    steps = Steps(builder("arcade"))
    await steps.go_on({"text": POST}, Context(stops=["defend", "judge"], rounds=1))
    track: Any = (await steps.graph.aget_state(RUN, subgraphs=True)).tasks[0].state
    turn = track.values["transcript"][-1]
    edited = {**turn, "cues": [{**turn["cues"][0], "claim": "are compared with a garden"}]}
    await steps.graph.aupdate_state(track.config, {"transcript": [edited], "cues": edited["cues"]})
    [again] = await steps.go_on(None)
    assert "are compared with a garden" in steps.shown[-1][-1]
    [judge] = await steps.go_on(Command(resume={again.id: None}))
    assert judge.value["stopped_before"] == "judge"
    assert "are compared with a garden" in judge.value["question"]["prompt"][-1]["content"]
    await steps.go_on(Command(resume={judge.id: "decide"}))
    assert [call["role"] for call in steps.state["calls"]].count("prosecutor.investigation") == 1


async def test_of_several_that_wait_one_can_go_on_alone() -> None:
    steps = Steps(builder("symmetric_debate"))
    first, *others = await steps.go_on(
        {"text": POST}, Context(stops=["agent"], agents=3, rounds=1, trace=True)
    )
    waits = await steps.go_on(Command(resume={first.id: "go on"}))
    assert len(steps.sent) == 1
    assert {each.id for each in waits} >= {each.id for each in others}
    await steps.go_on(Command(resume={each.id: "go on" for each in others}))
    assert len(steps.sent) == 3
    assert steps.state["outcome"]["outcome"] == "verdict"


async def test_a_node_of_several_questions_stops_at_each() -> None:
    steps = Steps(builder("arcade"))
    await steps.to_the_end({"text": EXPLICIT}, Context(stops=["judge"], judge_draws=3, trace=True))
    judged = [prompt for prompt in steps.sent if "# Your part: the Judge" in prompt[-1]]
    assert len(judged) > 1
    assert steps.shown == judged


async def test_another_part_of_a_run_may_have_other_stops() -> None:
    steps = Steps(builder("arcade"))
    [wait] = await steps.go_on({"text": POST}, Context(stops=["all"], rounds=1))
    await steps.go_on(Command(resume={wait.id: "go on"}), Context(stops=[]))
    assert len(steps.stops) == 1
    assert steps.state["outcome"]["outcome"] == "verdict"
    assert not any("not heeded" in each for each in steps.state["warnings"])


async def test_a_stop_that_is_nobody_s_name_is_refused_before_any_call() -> None:
    steps = Steps(builder("arcade"))
    with pytest.raises(
        BadInput, match=r"stops: 'defnd': no agent of arcade .* indict, defend, investigate"
    ):
        await steps.go_on({"text": POST}, Context(stops=["defnd"]))
    with pytest.raises(BadInput, match="stops: 'rest'"):
        await steps.go_on({"text": POST}, Context(stops=["rest"]))


async def test_a_stop_that_a_case_never_came_to_is_said() -> None:
    steps = Steps(builder("arcade"))
    state = await steps.to_the_end(
        {"text": POST}, Context(stops=["indict", "defend", "judge"], rounds=1)
    )
    said = [each for each in state["warnings"] if each.startswith("stops: ")]
    assert said == ["stops: 'indict': this case came to its end without it"]
    assert "stopped before judge (judge): a person could change the case there" in state["warnings"]


async def test_without_a_checkpointer_stops_are_refused_in_one_line() -> None:
    wrong = r"^stops: \['judge'\]: nobody can go on from a stop here; step through in Studio"
    with pytest.raises(BadInput, match=wrong):
        await builder("arcade").compile().ainvoke({"text": POST}, context=Context(stops=["judge"]))
    for review in (False, True):
        with pytest.raises(BadInput, match=wrong):
            await tribunal.ajudge(POST, graph="tribunal", stops=["judge"], review=review)
    with pytest.raises(BadInput, match=wrong):
        await builder("arcade").compile().ainvoke({"text": POST}, context=Context(stops=["judge"]))


async def test_a_pipeline_of_one_s_own_stops_too() -> None:
    made = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
    for name, node in (
        ("receive", receive),
        ("trial", deep_trial),
        ("second_defence", defend_post),
        ("judge", court_judge),
    ):
        made.add_node(name, node)
    for start, end in (
        (START, "receive"), ("receive", "trial"), ("trial", "second_defence"), ("second_defence", "judge"),
        ("judge", END),
    ):  # fmt: skip
        made.add_edge(start, end)
    steps = Steps(made)
    await steps.to_the_end(
        {"text": POST}, Context(stops=["second_defence", "investigate", "nobody"], rounds=1)
    )
    assert [(each["stopped_before"], each.get("inside")) for each in steps.stops] == [
        ("investigate", "trial"),
        ("second_defence", None),
    ]
    assert "stops: 'nobody': this case came to its end without it" in steps.state["warnings"]
