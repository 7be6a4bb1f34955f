"""The service within the LangGraph server: what `langgraph.json` names as `http.app`, so that Studio and the API run
from one process.

Each of our routes is handed on to the whole application of the service, with its own errors and its own log; everything
else stays that server's, `/docs`, `/openapi.json` and `/metrics` among it. Its `/openapi.json` has our routes, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from fastapi import FastAPI

_KEY = re.compile(rb"\bkey=[^&]*")
_THEIRS = ("/docs", "/openapi.json", "/metrics", "/docs/oauth2-redirect")


class _Ours(BaseRoute):
    """Every route of an application, as one route of another's."""

    def __init__(self, ours: FastAPI) -> None:
        self.app: ASGIApp = ours
        self._ours = ours

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether one of our routes has this path, by whatever method."""
        if scope["type"] != "http" or scope["path"] in _THEIRS:
            return Match.NONE, {}
        ours = any(each.matches(scope)[0] is not Match.NONE for each in self._ours.router.routes)
        return (Match.FULL, {}) if ours else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it answer."""
        ours = {name: value for name, value in scope.items() if name != "router"}
        scope["query_string"] = _KEY.sub(b"key=", scope["query_string"])  # that server logs it
        await self.app(ours, receive, send)


def mounted() -> Starlette:
    """The application that a LangGraph server takes in; without the extra `service` it has no routes, and says so."""
    if any(find_spec(name) is None for name in ("fastapi", "sqlalchemy", "alembic", "prometheus_client")):
        import logging

        logging.getLogger(__name__).warning("the service's routes are not served: pip install 'tribunal[service]'")
        return Starlette()
    from fastapi import FastAPI

    from tribunal.service.app import create_app
    from tribunal.service.replica.options import options_from
    from tribunal.tracing import mask_traces

    mask_traces()
    ours = create_app(options_from(os.environ))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with ours.router.lifespan_context(ours):
            yield

    outer = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    outer.router.routes.append(_Ours(ours))
    outer.openapi = ours.openapi  # type: ignore[method-assign]
    return outer


def __getattr__(name: str) -> Starlette:
    if name != "app":
        raise AttributeError(name)
    return mounted()
