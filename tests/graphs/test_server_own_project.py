"""The real dev server over a project of somebody's own: without our `http.app`, with and without our entry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.dev_server import dev_server
from tests.graphs.test_server_clients import refusal, together
from tests.security.dangerous import assert_refused, dangerous
from tribunal.docket.case_search import CaseFilter, find_cases
from tribunal.settings.context import settings_of
from tribunal.settings.graph_settings import SETTINGS
from tribunal.store.engine import Store

POST = {"text": "Immigrants: the weeds in our garden."}
PLACES = {
    "served": "./court.py:served",
    "composed": "./court.py:composed",
    "ours": "tribunal.service.server_graphs:tribunal",
    "forgotten": "./court.py:forgotten",  # named as it is
}
COURT = """
import tribunal
from langgraph.graph import END, START, StateGraph
from tribunal.graphs.tribunal import graph as forgotten
from tribunal.pieces import Case, Context, PostInput, Ruling, court_judge, deep_trial, receive

served = tribunal.as_served(forgotten)
builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)
composed = tribunal.as_served(builder.compile(name="composed"))
"""
pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def own_url(folder: Path) -> Iterator[str]:
    project = folder / "project"
    project.mkdir()
    (project / "court.py").write_text(COURT)
    (project / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": PLACES}))
    with dev_server(project, folder, keep="yes") as address:
        yield address


@pytest.fixture
async def own_client(own_url: str) -> Any:
    async with get_client(url=own_url) as made:
        yield made


# Without our `http.app` LangGraph's server leaves out what its form doesn't show, so these never reach the graph.
SERVED_FIELDS = SETTINGS.keys() - {"prompt_texts", "policy_definition"}


async def test_its_clients_may_not_set_everything(own_client: Any, folder: Path) -> None:
    fields = settings_of("tribunal").model_fields
    settings = [
        (setting, value)
        for setting, value in dangerous(folder)
        if next(iter(setting)) in SERVED_FIELDS & fields.keys()
    ]
    asked = [(name, setting, value) for name in PLACES for setting, value in settings]
    answers = await together(refusal(own_client, name, setting) for name, setting, _ in asked)
    for (_, setting, value), said in zip(asked, answers, strict=True):
        assert_refused(said, setting, value)
    images = await together(refusal(own_client, name, {}, str(folder / "log")) for name in PLACES)
    assert all("may not name a file on it" in said for said in images)
    assert not (folder / "out.sqlite").exists()


async def test_the_cases_of_served_graphs_are_kept_once(own_client: Any, folder: Path) -> None:
    for name in PLACES:
        done = await own_client.runs.wait(
            None, name, input={**POST, "post_id": name}, context={"rounds": 1}
        )
        assert done["outcome"]["outcome"] == "verdict", done
    store = await Store.open(f"sqlite:///{folder / 'data' / 'service.sqlite'}")
    try:
        kept = {name: len(await find_cases(store, CaseFilter(post_id=name))) for name in PLACES}
    finally:
        await store.close()
    assert kept == {"served": 1, "composed": 1, "ours": 1, "forgotten": 0}
