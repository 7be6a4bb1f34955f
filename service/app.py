"""The application: FastAPI over a replica, and its document, to which FastAPI adds neither errors nor examples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import DataError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Scope

from tribunal import __version__
from tribunal.errors import BadInput, Problem
from tribunal.runner.outages import DATABASE_AWAY
from tribunal.schema import JSON
from tribunal.service.desk import (
    appeals_page,
    case_lists,
    case_page,
    pages,
    sign_in_page,
    try_page,
    visits,
)
from tribunal.service.dropins import moderations, perspective
from tribunal.service.dropins.verdicts import error_response
from tribunal.service.limits import OPTIONS, BodyLimits
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.replica import run_replica
from tribunal.service.routes import appeals, batches, cases, judge, monitoring, reviews, webhooks
from tribunal.service.routes.parameters import UNKNOWN_FIELD, describe_headers
from tribunal.service.telemetry.observers import RequestTelemetry, Telemetry
from tribunal.store.table_versions import is_full

# In the order in which the document shows them.
_ROUTERS = (
    judge.router, cases.router, reviews.router, appeals.router, reviews.opinions, batches.router, webhooks.router,
    monitoring.audit, perspective.router, moderations.router,
    monitoring.router,
)  # fmt: skip
# A further page of the desk: its router here, and its entry in `visits.TABS`. The last one answers unknown addresses.
_PAGES = (sign_in_page, case_lists, case_page, appeals_page, pages)
_TAGS = {
    "verdicts": "Judge posts.",
    "cases": "Requests for a verdict, and their outcomes.",
    "reviews": "Decisions by people.",
    "appeals": "Cases that are decided again.",
    "second opinions": "Decided cases that another person decides blind.",
    "batches": "Files of posts.",
    "webhooks": "Addresses that are told of every outcome.",
    "audit": "The log of everything that people and keys did.",
    "comments": "A replacement for the Perspective API.",
    "moderations": "A replacement for OpenAI's moderations.",
    "monitoring": "Health, metrics and figures.",
}
_KIND_OF_STATUS = {404: "not_found", 408: "timeout", 413: "too_large", 415: "wrong_type"}


def create_app(options: ServiceOptions) -> FastAPI:
    """Return the application of one replica, which opens when it starts and closes when it stops."""
    telemetry = Telemetry(posts=options.log_posts)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
        try:
            async with run_replica(options, telemetry) as app.state.replica:
                yield {OPTIONS: options}
        finally:
            await telemetry.close()

    app = FastAPI(
        title="Tribunal",
        summary="Decides whether a social-media post is hate speech, and shows why.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_tags=[
            {"name": name, "description": description} for name, description in _TAGS.items()
        ],
        generate_unique_id_function=lambda route: route.name,
    )
    # Swagger UI from our own files: where the service runs, a CDN may be out of reach.
    app.mount(
        "/docs/files", StaticFiles(packages=[("fastapi_offline", "static")]), name="document_files"
    )
    app.add_api_route("/docs", _show_document, include_in_schema=False, response_class=HTMLResponse)
    make_document = app.openapi
    app.openapi = cache(lambda: _complete_document(make_document()))  # type: ignore[method-assign]
    for each in _ROUTERS:
        app.include_router(each)
    for page in _PAGES:
        app.include_router(page.router, prefix=pages.DESK, include_in_schema=False)
    if options.try_:
        app.include_router(try_page.router, include_in_schema=False)
    app.add_exception_handler(visits.SignInRequired, visits.redirect_to_sign_in)
    errors = (
        Problem,
        BadInput,
        RequestValidationError,
        DataError,
        HTTPException,
        ClientDisconnect,
        OSError,
        *DATABASE_AWAY,
    )
    for error in errors:
        app.add_exception_handler(error, _answer_error)
    app.state.telemetry = telemetry
    app.add_middleware(BodyLimits, options=options)
    # The last that is added is the outermost.
    app.add_middleware(RequestTelemetry, telemetry=telemetry, internal_error=_internal_error)
    return app


def _respond(request: Request, problem: Problem) -> Response:
    """Return a problem in the shape of whoever asked: a page for the desk's people, JSON for programs."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    is_page = f"{path}/".startswith(f"{pages.DESK}/")
    return pages.render_problem(request, problem) if is_page else error_response(request, problem)


def _internal_error(scope: Scope, message: str) -> ASGIApp:
    return _respond(Request(scope), Problem("internal", message))


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and not is_full(error):
        raise error
    response = _respond(request, _problem_of(error))
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response


def _problem_of(error: Exception) -> Problem:
    """Return an error that routes let pass as the problem that the client is told."""
    match error:
        case Problem():
            return error
        case BadInput():
            return Problem("bad_input", str(error))
        case RequestValidationError():
            fault = error.errors()[0]
            if fault["type"] == "json_invalid":
                character = fault["loc"][-1]
                why = fault["ctx"]["error"]
                return Problem("bad_input", f"body: is not JSON: {why}, at character {character}")
            place = [str(part) for part in fault["loc"]]
            if fault["type"] == UNKNOWN_FIELD:
                place.append(fault["ctx"]["field"])
            field = ".".join(place[1:]) or place[0]
            return Problem("bad_input", f"{field}: {fault['msg']}")
        case DataError():
            return Problem(
                "bad_input", "the request holds a character that no database takes, such as NUL"
            )
        case ClientDisconnect():
            return Problem("bad_input", "body: ended early")
        case HTTPException():
            problem = Problem(
                _KIND_OF_STATUS.get(error.status_code, "bad_input"), str(error.detail)
            )
            problem.status = error.status_code
            return problem
    if is_full(error):
        message = "the disk of the service is full, so nothing was stored; send the request again once there is room"
        return Problem("unavailable", message, retry_after=10)
    message = "the database is not reachable; send the request again in a moment"
    return Problem("unavailable", message, retry_after=1)


_REF = "#/components/schemas/"
_BODY_ANSWERS = {"408": "error: timeout", "413": "error: too_large", "415": "error: wrong_type"}
_HEADERS_OF_STATUS = {"401": ["WWW-Authenticate"], "429": ["Retry-After"], "503": ["Retry-After"]}
_PLAIN_VALUES: dict[str, Any] = {
    "string": "…",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "null": None,
}
_RECORD_EXAMPLE: JSON = {
    "outcome": "verdict", "post_id": "t-1", "graph": "tribunal", "task": "hate", "scheme": "binary", "label": 0,
    "category": "NotHate", "hateful": False, "explanation": "It greets everybody.", "rehearsed": False,
    "track": "fast_track", "rounds": 0, "transcript": [], "cues": [], "calls": [],
    "usage": {"calls": 2, "prompt_tokens": 1480, "completion_tokens": 96, "seconds": 1.9, "cached_tokens": 0},
    "policy": {"name": "default", "sha": "5c1f…"}, "warnings": [], "confidence": 0.97,
}  # fmt: skip


def _show_document(request: Request) -> HTMLResponse:
    root = request.scope.get("root_path", "").rstrip("/")
    return get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title="Tribunal: the HTTP API",
        swagger_js_url=f"{root}/docs/files/swagger-ui-bundle.js",
        swagger_css_url=f"{root}/docs/files/swagger-ui.css",
        swagger_favicon_url=f"{root}/docs/files/favicon.png",
    )


def _complete_document(document: JSON) -> JSON:
    """Return the document of the application with the errors and examples that FastAPI leaves out."""
    schemas: JSON = document["components"]["schemas"]
    for name in (
        "HTTPValidationError",
        "ValidationError",
    ):  # never sent: a wrong field is 400, in the route's shape
        schemas.pop(name, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            _complete_operation(operation, schemas)
    return document


def _complete_operation(operation: JSON, schemas: JSON) -> None:
    responses: JSON = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    parts = [operation.get("requestBody", {}), *responses.values()]
    if "requestBody" in operation:
        [(kind, wrong)] = responses["400"]["content"].items()
        for status, words in _BODY_ANSWERS.items():
            parts.append({"description": words, "content": {kind: {"schema": wrong["schema"]}}})
            responses.setdefault(status, parts[-1])
    for status, response in responses.items():
        names = ["X-Request-ID", *_HEADERS_OF_STATUS.get(status, ())]
        response["headers"] = {**response.get("headers", {}), **describe_headers(*names)}
    for part in parts:
        for content in part.get("content", {}).values():
            if not {"example", "examples"} & content.keys():
                content["example"] = _make_example(content.get("schema", {}), schemas)


def _make_example(schema: JSON, schemas: JSON) -> Any:
    """Return a value of a JSON schema, made of the examples and the defaults of its parts."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return _RECORD_EXAMPLE if name == "Record" else _make_example(schemas[name], schemas)
    for key in ("examples", "enum", "anyOf", "oneOf", "allOf"):
        if schema.get(key):
            first = schema[key][0]
            return _make_example(first, schemas) if key.endswith("Of") else first
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "properties" in schema:
        return {name: _make_example(each, schemas) for name, each in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_make_example(schema["items"], schemas)]
    return {} if schema.get("type") == "object" else _PLAIN_VALUES.get(schema.get("type", "null"))
