"""The real `langgraph dev` server: what Studio sees, and stepping through a case as a person does there."""

from __future__ import annotations

import base64
import io
import json
from textwrap import indent
from typing import Any

import pytest
from PIL import Image

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


async def test_the_drawing_opens_the_subgraphs(client: Any) -> None:
    assistant = (await client.assistants.search(graph_id="arcade"))[0]
    drawing = await client.assistants.get_graph(assistant["assistant_id"], xray=True)
    nodes = {node["id"] for node in drawing["nodes"]}
    assert {"receive", "gatekeeper", "judge", "fast_track:indict", "deep_dive:investigate", "deep_dive:defend"} <= nodes
    subgraphs = await client.assistants.get_subgraphs(assistant["assistant_id"], recurse=True)
    assert set(subgraphs) == {"fast_track", "deep_dive"}


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ({"rounds": 99}, "less than or equal to 10"),
        ({"seats": {"bailiff": "rehearsal"}}, "no seat 'bailiff'"),
        ({"mode": "majority"}, "is a mode of the graph predict, and arcade has no use for it"),
        ({"perspectives": ["kodoli"]}, "is a setting of the graphs tribunal and predict, and arcade has no use for it"),
        ({"model": "ollama:gemma3:1b", "judge_model": "ollama:"}, "judge_model: 'ollama:'"),
    ],
)
async def test_a_bad_context_is_a_clear_error(client: Any, context: dict[str, Any], says: str) -> None:
    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], "arcade", input={"text": "hello"}, context=context)
    await client.runs.join(thread["thread_id"], run["run_id"])
    state = await client.threads.get(thread["thread_id"])
    assert state["status"] == "error"
    assert says in str(state)


async def test_stepping_through_as_in_studio(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "arcade", input={"text": IMPLICIT}, interrupt_before=["judge"])
    paused = await client.threads.get_state(thread)
    assert paused["next"] == ["judge"]  # one node, which both tracks lead to
    transcript = paused["values"]["transcript"]
    last = transcript[-1]
    assert last["seat"] == "defender"
    conceding = {**last, "arguments": [{**said, "stance": "concede"} for said in last["arguments"]]}
    plants = {"stance": "refute", "argument": "The post shows a garden and names plants."}
    refuting = {**last, "arguments": [{**said, **plants} for said in last["arguments"]]}

    await client.threads.update_state(thread, {"transcript": [*transcript[:-1], conceding]})
    edited = await client.threads.get_state(thread)
    assert edited["values"]["transcript"] == [*transcript[:-1], conceding]
    convicted = await client.runs.wait(thread, "arcade", input=None)
    assert convicted["outcome"]["hateful"] is True

    # Back to the checkpoint before the judge, and another defence.
    checkpoint = edited["checkpoint"]
    await client.threads.update_state(thread, {"transcript": [refuting]}, checkpoint=checkpoint)
    acquitted = await client.runs.wait(thread, "arcade", input=None)
    assert acquitted["outcome"]["hateful"] is False
    again = await client.runs.wait(thread, "arcade", input=None, checkpoint=checkpoint)
    assert again["outcome"] == convicted["outcome"]


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


async def test_a_fast_track_case_pauses_before_the_same_judge(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    text = "Immigrants are vermin and should be deported."
    await client.runs.wait(thread, "arcade", input={"text": text}, interrupt_before=["judge"])
    paused = await client.threads.get_state(thread)
    assert (paused["next"], paused["values"]["track"]) == (["judge"], "fast_track")
    done = await client.runs.wait(thread, "arcade", input=None)
    assert done["outcome"]["outcome"] == "verdict"


async def test_the_hybrid_court_stops_for_a_person_and_goes_on(client: Any) -> None:
    """As in Studio, or the Agent Inbox: perspectives on, an interrupt, an answer, the verdict."""
    thread = (await client.threads.create())["thread_id"]
    pixels = io.BytesIO()
    Image.effect_noise((32, 32), 90).save(pixels, "PNG")
    uri = "data:image/png;base64," + base64.b64encode(pixels.getvalue()).decode()
    heard = ["example-harm", "example-newsroom"]
    context = {"perspectives": heard, "review": True, "review_rule": ["hateful"]}
    stopped = await client.runs.wait(thread, "tribunal", input={"text": IMPLICIT, "image": uri}, context=context)
    [interrupt] = stopped["__interrupt__"]
    [request] = interrupt["value"]
    assert request["action_request"] == {"action": "decide", "args": {"category": "OtherHate", "note": ""}}
    assert request["config"] == {
        "allow_accept": True, "allow_edit": True, "allow_respond": True, "allow_ignore": False,
    }  # fmt: skip
    assert IMPLICIT in request["description"]
    paused = await client.threads.get_state(thread)
    assert paused["next"] == ["review"]
    assert {opinion["id"] for opinion in paused["values"]["opinions"]} == set(heard)
    answer = [{"type": "edit", "args": {"action": "decide", "args": {"category": "NotHate", "note": "gardening"}}}]
    done = await client.runs.wait(thread, "tribunal", command={"resume": answer}, context=context)
    assert (done["outcome"]["category"], done["outcome"]["explanation"]) == ("NotHate", "gardening")
    assert (done["review"]["action"], done["review"]["court"]["category"]) == ("edit", "OtherHate")
    # The image that was posted stands in what the run was given, and in no state after it.
    history = await client.threads.get_history(thread, limit=50)
    later = [each["values"] for each in history if "post" in each["values"]]
    assert len(later) > 5
    assert not any("base64" in str(values) for values in later)
