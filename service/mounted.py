"""The service within the LangGraph server, as `http.app` of `langgraph.json`: Studio and the API run from one process.

Each of our routes is handed on to the whole application of the service, with its own errors and its own log; everything
else stays that server's. Its `/openapi.json` has our routes, too. A run on that server whose `context` has a name that
its graph's settings don't have is refused: that server would leave the name out without a word. So is a run with
settings in `configurable`, as everywhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.plugins import install_command, missing_package
from tribunal.settings.base import EveryGraph
from tribunal.settings.client_settings import check_request
from tribunal.settings.context import refuse_configurable, settings_of
from tribunal.settings.form import PROMPT_TEXTS, is_form_field
from tribunal.settings.graph_settings import GRAPHS, SETTINGS
from tribunal.trust import distrust_input

if TYPE_CHECKING:
    from fastapi import FastAPI

_PATH = re.compile(r"/(runs|runs/(wait|stream|batch|crons)|assistants)/?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_names: dict[str, frozenset[str]] = {}  # of each graph


class ContextCheck:
    """ASGI middleware of the server's custom application."""

    def __init__(self, app: ASGIApp) -> None:
        """Take the application that requests are handed on to."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 422 if the request has an unknown or misplaced setting; otherwise hand it on."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _PATH.search(scope["path"]):
            await self.app(scope, receive, send)
            return
        messages: list[Message] = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(each.get("body", b"") for each in messages)

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        refusal = await _find_wrong_setting(body)
        answer = self.app if refusal is None else JSONResponse({"detail": refusal}, 422)
        await answer(scope, replay, send)


async def _find_wrong_setting(body: bytes) -> str | None:
    try:
        given = parse_json(body)
    except ValueError:  # the server says what is wrong with it
        return None
    for request in given if isinstance(given, list) else [given]:
        if not isinstance(request, dict):
            continue
        context = _table_in(request, "context")
        configurable = _table_in(_table_in(request, "config"), "configurable")
        if not context and not configurable:
            continue
        try:
            graph, names = await _names_in_schema(
                str(request.get("assistant_id") or request.get("graph_id"))
            )
        except APIStatusError:  # there is no such assistant, as the server says
            continue
        if not names >= EveryGraph.model_fields.keys() - {PROMPT_TEXTS}:  # not settings of ours
            continue
        try:
            refuse_configurable(configurable, None, models=graph not in GRAPHS)
        except BadInput as refusal:
            return str(refusal)
        for name in context:
            if name not in names:
                return _explain(name, context[name], graph)
    return None


def _table_in(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _explain(name: str, value: Any, graph: str) -> str:
    try:
        if name in SETTINGS:
            check_request({name: value})
        elif is_form_field(name, settings_of(graph).graph):
            check_request({PROMPT_TEXTS: {name: value}})
    except BadInput as refusal:
        return str(refusal)
    return settings_of(graph).explain_unknown(name, value)


async def _names_in_schema(assistant: str) -> tuple[str, frozenset[str]]:
    """Return the graph of an assistant, which a graph's name may stand for, and the names in its context's schema."""
    server = get_client()
    if _UUID.fullmatch(assistant):
        found = await server.assistants.get(assistant)
    else:
        ours = await server.assistants.search(graph_id=assistant, metadata={"created_by": "system"})
        if not ours:
            return assistant, frozenset()
        found = ours[0]
    graph = found["graph_id"]
    if graph not in _names:
        schema = (await server.assistants.get_schemas(found["assistant_id"])).get(
            "context_schema"
        ) or {}
        _names[graph] = frozenset(schema.get("properties", {}))
    return graph, _names[graph]


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
    """Return the application that a LangGraph server takes in. Without the extra `service` it has no routes.

    What such a server's process is given comes from its clients: this says so.
    """
    distrust_input()
    if missing_package("service") is not None:
        import logging

        logging.getLogger(__name__).warning(
            f"the service's routes are not served: {install_command('service')}"
        )
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
    outer = FastAPI(
        lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, middleware=checks
    )
    outer.router.routes.append(_ServiceRoute(service))
    outer.openapi = service.openapi  # type: ignore[method-assign]
    return outer


def __getattr__(name: str) -> Starlette:
    """Return the application when a server asks for it: nothing is made at import."""
    if name != "app":
        raise AttributeError(name)
    return make_mounted_app()
