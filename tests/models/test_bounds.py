"""The bounds of lists, numbers and strings in a schema: who is sent which, and what happens where one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.court import court_script, decide, part
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.models.classified import GOOD, came_of
from tests.models.test_providers import ANTHROPIC, GEMINI, GLM, OLLAMA, QWEN, Way, judged
from tribunal.models.providers import LENGTHS, LISTS, RANGES
from tribunal.models.providers.openai import OPENAI, OPENAI_URL
from tribunal.models.wire_schema import MOST_CHARACTERS, MOST_ITEMS, allowed_values, wire_schema


class Point(BaseModel):
    """One entry of a list."""

    words: str = Field(min_length=1, json_schema_extra={"maxLength": 400})
    kind: str = Field(json_schema_extra={"enum": ["a", "b"]})


class Bounded(BaseModel):
    """A form with every kind of bound."""

    points: list[Point] = Field(min_length=1, json_schema_extra={"maxItems": 3})
    names: list[str]
    reason: str
    essay: str = Field(json_schema_extra={"maxLength": 9000})
    confidence: float = Field(ge=0, le=1)


def schema(bounds: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    made = wire_schema(Bounded, bounds)["schema"]
    return made["properties"], made["$defs"]["Point"]["properties"]


def test_on_a_server_of_one_s_own_nothing_is_without_a_bound() -> None:
    fields, point = schema(LISTS | RANGES | LENGTHS)
    assert fields["points"]["minItems"] == 1
    assert fields["points"]["maxItems"] == 3
    assert fields["names"]["maxItems"] == MOST_ITEMS
    assert fields["names"]["items"]["maxLength"] == fields["reason"]["maxLength"] == MOST_CHARACTERS
    assert fields["essay"]["maxLength"] < 2000  # llama.cpp refuses a longer one
    assert (fields["confidence"]["minimum"], fields["confidence"]["maximum"]) == (0, 1)
    assert (point["words"]["minLength"], point["words"]["maxLength"]) == (1, 400)
    assert "maxLength" not in point["kind"]


def test_elsewhere_only_what_is_taken() -> None:
    fields, point = schema(LISTS | RANGES)
    assert (fields["points"]["maxItems"], fields["names"]["maxItems"]) == (3, MOST_ITEMS)
    assert fields["confidence"]["maximum"] == 1
    assert not (LENGTHS & (fields["reason"].keys() | point["words"].keys()))
    fields, point = schema(frozenset())
    assert not (
        (LISTS | RANGES | LENGTHS)
        & {key for each in (*fields.values(), *point.values()) for key in each}
    )


def test_the_values_that_there_are() -> None:
    assert allowed_values(Bounded) == {"kind": ["a", "b"]}


def test_openai_itself_takes_none_of_strings() -> None:
    assert (
        OPENAI.schema_bounds({})
        == OPENAI.schema_bounds({"OPENAI_BASE_URL": OPENAI_URL})
        == LISTS | RANGES
    )
    assert (
        OPENAI.schema_bounds({"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"})
        == LISTS | RANGES | LENGTHS
    )


def bounds_in(schema: Any) -> set[str]:
    """Every keyword of a bound that stands anywhere in a schema."""
    if isinstance(schema, list):
        return {found for part in schema for found in bounds_in(part)}
    if not isinstance(schema, dict):
        return set()
    below = {found for part in schema.values() for found in bounds_in(part)}
    return below | (schema.keys() & (LISTS | RANGES | LENGTHS))


@pytest.mark.parametrize(
    ("way", "lengths", "lists"),
    [
        (GEMINI, False, True),
        (ANTHROPIC, False, False),
        (OLLAMA, True, True),
        (QWEN, False, True),
        (GLM, False, True),
    ],
    ids=["gemini", "anthropic", "ollama", "qwen", "glm"],
)
async def test_what_each_provider_is_sent(
    way: Way, lengths: bool, lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, server = await judged(way, court_script(), monkeypatch, graph="arcade", rounds=1)
    scan = next(request for request in server.requests if part(request) == "gatekeeper")
    found = bounds_in(scan.schema)
    assert ("maxLength" in found) is lengths
    assert ("maxItems" in found) is lists
    if not lists:  # said in words instead
        assert "maxItems" in str(scan.schema)


async def test_openai_compatible_servers_of_one_s_own() -> None:
    async with ScriptedServer(court_script()) as server:
        await decide(server, graph="arcade", rounds=1)
    for request in server.requests:
        assert "maxLength" in bounds_in(request.schema), part(request)
    assert "maxItems" in bounds_in(server.requests[0].schema)


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(400, "Invalid schema for response_format 'Decision': 'maxLength' is not permitted."),
        Fault(500, "failed to parse grammar: number of repetitions exceeds sane defaults"),
        Fault(
            400, "The specified schema produces a constraint that has too many states for serving."
        ),
    ],
    ids=["named", "repetitions", "states"],
)
async def test_bounds_that_are_refused_are_left_out_and_that_is_remembered(refusal: Fault) -> None:
    def script(request: Request) -> Reply | Fault:
        return refusal if bounds_in(request.schema) else Reply(GOOD)

    async with ScriptedServer(script) as server:
        first = await decide(server, graph="baseline")
        second = await decide(server, graph="baseline")
    assert [came_of(first), came_of(second)] == [("verdict", None, 2), ("verdict", None, 1)]
    assert {request.format for request in server.requests} == {"json_schema"}
    assert first.calls[0].format == "json_schema"


async def test_in_words_lists_are_bounded_and_strings_are_not() -> None:
    def script(request: Request) -> Reply | Fault:
        no_schema = Fault(400, "response_format is not supported")
        return no_schema if request.format else court_script()(request)

    async with ScriptedServer(script) as server:
        await decide(server, graph="arcade", rounds=1)
    scan = next(
        request
        for request in server.requests
        if not request.format and part(request) == "gatekeeper"
    )
    assert '"maxItems"' in scan.text
    assert '"maxLength"' not in scan.text
