"""What the real `langgraph dev` server tells Studio of each graph: what to set, what to give it, what a case holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import PROJECT
from tests.test_docs import holds
from tribunal.graphs import GRAPHS, graph
from tribunal.settings.graph_settings import MODES, SETTINGS, name_graphs
from tribunal.settings.names import MODE_WORDS
from tribunal.settings.systems import seats_in

SERVED = json.loads((PROJECT / "langgraph.json").read_text())["graphs"]
# and not by somebody who made an assistant of their own in this folder
OURS = {"created_by": "system"}
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


async def schemas_of(client: Any, graph: str) -> dict[str, Any]:
    [assistant] = await client.assistants.search(graph_id=graph, metadata=OURS)
    return dict(await client.assistants.get_schemas(assistant["assistant_id"]))


def holes(schema: dict[str, Any]) -> Iterator[str]:
    """The channels of which nothing is said, or which accept anything."""
    for name, channel in schema["properties"].items():
        if not channel.get("description") or not channel.keys() - {
            "title",
            "description",
            "default",
            "examples",
        }:
            yield name


@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_offers_the_settings_that_it_heeds_and_no_others(
    client: Any, name: str
) -> None:
    offered = (await schemas_of(client, name))["context_schema"]["properties"]
    heeded = {
        each
        for each, words in SETTINGS.items()
        if name in (words.graphs or GRAPHS) and not words.words
    }
    assert offered.keys() == heeded
    for setting, form in offered.items():
        words = SETTINGS[setting]
        assert form["title"].removeprefix(f"{words.section}: ") == words.title
        assert form["description"].endswith(f" Default: {words.default}.")
        # it is one of them
        assert not words.graphs or name_graphs(words.graphs) not in form["description"]
    if name in MODES:
        assert offered["mode"]["enum"] == list(MODES[name])
        assert all(
            f"{mode}: {MODE_WORDS[mode]}" in offered["mode"]["description"] for mode in MODES[name]
        )
    assert "h-vli" in offered["policy"]["examples"]
    assert ("sarcasm" in offered["policy"]["examples"]) == ("task" in offered)
    for table in ("seats", "temperatures"):
        assert tuple(offered[table]["properties"]) == seats_in(name)
        assert offered[table]["additionalProperties"] is False


@pytest.mark.parametrize("name", [*GRAPHS, "web_then_debate", "court_with_review"])
async def test_studio_is_told_at_which_nodes_a_setting_is_heeded(client: Any, name: str) -> None:
    offered = (await schemas_of(client, name))["context_schema"]["properties"]
    [assistant] = await client.assistants.search(graph_id=name, metadata=OURS)
    drawn = [
        await client.assistants.get_graph(assistant["assistant_id"], xray=each)
        for each in (False, True)
    ]
    nodes = {node["id"] for picture in drawn for node in picture["nodes"]}
    for setting, form in offered.items():
        assert form["langgraph_nodes"], setting
        assert set(form["langgraph_nodes"]) <= nodes, setting
    assert offered["max_text"]["langgraph_nodes"] == ["receive"]
    if "tau" in offered:
        assert offered["tau"]["langgraph_nodes"] == ["debate_round", "debate_round:close"]


@pytest.mark.parametrize("name", SERVED)
async def test_every_channel_says_what_it_holds(client: Any, name: str) -> None:
    schemas = await schemas_of(client, name)
    for part in ("input_schema", "output_schema", "state_schema"):
        assert not list(holes(schemas[part])), part
    turn = schemas["state_schema"]["$defs"]["Turn"]["properties"]
    assert {"seat", "stage", "text", "cues", "arguments"} <= turn.keys()
    kinds = schemas["state_schema"]["properties"]["outcome"]["anyOf"][0]["discriminator"]["mapping"]
    assert kinds.keys() == {"verdict", "refusal", "failure"}


@pytest.mark.parametrize("name", SERVED)
async def test_an_assistant_says_what_it_does_and_shows_a_post_to_try(
    client: Any, name: str
) -> None:
    [assistant] = await client.assistants.search(graph_id=name, metadata=OURS)
    assert (
        assistant["name"]
        == graph(name if name in GRAPHS else str(PROJECT / SERVED[name]["path"])).name
        != name
    )
    assert assistant["description"] == SERVED[name]["description"]
    examples = (await schemas_of(client, name))["input_schema"]["examples"]
    assert examples
    for post in examples:
        context = (
            {"search": "none", "max_turns": 1} if name in ("antihate", "web_then_debate") else {}
        )
        done = await client.runs.wait(None, name, input=post, context=context)
        assert done["outcome"]["outcome"] == "verdict", done


async def test_the_docs_list_every_assistant(client: Any) -> None:
    made = {
        each["graph_id"]: each for each in await client.assistants.search(metadata=OURS, limit=100)
    }
    assert made.keys() == SERVED.keys()
    rows = [
        f"| `{name}` | {made[name]['name']} | `{made[name]['name'].replace(' ', '_')}` |"
        for name in SERVED
    ]
    head = "| graph | assistant | as a tool |\n|---|---|---|\n"
    holds(PROJECT / "docs" / "studio.md", "assistants", head + "\n".join(rows))


@pytest.mark.parametrize("name", SERVED)
async def test_a_misspelt_setting_is_reported(client: Any, name: str) -> None:
    """The server itself leaves out, without a word, what a graph's form doesn't have."""
    with pytest.raises(httpx.HTTPStatusError, match="polcy: no such setting; did you mean policy"):
        await client.runs.wait(None, name, input={"text": "hello"}, context={"polcy": "h-vli"})


async def test_a_setting_of_another_graph_is_refused_by_name(client: Any) -> None:
    with pytest.raises(
        httpx.HTTPStatusError, match=r"tau: 0\.2: is a setting of the graph mv_debate"
    ):
        await client.runs.wait(None, "arcade", input={"text": "hello"}, context={"tau": 0.2})
    [assistant] = await client.assistants.search(graph_id="arcade", metadata=OURS)
    thread = await client.threads.create()
    with pytest.raises(
        httpx.HTTPStatusError, match=r"tau: 0\.2: is a setting of the graph mv_debate"
    ):
        await client.runs.create(
            thread["thread_id"], assistant["assistant_id"], input={}, context={"tau": 0.2}
        )
    with pytest.raises(
        httpx.HTTPStatusError, match=r"tau: 0\.2: is a setting of the graph mv_debate"
    ):
        await client.assistants.create("arcade", context={"tau": 0.2})


async def test_every_answer_is_streamed_word_by_word_and_says_whose_words_they_are(
    client: Any,
) -> None:
    post = {"text": "Immigrants: the weeds in our garden."}
    thread = await client.threads.create()
    stream = client.runs.stream(
        thread["thread_id"],
        "arcade",
        input=post,
        stream_mode="messages-tuple",
        stream_subgraphs=True,
    )
    said: dict[str, list[str]] = {}
    speakers = {}
    async for part in stream:
        if part.event.startswith("messages"):
            chunk, beside = part.data
            assert chunk["type"] == "AIMessageChunk"
            assert beside["langgraph_node"]
            said.setdefault(chunk["id"], []).append(chunk["content"])
            speakers[chunk["id"]] = (beside["seat"], beside["role"])
    state = await client.threads.get_state(thread["thread_id"])
    calls = state["values"]["calls"]
    assert Counter(speakers.values()) == Counter((call["seat"], call["role"]) for call in calls)
    assert len(calls) > 3
    for chunks in said.values():
        assert len(chunks) > 2
        assert isinstance(json.loads("".join(chunks)), dict)
