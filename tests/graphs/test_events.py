"""Whoever watches a graph: every event and every state that it streams is of the form that is said of it."""

from __future__ import annotations

import ast
import json
import os
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter

from tests import PROJECT
from tests.court import court_script
from tests.doubles import Fault
from tests.graphs.research_world import researcher, world
from tests.openai_server import OpenAIServer
from tests.untyped import graph
from tests.where_heeded import where_heeded
from tribunal.docket.session import judge_post, submit_review
from tribunal.errors import BadInput
from tribunal.events import EVENTS, FailureEvent, ReviewEvent, TurnEvent, event_of
from tribunal.graphs import GRAPHS
from tribunal.settings.context import context_from

POST = "Immigrants: the weeds in our garden."
KINDS = {each.model_fields["event"].annotation.__args__[0] for each in EVENTS}  # type: ignore[union-attr]


async def watched(name: str, **settings: Any) -> tuple[set[str], dict[str, Any]]:
    """The kinds of the events of a case, and its last state; each event, and each state, was of its form."""
    compiled = graph(name)
    form = jsonschema_rs.validator_for(TypeAdapter(compiled.builder.state_schema).json_schema())
    kinds: set[str] = set()
    last: dict[str, Any] = {}
    async for place, mode, given in compiled.astream(
        {"text": POST},
        context=context_from(settings),
        stream_mode=["custom", "values"],
        subgraphs=True,
    ):
        if mode == "custom":
            json.dumps(given)
            kinds.add(event_of(given).event)
        elif not place:
            assert [
                f"{list(each.instance_path)}: {each.message}" for each in form.iter_errors(given)
            ] == []
            last = given
    return kinds, last


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in GRAPHS if name != "antihate"),
        ("tribunal", {"triage": "rehearsal", "perspectives": ["example-harm"], "trace": True}),
        ("arcade", {"judge_draws": 3}),
        ("predict", {"mode": "majority"}),
        ("mv_debate", {"reflection_mode": "none"}),
    ],
)
async def test_what_a_graph_streams_is_of_the_form_that_is_said_of_it(
    name: str, settings: dict[str, Any]
) -> None:
    kinds, last = await watched(name, model="rehearsal", **settings)
    assert {"asking", "call", "outcome"} <= kinds
    assert last["outcome"]["outcome"] == "verdict"


async def test_so_is_what_research_streams() -> None:
    async with world(researcher(enough_at=2)) as it:
        os.environ["OPENAI_BASE_URL"] = f"{it.model.url}/v1"
        kinds, last = await watched(
            "antihate", **where_heeded("antihate", it.settings, model="openai:scripted")
        )
    assert kinds >= {
        "plan",
        "queries",
        "search",
        "page",
        "evidence",
        "judgement",
        "sufficiency",
        "outcome",
    }
    assert last["pages"]


@pytest.mark.parametrize("name", GRAPHS)
async def test_so_is_a_case_that_fails(name: str) -> None:
    async with OpenAIServer(lambda request: Fault(status=401)):
        world_of = {"search": "none", "archive": "evidence.sqlite", "web": False}
        kinds, last = await watched(name, **where_heeded(name, world_of, model="openai:scripted"))
    assert last["outcome"]["outcome"] == "failure"
    assert kinds == {"asking", "call", "outcome"} | ({"rest"} & kinds)


async def test_a_person_s_decision_is_an_event() -> None:
    unsure = {"category": "Religious", "explanation": "judge-words", "confidence": 0.4}
    async with OpenAIServer(court_script(explicit=True, judge=unsure)):
        context = context_from({"model": "openai:scripted", "review": True})
        record = await judge_post(POST, graph="tribunal", context=context)
        heard: list[Any] = []
        await submit_review(
            str(record.thread),
            {"type": "accept", "args": None, "reviewer": "kim"},
            listen=heard.append,
        )
    [done] = [event_of(each) for each in heard]
    assert isinstance(done, ReviewEvent)
    assert (done.action, done.reviewer) == ("accept", "kim")


def test_an_event_is_read_with_its_types() -> None:
    turn = event_of(
        {"event": "turn", "id": "judge/1", "seat": "judge", "stage": "score", "round": 1}
    )
    assert isinstance(turn, TurnEvent)
    fault = {
        "seat": "judge",
        "role": "judge",
        "model": "m",
        "error": "timeout",
        "explanation": "late",
    }
    assert isinstance(event_of({"event": "outcome", "outcome": "failure", **fault}), FailureEvent)
    with pytest.raises(BadInput, match=r"tribunal\.events lists the events"):
        event_of({"event": "weather"})
    with pytest.raises(BadInput, match="round"):
        event_of({"event": "rest", "rounds": 3})


def streamed() -> set[str]:
    """The kind of each event that stands in the code."""
    found = set()
    for folder in ("nodes", "tribunal/models"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "runtime.stream_writer":
                    [event] = node.args
                    assert isinstance(event, ast.Dict), path
                    [kind] = [
                        value.value
                        for key, value in zip(event.keys, event.values, strict=True)
                        if isinstance(key, ast.Constant)
                        and key.value == "event"
                        and isinstance(value, ast.Constant)
                    ]
                    found.add(str(kind))
    return found


def test_every_kind_of_event_is_listed_and_none_that_is_never_streamed() -> None:
    assert streamed() == KINDS
