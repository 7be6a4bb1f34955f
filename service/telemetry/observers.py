"""Notes on every request and every trial: a line of the log, numbers, and spans where they are collected."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribunal.runner.outcome import TrialObserver
from tribunal.runner.prices import Prices
from tribunal.schema import JSON
from tribunal.service.telemetry.metrics import Metrics, logger

if TYPE_CHECKING:
    from tribunal.service.telemetry.traces import Traces

_LOG = logger("tribunal.service")


class Telemetry:
    """Telemetry of one application.

    Attributes:
        metrics: its numbers.
        traces: its spans; None unless the environment names a collector.
        prices: what calls cost, once they are read.
    """

    def __init__(self, *, posts: bool = False) -> None:
        """Begin at nothing; `posts`: the log may hold the words of posts."""
        self.metrics = Metrics()
        self.traces = _open_traces()
        self.prices: Prices | None = None
        self._posts = posts

    @contextmanager
    def trial(
        self, case: str, graph: str, attempt: int, text: str | None
    ) -> Iterator[TrialObserver]:
        """Observe a trial until the block ends; `text` is the post's words, where they may be kept."""
        observer = TrialObserver(lambda call: self.metrics.count_call(call, self.prices))
        started = time.perf_counter()
        self.metrics.in_flight.inc()
        try:
            with self.traces.case(case, graph) if self.traces else nullcontext() as span:
                try:
                    yield observer
                finally:
                    if self.traces and span:
                        self.traces.set_end(span, observer.end, observer.record)
        finally:
            seconds = time.perf_counter() - started
            outcome = observer.record.outcome if observer.record else None
            self.metrics.count_trial(graph, outcome, observer.end, seconds)
            words = {"post": text} if self._posts and text else {}
            fields: JSON = {**observer.log_fields(), **words, "seconds": round(seconds, 3)}
            _LOG.info("case", case=case, graph=graph, attempt=attempt, **fields)

    async def close(self) -> None:
        """Hand over what is still held."""
        if self.traces:
            await self.traces.close()


def _open_traces() -> Traces | None:
    """Return what makes spans if the environment names a collector; else it is not as much as imported."""
    named = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{each}ENDPOINT") for each in ("", "TRACES_"))
    if not named or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from tribunal.service.telemetry.traces import Traces

    return Traces()


# a request id of others that may stand in a log and in a header
_SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,80}")
# asked every few seconds, and worth a line only when they fail
_PROBES = (
    "/healthz",
    "/readyz",
    "/metrics",
)
_GONE = 499  # the client went away before there was an answer
_UNKNOWN = "unmatched"  # a path that no route has: its text is the request's, and no label


class RequestTelemetry:
    """ASGI middleware; the outermost."""

    def __init__(
        self, app: ASGIApp, telemetry: Telemetry, internal_error: Callable[[Scope, str], ASGIApp]
    ) -> None:
        """Put it around an application; `internal_error` makes the answer to what nobody foresaw, with a message."""
        self._app = app
        self._telemetry = telemetry
        self._internal_error = internal_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and note it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = next(
            (value for name, value in scope["headers"] if name == b"x-request-id"), b""
        ).decode("latin-1")
        request_id = sent if _SAFE_ID.fullmatch(sent) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status = 0
        started = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        traces = self._telemetry.traces
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                with traces.request(scope) if traces else nullcontext() as span:
                    try:
                        await self._app(scope, receive, send_with_id)
                    except Exception:
                        if status:  # too late for another answer; the server closes the connection
                            raise
                        _LOG.exception("a request failed")
                        message = f"the service failed, not your request; its log has it under the id {request_id}"
                        await self._internal_error(scope, message)(scope, receive, send_with_id)
                    finally:
                        if traces and span:
                            traces.set_answer(
                                span, scope["method"], _route_of(scope), status or _GONE
                            )
            finally:
                self._note_request(scope, status or _GONE, time.perf_counter() - started)

    def _note_request(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"]
        route = _route_of(scope)
        self._telemetry.metrics.count_request(method, route, status, seconds)
        quiet = scope["path"] in _PROBES and status < 400
        level = "debug" if quiet else "error" if status >= 500 and status != 503 else "info"
        # Neither the query, which may hold a key, nor a header: the path is what a request is about.
        fields = {"method": method, "route": route, "path": scope["path"][:300], "status": status}
        for name, field in (("key_id", "key"), ("key_refused", "key_refused")):
            said = scope["state"].get(name)
            if said:
                fields[field] = said
        refused = scope["state"].get("key_refused")
        if refused:
            self._telemetry.metrics.count_refused_key(refused)
        getattr(_LOG, level)("request", **fields, ms=round(seconds * 1000, 1))


def _route_of(scope: Scope) -> str:
    """Return the template of the route, or `unmatched`."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else _UNKNOWN
