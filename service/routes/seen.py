"""`/healthz`, `/readyz` and `/metrics`: what watches the service asks."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from tribunal.service.replica.keys import Caller
from tribunal.service.replica.problems import responses
from tribunal.service.routes.access import Access, Here, KeyFirst
from tribunal.service.seeing.sight import Sight

router = APIRouter(tags=["seeing inside"], route_class=KeyFirst)
Scraper = Annotated[Caller, Depends(Access("audit", open_if=lambda options: options.open_metrics))]


class Health(BaseModel):
    """The process answers."""

    alive: Literal[True] = Field(default=True, description="it is, or it wouldn't say so", examples=[True])


class Readiness(BaseModel):
    """Whether this replica can take work now."""

    ready: bool = Field(description="whether it can", examples=[True])
    trouble: Literal["stopping", "queue", "no sign of life", "database", "tables"] | None = Field(
        default=None,
        description="why not: it stops; nothing brings it work; it couldn't say that it is alive, so that others take "
        "its cases over; the database doesn't answer; its tables are of another version",
        examples=["database"],
    )


@router.get("/healthz", summary="Whether the process is alive", response_model=Health)
async def healthz() -> Health:
    """No key is wanted. Restart it where this doesn't answer."""
    return Health()


@router.get(
    "/readyz",
    summary="Whether it can take work",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "it can't; `trouble` says why"}},
)
async def readyz(response: Response, here: Here) -> Readiness:
    """No key is wanted. Send no requests where this answers 503."""
    trouble = await here.trouble()
    response.status_code = 503 if trouble else 200
    return Readiness.model_validate({"ready": trouble is None, "trouble": trouble})


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"example": "tribunal_in_flight 0.0\n"}},
            "description": "Prometheus' text format",
        },
        **responses(),
    },
)
async def metrics(request: Request, here: Here, who: Scraper) -> Response:
    """Of this replica, and of the database how many cases wait. No number tells what a post says."""
    cases = await here.caseload.under_way()
    sight: Sight = request.app.state.sight
    page = await asyncio.to_thread(sight.metrics.page, cases)
    return Response(page, media_type=CONTENT_TYPE_LATEST)
