"""A record names what was shown: the policy whose words stood in a request, the image that went with one."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.court import decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.doubles.web import SearchServer, Site
from tests.golden.playing import Player
from tests.graphs.research_world import html
from tests.openai_server import OpenAIServer
from tribunal.graphs import GRAPHS, graph
from tribunal.schema import Record
from tribunal.settings.context import context_from
from tribunal.settings.graph_settings import MODES

# Every part of a policy, in words that nothing else says.
POLICY = """
name = "marked-name"
definition = "marked-definition"
exclusions = "marked-exclusions"
protected_groups = ["marked-group"]
[[fine]]
name = "marked-none"
meaning = "marked-meaning"
[[fine]]
name = "marked-kind"
meaning = "marked-meaning"
[[binary]]
name = "marked-no"
meaning = "marked-meaning"
[[binary]]
name = "marked-yes"
meaning = "marked-meaning"
"""
MODES_OF = [(graph, mode) for graph in GRAPHS for mode in MODES.get(graph, ("full",))]
WITHOUT = {("predict", mode) for mode in MODES["predict"]}


async def heard(tmp_path: Path, graph: str, mode: str, **more: Any) -> tuple[Record, list[Request]]:
    """In a loop of its own, since a loop remembers which sites may be fetched."""
    return await asyncio.to_thread(asyncio.run, _heard(tmp_path, graph, mode, **more))


async def _heard(
    tmp_path: Path, graph: str, mode: str, **more: Any
) -> tuple[Record, list[Request]]:
    (tmp_path / "marked.toml").write_text(POLICY)
    settings: dict[str, Any] = {
        "policy": str(tmp_path / "marked.toml"),
        **({"mode": mode} if mode != "full" else {}),
    }
    async with (
        Site({"/1": html("The old image is explained here.")}) as site,
        ScriptedServer(Player()) as server,
    ):

        def found(query: str) -> Any:
            return [{"url": f"{site.url}/1", "title": "On an image", "content": "a snippet"}]

        async with SearchServer(found) as search:
            os.environ["TRIBUNAL_FETCH_ALLOW"] = site.host
            looked_up = {"full": True, "no-search": True, "no-details": True}
            if graph == "tribunal" or (graph == "antihate" and mode in looked_up):
                settings |= {"archive": "evidence.sqlite", "max_turns": 1}
                if mode != "no-search":
                    settings |= {"search": "searxng", "searxng_url": search.url}
            if graph == "tribunal":
                settings |= {"web": True}
            if graph in ("predict", "tribunal") and mode != "base":
                settings["perspectives"] = (
                    ["example-harm"] if mode == "single" else ["example-harm", "example-newsroom"]
                )
            if mode == "leave-out":
                settings["leave_out"] = "example-newsroom"
            record = await decide(server, "They are weeds.", graph=graph, **{**settings, **more})
    return record, server.requests


@pytest.mark.parametrize(("graph", "mode"), MODES_OF, ids=map("/".join, MODES_OF))
async def test_a_policy_is_recorded_where_a_request_held_it_and_nowhere_else(
    graph: str, mode: str, tmp_path: Path
) -> None:
    record, requests = await heard(tmp_path, graph, mode)
    told = [request for request in requests if b"marked-" in json.dumps(request.body).encode()]
    assert bool(told) is ((graph, mode) not in WITHOUT)
    assert record.outcome == "verdict"
    assert record.shown == ("text",)
    said = record.model_dump_json()
    if told:
        assert record.policy["name"] == "marked-name"
        assert str(record.category).startswith("marked-")
        assert sum("policy" in (call.shown or ()) for call in record.calls) == len(told)
    else:
        assert record.policy == {}
        assert record.category in ("NotHate", "Hateful")
        assert record.hateful is (record.category == "Hateful")
        assert "marked-" not in said


async def test_prompts_of_ones_own_decide_what_was_shown_and_not_the_graph(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts" / "system"
    prompts.mkdir(parents=True)
    (prompts / "panel.md").write_text('Decide. {% include "marks" %}\n\n{{ definition }}')
    record, _ = await heard(tmp_path, "predict", "base", prompts=str(prompts.parent))
    assert (record.policy["name"], str(record.category)[:7]) == ("marked-name", "marked-")
    (prompts / "panel.md").unlink()
    (prompts / "research.md").write_text('Decide. {% include "marks" %}')
    record, _ = await heard(tmp_path, "antihate", "no-knowledge", prompts=str(prompts.parent))
    assert (record.policy, record.category in ("NotHate", "Hateful")) == ({}, True)


async def test_a_call_that_nobody_answered_showed_nothing() -> None:
    async with ScriptedServer(lambda request: Fault(drop=True)) as server:
        record = await decide(server, graph="baseline", attempts=1)
    assert (record.outcome, record.shown, record.policy) == ("failure", (), {})
    async with ScriptedServer(lambda request: Reply(refusal="I won't")) as server:
        record = await decide(server, graph="baseline", attempts=1)
    assert (record.outcome, record.shown, record.policy["name"]) == ("refusal", ("text",), "h-vli")


@pytest.mark.parametrize("graph", [name for name in GRAPHS if name != "antihate"])
async def test_an_image_is_shown_where_it_was_sent_and_taken(graph: str, tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), "green").save(tmp_path / "post.png")

    def blind(request: Request) -> Reply | Fault:
        return (
            Fault(status=400, message="image input is not supported")
            if request.images
            else player(request)
        )

    player = Player()
    picture = str(tmp_path / "post.png")
    async with ScriptedServer(Player()) as server:
        record = await decide(server, graph=graph, image=picture)
    assert record.shown == ("text", "image")
    assert all(call.shown is not None and "image" in call.shown for call in record.calls)
    async with ScriptedServer(blind) as server:
        record = await decide(server, graph=graph, image=picture, model="openai:blind")
    assert record.shown == ("text",)
    assert not any("image" in (call.shown or ()) for call in record.calls)


async def test_what_a_cache_answered_was_shown_too(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), "green").save(tmp_path / "post.png")
    settings: dict[str, Any] = {
        "image": str(tmp_path / "post.png"),
        "cache": str(tmp_path / "cache.sqlite"),
    }
    async with ScriptedServer(Player()) as server:
        first = await decide(server, graph="baseline", **settings)
        again = await decide(server, graph="baseline", **settings)
    assert [call.cached for call in again.calls] == [True]
    assert (
        (again.shown, again.policy)
        == (first.shown, first.policy)
        == (("text", "image"), first.policy)
    )
    assert first.policy["name"] == "h-vli"


async def test_a_graphs_own_output_names_no_policy_that_nobody_was_shown(tmp_path: Path) -> None:
    """What the development server gives back, and `graph.ainvoke`."""
    (tmp_path / "marked.toml").write_text(POLICY)
    settings = {"policy": str(tmp_path / "marked.toml"), "model": "openai:scripted"}
    async with OpenAIServer(Player()):
        asked = graph("predict").ainvoke(
            {"text": "They are weeds."}, context=context_from({**settings, "mode": "base"})
        )
        alone = await asked
        court = await graph("baseline").ainvoke(
            {"text": "They are weeds."}, context=context_from(settings)
        )
    assert (alone["policy"], alone["outcome"]["category"] in ("NotHate", "Hateful")) == ({}, True)
    assert (court["policy"]["name"], court["outcome"]["category"][:7]) == ("marked-name", "marked-")


@pytest.mark.parametrize(
    ("graph", "mode", "says"),
    [("predict", "base", "no policy was shown"), ("baseline", "full", "policy h-vli")],
)
async def test_a_verdict_on_the_terminal_says_what_was_shown(
    graph: str, mode: str, says: str, tmp_path: Path
) -> None:
    from tribunal.commands import app

    Image.new("RGB", (32, 32), "green").save(tmp_path / "post.png")
    command = [
        "judge",
        "They are weeds.",
        "--image",
        str(tmp_path / "post.png"),
        "--graph",
        graph,
        "--model",
    ]
    async with OpenAIServer(Player()):
        given = [
            *command,
            "openai:scripted",
            *(["--set", f"mode={mode}"] if mode != "full" else []),
        ]
        done = await asyncio.to_thread(CliRunner().invoke, app, given)
    words = " ".join(done.stdout.replace("│", " ").split())
    assert says in words, done.output
    assert "the models saw text and image" in words
