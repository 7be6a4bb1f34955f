"""`/v1/cases`: what was asked, and what came of it; a trial as it happens; a case's words erased."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from tribunal.docket import case_search
from tribunal.docket.case_store import CaseStore
from tribunal.docket.holds import retry_case as retry_stored_case
from tribunal.docket.trials import ReviewerQuestion
from tribunal.docket.waiting_cases import claim_seconds_left
from tribunal.errors import BadInput, Problem
from tribunal.explanations.author_letter import LETTER_SETTINGS, NoStatedReason, write_letter
from tribunal.explanations.case_drawing import content_security_policy, draw_markdown, draw_page
from tribunal.explanations.case_view import AuthorLetter, CaseView
from tribunal.explanations.notices import read_mapping
from tribunal.explanations.view_maker import CaseAtHand
from tribunal.review.explain import case_from_row
from tribunal.review.explain import view_with_image as explain_case_at_hand
from tribunal.schema import JSON, Record
from tribunal.service.replica.case_queries import VERDICT_FILTERS
from tribunal.service.replica.key_usage import paid_by_key
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.replica import Replica
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import Admin, CurrentReplica, Finder, KeyFirst, Reader, Retrier
from tribunal.service.routes.parameters import CaseId, responses
from tribunal.settings.context import context_from
from tribunal.store.tables import cases

router = APIRouter(tags=["cases"], route_class=KeyFirst)
_EVENT = 'id: 3\r\nevent: turn\r\ndata: {"event": "turn", "seat": "judge"}\r\n\r\n'
# The whole stream is a string; for readers that parse it, each event is an object.
_EVENTS = {"text/event-stream": {"schema": {"type": ["string", "object"]}, "example": _EVENT}}
_POLL_SECONDS = 0.2  # between two looks at the events of a trial
_TELLING = (*VERDICT_FILTERS, "hateful", "uncertain")  # filters that tell what the models came to
CaseStatus = Literal["waiting", "queued", "running", "done", "cancelled"]
WayIn = Literal["command", "python", "batch", "service", "studio"]


class Claimed(api.ResponseBody):
    """A person's claim on a case."""

    by: api.Person
    """who"""
    until: api.Seconds
    """when it ends, in seconds of the epoch"""


class CaseResource(api.ResponseBody):
    """A case: the request, its status, and its record once it is done."""

    id: str = Field(examples=[api.CASE_ID])
    """the case's"""
    status: CaseStatus
    """how far it is; waiting: a row of a batch whose turn hasn't come"""
    created: api.Seconds
    """when it was taken in, in seconds of the epoch"""
    finished: api.Seconds | None = None
    """when it ended"""
    batch_id: str | None = Field(default=None, examples=[api.BATCH_ID])
    """the batch whose row it is"""
    graph: str = Field(examples=["tribunal"])
    """which system decides"""
    post: dict[str, Any] | None = None
    """what was asked; none where it isn't kept"""
    settings: dict[str, Any] = Field(examples=[{"rounds": 2}])
    """the settings in force"""
    held: str | None = None
    """why it isn't tried now, such as a model that doesn't answer"""
    held_until: float | None = None
    """when it is tried again, in seconds of the epoch"""
    deadline: float | None = None
    """of one that is held: when it fails, if nothing changes"""
    cancelled: str | None = None
    """why it ended without an outcome"""
    record: Record | None = None
    """the outcome and all that led to it"""
    question: ReviewerQuestion | None = None
    """what a person has to decide, while one has to"""
    claim: Claimed | None = None
    """the person who has it before them"""
    via: WayIn = "service"
    """the way it came in"""
    erased: float | None = None
    """when its words were erased, in seconds of the epoch"""

    @classmethod
    def from_row(cls, row: JSON, *, blind: bool = False) -> CaseResource:
        """Return a case of the store as the service shows it; to whoever is `blind`, without what the models said."""
        cancelled = row["record"]["cancelled"] if row["status"] == "cancelled" else None
        is_claimed = claim_seconds_left(row["claimed_until"]) > 0
        return cls.model_validate({
            **row,
            "deadline": row["deadline"] if row["held"] is not None else None,
            "cancelled": cancelled,
            "record": None if cancelled or blind else row["record"],
            "question": _shown_question(row, blind=blind) if row["status"] == "done" else None,
            "claim": {"by": row["claimed_by"], "until": row["claimed_until"]} if is_claimed else None,
        })  # fmt: skip


def _shown_question(row: JSON, *, blind: bool) -> JSON | None:
    question: JSON | None = row["question"]
    return {**question, "request": {}} if question and blind else question


def hides_verdict(replica: Replica, row: JSON, who: Caller) -> bool:
    """Return whether a key may not see yet what the models came to in a case, as at a desk that shows it afterwards.

    Whoever asked for the case was told, and the scope audit sees everything.
    """
    return row["question"] is not None and decides_blind(replica, who) and not asked_for(row, who)


def asked_for(row: JSON, who: Caller) -> bool:
    """Return whether a key asked for a case itself."""
    return bool(row["key_id"] == (who.key_id or None))


def decides_blind(replica: Replica, who: Caller) -> bool:
    """Return whether a key decides without seeing the models' verdict (`--desk-verdict after`)."""
    return replica.options.desk_verdict == "after" and who.may("review") and not who.may("audit")


def _check_sees_verdict(replica: Replica, row: JSON, who: Caller) -> None:
    if hides_verdict(replica, row, who):
        why = "what the models came to is shown after the decision (--desk-verdict after)"
        raise Problem(
            "forbidden", f"case: {row['id']}: {why}; decide it, or ask with the scope audit"
        )


class CaseFilters(case_search.ContentFilter, api.PageQuery):
    """Which cases are looked for."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    outcome: Literal["verdict", "refusal", "failure", "pending"] | None = Field(
        default=None, examples=["verdict"]
    )
    """how they ended"""
    status: CaseStatus | None = Field(default=None, examples=["done"])
    """how far they are"""
    hateful: bool | None = Field(default=None, examples=[True])
    """what the verdict says"""
    uncertain: bool | None = Field(default=None, examples=[True])
    """whether the verdict is uncertain"""
    policy_sha: str | None = Field(None, max_length=64, examples=["5c"])
    """the policy's hash, from records"""
    batch_id: str | None = api.id_field("the batch whose rows they are", api.BATCH_ID)
    via: WayIn | None = Field(default=None, examples=["batch"])
    """the way they came in"""
    post_id: str | None = Field(default=None, max_length=200, examples=["t-1"])
    """what the post is called"""
    since: float | None = api.since_field("taken in")
    until: float | None = api.UNTIL


class Cases(api.ResponseBody):
    """A page of cases, the newest first."""

    cases: list[CaseResource]
    """the cases of this page"""
    next: str | None = api.next_field(api.CASE_ID)


class ErasedWords(api.ResponseBody):
    """What became of a case's words."""

    id: str = Field(examples=[api.CASE_ID])
    """the case's"""
    erased: int = Field(examples=[1])
    """1, or 0 where they were erased before, or never kept"""


@router.get("/v1/cases/{case_id}", responses=api.responses("not_found"))
async def get_case(case_id: api.CaseId, replica: CurrentReplica, who: Reader) -> CaseResource:
    """Show a case.

    A key sees the cases that it asked for; the scope review those that a person has to decide, or has decided, or that
    were appealed; audit sees all. With --desk-verdict after a key that decides sees neither record nor verdict of a
    case that waits, unless it asked for it.
    """
    row = await visible_case(replica.case_store, case_id, who)
    return CaseResource.from_row(row, blind=hides_verdict(replica, row, who))


async def visible_case(case_store: CaseStore, case_id: str, who: Caller) -> JSON:
    """Return a case's row, if its asker may see it; raise Problem if there is none for them."""
    row = await case_store.case(case_id)
    if who.may("audit") or (asked_for(row, who) and row["appeal_id"] is None):
        return row  # a new trial of an appeal is nobody's decision
    reviewed = (
        row["question"] is not None
        or (row["record"] or {}).get("review")
        or row["appeal_id"] is not None
    )
    if who.may("review") and (reviewed or await case_store.is_appealed(case_id)):
        return row
    # nor is it said that another key has one
    raise Problem("not_found", f"case: {case_id[:80]}: there is none")


@router.get("/v1/cases", responses=api.responses())
async def list_cases(
    replica: CurrentReplica, who: Finder, query: Annotated[CaseFilters, Query()]
) -> Cases:
    """Find cases, the newest first, in pages. With the scope review and without audit: `outcome=pending` alone."""
    if query.outcome != "pending" and not who.may("audit"):
        raise Problem(
            "forbidden",
            f"this key's scopes are {', '.join(who.scopes)}; without audit give outcome=pending",
        )
    given = query.filters()
    for name in _TELLING if decides_blind(replica, who) else ():
        if name in given:
            why = "would tell what the models came to, which is shown after the decision (--desk-verdict after)"
            raise Problem("forbidden", f"{name}: {why}; leave it out")
    wanted = case_search.CaseFilter.model_validate(given)
    rows = await case_search.find_cases(
        replica.store, wanted, before=query.before, limit=query.limit, columns=list(cases.c)
    )
    page = [CaseResource.from_row(row, blind=hides_verdict(replica, row, who)) for row in rows]
    return Cases(cases=page, next=query.next_of(rows))


@router.get(
    "/v1/cases/{case_id}/events",
    response_class=EventSourceResponse,
    responses={
        200: {"content": _EVENTS, "description": "server-sent events"},
        **api.responses("not_found"),
    },
)
async def stream_case_events(
    case_id: api.CaseId,
    replica: CurrentReplica,
    who: Reader,
    last_event_id: Annotated[
        int, Header(ge=0, description="go on after this event", examples=[17])
    ] = 0,
) -> EventSourceResponse:
    """Send a trial's events: `asking`, `call`, `turn`, `review`, `outcome`, and at last `end` with the case."""
    _check_sees_verdict(replica, await visible_case(replica.case_store, case_id, who), who)
    return EventSourceResponse(_trial_events(replica.case_store, case_id, last_event_id))


async def iter_trial_events(
    case_store: CaseStore, case_id: str, after: int = 0
) -> AsyncIterator[tuple[int, JSON]]:
    """Yield the events of a trial with their numbers, as they come, until the case is over."""
    while True:
        status = await case_store.status(case_id)
        for number, event in await case_store.events_after(case_id, after):
            after = number
            yield number, event
        if status not in ("queued", "running"):
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _trial_events(
    case_store: CaseStore, case_id: str, after: int
) -> AsyncIterator[ServerSentEvent]:
    async for number, event in iter_trial_events(case_store, case_id, after):
        yield ServerSentEvent(
            json.dumps(event), id=str(number), event=event.get("event", "message")
        )
    case = CaseResource.from_row(await case_store.case(case_id))
    yield ServerSentEvent(case.model_dump_json(), event="end")


@router.post(
    "/v1/cases/{case_id}/retry",
    status_code=202,
    responses=api.responses("not_found", "conflict", "spent"),
)
async def retry_case(case_id: api.CaseId, replica: CurrentReplica, who: Retrier) -> CaseResource:
    """Try a case without a verdict, or that was cancelled, again: for the key that asked for it, and for leads.

    A row of a batch waits in its batch again. The new outcome comes with a message to the webhooks, as the first did.
    """
    if (
        not who.may("lead")
        and (await visible_case(replica.case_store, case_id, who))["key_id"] != who.key_id
    ):
        raise Problem(
            "forbidden",
            f"case: {case_id}: another key asked for it; only that one or a lead tries it anew",
        )
    row = await retry_stored_case(
        replica.store, case_id, who.audit_actor, replica.outages.deadline()
    )
    (replica.queued if row["batch_id"] is None else replica.feeder.wake).set()
    return CaseResource.from_row(row)


@router.delete("/v1/cases/{case_id}/words", responses=api.responses("not_found", "conflict"))
async def erase_case(case_id: api.CaseId, replica: CurrentReplica, who: Admin) -> ErasedWords:
    """Erase the post, its images, what was said, notes and messages.

    What was decided, by whom and by which models stays, and so does the audit log, which tells of it. A case that waits
    for a person can't be decided any more.
    """
    done = await replica.retention.erase_case(case_id, who.audit_actor)
    return ErasedWords(id=case_id, erased=done.cases)


Form = Literal["html", "markdown", "json"]
_FORM_OF_TYPE: dict[str, Form] = {
    "text/html": "html", "text/markdown": "markdown", "application/json": "json", "*/*": "json",
}  # fmt: skip
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_EXPLANATION: JSON = {
    "title": "Explanation", "type": "object", "description": "docs/explaining.md lists the other fields",
    "properties": {
        "told_to": {"type": "string", "enum": ["auditor", "poster"], "description": "who reads it"},
        "title": {"type": "string", "description": "its title", "examples": ["Your post is against our rules"]},
    },
    "required": ["told_to", "title"], "additionalProperties": True,
}  # fmt: skip
_FORMS = {
    "application/json": {"schema": _EXPLANATION},
    "text/html": {"schema": {"type": "string"}, "example": "<!DOCTYPE html>…"},
    "text/markdown": {"schema": {"type": "string"}, "example": "# HATE SPEECH"},
}
_EXPLAINED = {
    "content": _FORMS, "description": "the case, explained", "headers": api.describe_headers("Tribunal-Explanation"),
}  # fmt: skip


@router.get(
    "/v1/cases/{case_id}/explanation",
    response_class=Response,
    responses={200: _EXPLAINED, **responses("not_found", "conflict", "spent")},
)
async def explain_case(
    case_id: CaseId,
    replica: CurrentReplica,
    who: Reader,
    form: Annotated[
        Form | None,
        Query(alias="format", description="beats Accept; without both: json", examples=["html"]),
    ] = None,
    told_to: Annotated[
        Literal["auditor", "poster"],
        Query(
            alias="for",
            description="auditor: all of it. poster: a notice to the person who posted, with nothing of anybody else; "
            "a model writes what the policy lacks in their language, and the key pays for the call",
            examples=["poster"],
        ),
    ] = "auditor",
    language: Annotated[
        str | None,
        Query(
            max_length=35,
            description="with for=poster: its language; without it the post's",
            examples=["ko"],
        ),
    ] = None,
    accept: Annotated[
        str, Header(max_length=1000, description="html, markdown or json", examples=["text/html"])
    ] = "",
) -> Response:
    """Explain a case to whoever may see it. A case that isn't over is a conflict."""
    row = await visible_case(replica.case_store, case_id, who)
    _check_sees_verdict(replica, row, who)
    try:
        case = await case_from_row(replica.store, row)
    except BadInput as error:
        raise Problem("conflict", str(error)) from None
    picture: CaseView | AuthorLetter
    if told_to == "poster":
        picture = await _explain_to_poster(replica, who, case, language)
    elif language is not None:
        raise Problem(
            "bad_input",
            "language: is that of the words for the person who posted; give for=poster as well",
        )
    else:
        price = replica.prices.cost_of_call if replica.prices else None
        picture = await explain_case_at_hand(case, price, files=False)
    return _render(picture, form or preferred_form(accept))


async def _explain_to_poster(
    replica: CurrentReplica, who: Caller, case: CaseAtHand, language: str | None
) -> AuthorLetter:
    """Return the words for the person who posted; whoever asks for them pays for the call.

    Raises:
        Problem: the replica stops, the key's budget is spent, or the decision states no reason.
    """
    replica.intake.check_running()
    settings = {**replica.options.settings, **(case.settings or {})}
    # The prompts are the operator's: a folder that a case names may be gone.
    settings["prompts"] = replica.options.settings.get("prompts")
    context = context_from(
        {name: value for name, value in settings.items() if name in LETTER_SETTINGS}
    )
    async with paid_by_key(
        replica.store, who.key_id, replica.case_store.bounds, replica.case_store.replica
    ):
        mapping = replica.options.mapping
        measures = await asyncio.to_thread(read_mapping, mapping) if mapping else None
        try:
            return await write_letter(
                case, language=language, context=context, mapping=measures, files=False
            )
        except NoStatedReason as error:
            raise Problem("conflict", str(error)) from None


def preferred_form(accept: str) -> Form:
    """Return the form that a client asks for, the one that it likes best first; JSON where it says nothing."""
    form: Form = "json"
    best = 0.0
    for part in accept.lower().split(","):
        kind, *more = (each.strip() for each in part.split(";"))
        weight = next((each[2:] for each in more if each.startswith("q=")), "1")
        with suppress(ValueError):
            if kind in _FORM_OF_TYPE and float(weight) > best:
                form = _FORM_OF_TYPE[kind]
                best = float(weight)
    return form


def _render(picture: CaseView | AuthorLetter, form: Form) -> Response:
    # Why a fixed text stands there is for whoever sends it, and no part of what they send.
    source = {"Tribunal-Explanation": picture.source} if isinstance(picture, AuthorLetter) else {}
    headers = {**_HEADERS, **source, "Vary": "Accept"}
    if form == "html":
        security = {
            "Content-Security-Policy": f"{content_security_policy()}; frame-ancestors 'none'"
        }
        return Response(draw_page(picture), media_type="text/html", headers={**headers, **security})
    if form == "markdown":
        return Response(draw_markdown(picture), media_type="text/markdown", headers=headers)
    return JSONResponse(picture.dump(), headers=headers)
