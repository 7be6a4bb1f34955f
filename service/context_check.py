"""Refuses a run on a LangGraph server whose `context` has a name that its graph's settings don't have.

That server leaves such names out without a word before the graph sees them, so a misspelt setting would go unnoticed.
The schema that it publishes of a graph says which names there are (`additionalProperties` is false); this holds it to
that where a run, or an assistant with settings of its own, is created.
"""

from __future__ import annotations

import re
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribunal.client_settings import check_request
from tribunal.context import settings_of
from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.settings import SETTINGS
from tribunal.settings_base import EveryGraph

_PATH = re.compile(r"/(runs|runs/(wait|stream|batch|crons)|assistants)/?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_names: dict[str, frozenset[str]] = {}  # of each graph


class ContextCheck:
    """ASGI middleware of the server's custom application."""

    def __init__(self, app: ASGIApp) -> None:
        """Take the application that requests are handed on to."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 422 if the request sets an unknown setting; otherwise hand it on."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _PATH.search(scope["path"]):
            await self.app(scope, receive, send)
            return
        messages: list[Message] = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        body = b"".join(each.get("body", b"") for each in messages)

        async def replay() -> Message:
            return messages.pop(0) if messages else await receive()

        refusal = await _find_unknown_setting(body)
        answer = self.app if refusal is None else JSONResponse({"detail": refusal}, 422)
        await answer(scope, replay, send)


async def _find_unknown_setting(body: bytes) -> str | None:
    try:
        given = parse_json(body)
    except ValueError:  # the server says what is wrong with it
        return None
    for request in given if isinstance(given, list) else [given]:
        context = request.get("context") if isinstance(request, dict) else None
        if not context or not isinstance(context, dict):
            continue
        try:
            graph, names = await _names_in_schema(str(request.get("assistant_id") or request.get("graph_id")))
        except APIStatusError:  # there is no such assistant, as the server says
            continue
        if not names >= EveryGraph.model_fields.keys():  # not settings of ours
            continue
        for name in context:
            if name not in names:
                return _explain(name, context[name], graph)
    return None


def _explain(name: str, value: Any, graph: str) -> str:
    try:
        if name in SETTINGS:
            check_request({name: value})
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
        schema = (await server.assistants.get_schemas(found["assistant_id"])).get("context_schema") or {}
        _names[graph] = frozenset(schema.get("properties", {}))
    return graph, _names[graph]
