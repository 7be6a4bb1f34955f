"""Verdicts and errors in the form of another service's API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from tribunal.core.text import wellformed
from tribunal.docket.leases import NewCase
from tribunal.errors import BadInput, Problem
from tribunal.nodes.threshold import estimate_probability
from tribunal.nodes.verdict import USUAL_THRESHOLD, confidence_wanted
from tribunal.schema import JSON, Record
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.replica import Replica
from tribunal.service.routes.judge import wait_while_connected
from tribunal.service.routes.parameters import ResponseBody, describe_headers, responses
from tribunal.settings.context import context_from
from tribunal.settings.graph_settings import GRAPHS

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
_CODES = {
    "no_key": "invalid_api_key",
    "too_many": "rate_limit_exceeded",
    "busy": "rate_limit_exceeded",
}
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
        kind = (
            problem.error_type if isinstance(problem, PerspectiveBadRequest) else "INVALID_REQUEST"
        )
        inside["details"] = [{"@type": ERROR_TYPE, "errorType": kind}]
    return {"error": inside}


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return a problem as OpenAI says it."""
    kind = "invalid_request_error"
    code = _CODES.get(problem.kind, problem.kind)
    if problem.kind == "spent":
        kind = code = "insufficient_quota"
    elif problem.status == 429:
        kind = "requests"
    elif problem.status >= 500:
        kind = "server_error"
    message = _FORM.sub("input", problem.message)
    field = _FIELD.match(message)
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": field[0] if field else None,
            "code": code,
        }
    }


def error_response(request: Request, problem: Problem) -> JSONResponse:
    """Return a problem in the shape that the caller of this path knows, ours where it is a path of ours."""
    problem.message = wellformed(problem.message)  # it may repeat what was sent
    headers = problem.headers()
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    as_body: Callable[[Problem], dict[str, Any]] = Problem.body
    if path.startswith((PERSPECTIVE, DISCOVERY)):
        as_body = google_error
    elif OPENAI.fullmatch(path):
        as_body = openai_error
        if problem.kind == "spent":
            headers["X-Should-Retry"] = "false"  # OpenAI's clients would try again at once
    return JSONResponse(as_body(problem), problem.status, headers)


def dropin_responses(shape: type[BaseModel], *, header: str) -> dict[int | str, dict[str, Any]]:
    """Return the headers and errors of a drop-in route for OpenAPI; `header` is the route's own."""
    body_of = google_error if shape is GoogleError else openai_error
    names = ("Tribunal-Case", "Tribunal-Score", "Tribunal-Uncertain", "Tribunal-Rehearsed", header)
    errors = responses("busy", "undecided", "late", model=shape, body_of=body_of)
    return {200: {"headers": describe_headers(*names)}, **errors}


# Seconds. The clients of the Perspective API hang up after 60, and would never see what went wrong.
MAX_SECONDS = 55.0
# Seconds for which a verdict is given again to the same request of the same key: clients send a request again by
# themselves when it took too long or the connection broke.
REPEAT_SECONDS = 60.0


@dataclass
class _OpenedPost:
    """One post of a request, and the case that it is."""

    new: NewCase
    opened: OpenCase


async def _decide_posts(
    request: Request, replica: Replica, who: Caller, posts: Sequence[NewCase]
) -> tuple[list[str], list[Record]]:
    """Decide on posts, at the same time.

    A post that is kept and under way already, for the same key and under the same settings, is waited for and not
    decided twice. When the client goes away, the trials that it began end. When it takes too long, those of posts that
    are kept go on, so that the same request, sent again, finds them.

    Returns:
        the ids and the records of the cases, in order.

    Raises:
        Problem: too many wait, it took too long, or a post was given no verdict.
        BadInput: a post can't be judged.
    """
    opened_posts: list[_OpenedPost] = []
    outcomes: asyncio.Future[list[Record | None]] | None = None
    is_late = False
    try:
        for new in posts:
            opened_posts.append(_OpenedPost(new, await _open_case(replica, who, new)))
        deadline = asyncio.get_running_loop().time() + min(
            replica.options.longest_wait, MAX_SECONDS
        )
        outcomes = asyncio.gather(
            *(_wait_for_outcome(replica, who, each, deadline) for each in opened_posts)
        )
        found = outcomes.result() if await wait_while_connected(request, outcomes) else [None]
        is_late = outcomes.done() and None in found
    finally:
        if outcomes is not None:
            outcomes.cancel()
        for each in opened_posts:
            if not (is_late and each.new.keep):
                await each.opened.abandon()
    records = [record for record in found if record is not None]
    if len(records) < len(opened_posts):
        raise Problem(
            "late", "this takes longer than the service waits; send it again to get its outcome"
        )
    case_ids = [each.opened.id for each in opened_posts]
    for case_id, record in zip(case_ids, records, strict=True):
        if record.outcome == "failure":
            raise Problem(
                "unavailable", f"no verdict: {record.explanation} (case {case_id})", retry_after=5
            )
        why = {
            "refusal": f"no verdict: a model declined to judge this post (case {case_id})",
            "pending": f"no verdict yet: a person has to decide; ask for /v1/cases/{case_id} later",
            "verdict": f"no verdict on hate: this service decides on {record.task}",
        }
        if record.outcome != "verdict" or record.hateful is None:
            raise Problem("undecided", why[record.outcome])
    return case_ids, records


async def _open_case(replica: Replica, who: Caller, new: NewCase) -> OpenCase:
    wait = min(replica.options.longest_wait, MAX_SECONDS)
    return await replica.intake.open_case(
        new, who, again=REPEAT_SECONDS if new.keep else None, wait=wait
    )


async def _wait_for_outcome(
    replica: Replica, who: Caller, post: _OpenedPost, deadline: float
) -> Record | None:
    clock = asyncio.get_running_loop().time
    while True:
        try:
            return await post.opened.outcome(max(0.0, deadline - clock()))
        except BadInput:
            if not post.opened.found:
                raise
            # whoever it was begun for has gone away
            post.opened = await _open_case(replica, who, post.new)


class ScoredPosts:
    """Posts that were decided, and the probability of hate of each (`tribunal.nodes.threshold`)."""

    def __init__(self, case_ids: Sequence[str], records: Sequence[Record]) -> None:
        """Keep the cases and their records, in the same order."""
        self.case_ids = case_ids
        self.records = records

    @property
    def headers(self) -> dict[str, str]:
        """Return what neither API has a field for, one value a result, in order."""
        return {
            "Tribunal-Case": ", ".join(self.case_ids),
            "Tribunal-Score": ", ".join(
                each.probability_from or "verdict" for each in self.records
            ),
            "Tribunal-Uncertain": ", ".join(str(each.uncertain).lower() for each in self.records),
            "Tribunal-Rehearsed": ", ".join(str(each.rehearsed).lower() for each in self.records),
        }


def score_of(record: Record) -> float:
    """Return the probability that a post is hate speech, also from a record of an earlier release, which has none."""
    if record.probability is not None:
        return record.probability
    return estimate_probability(bool(record.hateful), record.confidence)[0]


def score_of_category(record: Record, category: str) -> float:
    """Return the probability that a post is of one category of hate: never over that of hate, nor on its other side."""
    if record.category == category or not record.hateful:
        return score_of(record)
    return estimate_probability(False, record.confidence)[0]


async def score_posts(
    request: Request,
    replica: Replica,
    who: Caller,
    posts: Sequence[JSON],
    settings: JSON,
    *,
    keep: bool = True,
) -> ScoredPosts:
    """Decide on posts by the operator's graph, which states a confidence if it can, and return their scores.

    Raises:
        Problem: too many wait, it took too long, or a post was given no verdict.
        BadInput: a post can't be judged.
    """
    for post in posts:
        await replica.intake.check_image(post.get("image"))
    graph = replica.options.graph
    if graph in GRAPHS and not confidence_wanted(context_from(settings)):
        settings = {**settings, "threshold": USUAL_THRESHOLD}
    new = [NewCase(graph=graph, post=post, settings=settings, keep=keep) for post in posts]
    return ScoredPosts(*await _decide_posts(request, replica, who, new))
