"""Stepping through on the real dev server: stop at every agent, look, edit, go on, go back and fork."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.pregel.remote import RemoteGraph

from tests.graphs.test_server_pausing import EXPLICIT, HEARD, IMPLICIT

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


class Stepping:
    """One case on a thread of its own."""

    def __init__(self, client: Any, graph: str) -> None:
        self.client, self.graph, self.thread = client, graph, ""

    async def begin(self, text: str, **context: Any) -> list[dict[str, Any]]:
        """Begin a case, and return the stops that it waits at."""
        self.thread = (await self.client.threads.create())["thread_id"]
        return await self.run(input={"text": text}, context=context)

    async def go_on(self, stops: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
        """Go on from these stops."""
        return await self.run(command={"resume": {each["id"]: "go on" for each in stops}}, **more)

    async def run(self, **given: Any) -> list[dict[str, Any]]:
        self.values = await self.client.runs.wait(self.thread, self.graph, **given)
        return list(self.values.get("__interrupt__", []))

    async def places(self) -> list[tuple[set[str], dict[str, Any]]]:
        """Return the states that hold the stops, each with the nodes that wait in it: of a track, the track's own."""
        return list(waiting(await self.client.threads.get_state(self.thread, subgraphs=True)))

    async def edit(self, state: dict[str, Any], values: dict[str, Any]) -> None:
        await self.client.threads.update_state(self.thread, values, checkpoint=state["checkpoint"])


def waiting(state: dict[str, Any]) -> Iterator[tuple[set[str], dict[str, Any]]]:
    here = set()
    for task in state["tasks"]:
        if task.get("state"):
            yield from waiting(task["state"])
        elif task["interrupts"]:
            here.add(task["name"])
    if here:
        yield here, state


def prompt_of(stop: dict[str, Any]) -> str:
    """Return every word that is shown at a stop."""
    return json.dumps(stop["value"]["question"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "track", "cue"),
    [(IMPLICIT, "deep_dive", "investigate"), (EXPLICIT, "fast_track", "indict")],
)
async def test_an_edit_inside_a_track_reaches_the_agents_after_it(
    client: Any, text: str, track: str, cue: str
) -> None:
    case = Stepping(client, "arcade")
    stops = await case.begin(text, stops=["all"], rounds=1)
    for before in ("gatekeeper", cue):
        [stop] = stops
        assert stop["value"]["stopped_before"] == before
        stops = await case.go_on(stops)
    [stop] = stops
    assert (stop["value"]["stopped_before"], stop["value"]["inside"]) == ("defend", track)
    [(_, inside)] = await case.places()
    turn = inside["values"]["transcript"][-1]
    edited = {**turn, "cues": [{**turn["cues"][0], "claim": "are called a nuisance"}]}
    await case.edit(inside, {"transcript": [edited], "cues": edited["cues"]})
    [shown] = await case.run(input=None)
    assert shown["value"]["stopped_before"] == "defend"
    assert "are called a nuisance" in prompt_of(shown)
    assert "are called a nuisance" not in prompt_of(stop)
    [judge] = await case.go_on([shown])
    assert judge["value"]["stopped_before"] == "judge"
    assert "are called a nuisance" in prompt_of(judge)
    assert not await case.go_on([judge])
    roles = [call["seat"] for call in case.values["calls"]]
    assert roles == ["gatekeeper", "prosecutor", "defender", "judge"]


async def test_one_goes_back_inside_a_track_and_takes_another_way(client: Any) -> None:
    case = Stepping(client, "arcade")
    stops = await case.begin(IMPLICIT, stops=["defend"], rounds=2)
    [(_, first)] = await case.places()
    [second] = await case.go_on(stops)
    assert second["value"]["question"]["round"] == 2
    namespace = first["checkpoint"]["checkpoint_ns"]
    history = await client.threads.get_history(case.thread, checkpoint={"checkpoint_ns": namespace})
    assert [each["next"] for each in history][:3] == [["defend"], ["prosecute"], ["defend"]]
    [turn] = [each for each in history[2]["values"]["transcript"] if each["seat"] == "prosecutor"]
    other = {**turn, "cues": [{**turn["cues"][0], "claim": "is another claim"}]}
    await case.edit(history[2], {"transcript": [other]})
    [again] = await case.run(input=None)
    assert again["value"]["question"]["round"] == 1
    assert "is another claim" in prompt_of(again)
    assert not await case.go_on([again], context={"stops": []})
    assert case.values["outcome"]["outcome"] == "verdict"
    assert [turn["id"] for turn in case.values["transcript"]].count("prosecutor/1") == 1


async def test_once_a_case_has_left_a_track_going_back_leads_to_the_track_s_head(
    client: Any,
) -> None:
    case = Stepping(client, "arcade")
    stops = await case.begin(IMPLICIT, stops=["judge"], rounds=1)
    history = await client.threads.get_history(case.thread)
    [before] = [each for each in history if each["next"] == ["deep_dive"]]
    await case.go_on(stops)
    await case.edit(before, {"warnings": ["another way"]})
    [stop] = await case.run(input=None, context={"stops": ["all"]})
    assert stop["value"]["stopped_before"] == "investigate"


COURT: dict[str, Any] = {"rounds": 2, "early_exit": False}
FULL: dict[str, Any] = {
    **COURT,
    "web": True,
    "search": "none",
    "max_turns": 2,
    "perspectives": HEARD,
}
FORKS = [  # graph, post, settings, the place in it, and the node before which the case goes back
    ("arcade", IMPLICIT, COURT, "deep_dive", "defend"),
    ("arcade", EXPLICIT, {}, "fast_track", "defend"),
    ("multiround", IMPLICIT, COURT, "deep_dive", "prosecute"),
    ("tribunal", IMPLICIT, FULL, "web|research", "search"),
    ("tribunal", IMPLICIT, FULL, "perspectives", "perspective"),
    ("tribunal", IMPLICIT, FULL, "deep_dive", "prosecute"),
    ("predict", IMPLICIT, {"perspectives": HEARD}, "debate", "answer_non_hate"),
    ("antihate", IMPLICIT, {"search": "none", "max_turns": 2}, "research", "search"),
    ("mv_debate", IMPLICIT, {"rounds": 1}, "debate_round", "view"),
]


@pytest.mark.parametrize("means", ["SDK", "RemoteGraph"])
@pytest.mark.parametrize(
    ("graph", "text", "settings", "place", "node"),
    FORKS,
    ids=[f"{each[0]}-{each[3]}" for each in FORKS],
)
async def test_a_fork_inside_a_subgraph_keeps_the_edit_once_the_case_has_ended(
    client: Any, graph: str, text: str, settings: dict[str, Any], place: str, node: str, means: str
) -> None:
    case = Stepping(client, graph)
    assert not await case.begin(text, **settings, trace=True)
    paid = [call["id"] for call in case.values["calls"]]
    edit = {"text": f"{text} whispered"}
    events: list[dict[str, Any]] = []
    if means == "SDK":
        history = await client.threads.get_history(
            case.thread, checkpoint={"checkpoint_ns": place}, limit=100
        )
        step = [each for each in history if node in each["next"]][-1]
        kept, before = step["values"]["post"], step["values"]["calls"]
        made = await client.threads.update_state(
            case.thread, {"post": {**kept, **edit}}, checkpoint=step["checkpoint"]
        )
        how: dict[str, Any] = {
            "checkpoint": made["checkpoint"],
            "stream_mode": "custom",
            "stream_subgraphs": True,
        }
        async for part in client.runs.stream(case.thread, graph, input=None, **how):
            events += (
                [{**part.data, "place": part.event}] if part.event.startswith("custom") else []
            )
    else:
        remote = RemoteGraph(graph, client=client)
        at: Any = {"configurable": {"thread_id": case.thread, "checkpoint_ns": place}}
        found: Any = [
            each async for each in remote.aget_state_history(at, limit=100) if node in each.next
        ][-1]
        kept, before = found.values["post"], found.values["calls"]
        edited: Any = await remote.aupdate_state(found.config, {"post": {**kept, **edit}})
        run: Any = {"configurable": {"thread_id": case.thread}}
        how = {"checkpoint": edited["configurable"], "stream_mode": "custom", "subgraphs": True}
        async for space, event in remote.astream(None, run, **how):
            events.append({**event, "place": "|".join(["custom", *space])})
    values = (await client.threads.get_state(case.thread))["values"]
    assert values["outcome"]["outcome"] == "verdict"
    made_before = {call["id"] for call in before}
    calls = [call["id"] for call in values["calls"]]
    assert made_before == set(calls) & set(paid), "nothing before the fork is paid again"
    assert len(calls) == len(paid)
    sent = [event for event in events if event["event"] == "call"]
    assert len(sent) == len(paid) - len(made_before)
    inside = [
        json.dumps(each["prompt"]) for each in sent if each["place"].startswith(f"custom|{place}")
    ]
    assert inside
    assert all("whispered" in prompt for prompt in inside)
