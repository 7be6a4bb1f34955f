"""The OpenAPI document: complete, and true of what is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from lxml import html  # type: ignore[import-untyped]
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.conftest import check_refusal
from tests.service.live import listening, sqlite, with_routes

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
HEADERS = {"401": {"WWW-Authenticate"}, "429": {"Retry-After"}, "503": {"Retry-After"}}

Document = dict[str, Any]


def operations(document: Document) -> Iterator[tuple[str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def contents(operation: Document) -> Iterator[tuple[str, Document]]:
    """Each form of the request and of the responses."""
    yield from operation.get("requestBody", {}).get("content", {}).items()
    for response in operation["responses"].values():
        yield from response.get("content", {}).items()


def schemas(part: Any) -> Iterator[Document]:
    """Every schema of an object within a part of the document."""
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from schemas(each)
    if (
        isinstance(part, dict)
        and isinstance(part.get("properties"), dict)
        and "description" not in part["properties"]
    ):
        yield part


def test_every_field_and_parameter_is_described(app_document: Document) -> None:
    bare = []
    for name, operation in operations(app_document):
        assert operation["summary"], name
        assert operation.get("description") or operation["summary"], name
        bare += [
            f"{name}: {each['name']}"
            for each in operation.get("parameters", ())
            if not each.get("description")
        ]
    for name, schema in app_document["components"]["schemas"].items():
        if "enum" not in schema:
            assert schema.get("description"), name
    for schema in schemas(app_document):
        bare += [
            f"{schema.get('title')}.{name}"
            for name, each in schema["properties"].items()
            if not each.get("description")
        ]
    assert bare == []


def test_every_response_has_a_schema_and_its_headers(app_document: Document) -> None:
    for name, operation in operations(app_document):
        for status, response in operation["responses"].items():
            assert all(content.get("schema") for content in response.get("content", {}).values()), (
                name,
                status,
            )
            assert {"X-Request-ID"} | HEADERS.get(status, set()) <= response["headers"].keys(), (
                name,
                status,
            )
    judged = app_document["paths"]["/v1/judge"]["post"]["responses"]
    assert "Tribunal-Case" in judged["200"]["headers"]
    assert "Location" in judged["202"]["headers"]


def test_operations_have_short_ids_of_their_own_and_described_tags(app_document: Document) -> None:
    ids = {name: each["operationId"] for name, each in operations(app_document)}
    assert (ids["POST /v1/judge"], ids["GET /v1/cases/{case_id}"], ids["GET /v1/cases"]) == (
        "judge", "get_case", "list_cases",
    )  # fmt: skip
    assert len(set(ids.values())) == len(ids)
    assert not [each for each in ids.values() if "v1" in each]
    tags = {tag for _, each in operations(app_document) for tag in each["tags"]}
    assert tags == {each["name"] for each in app_document["tags"] if each["description"]}


UNKNOWN = [
    ("POST", "/v1/judge", {"text": "x", "id": "1"}, "id: ", "post_id"),
    ("POST", "/v1/judge", {"text": "x", "Text": "y"}, "Text: ", "text"),
    ("POST", "/v1/webhooks", {"ur": "https://example.com"}, "ur: ", "url"),
    ("POST", "/v1/moderations", {"inputs": "x"}, "inputs: ", "input"),
    (
        "POST", "/v1alpha1/comments:analyze", {"comment": {"txt": "x"}, "requestedAttributes": {"HATE_SPEECH": {}}},
        "comment.txt: ", "text",
    ),
    ("GET", "/v1/cases?outcom=verdict", None, "outcom: ", "outcome"),
    ("GET", "/v1/figures?unti=1", None, "unti: ", "until"),
    ("GET", "/v1/audit?xyzzy=1", None, "xyzzy: ", "subject"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "right"), UNKNOWN, ids=[each[3] for each in UNKNOWN]
)
def test_an_unknown_field_names_the_right_one(
    running: Running, method: str, path: str, body: Document | None, field: str, right: str
) -> None:
    answer = httpx.request(method, f"{running.url}{path}", json=body, trust_env=False, timeout=60)
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert message.startswith(field)
    assert right in message.removeprefix(field)


@pytest.mark.long
def test_a_misspelt_filter_is_refused_on_every_list(
    app_document: Document, running: Running
) -> None:
    lists = {
        name.removeprefix("GET ")
        for name, each in operations(app_document)
        if name.startswith("GET ")
        and {"limit", "since"} & {given["name"] for given in each.get("parameters", ())}
    }
    assert {
        "/v1/cases",
        "/v1/appeals",
        "/v1/audit",
        "/v1/batches",
        "/v1/webhooks/deliveries",
    } <= lists
    for path in lists:
        answer = httpx.get(
            f"{running.url}{path}", params={"outcme": "pending"}, trust_env=False, timeout=60
        )
        check_refusal(answer, 400, "outcme: unknown field")


def test_every_operation_has_its_examples(app_document: Document) -> None:
    for name, operation in operations(app_document):
        for each in operation.get("parameters", ()):
            assert each.get("examples") or each["schema"].get("examples"), f"{name}: {each['name']}"
        for kind, content in contents(operation):
            assert "example" in content, f"{name}: {kind}"
            if kind.endswith("json") and "schema" in content:
                whole = {**content["schema"], "components": app_document["components"]}
                assert list(jsonschema_rs.iter_errors(whole, content["example"])) == [], (
                    name,
                    kind,
                    content["example"],
                )


class Running:
    """A replica in a thread of its own, since the fuzzer's client doesn't know of asyncio."""

    def __init__(self, database: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._replica = listening(database, graph="baseline", longest_wait=5, queue=100_000)
        self.url = self._wait(self._replica.__aenter__())

    def _wait(self, awaited: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result()

    def close(self) -> None:
        self._wait(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _ended(self) -> None:
        await self._replica.__aexit__(None, None, None)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(sqlite(tmp_path_factory.mktemp("openapi")))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def known(running: Running) -> dict[str, str]:
    """Ids of what is there, so that not every request is for something that isn't."""
    with httpx.Client(base_url=running.url, timeout=60) as client:
        decided = client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
        kind = {"Content-Type": "application/x-ndjson"}
        batch = client.post("/v1/batches", content=b'{"text": "hi"}\n', headers=kind)
        hook = client.post(
            "/v1/webhooks", json={"url": "https://127.0.0.1:9/a", "events": ["case.cancelled"]}
        )
        for each in (decided, batch, hook):
            assert each.is_success, each.text
        case_id = decided.headers["tribunal-case"]
        return {"case_id": case_id, "batch_id": batch.json()["id"], "webhook_id": hook.json()["id"]}


NAMES = [name for name, _ in operations(with_routes(True).openapi())]
# Last, so that nothing is sent to the addresses that the fuzzer makes up.
NAMES.sort(key=lambda name: name == "POST /v1/webhooks")


def fuzz(
    name: str, document: Document, running: Running, known: dict[str, str], examples: int
) -> None:
    """Send an operation what its schema allows, and what it doesn't."""
    method, path = name.split(" ")
    operation = schemathesis.openapi.from_dict(document)[path][method]
    about = document["paths"][path][method.lower()]
    modes = (
        list(schemathesis.GenerationMode)
        if about.keys() & {"parameters", "requestBody"}
        else [None]
    )

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=strategies.one_of(
            [operation.as_strategy(**({"generation_mode": mode} if mode else {})) for mode in modes]
        ),
        there=strategies.booleans(),
    )
    def sent(case: schemathesis.Case, there: bool) -> None:
        if there:
            held = {name: known[name] for name in case.path_parameters or {} if name in known}
            case.path_parameters = {**(case.path_parameters or {}), **held}
        case.call_and_validate(base_url=running.url, checks=CHECKS)

    sent()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_as_the_document_says(
    name: str, app_document: Document, running: Running, known: dict[str, str]
) -> None:
    fuzz(name, app_document, running, known, 8)


def test_the_page_of_the_api_needs_no_other_server(running: Running) -> None:
    with httpx.Client(base_url=running.url, timeout=60) as client:
        page = client.get("/docs")
        assert page.status_code == 200
        told = html.fromstring(page.text)
        named = [str(each) for each in told.xpath("//script/@src | //link/@href")]
        assert len(named) == 3
        for each in named:
            assert each.startswith("/docs/files/")
            assert client.get(each).status_code == 200
        assert "url: '/openapi.json'" in page.text
        assert client.get("/docs/files/../../pyproject.toml").status_code == 404
        assert client.get("/docs/files/%2e%2e/__init__.py").status_code == 404
