"""What an answer begins with: its reasons, or the label, as in PREDICT's paper and ARCADE's published baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.court import decide
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.golden.test_requests import CASES, asked
from tests.graphs.panel_script import panel, part
from tribunal.schema import JSON

# Which cue an argument is on is no label, and stands first so that the reader knows.
NO_LABELS = {"cue_id"}


def objects(schema: Any) -> Iterator[JSON]:
    if isinstance(schema, list):
        for each in schema:
            yield from objects(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)


def is_prose(field: JSON) -> bool:
    return field.get("type") == "string" and "enum" not in field


def is_label(field: JSON) -> bool:
    return "enum" in field or field.get("type") in ("boolean", "number")


@pytest.mark.parametrize("name", CASES)
async def test_reasons_come_before_labels_in_every_form_of_every_graph(
    name: str, tmp_path: Path
) -> None:
    # whose own order is the published one
    order: dict[str, Any] = {"answer_order": "reason-first"} if name == "baseline" else {}
    forms = [request.schema for request in (await asked(name, str(tmp_path), **order)).values()]
    held = [made["properties"] for form in forms for made in objects(form)]
    assert held or name == "antihate/zero-shot"  # which answers in the paper's own words
    for fields in held:
        kinds = [
            (is_prose(fields[each]), is_label(fields[each]), each)
            for each in fields
            if each not in NO_LABELS
        ]
        last_prose = max((place for place, (prose, _, _) in enumerate(kinds) if prose), default=-1)
        assert [
            each for place, (_, label, each) in enumerate(kinds) if label and place < last_prose
        ] == []


def listed(request: Request) -> list[str]:
    """The fields that the words of a request ask for, in order."""
    asked_for = request.text.rpartition("Give, in this order:")[2]
    return [line[2:].partition(":")[0] for line in asked_for.splitlines() if line.startswith("- ")]


LABEL = {"answer_order": "label-first"}
LABEL_FIRST = {
    "perspective": ["label", "reason"],
    "answer_non_hate": ["stance", "argument"],
    "answer_hate": ["stance", "argument"],
    "judge": ["label", "reason"],
}


async def test_the_label_comes_first_where_that_is_set() -> None:
    async with ScriptedServer(panel()) as server:
        record = await decide(server, graph="predict", answer_order="label-first")
    for request in server.requests:
        schema = request.schema or {}
        if (wanted := LABEL_FIRST.get(part(request))) is None:
            assert list(schema["properties"]) == ["argument"]
            continue
        assert list(schema["properties"]) == schema["required"] == listed(request) == wanted
    assert (record.outcome, record.explanation) == ("verdict", "judge-words")


ORDERS = {True: ["category", "explanation"], False: ["explanation", "category"]}


@pytest.mark.parametrize(
    ("graph", "settings", "label_first"),
    [
        ("baseline", {}, True), ("baseline", {"scheme": "binary"}, True),
        ("baseline", {"answer_order": "reason-first"}, False),
        ("self_consistency", {}, False), ("self_consistency", {"answer_order": "label-first"}, True),
    ],
)  # fmt: skip
async def test_the_baseline_gives_the_label_first_and_a_draw_of_a_vote_reasons_first(
    graph: str, settings: dict[str, Any], label_first: bool
) -> None:
    async with ScriptedServer(
        lambda request: Reply({"category": "NotHate", "explanation": "why"})
    ) as server:
        record = await decide(server, graph=graph, **settings)
    schema = server.requests[0].schema or {}
    assert (
        list(schema["properties"])
        == schema["required"]
        == listed(server.requests[0])
        == ORDERS[label_first]
    )
    assert record.outcome == "verdict"


@pytest.mark.parametrize(
    ("order", "wanted"), [({}, ["reason", "answer"]), (LABEL, ["answer", "reason"])]
)
async def test_the_zero_shot_peer_of_a_debate_heeds_the_order(
    order: dict[str, str], wanted: list[str]
) -> None:
    async with ScriptedServer(lambda request: Reply({"answer": "NO", "reason": "why"})) as server:
        await decide(server, graph="baseline", mode="zero-shot", **order)
    schema = server.requests[0].schema or {}
    assert list(schema["properties"]) == listed(server.requests[0]) == wanted


async def test_so_it_does_where_a_server_takes_no_schema_and_in_the_zero_shot_mode() -> None:
    def without_schemas(request: Request) -> Reply | Fault:
        if request.schema is not None:
            return Fault(400, "response_format of type json_schema is not supported")
        return Reply({"label": "hate", "reason": "why"})

    async with ScriptedServer(without_schemas) as server:
        record = await decide(server, graph="predict", mode="base", answer_order="label-first")
    said = server.requests[-1].text.rpartition("as a JSON schema:\n")[2]
    assert said.index('"label"') < said.index('"reason"')
    assert record.outcome == "verdict"


async def test_an_answer_of_one_order_is_not_taken_for_one_of_the_other(tmp_path: Path) -> None:
    cache = str(tmp_path / "answers.sqlite")
    async with ScriptedServer(panel()) as server:
        for order, calls in (
            ("reason-first", 1),
            ("label-first", 2),
            ("label-first", 2),
            ("reason-first", 2),
        ):
            await decide(server, graph="predict", mode="base", answer_order=order, cache=cache)
            assert len(server.requests) == calls
