"""People decide over HTTP: cases that wait are claimed and decided; second opinions are given without seeing that."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from tribunal.errors import Problem
from tribunal.schema import JSON, Record
from tribunal.service.replica.case_intake import reviewer_name
from tribunal.service.routes import parameters as api
from tribunal.service.routes.access import CurrentReplica, KeyFirst, Lead, Reviewer
from tribunal.service.routes.cases import CaseResource, asked_for, decides_blind, hides_verdict
from tribunal.service.routes.judge import answer_when_done

router = APIRouter(tags=["reviews"], route_class=KeyFirst)
opinions = APIRouter(prefix="/v1/second-opinions", tags=["second opinions"], route_class=KeyFirst)
_CONFLICTS = api.responses("not_found", "conflict")


class ReviewDecision(api.RequestBody):
    """What a person says of a case: `accept` the court's outcome, `change` it, `ask`, or `retry` without a verdict."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "accept"}]})

    action: Literal["accept", "change", "ask", "retry"] = Field(examples=["change"])
    """what to do"""
    category: str | None = api.CHANGED_CATEGORY
    question: str | None = Field(None, max_length=10_000)
    """of an ask: for every seat but the gatekeeper"""
    note: str = Field(default="", max_length=10_000)
    """why; it becomes a changed verdict's explanation"""
    clauses: list[str] = api.CLAUSES
    reviewer: str | None = api.REVIEWER
    answers: str | None = Field(None, max_length=80)
    """`question.id` as seen; 409 if tried again since"""


@router.post("/v1/cases/{case_id}/claim", responses=_CONFLICTS)
async def claim_case(
    case_id: api.CaseId, body: api.ClaimRequest, replica: CurrentReplica, who: Reviewer
) -> CaseResource:
    """Claim a case: until the claim ends nobody else can decide the case. Claim it again to keep it longer."""
    by = reviewer_name(who, body.reviewer)
    row = await replica.reviews.claim(
        case_id, by, body.seconds, who.audit_actor, leads=who.may("lead")
    )
    return CaseResource.from_row(row, blind=hides_verdict(replica, row, who))


@router.delete("/v1/cases/{case_id}/claim", responses=_CONFLICTS)
async def release_case(
    case_id: api.CaseId, replica: CurrentReplica, who: Reviewer, reviewer: api.ReviewerQuery = None
) -> CaseResource:
    """Give a claim back: somebody else may take the case. A lead gives back anybody's."""
    row = await replica.reviews.release(
        case_id, reviewer_name(who, reviewer), who.audit_actor, lead=who.may("lead")
    )
    return CaseResource.from_row(row, blind=hides_verdict(replica, row, who))


@router.post(
    "/v1/cases/{case_id}/decision",
    responses={
        200: {
            "model": Record,
            "description": "the record: decided, or, after an ask, pending again",
            "headers": api.describe_headers("Tribunal-Case"),
        },
        202: {
            "model": CaseResource,
            "description": "the case, which goes on: ask for it again at its Location",
            "headers": api.describe_headers("Location"),
        },
        **api.responses("not_found", "conflict", "busy"),
    },
)
async def decide_case(
    case_id: api.CaseId,
    body: ReviewDecision,
    request: Request,
    response: Response,
    replica: CurrentReplica,
    who: Reviewer,
    wait: Annotated[
        float, Query(ge=0, description="seconds to wait for the record", examples=[30])
    ] = 10.0,
) -> Record | CaseResource:
    """Decide a case. The first decision counts, and any replica carries it out; whoever comes second gets 409."""
    decision = body.model_dump(include={"action", "category", "question", "note", "clauses"})
    by = reviewer_name(who, body.reviewer)
    opened = await replica.reviews.decide(
        case_id, by, decision, body.answers, who.audit_actor, leads=who.may("lead")
    )
    if body.action in ("ask", "retry") and decides_blind(replica, who):
        row = await replica.case_store.case(case_id)
        if not asked_for(row, who):
            response.status_code = 202  # the new verdict is shown as the first was
            response.headers["Location"] = f"/v1/cases/{case_id}"
            return CaseResource.from_row(row, blind=True)
    return await answer_when_done(request, response, replica, opened, wait, only_here=False)


# Second opinions

_OPINION_ID = "opinion-9f86d081884c7d659a2f"
OpinionId = Annotated[str, api.id_path("second opinion", _OPINION_ID)]
OpinionStatus = Literal["waiting", "agreed", "disagreed", "settled"]


class PolicyCategory(api.ResponseBody):
    """A category of the policy that the case was decided under."""

    name: api.Category
    """its name"""
    meaning: str = Field(examples=["nothing of the following"])
    """what the policy says it is"""


class BlindClause(api.ResponseBody):
    """A clause of that policy."""

    id: str = Field(examples=["1.1"])
    """by which it is cited"""
    category: api.Category
    """the category that it belongs to"""
    rule: str = Field(examples=["Nobody calls a group vermin."])
    """what it says"""


class BlindCase(api.ResponseBody):
    """What whoever gives a second opinion sees: nothing of what was decided, nor by whom."""

    post: dict[str, Any] = Field(examples=[{"text": "hi"}])
    """its text, image, language, earlier posts"""
    policy: str = Field(examples=["h-vli"])
    """the policy's name"""
    definition: str = Field(examples=["Hate speech abuses people …"])
    """what the policy says it is"""
    exceptions: list[str] = Field(examples=[["It quotes hate to condemn it."]])
    """what it isn't"""
    categories: list[PolicyCategory]
    """its categories"""
    clauses: list[BlindClause] = Field(default_factory=list)
    """its clauses, which an opinion may cite"""


class SecondOpinion(api.ResponseBody):
    """A second opinion. What was decided first is told once it was given, and to leads alone."""

    id: str = Field(examples=[_OPINION_ID])
    """its own, which isn't the case's"""
    status: OpinionStatus
    """waiting for a person; agreed; disagreed: a lead sees to it; settled"""
    created: api.Seconds
    """when it was asked for, in seconds of the epoch"""
    claimed_by: api.Person | None
    """the person who has it before them"""
    claimed_until: api.Seconds | None
    """when that ends"""
    second: api.Person | None
    """who gave it"""
    second_category: api.Category | None
    """what they would decide"""
    note: str = Field(examples=["quoted to condemn it"])
    """why"""
    clauses: list[str] = Field(default_factory=list, examples=[["1.1"]])
    """the clauses of the policy that it rests on"""
    held_until: api.Seconds | None = None
    """when an opinion of the desk takes effect, while whoever gave it may undo it"""
    given: api.Seconds | None
    """when it was given"""
    case_id: str | None = Field(default=None, examples=[api.CASE_ID])
    """for leads: the case"""
    first: api.Person | None = None
    """for leads: who decided; court: no person"""
    first_category: api.Category | None = None
    """for leads: what they decided"""
    settled_by: api.Person | None = None
    """the lead who saw to it"""
    settled: api.Seconds | None = None
    """when"""
    appeal_id: str | None = Field(None, examples=[api.APPEAL_ID])
    """for leads: the appeal, if reopened"""
    shown: BlindCase | None = None
    """the post and the policy, where one was asked for"""


class OpinionQuery(api.PageQuery):
    """Which second opinions are listed."""

    status: OpinionStatus = Field(default="waiting", examples=["waiting"])
    """which; any but waiting needs the scope lead"""


class SecondOpinionPage(api.ResponseBody):
    """A page of second opinions."""

    second_opinions: list[SecondOpinion]
    """those of this page"""
    next: str | None = api.next_field(_OPINION_ID)


class OpinionRequest(api.RequestBody):
    """What a person would decide."""

    category: api.Category = Field(min_length=1, max_length=200)
    """of the policy, by its name or its number"""
    note: str = api.words_field("why", "quoted to condemn it", default="")
    clauses: list[str] = api.CLAUSES
    reviewer: str | None = api.REVIEWER


class SettleRequest(api.RequestBody):
    """A lead has seen to a disagreement."""

    reopen: str | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        pattern=r"^[^\x00]*$",
        examples=["the second reading is the better one"],
    )
    """why the case is reopened; none: the decision stays as it is"""
    lead: str | None = api.LEAD


_FOR_LEADS = ("case_id", "first", "first_category", "settled_by", "settled", "appeal_id")


def opinion_of_row(row: JSON, *, lead: bool, case: JSON | None = None) -> SecondOpinion:
    """Return a second opinion as it is shown: nobody sees what was decided first before the second was given."""
    hidden = () if lead and row["status"] != "waiting" else _FOR_LEADS
    return SecondOpinion.model_validate(
        {**row, **dict.fromkeys(hidden), "clauses": row["clauses"] or [], "shown": case}
    )


@opinions.get("", responses=api.responses())
async def list_second_opinions(
    replica: CurrentReplica, who: Reviewer, query: Annotated[OpinionQuery, Query()]
) -> SecondOpinionPage:
    """List second opinions, in an order that tells nothing of their cases."""
    if query.status != "waiting" and not who.may("lead"):
        raise Problem(
            "forbidden",
            f"this key's scopes are {', '.join(who.scopes)}; without lead give status=waiting",
        )
    rows = await replica.second_opinions.search(
        query.status, before=query.before, limit=query.limit
    )
    page = [opinion_of_row(row, lead=who.may("lead")) for row in rows]
    return SecondOpinionPage(second_opinions=page, next=query.next_of(rows))


@opinions.get("/{opinion_id}", responses=_CONFLICTS)
async def get_second_opinion(
    opinion_id: OpinionId, replica: CurrentReplica, who: Reviewer
) -> SecondOpinion:
    """Show the post and the categories. Leads alone are told what was decided first, once the second was given."""
    row, case = await replica.second_opinions.blind_case(opinion_id)
    return opinion_of_row(row, lead=who.may("lead"), case=case)


@opinions.post("/{opinion_id}/claim", responses=_CONFLICTS)
async def claim_second_opinion(
    opinion_id: OpinionId, body: api.ClaimRequest, replica: CurrentReplica, who: Reviewer
) -> SecondOpinion:
    """Claim a second opinion, which nobody else can give meanwhile. Whoever has decided the case can't claim it."""
    by = reviewer_name(who, body.reviewer)
    row = await replica.second_opinions.claim(opinion_id, by, body.seconds, who.audit_actor)
    return opinion_of_row(row, lead=False)


@opinions.delete("/{opinion_id}/claim", responses=_CONFLICTS)
async def release_second_opinion(
    opinion_id: OpinionId,
    replica: CurrentReplica,
    who: Reviewer,
    reviewer: api.ReviewerQuery = None,
) -> SecondOpinion:
    """Give a second opinion back: somebody else may take it."""
    row = await replica.second_opinions.release(
        opinion_id, reviewer_name(who, reviewer), who.audit_actor
    )
    return opinion_of_row(row, lead=False)


@opinions.post("/{opinion_id}/opinion", responses=_CONFLICTS)
async def give_second_opinion(
    opinion_id: OpinionId, body: OpinionRequest, replica: CurrentReplica, who: Reviewer
) -> SecondOpinion:
    """Give a second opinion. It changes no decision. The same again gets the same; whoever comes second gets 409."""
    by = reviewer_name(who, body.reviewer)
    row = await replica.second_opinions.give(
        opinion_id, by, body.category, body.note, who.audit_actor, clauses=body.clauses
    )
    return opinion_of_row(row, lead=who.may("lead"))


@opinions.post("/{opinion_id}/settle", responses=_CONFLICTS)
async def settle_second_opinion(
    opinion_id: OpinionId, body: SettleRequest, replica: CurrentReplica, who: Lead
) -> SecondOpinion:
    """Settle a disagreement: the decision stays, or the case is reopened, and a third person decides."""
    lead = reviewer_name(who, body.lead)
    row = await replica.second_opinions.settle(
        opinion_id, lead, body.reopen, who.key_id, who.audit_actor
    )
    return opinion_of_row(row, lead=True)
