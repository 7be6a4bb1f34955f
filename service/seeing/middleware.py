"""Around every request: its id, its line in the log, its numbers, its span; and an answer to what nobody foresaw."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from contextlib import nullcontext

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribunal.service.seeing.logs import logger
from tribunal.service.seeing.sight import Sight

_LOG = logger("tribunal.service")
_SANE = re.compile(r"[A-Za-z0-9._-]{1,80}")  # a request id of others that may stand in a log and in a header
_PROBES = ("/healthz", "/readyz", "/metrics")  # asked every few seconds, and worth a line only when they fail
_GONE = 499  # the client went away before there was an answer
_UNKNOWN = "unmatched"  # a path that no route has: its text is the request's, and no label


class Noted:
    """ASGI middleware; the outermost."""

    def __init__(self, app: ASGIApp, sight: Sight, sorry: Callable[[Scope, str], ASGIApp]) -> None:
        """
        Args:
            app: what answers.
            sight: what notes.
            sorry: makes the answer of what nobody foresaw, from the request and a message.
        """
        self._app, self._sight, self._sorry = app, sight, sorry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status, started = 0, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        traces = self._sight.traces
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                with traces.request(scope) if traces else nullcontext() as span:
                    try:
                        await self._app(scope, receive, noting)
                    except Exception:
                        if status:  # too late for another answer; the server closes the connection
                            raise
                        _LOG.exception("a request failed")
                        said = f"the service failed here, not your request; its log has it under the id {request_id}"
                        await self._sorry(scope, said)(scope, receive, noting)
                    finally:
                        if span is not None:
                            span.answered(_route(scope), status or _GONE)
            finally:
                self._note(scope, status or _GONE, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = scope["method"], _route(scope)
        self._sight.metrics.answered(method, route, status, seconds)
        quiet = scope["path"] in _PROBES and status < 400
        level = "debug" if quiet else "error" if status >= 500 and status != 503 else "info"
        # Neither the query, which may hold a key, nor a header: the path is what a request is about.
        said = {"method": method, "route": route, "path": scope["path"][:300], "status": status}
        key = scope["state"].get("key_id")
        getattr(_LOG, level)("request", **said, ms=round(seconds * 1000, 1), **({"key": key} if key else {}))


def _request_id(scope: Scope) -> str:
    """The client's own, if it may stand in a log; else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
    return given if _SANE.fullmatch(given) else uuid.uuid4().hex


def _route(scope: Scope) -> str:
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else _UNKNOWN
