"""Spans, as a collector gets them over OTLP: what lies within what, the conventions' names, and no post."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.court import court_script
from tests.doubles import Fault
from tests.openai_server import OpenAIServer
from tests.service.conftest import serving
from tests.service.live import sqlite

POST = "Immigrants: the weeds in our garden, said the Zanzibarian."
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """What came in."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        self.spans: list[Span] = []
        self.service: dict[str, str] = {}

    def take(self, body: bytes) -> None:
        self.raw.append(body)
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.service = {
                named.key: named.value.string_value for named in each.resource.attributes
            }
            self.spans += [span for scope in each.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def parent_of(self, span: Span) -> Span:
        return next(each for each in self.spans if each.span_id == span.parent_span_id)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector on loopback, and the environment that names it."""
    taken = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            taken.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield taken
        server.shutdown()


def about(span: Span) -> dict[str, Any]:
    read = {each.key: each.value for each in span.attributes}
    return {name: getattr(value, str(value.WhichOneof("value"))) for name, value in read.items()}


async def test_a_request_its_case_its_nodes_and_its_calls_lie_within_each_other(
    database: str, collector: Collector
) -> None:
    async with (
        OpenAIServer(court_script()) as model,
        serving(database, settings={"model": "openai:scripted"}, graph="arcade") as client,
    ):
        sent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        got = await client.post("/v1/judge?wait=60", json={"text": POST}, headers=sent)
        record = got.json()
    assert collector.service["service.name"] == "tribunal"
    [request], [case] = collector.named("POST /v1/judge"), collector.named("invoke_workflow arcade")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert (about(request)["http.route"], about(request)["http.response.status_code"]) == (
        "/v1/judge",
        200,
    )
    assert case.parent_span_id == request.span_id
    [gatekeeper], [deep], [judge] = (
        collector.named(node) for node in ("gatekeeper", "deep_dive", "judge")
    )
    assert {each.parent_span_id for each in (gatekeeper, deep, judge)} == {case.span_id}
    calls = collector.named("chat scripted")
    assert len(calls) == len(record["calls"]) == len(model.requests)
    [first] = [each for each in calls if each.parent_span_id == gatekeeper.span_id]
    assert first.kind == Span.SPAN_KIND_CLIENT
    told = about(first)
    spent = record["calls"][0]
    assert (told["gen_ai.operation.name"], told["gen_ai.provider.name"]) == ("chat", "openai")
    assert (told["gen_ai.request.model"], told["gen_ai.response.model"]) == ("scripted", "scripted")
    used = told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]
    assert used == (spent["prompt_tokens"], spent["completion_tokens"])
    assert told["tribunal.seat"] == spent["seat"] == "gatekeeper"
    assert all(span.trace_id.hex() == TRACE for span in collector.spans)
    assert not any(b"Zanzibarian" in each or b"weeds" in each for each in collector.raw)


async def test_a_failure_is_one_in_the_spans_too_and_says_nothing_of_the_post(
    tmp_path: Path, collector: Collector
) -> None:
    async with OpenAIServer(lambda _: Fault(status=401, message=f"bad: {POST}")):
        settings = {"model": "openai:scripted", "attempts": 1}
        async with serving(sqlite(tmp_path), settings=settings, graph="baseline") as client:
            got = await client.post("/v1/judge?wait=60", json={"text": POST, "deadline_s": 0.1})
            assert got.json()["outcome"] == "failure"
    # It may be held for a moment, and fail at its deadline.
    call, case = (
        collector.named("chat scripted")[0],
        collector.named("invoke_workflow baseline")[-1],
    )
    assert (call.status.code, about(call)["error.type"]) == (Status.STATUS_CODE_ERROR, "401")
    assert (case.status.code, about(case)["error.type"]) == (
        Status.STATUS_CODE_ERROR,
        "authentication",
    )
    assert not any(b"Zanzibarian" in each for each in collector.raw)


async def test_a_collector_that_is_down_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    async with serving(sqlite(tmp_path)) as client:
        got = await client.post("/v1/judge?wait=60", json={"text": POST, "graph": "arcade"})
        assert got.json()["outcome"] == "verdict"


async def test_without_a_collector_there_are_no_spans_and_what_makes_them_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # to import it would fail
    monkeypatch.setitem(sys.modules, "tribunal.service.telemetry.traces", None)
    async with serving(sqlite(tmp_path)) as client:
        assert client.app.state.telemetry.traces is None  # type: ignore[attr-defined]
        assert (
            await client.post("/v1/judge?wait=60", json={"text": POST, "graph": "arcade"})
        ).status_code == 200
