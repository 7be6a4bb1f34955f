"""`POST /v1/judge`: one post."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from tribunal.graphs import GRAPHS
from tribunal.plugins import known, names
from tribunal.schema import Record
from tribunal.service.replica.judging import Opened, shown
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.replica.problems import Problem, responses
from tribunal.service.routes.access import Here, Judge, KeyFirst
from tribunal.service.routes.asked import OPENAPI, JudgeAsked
from tribunal.service.routes.leaving import waited
from tribunal.service.routes.shapes import Case

router = APIRouter(tags=["judging"], route_class=KeyFirst)


@router.post(
    "/v1/judge",
    summary="Decide on a post",
    response_model=Record | Case,
    responses={
        200: {"model": Record, "description": "the record: the post was decided while you waited"},
        202: {"model": Case, "description": "the case: ask for it again at its Location"},
        **responses("conflict", "too_large", "wrong_type", "timeout", "busy"),
    },
    openapi_extra=OPENAPI,
)
async def judge(
    request: Request,
    response: Response,
    here: Here,
    who: Judge,
    asked: JudgeAsked,
    wait: Annotated[float, Query(ge=0, description="seconds to wait for the outcome", examples=[30])] = 0.0,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=200, description="your own name for this request, which is then done once", examples=["order-17"]
        ),
    ] = None,
) -> Record | Case:
    """Gives the record if the post is decided within `wait` seconds, else the case with status 202.

    Without `wait` the post is decided whether or not you stay to see it. With `wait`, and without an `Idempotency-Key`,
    its trial ends when you go away.
    """
    options = here.options
    if not asked.text and not asked.image:
        raise Problem("bad_input", "text: there is neither text nor image; give one")
    graph = graph_of(asked.graph, options)
    if not asked.keep and not wait:
        raise Problem("bad_input", "keep: false: what isn't kept can't be asked for later; give wait, too")
    await here.judging.image(asked.image)
    new = asked.case(graph, here.judging.settings(asked.settings))
    # On its own, so that whatever ends this request doesn't end it between the case and its trial.
    opening = asyncio.create_task(here.judging.open(new, who, idempotency_key=idempotency_key))
    opened = await asyncio.shield(opening)
    seconds = min(wait, options.longest_wait)
    record = await waited(request, opened, seconds, only_here=wait > 0 and not idempotency_key)
    if record is not None:
        response.headers["Tribunal-Case"] = opened.id
        return record
    return await later(response, here, opened)


def graph_of(asked: str | None, options: ServiceOptions) -> str:
    """The graph that decides.

    Raises:
        Problem: there is none of this name.
    """
    graph = asked or options.graph
    if graph not in GRAPHS and graph not in names("tribunal.graphs"):
        raise Problem("bad_input", f"graph: {graph}: there is none; they are {known(GRAPHS, 'tribunal.graphs')}")
    return graph


async def later(response: Response, here: Here, opened: Opened) -> Case:
    """The case, with status 202 and where to ask for it again."""
    response.status_code = 202
    response.headers["Location"] = f"/v1/cases/{opened.id}"
    return Case.model_validate(shown(await here.caseload.case(opened.id)))
