"""`/v1/appeals`: a decision is opened again, another person decides, and both views stay."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from tribunal.errors import Problem
from tribunal.review.appeals import NewAppeal
from tribunal.schema import JSON, Record
from tribunal.service.replica.case_intake import reviewer_name
from tribunal.service.replica.keys import Caller
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import (
    Appellant,
    CurrentReplica,
    Finder,
    KeyFirst,
    Lead,
    Reader,
    Reviewer,
)

router = APIRouter(tags=["appeals"], route_class=KeyFirst)
AppealId = Annotated[str, api.id_path("appeal", api.APPEAL_ID)]
AppealStatus = Literal["waiting", "trying", "tried", "decided"]
AppealKind = Literal["appeal", "reopened"]
AppealResult = Literal["upheld", "reversed", "changed"]
_CONTEXT = "what the decision didn't know"
_CONFLICTS = api.responses("not_found", "conflict")


class AppealRequest(api.RequestBody):
    """Somebody says that a decision is wrong."""

    appellant: str = api.person_field(
        "who appeals, by a name that says nothing to anybody but you", "user-7f3a"
    )
    reason: str = api.words_field("why, in their words", "It is a quotation.")
    context: str = api.words_field(_CONTEXT, "The line is from a song.", default="")


class ReopenRequest(api.RequestBody):
    """A lead opens a decided case again."""

    reason: str = api.words_field("why", "The policy's wording was misread.")
    context: str = api.words_field(_CONTEXT, "", default="")
    lead: str | None = api.LEAD


class AppealDecision(api.RequestBody):
    """What a person decides on an appeal: `uphold` the decision, `change` it, or `retry`: a new trial first."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action": "uphold", "note": "as before"}]}
    )

    action: Literal["uphold", "change", "retry"] = Field(examples=["change"])
    """what to do"""
    category: str | None = api.CHANGED_CATEGORY
    note: str = api.words_field(
        "why; a change needs it, and it becomes the verdict's explanation",
        "quoted to condemn it",
        default="",
    )
    clauses: list[str] = api.CLAUSES
    reviewer: str | None = api.REVIEWER


class AppealResource(api.ResponseBody):
    """An appeal, and what came of it."""

    id: str = Field(examples=[api.APPEAL_ID])
    """the appeal's"""
    case_id: str = Field(examples=[api.CASE_ID])
    """the case's"""
    kind: AppealKind
    """an appeal, or a lead who reopened the case"""
    created: api.Seconds
    """when it was made, in seconds of the epoch"""
    appellant: str = Field(examples=["user-7f3a"])
    """who appeals, as you named them; or the lead"""
    reason: str = Field(examples=["It is a quotation."])
    """why, in their words"""
    context: str = Field(description=_CONTEXT, examples=["The line is from a song."])
    status: AppealStatus = Field(
        description="waiting for a person; trying: its new trial is under way; tried: that ended, and the person who "
        "ordered it decides; decided",
    )
    category_before: api.Category | None
    """what the decision was"""
    hateful_before: bool | None
    """the same"""
    claimed_by: api.Person | None
    """the person who has it before them"""
    claimed_until: api.Seconds | None
    """when that ends"""
    reviewer: api.Person | None
    """who ordered the new trial, and then who decided"""
    trial_id: str | None = Field(examples=[api.CASE_ID])
    """the case that is its new trial"""
    trial_failed: str | None = Field(examples=["a setting is wrong"])
    """why the last trial came to nothing"""
    trial: Record | None = None
    """the record of the new trial; for reviewers and auditors"""
    result: AppealResult | None
    """upheld: it stands; reversed: what was hateful isn't, or the other way round; changed: another category"""
    category: api.Category | None
    """what was decided"""
    hateful: bool | None
    """the same"""
    note: str = Field(examples=["quoted to condemn it"])
    """why it was decided so"""
    clauses: list[str] = Field(default_factory=list, examples=[["1.1"]])
    """the clauses of the policy that it rests on, by their ids"""
    held_until: api.Seconds | None = None
    """when a decision of the desk takes effect, while whoever made it may undo it"""
    decided: api.Seconds | None
    """when, in seconds of the epoch"""


class AppealFilters(api.PageQuery):
    """Which appeals are looked for."""

    status: AppealStatus | None = Field(default=None, examples=["waiting"])
    """their status"""
    kind: AppealKind | None = Field(default=None, examples=["appeal"])
    """appeals, or reopened cases"""
    result: AppealResult | None = Field(default=None, examples=["reversed"])
    """what was decided"""
    since: float | None = api.since_field("made")
    until: float | None = api.UNTIL


class AppealPage(api.ResponseBody):
    """A page of appeals, the newest first."""

    appeals: list[AppealResource]
    """the appeals of this page"""
    next: str | None = api.next_field(api.APPEAL_ID)


def appeal_of_row(row: JSON, trial: JSON | None = None) -> AppealResource:
    """Return an appeal of the store as the service shows it. Whoever may see the new trial gives its row, `trial`."""
    return AppealResource.model_validate(
        {**row, "clauses": row["clauses"] or [], "trial": (trial or {}).get("record")}
    )


async def _appealable_case(replica: CurrentReplica, case_id: str, who: Caller) -> JSON:
    """Return a case that this key may appeal, or see the appeals of."""
    row = await replica.case_store.case(case_id)
    theirs = row["key_id"] == (who.key_id or None) or who.may("review") or who.may("audit")
    if not theirs or row["appeal_id"] is not None:
        # nor is it said that another key has one
        raise Problem("not_found", f"case: {case_id[:80]}: there is none")
    return row


@router.post(
    "/v1/cases/{case_id}/appeal",
    status_code=201,
    responses={
        200: {
            "model": AppealResource,
            "description": "the same request made it before",
            "headers": api.describe_headers("Location"),
        },
        201: {"headers": api.describe_headers("Location")},
        **_CONFLICTS,
    },
)
async def appeal_case(
    case_id: api.CaseId,
    body: AppealRequest,
    response: Response,
    replica: CurrentReplica,
    who: Appellant,
    idempotency_key: api.IdempotencyKey = None,
) -> AppealResource:
    """Appeal a decision. Another person than the one who decided will decide on it.

    A case has one open appeal at a time, and takes none after `appeal_days` from the last decision.
    """
    await _appealable_case(replica, case_id, who)
    row, is_new = await replica.appeals.open_appeal(
        case_id,
        NewAppeal(**body.model_dump()),
        who.key_id,
        who.audit_actor,
        idempotency_key=idempotency_key,
    )
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/appeals/{row['id']}"
    return appeal_of_row(row)


@router.post(
    "/v1/cases/{case_id}/reopen",
    status_code=201,
    responses={201: {"headers": api.describe_headers("Location")}, **_CONFLICTS},
)
async def reopen_case(
    case_id: api.CaseId, body: ReopenRequest, response: Response, replica: CurrentReplica, who: Lead
) -> AppealResource:
    """Reopen a case, as an appeal does, but by a lead and at any time; another person decides again."""
    lead = reviewer_name(who, body.lead)
    new = NewAppeal(kind="reopened", appellant=lead, reason=body.reason, context=body.context)
    row, _ = await replica.appeals.open_appeal(case_id, new, who.key_id, who.audit_actor)
    response.headers["Location"] = f"/v1/appeals/{row['id']}"
    return appeal_of_row(row)


@router.get("/v1/cases/{case_id}/appeals", responses=api.responses("not_found"))
async def list_case_appeals(
    case_id: api.CaseId, replica: CurrentReplica, who: Reader
) -> AppealPage:
    """List all appeals of a case: one that was decided again may be appealed again."""
    await _appealable_case(replica, case_id, who)
    rows = await replica.appeals.search({"case_id": case_id}, limit=200)
    return AppealPage(appeals=[appeal_of_row(row) for row in rows])


@router.get("/v1/appeals", responses=api.responses())
async def list_appeals(
    replica: CurrentReplica, who: Finder, query: Annotated[AppealFilters, Query()]
) -> AppealPage:
    """Find appeals, the newest first, in pages."""
    rows = await replica.appeals.search(query.filters(), before=query.before, limit=query.limit)
    return AppealPage(appeals=[appeal_of_row(row) for row in rows], next=query.next_of(rows))


@router.get("/v1/appeals/{appeal_id}", responses=api.responses("not_found"))
async def get_appeal(appeal_id: AppealId, replica: CurrentReplica, who: Reader) -> AppealResource:
    """Show an appeal. A key sees those of its cases; review and audit see all, with the record of a new trial."""
    row = await replica.appeals.find(appeal_id)
    try:
        await _appealable_case(replica, row["case_id"], who)
    except Problem:
        raise Problem("not_found", f"appeal: {appeal_id[:80]}: there is none") from None
    sees = who.may("review") or who.may("audit")
    return appeal_of_row(row, await replica.appeals.trial(row) if sees else None)


@router.post("/v1/appeals/{appeal_id}/claim", responses=_CONFLICTS)
async def claim_appeal(
    appeal_id: AppealId, body: api.ClaimRequest, replica: CurrentReplica, who: Reviewer
) -> AppealResource:
    """Claim an appeal: until the claim ends nobody else can decide it. Whoever has decided the case can't claim it."""
    by = reviewer_name(who, body.reviewer)
    return appeal_of_row(await replica.appeals.claim(appeal_id, by, body.seconds, who.audit_actor))


@router.delete("/v1/appeals/{appeal_id}/claim", responses=_CONFLICTS)
async def release_appeal(
    appeal_id: AppealId, replica: CurrentReplica, who: Reviewer, reviewer: api.ReviewerQuery = None
) -> AppealResource:
    """Give an appeal back. A lead may give back what somebody else has, also after a new trial."""
    by = reviewer_name(who, reviewer)
    return appeal_of_row(
        await replica.appeals.release(appeal_id, by, who.audit_actor, lead=who.may("lead"))
    )


@router.post("/v1/appeals/{appeal_id}/decision", responses=_CONFLICTS)
async def decide_appeal(
    appeal_id: AppealId, body: AppealDecision, replica: CurrentReplica, who: Reviewer
) -> AppealResource:
    """Decide an appeal. The first decision counts; whoever comes second gets 409.

    Who says the same once more gets the same. After `retry` look again until the status is `tried`.
    """
    reviewer = reviewer_name(who, body.reviewer)
    decision = body.model_dump(exclude={"reviewer"})
    row = await replica.appeals.decide(appeal_id, reviewer, **decision, by=who.audit_actor)
    return appeal_of_row(row, await replica.appeals.trial(row))
