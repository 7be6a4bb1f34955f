"""Spans by OpenTelemetry: one a request, a case, a node, and a request to a model, by the GenAI conventions.

Imported only where the environment names a collector. The spans of nodes and models come from LangChain's callbacks,
which know what lies within what; no span holds a post's words, a prompt, an answer, or what an exception says.

The names of attributes stand here as text: opentelemetry's own constants of them are said to move.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import structlog
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.context import register_configure_hook
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from tribunal import __version__
from tribunal.schema import Record

# LangChain's names of providers, and the conventions' where they differ.
_PROVIDERS = {
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
}
_trial_spans: ContextVar[_NodeSpans | None] = ContextVar("tribunal_spans", default=None)
register_configure_hook(_trial_spans, inheritable=True)


class Traces:
    """Where spans are made, and sent to the collector that the environment names."""

    def __init__(self) -> None:
        """Open the way to the collector."""
        named = os.environ.get("OTEL_SERVICE_NAME")
        resource = Resource.create(
            {SERVICE_NAME: named or "tribunal", SERVICE_VERSION: __version__}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("tribunal", __version__)
        self._incoming = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Span]:
        """Begin the span of a request, which goes on with the trace that its `traceparent` names."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        attributes = {
            "http.request.method": scope["method"],
            "url.path": scope["path"][:300],
            "url.scheme": scope["scheme"],
        }
        context = self._incoming.extract(headers)
        kind = SpanKind.SERVER
        span = self._tracer.start_span(
            scope["method"], context=context, kind=kind, attributes=attributes
        )
        trace_id = trace.format_trace_id(span.get_span_context().trace_id)
        with _current_until_ended(span), structlog.contextvars.bound_contextvars(trace_id=trace_id):
            yield span

    def set_answer(self, span: Span, method: str, route: str, status: int) -> None:
        """Set what a request was answered, and by which route."""
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            _set_failed(span, str(status))

    @contextmanager
    def case(self, case: str, graph: str) -> Iterator[Span]:
        """Begin the span of a trial, and within it those of its nodes and models."""
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": graph,
            "tribunal.case.id": case,
            "tribunal.graph": graph,
        }
        span = self._tracer.start_span(f"invoke_workflow {graph}", attributes=attributes)
        with _current_until_ended(span):
            nodes = _NodeSpans(self._tracer, span)
            token = _trial_spans.set(nodes)
            try:
                yield span
            finally:
                _trial_spans.reset(token)
                nodes.close()

    def set_end(self, span: Span, end: str, record: Record | None) -> None:
        """Set how a trial ended, and the outcome of its record."""
        span.set_attribute("tribunal.end", end)
        if record is not None:
            span.set_attribute("tribunal.outcome", record.outcome)
        if end == "error" or (record is not None and record.outcome == "failure"):
            _set_failed(span, str((record.fault or {}).get("kind")) if record else "error")

    async def close(self) -> None:
        """Send what is still held."""
        await asyncio.to_thread(self._provider.shutdown)


@contextmanager
def _current_until_ended(span: Span) -> Iterator[None]:
    """Make a span the one beneath which others begin, and end it when the block ends."""
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        span.end()


def _set_failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


class _NodeSpans(BaseCallbackHandler):
    """Makes the spans of one trial's nodes and models from what LangChain calls out."""

    run_inline = True  # in order, and in the loop: it does no work worth a thread

    def __init__(self, tracer: Tracer, case: Span) -> None:
        self._tracer = tracer
        self._case = case
        self._open: dict[UUID, Span] = {}
        self._above: dict[UUID, Span] = {}  # of every run, the span that it lies in

    def close(self) -> None:
        """End what was cut off."""
        for span in self._open.values():
            _set_failed(span, "cancelled")
            span.end()
        self._open.clear()

    def _span_above(self, parent: UUID | None) -> Span:
        return self._above.get(parent, self._case) if parent else self._case

    def _begin_span(
        self, run: UUID, parent: UUID | None, name: str, kind: SpanKind, attributes: dict[str, Any]
    ) -> None:
        context = trace.set_span_in_context(self._span_above(parent))
        self._open[run] = self._above[run] = self._tracer.start_span(
            name, context, kind, attributes=attributes
        )

    def _end_span(self, run: UUID, error: BaseException | None = None) -> None:
        self._above.pop(run, None)
        span = self._open.pop(run, None)
        if span is not None:
            if error is not None:
                _set_failed(
                    span, str(getattr(error, "status_code", None) or type(error).__qualname__)
                )
            span.end()

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Begin the span of a node."""
        metadata = more.get("metadata") or {}
        node = metadata.get("langgraph_node")
        # Of the runs within a node, the node's own is the one that is a step of its graph.
        if node and any(tag.startswith("graph:step:") for tag in more.get("tags") or ()):
            attributes = {"tribunal.node": node, "tribunal.step": metadata.get("langgraph_step", 0)}
            self._begin_span(run_id, parent_run_id, str(node), SpanKind.INTERNAL, attributes)
        else:
            self._above[run_id] = self._span_above(parent_run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """End the span of a node."""
        self._end_span(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """End the span of a node that failed."""
        self._end_span(run_id, error)

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **more: Any,
    ) -> None:
        """Begin the span of a request to a model."""
        metadata = more.get("metadata") or {}
        provider = str(metadata.get("ls_provider", ""))
        model = str(metadata.get("ls_model_name", ""))
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": metadata.get("ls_temperature"),
            "gen_ai.request.max_tokens": metadata.get("ls_max_tokens"),
            "tribunal.seat": metadata.get("seat"),
            "tribunal.role": metadata.get("role"),
        }
        self._begin_span(
            run_id,
            parent_run_id,
            f"chat {model}".strip(),
            SpanKind.CLIENT,
            _without_none(attributes),
        )

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """End the span of a request that was answered, with who gave the answer, why it ended, and what it took."""
        span = self._open.get(run_id)
        message = (
            getattr(response.generations[0][0], "message", None) if response.generations else None
        )
        if span is not None and isinstance(message, AIMessage):
            metadata = message.response_metadata
            usage = message.usage_metadata
            reason = (
                metadata.get("finish_reason")
                or metadata.get("stop_reason")
                or metadata.get("done_reason")
            )
            attributes = {
                "gen_ai.response.model": metadata.get("model_name") or metadata.get("model"),
                "gen_ai.response.finish_reasons": [str(reason)] if reason else None,
                "gen_ai.response.id": metadata.get("id"),
                "gen_ai.usage.input_tokens": usage["input_tokens"] if usage else None,
                "gen_ai.usage.output_tokens": usage["output_tokens"] if usage else None,
                "gen_ai.usage.cache_read.input_tokens": usage.get("input_token_details", {}).get(
                    "cache_read"
                )
                or None
                if usage
                else None,
            }
            span.set_attributes(_without_none(attributes))
        self._end_span(run_id)

    on_llm_error = on_chain_error


def _without_none(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
