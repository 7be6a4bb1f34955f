"""The service within the LangGraph server, as `http.app` of `langgraph.json`: Studio and the API run from one process.

Each of our routes is handed on to the whole application of the service, with its own errors and its own log; everything
else stays that server's, `/docs`, `/openapi.json` and `/metrics` among it. Its `/openapi.json` has our routes, too.
Requests to that server's own routes pass `ContextCheck`.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from tribunal.plugins import install_command, missing_package
from tribunal.service.context_check import ContextCheck

if TYPE_CHECKING:
    from fastapi import FastAPI

_KEY = re.compile(rb"\bkey=[^&]*")
_SERVER_PATHS = ("/docs", "/openapi.json", "/metrics", "/docs/oauth2-redirect")


class _ServiceRoute(BaseRoute):
    """Every route of an application, as one route of another's."""

    def __init__(self, service: FastAPI) -> None:
        self.app: ASGIApp = service
        self._routes = service.router.routes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if one of our routes has this path, by whatever method."""
        if scope["type"] != "http" or scope["path"] in _SERVER_PATHS:
            return Match.NONE, {}
        is_ours = any(each.matches(scope)[0] is not Match.NONE for each in self._routes)
        return (Match.FULL if is_ours else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the service answer."""
        service_scope = {name: value for name, value in scope.items() if name != "router"}
        scope["query_string"] = _KEY.sub(b"key=", scope["query_string"])  # that server logs it
        await self.app(service_scope, receive, send)


def make_mounted_app() -> Starlette:
    """Return the application that a LangGraph server takes in. Without the extra `service` it has no routes."""
    if missing_package("service") is not None:
        import logging

        logging.getLogger(__name__).warning(f"the service's routes are not served: {install_command('service')}")
        return Starlette(middleware=[Middleware(ContextCheck)])
    from fastapi import FastAPI

    from tribunal.docket.graph_run import mask_traces
    from tribunal.service.app import create_app
    from tribunal.service.replica.options import options_from

    mask_traces()
    service = create_app(options_from(os.environ))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with service.router.lifespan_context(service):
            yield

    checks = [Middleware(ContextCheck)]
    outer = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, middleware=checks)
    outer.router.routes.append(_ServiceRoute(service))
    outer.openapi = service.openapi  # type: ignore[method-assign]
    return outer


def __getattr__(name: str) -> Starlette:
    """Return the application when a server asks for it: nothing is made at import."""
    if name != "app":
        raise AttributeError(name)
    return make_mounted_app()
