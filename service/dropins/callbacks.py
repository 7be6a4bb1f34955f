"""Decisions that people made elsewhere: in ROOST Coop, by its action callbacks, and in Label Studio, by its webhooks.

Each is kept as that person's decision of a case that waits here, as if they had sent it themselves. Either program may
send the same more than once; what was decided so already is answered, and changes nothing.
"""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import select

from tribunal.case_decider import find_models_outcome
from tribunal.cases.problem import Problem
from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.exports.label_studio import LabelledTask, labelled_case
from tribunal.schema import JSON
from tribunal.service.replica.case_intake import reviewer_name
from tribunal.service.replica.coop_signature import is_signed_by_coop
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.replica import Replica
from tribunal.service.routes.access import CurrentReplica, KeyFirst, Reviewer
from tribunal.service.routes.parameters import CASE_ID, responses
from tribunal.store.tables import cases

router = APIRouter(tags=["decisions made elsewhere"], route_class=KeyFirst)
_ANSWERS = responses("not_found", "conflict")
_LONGEST_ID, _LONGEST_WORDS = 200, 10_000


class CallbackResult(BaseModel):
    """Tell what became of a callback."""

    case: str | None = Field(default=None, description="the case that it decides", examples=[CASE_ID])
    result: Literal["decided", "repeated", "ignored"] = Field(
        description="decided: just now; repeated: it was decided so already; ignored: it is no decision of a person",
        examples=["decided"],
    )
    reason: str | None = Field(default=None, description="why it was ignored", examples=["no moderator acted"])


async def decide_as_elsewhere(
    replica: Replica, who: Caller, case_id: str, person: str, category: str, note: str
) -> CallbackResult:
    """Keep what a person decided elsewhere as their decision of a case.

    Args:
        replica: the service.
        who: whose key the request has.
        case_id: the case.
        person: who decided.
        category: what they decided on, by its name in the policy.
        note: why; it becomes a changed verdict's explanation.

    Raises:
        Problem: there is no such case, it doesn't wait for them, or it was decided otherwise.
        BadInput: the case's policy has no such category.
    """
    row, by = await replica.case_store.case(case_id), reviewer_name(who, person)
    if _is_repeated(row, by, category):
        return CallbackResult(case=case_id, result="repeated")
    decision: JSON = {"action": "change", "category": category, "note": note}
    seen = None
    if category == find_models_outcome(row["record"]).get("category"):
        # It accepts what the models have come to so far, and is refused where the case is tried again meanwhile.
        decision, seen = {"action": "accept", "note": note}, (row["question"] or {}).get("id")
    await replica.reviews.decide(case_id, by, decision, seen, who.audit_actor, leads=who.may("lead"))
    return CallbackResult(case=case_id, result="decided")


def _is_repeated(row: JSON, by: str, category: str) -> bool:
    """Return whether this person has decided a case so, or is just deciding it so."""
    answer: JSON = (row["answer"] or {}).get("answer") or {}
    if answer.get("type") in ("accept", "edit"):
        changed: JSON = (answer.get("args") or {}).get("args") or {}
        accepted = find_models_outcome(row["record"]).get("category")
        chosen = changed.get("category", str(changed.get("label"))) if changed else accepted
        return (answer.get("reviewer"), chosen) == (by, category)
    record: JSON = row["record"] or {}
    review: JSON = record.get("review") or {}
    if review.get("action") is None or review.get("reviewer") != by:
        return False
    appeals = record.get("appeals") or ()  # the decision is what stood before the first of them
    decided = appeals[0]["before"].get("category") if appeals else record.get("category")
    return bool(decided == category)


# ROOST Coop


class CoopActedItem(BaseModel):
    """Hold the item that a moderator acted on."""

    id: str = Field(
        max_length=_LONGEST_ID, description="its id: the case's `post_id`, or the case's own", examples=["p-1"]
    )


class CoopPolicy(BaseModel):
    """Hold a policy of Coop's that an action is for."""

    name: str = Field(default="", max_length=_LONGEST_ID, description="its name", examples=["Dehumanization"])


class CoopCustom(BaseModel):
    """Hold what is set in the body of an action in Coop, or chosen with it."""

    category: str | None = Field(
        default=None, max_length=_LONGEST_ID, description="the category of the case's policy", examples=["NotHate"]
    )
    case: str | None = Field(default=None, max_length=80, description="the case's id", examples=[CASE_ID])


class CoopAction(BaseModel):
    """Hold what is read of an action that Coop sends; whatever else it sends is not read."""

    item: CoopActedItem = Field(description="what was acted on")
    policies: list[CoopPolicy] = Field(default=[], max_length=100, description="the policies that it breaks")
    custom: CoopCustom | None = Field(default=None, description="set with the action")
    actorEmail: str | None = Field(  # as Coop's JSON has it
        default=None, max_length=_LONGEST_ID, description="who acted; none: a rule did", examples=["kim@example.com"]
    )
    actorNote: str = Field(default="", max_length=_LONGEST_WORDS, description="their note", examples=["quoted"])
    decisionReason: str = Field(default="", max_length=_LONGEST_WORDS, description="their reason", examples=["a slur"])


async def check_coop_signature(request: Request, replica: CurrentReplica) -> None:
    """Check that Coop signed a body; raise BadInput if it didn't, or this service has no key of Coop's."""
    if replica.coop_key is None:
        raise BadInput(
            "coop_key: isn't set, and nothing else shows that Coop sent this; tribunal serve --coop-key FILE"
        )
    if not is_signed_by_coop(replica.coop_key, request.headers.get("Coop-Signature", ""), await request.body()):
        raise BadInput("Coop-Signature: isn't that of this body by the key of coop_key; nothing was changed")


@router.post("/v1/coop/actions", responses=_ANSWERS, dependencies=[Depends(check_coop_signature)])
async def decide_by_coop(body: CoopAction, replica: CurrentReplica, who: Reviewer) -> CallbackResult:
    """Take an action of a moderator in Coop as their decision of the case."""
    if not body.actorEmail:
        return CallbackResult(result="ignored", reason="no moderator acted: it names no actorEmail")
    custom = body.custom or CoopCustom()
    names = dict.fromkeys(each.name for each in body.policies if each.name)
    if custom.category is None and len(names) != 1:
        raise BadInput(
            f"policies: {', '.join(names)[:80] or 'none'}: are no one category; set `category` in the action's body, "
            "or act by one policy that is named as a category"
        )
    case_id = custom.case or await _find_case(replica, body.item.id)
    category = custom.category or next(iter(names))
    note = body.actorNote or body.decisionReason
    return await decide_as_elsewhere(replica, who, case_id, body.actorEmail, category, note)


async def _find_case(replica: Replica, item: str) -> str:
    """Return the id of the case of an item: the one that waits, else the last one.

    Raises:
        Problem: there is none, or several wait.
    """
    named = (cases.c.post_id == item) | (cases.c.id == item)
    columns = cases.c.id, cases.c.question.is_not(None).label("waits")
    query = select(*columns).where(named, cases.c.appeal_id.is_(None))
    waiting_first = cases.c.question.is_(None), cases.c.created.desc()
    rows = await replica.store.fetch_rows(query.order_by(*waiting_first).limit(50))
    waiting = [row["id"] for row in rows if row["waits"]]
    if len(waiting) > 1:
        raise Problem("conflict", f"item: {item}: {len(waiting)} cases of it wait; name one as `case` in `custom`")
    if not rows:
        raise Problem("not_found", f"item: {item}: there is no case of this post_id")
    return str(waiting[0] if waiting else rows[0]["id"])


# Label Studio


class LabelStudioTask(BaseModel):
    """Hold the task that was annotated, as this program exported it."""

    data: dict[str, Any] = Field(description="the task's data", examples=[{"case": CASE_ID, "court": "NotHate"}])


class LabelStudioEvent(BaseModel):
    """Hold what is read of an event that Label Studio sends; whatever else it sends is not read."""

    action: str = Field(max_length=80, description="what happened", examples=["ANNOTATION_CREATED"])
    annotation: dict[str, Any] | None = Field(
        default=None, description="of an annotation that was created or updated", examples=[{"id": 1, "result": []}]
    )
    task: LabelStudioTask | None = Field(default=None, description="what was annotated")


@router.post("/v1/label-studio/annotations", responses=_ANSWERS)
async def decide_by_label_studio(body: LabelStudioEvent, replica: CurrentReplica, who: Reviewer) -> CallbackResult:
    """Take an annotation of a case's task as the annotator's decision of the case."""
    if body.action not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
        return CallbackResult(result="ignored", reason=f"{body.action}: is no annotation that was created or updated")
    if body.annotation is None or body.task is None:
        raise BadInput("annotation: has to be sent with its task; set the webhook to send its payload")
    try:
        task = LabelledTask.model_validate({"data": body.task.data, "annotations": [body.annotation]})
    except ValidationError as error:
        raise BadInput(f"{describe_validation_error(error)}; annotate tasks that this program has exported") from None
    labelled = labelled_case(task)
    if labelled.category is None:
        return CallbackResult(case=labelled.data.case, result="ignored", reason="no category was chosen")
    return await decide_as_elsewhere(
        replica, who, labelled.data.case, labelled.by[:_LONGEST_ID], labelled.category, labelled.note[:_LONGEST_WORDS]
    )
