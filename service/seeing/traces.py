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
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
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

if TYPE_CHECKING:
    from tribunal.service.seeing.trial import Trial

# LangChain's names of providers, and the conventions' where they differ.
_PROVIDERS = {"google_genai": "gcp.gemini", "google_vertexai": "gcp.vertex_ai", "azure": "azure.ai.openai"}
_of_this_trial: ContextVar[_Nodes | None] = ContextVar("tribunal_spans", default=None)
register_configure_hook(_of_this_trial, inheritable=True)


class Traces:
    """Where spans are made, and sent to the collector that the environment names."""

    def __init__(self) -> None:
        named = os.environ.get("OTEL_SERVICE_NAME")
        about = Resource.create({SERVICE_NAME: named or "tribunal", SERVICE_VERSION: version("tribunal")})
        self._provider = TracerProvider(resource=about, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("tribunal", version("tribunal"))
        self._incoming = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, scope: Scope) -> Iterator[RequestSpan]:
        """The span of a request, which goes on with the trace that its `traceparent` names."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        about = {"http.request.method": scope["method"], "url.path": scope["path"][:300], "url.scheme": scope["scheme"]}
        span = self._tracer.start_span(
            scope["method"], context=self._incoming.extract(headers), kind=SpanKind.SERVER, attributes=about
        )
        with _current(span) as trace_id, structlog.contextvars.bound_contextvars(trace_id=trace_id):
            yield RequestSpan(span, scope["method"])

    @contextmanager
    def case(self, case: str, graph: str, seen: Trial) -> Iterator[None]:
        """The span of a trial, and within it those of its nodes and models."""
        about = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": graph,
            "tribunal.case.id": case,
            "tribunal.graph": graph,
        }
        span = self._tracer.start_span(f"invoke_workflow {graph}", attributes=about)
        with _current(span):
            nodes = _Nodes(self._tracer, span)
            token = _of_this_trial.set(nodes)
            try:
                yield
            finally:
                _of_this_trial.reset(token)
                nodes.close()
                span.set_attribute("tribunal.end", seen.end)
                if seen.record is not None:
                    span.set_attribute("tribunal.outcome", seen.record.outcome)
                if seen.end == "error" or (seen.record is not None and seen.record.outcome == "failure"):
                    _fail(span, str((seen.record.fault or {}).get("kind")) if seen.record else "error")

    async def close(self) -> None:
        """Send what is still held."""
        await asyncio.to_thread(self._provider.shutdown)


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: Span, method: str) -> None:
        self._span, self._method = span, method

    def answered(self, route: str, status: int) -> None:
        """What was answered, and by which route."""
        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            _fail(self._span, str(status))


@contextmanager
def _current(span: Span) -> Iterator[str]:
    """A span as the one that others begin beneath; ends with the block. Gives the trace's id."""
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield trace.format_trace_id(span.get_span_context().trace_id)
    finally:
        span.end()


def _fail(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


class _Nodes(BaseCallbackHandler):
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
            _fail(span, "cancelled")
            span.end()
        self._open.clear()

    def _begin(self, run: UUID, parent: UUID | None, name: str, kind: SpanKind, about: dict[str, Any]) -> None:
        above = self._above.get(parent, self._case) if parent else self._case
        context = trace.set_span_in_context(above)
        self._open[run] = self._above[run] = self._tracer.start_span(name, context, kind, attributes=about)

    def _end(self, run: UUID, error: BaseException | None = None) -> None:
        self._above.pop(run, None)
        if (span := self._open.pop(run, None)) is not None:
            if error is not None:
                _fail(span, str(getattr(error, "status_code", None) or type(error).__qualname__))
            span.end()

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **told: Any,
    ) -> None:
        node = (metadata or {}).get("langgraph_node")
        # Of the runs within a node, the node's own is the one that is a step of its graph.
        if node and any(tag.startswith("graph:step:") for tag in tags or ()):
            about = {"tribunal.node": node, "tribunal.step": (metadata or {}).get("langgraph_step", 0)}
            self._begin(run_id, parent_run_id, str(node), SpanKind.INTERNAL, about)
        else:
            self._above[run_id] = self._above.get(parent_run_id, self._case) if parent_run_id else self._case

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **told: Any) -> None:
        self._end(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        self._end(run_id, error)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **told: Any,
    ) -> None:
        known = metadata or {}
        provider, model = str(known.get("ls_provider", "")), str(known.get("ls_model_name", ""))
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "gen_ai.request.temperature": known.get("ls_temperature"),
            "gen_ai.request.max_tokens": known.get("ls_max_tokens"),
            "tribunal.seat": known.get("seat"),
            "tribunal.role": known.get("role"),
        }
        told_of = {name: value for name, value in about.items() if value is not None}
        self._begin(run_id, parent_run_id, f"chat {model}".strip(), SpanKind.CLIENT, told_of)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **told: Any) -> None:
        span = self._open.get(run_id)
        message = getattr(response.generations[0][0], "message", None) if response.generations else None
        if span is not None and isinstance(message, AIMessage):
            span.set_attributes(_of_answer(message))
        self._end(run_id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **told: Any) -> None:
        self._end(run_id, error)


def _of_answer(message: AIMessage) -> dict[str, Any]:
    """What the conventions say of an answer: who gave it, why it ended, what it took."""
    said, usage = message.response_metadata, message.usage_metadata
    about: dict[str, Any] = {}
    if model := said.get("model_name") or said.get("model"):
        about["gen_ai.response.model"] = str(model)
    if reason := said.get("finish_reason") or said.get("stop_reason") or said.get("done_reason"):
        about["gen_ai.response.finish_reasons"] = [str(reason)]
    if answer := said.get("id"):
        about["gen_ai.response.id"] = str(answer)
    if usage is not None:
        about["gen_ai.usage.input_tokens"] = usage["input_tokens"]
        about["gen_ai.usage.output_tokens"] = usage["output_tokens"]
        cached = (usage.get("input_token_details") or {}).get("cache_read")
        if cached:
            about["gen_ai.usage.cache_read.input_tokens"] = cached
    return about
