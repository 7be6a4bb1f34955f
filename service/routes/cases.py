"""`/v1/cases`: what was asked, and what came of it; and a trial as it happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from sse_starlette import EventSourceResponse, ServerSentEvent

from tribunal.schema import JSON
from tribunal.service.replica.caseload import Caseload
from tribunal.service.replica.judging import shown
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.problems import Problem, responses
from tribunal.service.routes.access import Auditor, Here, Judge
from tribunal.service.routes.shapes import Case, Cases

router = APIRouter(tags=["cases"])
_LOOK = 0.2  # seconds between two looks at what was said


@router.get("/v1/cases/{case_id}", summary="A case", response_model=Case, responses=responses("not_found"))
async def case(case_id: str, here: Here, who: Judge) -> Case:
    """A key sees the cases that it asked for; one with the scope audit sees all."""
    return Case.model_validate(shown(await _own(here.caseload, case_id, who)))


async def _own(caseload: Caseload, case_id: str, who: Caller) -> JSON:
    row = await caseload.case(case_id)
    if row["key_id"] != (who.key_id or None) and not who.may("audit"):
        raise Problem("not_found", f"case: {case_id[:80]}: there is none")  # nor is it said that another key has one
    return row


@router.get("/v1/cases", summary="Find cases", response_model=Cases, responses=responses())
async def cases(
    here: Here,
    who: Auditor,
    outcome: Annotated[Literal["verdict", "refusal", "failure", "pending"] | None, Query()] = None,
    status: Annotated[Literal["queued", "running", "done", "cancelled"] | None, Query()] = None,
    category: Annotated[str | None, Query(max_length=200, description="of the policy, by its name")] = None,
    hateful: Annotated[bool | None, Query()] = None,
    uncertain: Annotated[bool | None, Query()] = None,
    policy_sha: Annotated[str | None, Query(max_length=64, description="the policy's hash, from a record")] = None,
    since: Annotated[float | None, Query(description="taken in at or after, in seconds of the epoch")] = None,
    until: Annotated[float | None, Query(description="taken in before")] = None,
    before: Annotated[str | None, Query(max_length=80, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Cases:
    """The newest first, in pages."""
    asked = {
        "outcome": outcome, "status": status, "category": category, "hateful": hateful, "uncertain": uncertain,
        "policy_sha": policy_sha, "since": since, "until": until,
    }  # fmt: skip
    wanted = {name: value for name, value in asked.items() if value is not None}
    found = await here.caseload.search(wanted, before=before, limit=limit)
    page = [Case.model_validate(shown(row)) for row in found]
    return Cases(cases=page, next=page[-1].id if len(page) == limit else None)


@router.get(
    "/v1/cases/{case_id}/events",
    summary="A trial as it happens",
    response_class=EventSourceResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "server-sent events"},
        **responses("not_found"),
    },
)
async def listen(
    case_id: str,
    here: Here,
    who: Judge,
    last_event_id: Annotated[int, Header(ge=0, description="go on after this event")] = 0,
) -> EventSourceResponse:
    """Each event is one of `asking`, `call`, `turn`, `review`, `outcome`, and at last `end` with the case."""
    await _own(here.caseload, case_id, who)
    return EventSourceResponse(_events(here.caseload, case_id, last_event_id))


async def _events(caseload: Caseload, case_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    while True:
        status = await caseload.status(case_id)
        for number, event in await caseload.said(case_id, after):
            after = number
            yield ServerSentEvent(json.dumps(event), id=str(number), event=event.get("event", "message"))
        if status not in ("queued", "running"):
            row = shown(await caseload.case(case_id))
            yield ServerSentEvent(Case.model_validate(row).model_dump_json(), event="end")
            return
        await asyncio.sleep(_LOOK)
