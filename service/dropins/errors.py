"""Errors in the shape of the API that a client believes it is talking to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from tribunal.cases.problem import Problem
from tribunal.service.routes.parameters import ResponseBody, responses
from tribunal.text import wellformed

PERSPECTIVE = "/v1alpha1/comments:"
DISCOVERY = "/$discovery/"
OPENAI = re.compile(r"/v1/(?:moderations|models(?:/.*)?)", re.DOTALL)
ERROR_TYPE = "type.googleapis.com/google.commentanalyzer.v1alpha1.Error"

# Google's canonical codes.
_CANONICAL = {
    401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED", 408: "DEADLINE_EXCEEDED",
    409: "ABORTED", 422: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 501: "UNIMPLEMENTED",
    503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
# OpenAI's codes; the kind itself where it has none.
_CODES = {"no_key": "invalid_api_key", "too_many": "rate_limit_exceeded", "busy": "rate_limit_exceeded"}
_FORM = re.compile(r"^input\.(?:texts?|parts)\b")  # which of its forms an input has
_FIELD = re.compile(r"(input|model)\b[\w.]*(?=: )")


class PerspectiveBadRequest(Problem):
    """A request that the Perspective API has a word of its own for, such as COMMENT_EMPTY."""

    def __init__(self, error_type: str, message: str) -> None:
        """Take the API's word and a message."""
        super().__init__("bad_input", message)
        self.error_type = error_type


class GoogleDetail(ResponseBody):
    """What the Perspective API says beside an error."""

    type: str = Field(alias="@type", examples=[ERROR_TYPE])
    """which kind of detail this is"""
    errorType: str = Field(examples=["INVALID_REQUEST"])
    """such as COMMENT_EMPTY or INVALID_REQUEST"""


class GoogleErrorInside(ResponseBody):
    """What went wrong."""

    code: int = Field(examples=[400])
    """the HTTP status"""
    message: str = Field(examples=["Unknown requested attribute: TOXICITY"])
    """for a person"""
    status: str = Field(examples=["INVALID_ARGUMENT"])
    """Google's canonical code"""
    details: list[GoogleDetail] | None = None
    """only where the request itself is wrong"""


class GoogleError(ResponseBody):
    """An error as Google's APIs have it."""

    error: GoogleErrorInside
    """what went wrong"""


class OpenAIErrorInside(ResponseBody):
    """What went wrong."""

    message: str = Field(examples=["input: is empty; give a text or an image"])
    """for a person"""
    type: str = Field(examples=["invalid_request_error"])
    """the kind, roughly"""
    param: str | None = Field(default=None, examples=["input"])
    """the field that it is about"""
    code: str | None = Field(default=None, examples=["bad_input"])
    """the kind, exactly"""


class OpenAIError(ResponseBody):
    """An error as OpenAI's API has it."""

    error: OpenAIErrorInside
    """what went wrong"""


def google_error(problem: Problem) -> dict[str, Any]:
    """Return a problem as the Perspective API says it."""
    status = _CANONICAL.get(problem.status, "INVALID_ARGUMENT")
    inside: dict[str, Any] = {"code": problem.status, "message": problem.message, "status": status}
    if status == "INVALID_ARGUMENT":
        kind = problem.error_type if isinstance(problem, PerspectiveBadRequest) else "INVALID_REQUEST"
        inside["details"] = [{"@type": ERROR_TYPE, "errorType": kind}]
    return {"error": inside}


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return a problem as OpenAI says it."""
    kind, code = "invalid_request_error", _CODES.get(problem.kind, problem.kind)
    if problem.kind == "spent":
        kind = code = "insufficient_quota"
    elif problem.status == 429:
        kind = "requests"
    elif problem.status >= 500:
        kind = "server_error"
    message = _FORM.sub("input", problem.message)
    field = _FIELD.match(message)
    return {"error": {"message": message, "type": kind, "param": field[0] if field else None, "code": code}}


def error_response(request: Request, problem: Problem) -> JSONResponse:
    """Return a problem in the shape that the caller of this path knows, ours where it is a path of ours."""
    problem.message = wellformed(problem.message)  # it may repeat what was sent
    headers, path = problem.headers(), request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    as_body: Callable[[Problem], dict[str, Any]] = Problem.body
    if path.startswith((PERSPECTIVE, DISCOVERY)):
        as_body = google_error
    elif OPENAI.fullmatch(path):
        as_body = openai_error
        if problem.kind == "spent":
            headers["X-Should-Retry"] = "false"  # OpenAI's clients would try again at once
    return JSONResponse(as_body(problem), problem.status, headers)


def dropin_responses(shape: type[BaseModel], *kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a drop-in route can answer with, for OpenAPI."""
    say = google_error if shape is GoogleError else openai_error
    return responses("busy", "undecided", "late", *kinds, model=shape, body_of=say)
