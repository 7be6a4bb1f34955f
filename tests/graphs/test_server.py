"""The real `langgraph dev` server: what Studio sees, and stepping through a case as a person does there."""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

import pytest

from tests import PROJECT
from tribunal.graphs import GRAPHS
from tribunal.settings import SETTINGS

IMPLICIT = "Immigrants: the weeds in our garden."

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def test_every_graph_is_served_with_its_schemas(client: Any) -> None:
    assistants = await client.assistants.search(limit=100)
    assert {assistant["graph_id"] for assistant in assistants} == set(
        json.loads((PROJECT / "langgraph.json").read_text())["graphs"]
    )
    for assistant in assistants:
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        assert all(schemas[name] for name in ("input_schema", "output_schema", "state_schema", "context_schema"))
        assert {"text", "image"} <= schemas["input_schema"]["properties"].keys()
        settings = schemas["context_schema"]["properties"]
        assert all(setting["description"] for setting in settings.values())
        if assistant["graph_id"] in (SETTINGS["rounds"].graphs or GRAPHS):
            assert (settings["rounds"]["minimum"], settings["rounds"]["maximum"], settings["rounds"]["default"]) == (
                1,
                10,
                3,
            )


async def test_a_post_to_its_verdict_with_each_turn_streamed(client: Any) -> None:
    thread = await client.threads.create()
    stream = client.runs.stream(
        thread["thread_id"],
        "arcade",
        input={"text": IMPLICIT},
        context={"rounds": 2},
        stream_mode="custom",
        stream_subgraphs=True,
    )
    events = [part.data async for part in stream if part.event.startswith("custom")]
    turns = [event["id"] for event in events if event["event"] == "turn"]
    assert turns == ["gatekeeper/0", "prosecutor/1", "defender/1", "prosecutor/2", "defender/2"]
    state = await client.threads.get_state(thread["thread_id"])
    assert state["values"]["outcome"]["outcome"] == "verdict"
    assert state["values"]["track"] == "deep_dive"
    assert any("rehearsal" in warning for warning in state["values"]["warnings"])
    # A second post on the same thread begins a record of its own.
    again = await client.runs.wait(thread["thread_id"], "arcade", input={"text": "Good morning, everybody."})
    assert again["track"] == "dismissed"
    assert [turn["id"] for turn in again["transcript"]] == ["gatekeeper/0", "prosecutor/1"]
    assert len(again["calls"]) == 2


@pytest.mark.parametrize("name", [*(name for name in GRAPHS if name != "arcade"), "web_then_debate", "own_retriever"])
async def test_every_other_graph_reaches_a_verdict_offline(client: Any, name: str) -> None:
    thread = await client.threads.create()
    context = {"search": "none", "max_turns": 1} if name in ("antihate", "web_then_debate") else {}
    done = await client.runs.wait(thread["thread_id"], name, input={"text": IMPLICIT}, context=context)
    assert done["outcome"]["outcome"] == "verdict", done


async def test_a_case_is_stopped_and_edited_as_the_docs_show_it(client: Any) -> None:
    page = (PROJECT / "docs" / "studio.md").read_text("utf-8")
    shown = page.partition("```python\n")[2].partition("```")[0]
    made: dict[str, Any] = {}
    exec(f"async def followed(client, thread):\n{indent(shown, '    ')}", made)
    thread = (await client.threads.create())["thread_id"]
    await made["followed"](client, thread)
    values = (await client.threads.get_state(thread))["values"]
    assert values["outcome"]["outcome"] == "verdict"
    assert "read by kim" in values["warnings"]


@pytest.mark.parametrize("inside", ["defend", "deep_dive:defend"])
async def test_a_stop_inside_a_track_is_passed_over_as_the_docs_say(client: Any, inside: str) -> None:
    thread = (await client.threads.create())["thread_id"]
    done = await client.runs.wait(thread, "arcade", input={"text": IMPLICIT}, interrupt_before=[inside])
    assert (done["outcome"]["outcome"], (await client.threads.get_state(thread))["next"]) == ("verdict", [])
