"""A set of prompts of one's own: what the models saw is its words, in every graph; and a record says which set."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.court import court_script, decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.playing import Player
from tests.golden.test_requests import CASES, asked
from tests.marked import first_then_long
from tribunal.prompts.sets import PromptSet, load_prompts, read_prompt_set, shipped_prompts


def own_set(folder: Path) -> Path:
    """Every prompt of ours, with a line that only this set has."""
    for name, source in shipped_prompts().sources.items():
        file = folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{source}\n\nOwn words: {name}.\n", "utf-8")
    return folder


@pytest.mark.parametrize("name", first_then_long(CASES, shown=2))
async def test_every_seat_is_told_the_set_s_words(name: str, tmp_path: Path) -> None:
    sent = await asked(name, "", prompts=str(own_set(tmp_path / "mine")))
    for part, request in sent.items():
        system, user = (str(message["content"]) for message in request.body["messages"])
        assert re.search(r"Own words: system/\w+\.", system), part
        assert "Own words: marks." in system, part
        assert "Own words: post." in user, part
        assert re.search(
            r"Own words: (arcade|court|predict|antihate|mv_debate|peers)/\w+\.", user
        ), part


async def test_what_the_court_is_shown_beside_the_post_is_the_set_s_too(tmp_path: Path) -> None:
    sent = await asked("tribunal/deep", "", prompts=str(own_set(tmp_path / "mine")))
    assert "Own words: court/exhibits." in sent["the-judge"].text


async def test_a_set_may_be_partial_and_a_record_says_which_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine/arcade").mkdir(parents=True)
    (tmp_path / "mine/arcade/classifier.md").write_text(
        "# Your part: the safety classifier\n\nHateful or not? {{ categories }}", "utf-8"
    )
    async with ScriptedServer(court_script()) as server:
        ours = await decide(server, graph="baseline")
        theirs = await decide(server, graph="baseline", prompts=str(tmp_path / "mine"))
    assert "Hateful or not? NotHate, Racist" in server.requests[1].text
    assert server.requests[1].body["messages"][0] == server.requests[0].body["messages"][0]
    assert ours.prompts == {"name": "tribunal", "sha": shipped_prompts().sha}
    assert theirs.prompts == {"name": "mine", "sha": read_prompt_set(str(tmp_path / "mine")).sha}
    assert ours.prompts["sha"] != theirs.prompts["sha"]


@pytest.mark.parametrize("graph", ["baseline", "arcade", "predict"])
@pytest.mark.parametrize("family", ["SCRIPT", "another-model"])
async def test_a_case_by_a_model_that_a_set_was_not_tuned_for_says_so_once(
    graph: str, family: str, tmp_path: Path
) -> None:
    folder = own_set(tmp_path / "mine")
    (folder / "set.toml").write_text(f'[tuned]\nfor = "{family}"', "utf-8")
    player = Player()
    async with ScriptedServer(player) as server:
        record = await decide(server, graph=graph, prompts=str(folder), **GRAPHS.get(graph, {}))
    said = [each for each in record.warnings if "were tuned for" in each]
    other = [f"prompts: mine: were tuned for {family}; asked with them: openai:scripted"]
    assert said == (other if family == "another-model" else [])
    assert record.prompts["tuned_for"] == family
    assert all("tuned" not in request.text for request in server.requests)


GRAPHS: dict[str, dict[str, Any]] = {
    "arcade": {},
    "predict": {"perspectives": ["example-harm"]},
    "mv_debate": {"rounds": 2},
    "symmetric_debate": {"rounds": 2},
    "self_consistency": {"draws": 3},
}


@pytest.mark.parametrize("graph", GRAPHS)
async def test_a_case_ends_with_the_prompts_that_it_began_with(graph: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "mine")
    file = own_set(tmp_path / "mine") / "marks.md"
    file.write_text("The first words.", "utf-8")
    player, begun = Player(), asyncio.Event()
    other: list[PromptSet] = []

    async def script(request: Request) -> Reply | Fault:
        if (
            not begun.is_set()
        ):  # while the case is under way the folder changes, and another case begins
            begun.set()
            file.write_text("The later words.", "utf-8")
            other.append(await load_prompts(folder, afresh=True))
        return player(request)

    async with ScriptedServer(script) as server:
        record = await decide(server, graph=graph, prompts=folder, **GRAPHS[graph])
    systems = [request.body["messages"][0]["content"] for request in server.requests]
    assert len(systems) > 1
    assert all("The first words." in words for words in systems)
    assert record.prompts != other[0].dump()
