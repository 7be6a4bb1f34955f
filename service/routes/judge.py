"""`POST /v1/judge`: one post, as a JSON object or as a form with an image in it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from tribunal.core.text import parse_json
from tribunal.docket.decision_effects import hash_author
from tribunal.docket.leases import NewCase
from tribunal.errors import Problem
from tribunal.graphs import GRAPHS
from tribunal.models.image_header import FORMATS
from tribunal.plugins import list_known_names, names
from tribunal.schema import Record
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.replica import Replica
from tribunal.service.routes.access import CurrentReplica, Judge, KeyFirst
from tribunal.service.routes.cases import CaseResource
from tribunal.service.routes.parameters import (
    FORM_TYPE,
    JSON_TYPE,
    IdempotencyKey,
    RequestBody,
    describe_headers,
    form_fields,
    image_data_uri,
    is_json_type,
    media_type_of,
    open_form,
    parse_fields,
    responses,
    validate_body,
    wrong_type,
)

MAX_TEXT = 1_000_000  # characters; the setting `max_text` of a case limits it further
router = APIRouter(tags=["verdicts"], route_class=KeyFirst)


class JudgeRequest(RequestBody):
    """A post to decide on: a text, an image, or both."""

    text: str | None = Field(default=None, max_length=MAX_TEXT, examples=["Good morning!"])
    """its words"""
    image: str | None = None
    """its image: an https address, or a data URI"""
    post_id: str | None = Field(None, max_length=200, examples=["t-1"])
    """your name for it; else made"""
    language: str | None = Field(default=None, max_length=35, examples=["en"])
    """a tag such as en or ko"""
    earlier: list[str] = Field(
        default_factory=list, max_length=20, examples=[["How was the match?"]]
    )
    """earlier posts of its conversation, the oldest first; they are read, and not decided on"""
    author: str | None = Field(None, min_length=1, max_length=200, examples=["user-7f3a"])
    """your id of who posted it; only a keyed hash of it is kept"""
    graph: str | None = Field(default=None, max_length=60, examples=["arcade"])
    """which system decides"""
    settings: dict[str, Any] = Field(default_factory=dict)
    """those that the operator lets requests set"""
    keep: bool = Field(True, examples=[True])
    """false: neither post nor record is stored; only with `wait`"""
    deadline_s: float | None = Field(None, gt=0)
    """for how many seconds it is held at most while no model answers; then it is a failure"""


async def read_judge_request(request: Request) -> JudgeRequest:
    """Return the post that a request asks about, from a JSON object or a form; raise Problem if it is neither."""
    media_type = media_type_of(request)
    if is_json_type(media_type):
        try:
            content = parse_json(await request.body())
        except ValueError as error:
            raise Problem("bad_input", f"body: is not JSON: {error}") from None
        return validate_body(JudgeRequest, content)
    if media_type != FORM_TYPE:
        raise wrong_type(media_type, JSON_TYPE, FORM_TYPE)
    async with open_form(request) as (fields, files):
        for name, file in files.items():
            if name != "image":
                raise Problem("bad_input", f"{name[:80]}: is a file; the only file is image")
            fields["image"] = await image_data_uri(file)
    return parse_fields(JudgeRequest, fields)


def _describe_body() -> dict[str, Any]:
    """Return the two forms of the body, for OpenAPI, which FastAPI can't tell from a dependency."""
    schema = JudgeRequest.model_json_schema()
    image = {"type": "string", "format": "binary", "description": f"a file: {', '.join(FORMATS)}"}
    return {"content": {
        JSON_TYPE: {"schema": schema, "example": {"text": "Good morning!", "graph": "arcade"}},
        FORM_TYPE: {"schema": {**schema, "properties": {**form_fields(schema), "image": image}}},
    }, "required": True}  # fmt: skip


@router.post(
    "/v1/judge",
    responses={
        200: {
            "model": Record,
            "description": "the record: the post was decided while you waited",
            "headers": describe_headers("Tribunal-Case"),
        },
        202: {
            "model": CaseResource,
            "description": "the case: ask for it again at its Location",
            "headers": describe_headers("Location"),
        },
        **responses("conflict", "busy"),
    },
    openapi_extra={"requestBody": _describe_body()},
)
async def judge(
    request: Request,
    response: Response,
    replica: CurrentReplica,
    who: Judge,
    body: Annotated[JudgeRequest, Depends(read_judge_request)],
    wait: Annotated[
        float, Query(ge=0, description="seconds to wait for the outcome", examples=[30])
    ] = 0.0,
    idempotency_key: IdempotencyKey = None,
) -> Record | CaseResource:
    """Give the record if the post is decided within `wait` seconds, else the case with status 202.

    Without `wait` the post is decided whether or not you stay to see it. With `wait`, and without an `Idempotency-Key`,
    its trial ends when you go away.
    """
    if not body.keep and not wait:
        raise Problem(
            "bad_input", "keep: false: what isn't kept can't be asked for later; give wait, too"
        )
    new = await make_case(body, replica)
    asked = {
        **new.post, "graph": body.graph, "settings": body.settings, "keep": body.keep, "author_sha": new.author_sha
    }  # fmt: skip
    # On its own, so that whatever ends this request doesn't end it between the case and its trial.
    wait = min(wait, replica.options.longest_wait)
    opening = asyncio.create_task(
        replica.intake.open_case(
            new,
            who,
            idempotency_key=idempotency_key,
            client_request=asked,
            deadline_s=body.deadline_s,
            wait=wait,
        )
    )
    opened = await asyncio.shield(opening)
    return await answer_when_done(
        request, response, replica, opened, wait, only_here=wait > 0 and not idempotency_key
    )


async def make_case(body: JudgeRequest, replica: Replica) -> NewCase:
    """Return the case that a request asks for, before it is taken in.

    Raises:
        Problem: it has neither text nor image, or there is no such graph.
        BadInput: its image can't be judged, or it sets what a client may not set.
    """
    if not body.text and not body.image:
        raise Problem("bad_input", "text: there is neither text nor image; give one")
    graph = check_graph(body.graph, replica.options)
    await replica.intake.check_image(body.image)
    post = body.model_dump(
        include={"text", "image", "post_id", "language", "earlier"}, exclude_defaults=True
    )
    author_sha = await hash_author(replica.store, body.author if body.keep else None)
    settings = replica.intake.settings_for(body.settings)
    return NewCase(graph=graph, post=post, settings=settings, keep=body.keep, author_sha=author_sha)


def check_graph(name: str | None, options: ServiceOptions) -> str:
    """Return the graph that decides: the one of this name, or the operator's.

    Raises:
        Problem: there is none of this name.
    """
    graph = name or options.graph
    if graph not in GRAPHS and graph not in names("tribunal.graphs"):
        known = list_known_names(GRAPHS, "tribunal.graphs")
        raise Problem("bad_input", f"graph: {graph}: there is none; they are {known}")
    return graph


async def answer_when_done(
    request: Request,
    response: Response,
    replica: CurrentReplica,
    opened: OpenCase,
    wait: float,
    *,
    only_here: bool,
) -> Record | CaseResource:
    """Return the record, or, if it takes longer than the client waits, the case with status 202.

    Args:
        request: whose client may go away.
        response: which gets the status and where the case is.
        replica: which answers.
        opened: the case.
        wait: seconds that the client waits, as far as the operator lets it.
        only_here: whether nobody but this client could have the outcome; then its trial ends when they go.

    Raises:
        BadInput: what was asked can't be judged.
    """
    outcome = asyncio.create_task(opened.outcome(min(wait, replica.options.longest_wait)))
    if not await wait_while_connected(request, outcome) and only_here:
        await opened.abandon()
        await asyncio.wait([outcome])
    # cancelled as its trial was: nobody reads the answer
    record = None if outcome.cancelled() else await outcome
    if record is not None:
        response.headers["Tribunal-Case"] = opened.id
        return record
    response.status_code = 202
    response.headers["Location"] = f"/v1/cases/{opened.id}"
    return CaseResource.from_row(await replica.case_store.case(opened.id))


async def wait_while_connected(request: Request, outcome: asyncio.Future[Any]) -> bool:
    """Wait until there is an outcome or the client has gone away; return whether there is an outcome."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    disconnect = asyncio.create_task(wait_for_disconnect())
    try:
        await asyncio.wait([outcome, disconnect], return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnect.cancel()
    return outcome.done()
