"""Text that no database takes is repaired at every door, whoever wrote it; such a number is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.court import court_script
from tests.openai_server import OpenAIServer
from tests.service.at_desk import signed_in
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import get_json, serving
from tribunal.schema import JSON

BAD = ("\0", "\ud800")  # in a text
NUMBERS = {
    "NaN": "nan: is no number",
    "1e999": "inf: is no number",
    "9" * 30: "is an integer of over 64 bits",
}


MARK = "@@"  # no example has it


def spoilt(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """A body again for each of its texts, with a mark in that one; and where it is."""
    if isinstance(value, str):
        yield path, f"{value}{MARK}"
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, held in list(inside):
        for place, other in spoilt(held, f"{path}.{name}" if path else str(name)):
            copy = value.copy()
            copy[name] = other
            yield place, copy


def places(document: JSON) -> Iterator[tuple[str, str, str, JSON]]:
    """Each text that a route takes, as its name and a request that has a mark in it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            address = path
            parameters = operation.get("parameters", [])
            for each in parameters:
                if each["in"] == "path":
                    address = address.replace(
                        f"{{{each['name']}}}",
                        str(each.get("example") or each["schema"]["examples"][0]),
                    )
            for each in parameters:
                if each["in"] == "query":
                    yield each["name"], method, address, {"params": {each["name"]: MARK}}
                elif each["name"].casefold() == "idempotency-key":
                    yield (
                        each["name"].casefold(),
                        method,
                        address,
                        {"headers": {each["name"]: f"a{MARK}"}},
                    )
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                if kind == "application/json":
                    for name, body in spoilt(content["example"]):
                        yield name, method, address, {"json": body}


async def ask(
    client: httpx.AsyncClient, method: str, address: str, given: JSON, mark: str
) -> httpx.Response:
    """Ask with something in the place of the mark."""
    headers = {name: value.replace(MARK, mark) for name, value in given.get("headers", {}).items()}
    if "json" in given:
        written = json.dumps(given["json"]).replace(MARK, json.dumps(mark)[1:-1])
        return await client.request(
            method, address, content=written, headers={"Content-Type": "application/json"}
        )
    query = "&".join(
        f"{name}={quote(value.replace(MARK, mark))}"
        for name, value in given.get("params", {}).items()
    )
    return await client.request(method, f"{address}?{query}", headers=headers)


@pytest.mark.long
async def test_every_text_that_a_route_takes_is_repaired(database: str, app_document: JSON) -> None:
    asked = 0
    async with OpenAIServer(court_script(explicit=True)), serving(database) as client:
        for name, method, address, given in places(app_document):
            for bad in BAD:
                if bad == "\ud800" and "json" not in given:
                    continue  # an address or a header can't hold one
                got = await ask(client, method, address, given, bad)
                expected = (
                    400
                    if "headers" in given
                    else (await ask(client, method, address, given, "\ufffd")).status_code
                )
                assert got.status_code < 500, (method, address, name, got.text)
                assert (got.status_code == 400) == (expected == 400), (
                    method,
                    address,
                    name,
                    got.text,
                )
                asked += 1
    assert asked > 100


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_number_that_no_database_takes_is_refused(database: str, number: str) -> None:
    async with serving(database) as client:
        body = f'{{"text": "Good morning!", "settings": {{"rounds": [1, {number}]}}}}'
        got = await client.post(
            "/v1/judge", content=body, headers={"Content-Type": "application/json"}
        )
        assert (got.status_code, got.json()["error"]["kind"]) == (400, "bad_input")
        assert got.json()["error"]["message"].startswith(f"settings.rounds.1: {NUMBERS[number]}")


async def test_a_form_and_a_search_at_the_desk_are_repaired_too(database: str) -> None:
    async with serving(database, settings={"model": "rehearsal"}) as client:
        form = {
            "text": (None, "hi"),
            "post_id": (None, "a\0b"),
            "earlier": (None, '["good\\u0000"]'),
        }
        got = await client.post("/v1/judge?wait=60", files=form)
        assert (got.status_code, got.json()["post_id"]) == (200, "a�b")
        assert [each.partition(":")[0] for each in got.json()["warnings"] if "U+FFFD" in each] == [
            "earlier",
            "post_id",
        ]
        assert (
            await client.post("/v1/judge?wait=60", json={"text": "hi 👋", "post_id": "💬"})
        ).status_code == 200
        kim = await signed_in(client.app)  # type: ignore[attr-defined]
        assert (await kim.get("/desk/search?text=a%00b")).status == 200


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("field", ["text", "earlier", "post_id", "author"])
async def test_a_post_is_judged_and_kept_whatever_its_author_wrote(
    database: str, field: str, bad: str
) -> None:
    post = {
        "text": "Good day.",
        field: [f"Good {bad} day."] if field == "earlier" else f"Good {bad} day.",
    }
    body = json.dumps(post).encode()
    async with serving(database, settings={"model": "rehearsal"}) as client:
        got = await client.post(
            "/v1/judge?wait=60", content=body, headers={"Content-Type": "application/json"}
        )
        assert (got.status_code, got.json()["outcome"]) == (200, "verdict")
        kept = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}", "record")
        told = [each for each in kept["warnings"] if "U+FFFD" in each]
        assert [each.partition(":")[0] for each in told] == ([] if field == "author" else [field])


async def test_what_a_model_says_is_kept_with_a_sign_in_place_of_what_no_database_takes(
    database: str,
) -> None:
    told = {"category": "Religious", "explanation": "It says \0 nothing.", "confidence": 0.9}
    async with (
        OpenAIServer(court_script(explicit=True, judge=told)),
        serving(database, settings={"model": "openai:scripted"}) as client,
    ):
        got = await client.post(
            "/v1/judge?wait=60", json={"text": "post-words", "graph": "tribunal"}
        )
        assert (got.status_code, got.json()["explanation"]) == (200, "It says � nothing.")
        kept = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}", "record")
        assert kept["explanation"] == "It says � nothing."


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/csv"])
async def test_a_batch_keeps_a_sign_in_place_of_what_no_database_takes(
    database: str, kind: str
) -> None:
    rows = lines({"id": "p\0", "text": "Good \0 morning!", "shop": "a\0"})
    content = rows if kind.endswith("ndjson") else b"id,text,shop\np\0,Good \0 morning!,a\0\n"
    async with serving(database, settings={"model": "rehearsal"}) as client:
        got = await sent(client, content, kind)
        assert got.status_code == 202, got.text
        assert (await ended(client, got.headers["location"]))["outcomes"] == {"verdict": 1}
        [row] = await table(client, got.json()["id"], "jsonl")
        assert (row["post_id"], row["input"]["shop"]) == ("p�", "a�")
