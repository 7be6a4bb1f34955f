"""The page of a case, and what a person does with it there; all of it by the code that the API decides by."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import Response

from tribunal.core.calls import DEMO_NOTICE, REHEARSED
from tribunal.core.text import one_line, wellformed
from tribunal.core.times import database_now, format_date
from tribunal.docket import waiting_cases as notes
from tribunal.docket.decision_effects import count_earlier_decisions
from tribunal.docket.holds import retry_case
from tribunal.docket.record_rows import text_of
from tribunal.docket.waiting_cases import undo_seconds_left
from tribunal.errors import BadInput, Problem
from tribunal.explanations.case_drawing import draw_fragment
from tribunal.explanations.case_view import ActivityEntry, CaseNote, CaseView
from tribunal.explanations.deciders import recorded_policy, rule_of_policy
from tribunal.explanations.view_maker import view_case
from tribunal.models.image import load_picture, stored_file
from tribunal.review.explain import case_status
from tribunal.schema import JSON, Record
from tribunal.service.desk.case_lists import (
    decides_blind,
    filters_from_query,
    go_to_next_case,
    list_choices,
    query_string,
    submit_decision,
)
from tribunal.service.desk.pages import HEADERS
from tribunal.service.desk.visits import AnyVisit, DeskVisit, FormResult, ReviewerVisit, name_post
from tribunal.service.replica.near_copies import NearCopy
from tribunal.store import audit as audit_log

router = APIRouter()
CaseId = Annotated[str, Path(max_length=80, pattern=r"^[\w-]+$")]
_FIELDS = ("category", "note", "question", "clauses")
_EDGE = 1600  # pixels of an image's longest side
# A picture is looked at by itself: nothing in it may do anything.
_OF_AN_IMAGE = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
_PRACTICE_NOTICE = "Practice rules, no real model: don't rely on them."
_MOST_ACTIVITY = 500  # entries
_TITLE_CHARACTERS = 60
# What the audit log's kinds are called on the page.
_ACTIONS = {
    "case.decided": "finished it",
    "case.pending": "sent it to review",
    "case.cancelled": "cancelled it",
    "case.claimed": "claimed it",
    "case.given_back": "gave it back",
    "case.answered": "decided",
    "case.undone": "undid the decision",
    "case.released": "took it from its process",
    "case.escalated": "escalated it",
    "case.skipped": "skipped it",
    "case.noted": "wrote a note",
    "case.erased": "erased its text",
    "case.reopened": "reopened it",
    "appeal.claimed": "claimed the appeal",
    "appeal.given_back": "gave the appeal back",
    "appeal.answered": "decided the appeal, and may undo it",
    "appeal.undone": "undid the decision on the appeal",
    "appeal.trial": "ordered a new run",
    "appeal.tried": "finished the new run",
    "appeal.decided": "decided the appeal",
    "opinion.sought": "asked for a second opinion",
    "opinion.claimed": "claimed the second opinion",
    "opinion.given_back": "gave the second opinion back",
    "opinion.answered": "gave a second opinion, and may undo it",
    "opinion.undone": "undid the second opinion",
    "opinion.given": "gave a second opinion",
    "opinion.settled": "settled a disagreement",
}
_RECEIVED = {"case.taken_in": "", "case.appealed": "an appeal "}
# Which details of an entry are shown.
_SHOWN_DETAILS = (
    "action", "outcome", "category", "together", "until", "batch", "result", "reason_sha", "note_sha", "question_sha",
    "words_sha",
)  # fmt: skip


@router.get("/cases/{case_id}")
async def show_case(case_id: CaseId, visit: AnyVisit) -> Response:
    """Show a case with its policy and the form to decide it."""
    return await _render_case(visit, case_id, FormResult())


@router.post("/cases/{case_id}")
async def act_on_case(case_id: CaseId, visit: ReviewerVisit) -> Response:
    """Do what the button says. If that can't be done the page says why, and has what was typed."""
    row = await find_visible_case(visit, case_id)
    action = visit.form.get("action", "")
    wanted = filters_from_query(visit)
    replica = visit.replica
    person = visit.person
    who = visit.who
    try:
        visit.check_lengths()
        match action:
            case "retry" if visit.leads and row["question"] is None:
                await retry_case(replica.store, case_id, who, replica.outages.deadline())
                (replica.queued if row["batch_id"] is None else replica.feeder.wake).set()
            case "accept" | "change" | "ask" | "retry":
                return await submit_decision(visit, case_id, action)
            case "claim":
                await replica.reviews.claim(
                    case_id, person, replica.options.desk_lease, who, leads=visit.leads
                )
            case "release":
                await replica.reviews.release(case_id, person, who, lead=visit.leads)
            case "skip":
                await replica.reviews.skip(case_id, person, who)
            case "escalate":
                if not visit.text("note"):
                    raise Problem(
                        "bad_input", "not escalated yet: write a note that tells the leads why"
                    )
                await replica.reviews.escalate(
                    case_id, person, visit.text("note"), who, undo_seconds=replica.options.desk_undo
                )
            case "note":
                await notes.write_note(replica.store, case_id, person, visit.text("note"), who)
            case _:
                raise Problem("bad_input", "action: unknown; reload the page")
    except (Problem, BadInput) as error:
        result = FormResult.from_error(error, visit.form, f"case: {case_id}: ")
        return await _render_case(visit, case_id, result)
    if action in ("skip", "escalate"):
        done: JSON = {"said": action, "about": name_post(row)}
        if action == "escalate" and (undo_seconds := replica.options.desk_undo):
            done |= {"undo": case_id, "until": round(database_now() + undo_seconds)}
        return await go_to_next_case(visit, wanted, **done)
    typed = {name: visit.form.get(name, "") for name in _FIELDS}
    if action == "note":
        typed["note"] = ""
    if any(
        each.strip() for each in typed.values()
    ):  # nothing of it may be lost by going there anew
        result = FormResult(said="Done. What you typed is still below.", typed=typed)
        return await _render_case(visit, case_id, result)
    return visit.go(f"/cases/{case_id}{query_string(wanted, said=action, about=name_post(row))}")


@router.get("/cases/{case_id}/image")
async def case_image(case_id: CaseId, visit: AnyVisit) -> Response:
    """Serve the image of the post."""
    return await serve_image(await find_visible_case(visit, case_id))


async def serve_image(row: JSON) -> Response:
    """Serve the image of a case's post, drawn anew, so that nothing is in it but its pixels.

    Raises:
        Problem: it has none, or it can't be shown.
    """
    ref = _stored_image(row)
    if ref is None:
        raise Problem("not_found", "the post has no image, or none is stored here")
    try:
        found = await load_picture(ref, _EDGE)
    except BadInput as error:
        raise Problem("not_found", f"the image can't be shown: {error}") from None
    raw = base64.b64decode(found.data_uri.partition(",")[2])
    return Response(raw, media_type="image/jpeg", headers=_OF_AN_IMAGE)


def _stored_image(row: JSON) -> str | None:
    """Return where the image of a case's post lies on this machine, or what was sent; None where it has none here.

    It isn't fetched again: that would tell the other side that somebody looks, and might bring another one.
    """
    ref = (row["post"] or {}).get("image")
    sha = (row["record"] or {}).get("image_sha256")
    if not ref or ref.startswith("data:"):
        return ref or None
    file = stored_file(sha) if sha else None
    return str(file) if file else None


async def find_visible_case(visit: DeskVisit, case_id: str) -> JSON:
    """Return the row of a case that its visitor may see; raise Problem if there is none for them."""
    row = await visit.replica.case_store.case(case_id)
    reviewed = row["question"] is not None or row["reviewer"] is not None
    if not reviewed and not visit.sees_all:
        raise Problem(
            "not_found",
            f"case: {case_id[:80]}: no case under review or decided by a reviewer has this id",
        )
    return row


async def _render_case(visit: DeskVisit, case_id: str, result: FormResult) -> Response:
    row = await find_visible_case(visit, case_id)
    store = visit.replica.store
    record = (
        Record.model_validate(row["record"])
        if row["record"] and "cancelled" not in row["record"]
        else None
    )
    claimed, mine = visit.claim_of(row)
    status = case_status(row, reviewer=visit.person, appeals=await _open_appeals(visit, case_id))
    written = [
        _view_note(each)
        for each in await notes.list_notes(store, case_id)
        if each["kind"] != "skipped"
    ]
    activity = [
        _view_activity(audit_log.readable(each))
        for each in await audit_log.page(store, limit=_MOST_ACTIVITY, subject=case_id)
    ]
    # While another person may still undo their decision, the case may come to wait for this one.
    may_wait = status.open or undo_seconds_left(row) > undo_seconds_left(row, visit.person)
    blind = may_wait and await decides_blind(visit, case_id)
    policy = None
    rule = None
    view = None
    trouble = ""
    policy_text = None
    verdict = (record.review.court if record and record.review else None) or row
    if record is not None:
        try:
            policy_text = await text_of(store, record.policy.get("sha"), "policy")
            policy = recorded_policy(record, policy_text)
            in_question = "" if blind else row["category"] or verdict.get("category") or ""
            rule = policy and rule_of_policy(policy, record.scheme, in_question)
        except BadInput as error:
            policy_text = None
            trouble = str(error)
        # Cues tell what the model looked at.
        seen = (
            record.model_copy(update={"cues": (), "transcript": (), "evidence": ()})
            if blind
            else record
        )
        view = view_for_moderators(
            seen, post=row["post"], policy_text=policy_text, case=case_id,
            image=visit.desk_address(f"/cases/{case_id}/image") if _stored_image(row) else None,
            image_absent="The image isn't stored here.",
            erased=format_date(row["erased"]) if row["erased"] else None,
            decided_at=None if status.open else format_date(row["finished"]), answered_by=status.decided_by,
        )  # fmt: skip
    near = await visit.replica.nearest_cases.find(view.post.text if view else "", besides=case_id)
    picked = visit.picked_cases()
    copies = list[NearCopy]()
    if status.open and visit.decides:
        copies = await visit.replica.near_copies.find(case_id, picked)
    sha = row["author_sha"]
    history = await count_earlier_decisions(store, sha, besides=case_id) if sha else None
    names = _find_category_names(row["question"] and row["question"]["form"])
    categories = list_choices(names, policy, record.scheme if record else "fine")
    return visit.page(
        "case.html.jinja", result=result, title=_page_title(row, view, blurs=visit.blurs_texts),
        again=bool(result.typed), query=query_string(filters_from_query(visit)), row=row, case_status=status,
        rule=rule, view=view, blind=blind,
        post_drawn=view and draw_fragment(view, part="post"),
        trial_drawn=view and not blind and draw_fragment(view, part="trial"),
        has_verdict=verdict.get("outcome") == "verdict",
        undo_seconds=undo_seconds_left(row, visit.person), copies=copies, picked=picked,
        clauses=policy.clauses if policy else (), cited=() if blind else verdict.get("clauses") or (),
        nearest=near, author=history, categories=categories, trouble=trouble, mine=mine, claimed=claimed,
        model_category=verdict.get("category") or "", confidence=verdict.get("confidence"),
        image_unseen=bool(view and view.post.image and record and record.shown and "image" not in record.shown),
        model_verdict=verdict.get("category") or verdict.get("outcome") or "the outcome",
        may_decide=status.open and visit.decides and (mine or not claimed)
        and (visit.leads or row["escalated"] is None),
        notes=written, activity=[] if blind else activity,
    )  # fmt: skip


def _page_title(row: JSON, view: CaseView | None, *, blurs: bool) -> str:
    """Return the first words of a post; its id where it has none, or where this person blurs texts."""
    words = one_line(view.post.text) if view and not blurs else ""
    if len(words) > _TITLE_CHARACTERS:
        words = words[:_TITLE_CHARACTERS].rsplit(" ", 1)[0] + "…"
    return words or f"Post {row['post_id'] or row['id']}"


def view_for_moderators(record: Record, **at_hand: Any) -> CaseView:
    """Return the picture of a case, as `view_case` does, without words about how the service is run."""
    view = view_case(record, **at_hand)
    return view.model_copy(update={
        "banners": tuple(_PRACTICE_NOTICE if each == DEMO_NOTICE else each for each in view.banners),
        "warnings": tuple(each for each in view.warnings if each != REHEARSED),
    })  # fmt: skip


async def _open_appeals(visit: DeskVisit, case_id: str) -> tuple[str, ...]:
    """Return the appeals against a case that are open, in words."""
    kinds = {"appeal": "Appeal", "reopened": "Reopened"}
    return tuple(
        f"{kinds[each['kind']]}: open since {format_date(each['created'])} ({each['id']})"
        for each in await visit.replica.appeals.search({"case_id": case_id}, limit=10)
        if each["status"] != "decided"
    )


def _find_category_names(schema: Any) -> list[str]:
    """Return the categories that the form of an answer names."""
    if isinstance(schema, dict):
        category = schema.get("category")
        if isinstance(category, dict) and isinstance(category.get("enum"), list):
            return [str(each) for each in category["enum"]]
        schema = list(schema.values())
    if isinstance(schema, list):
        return next((names for each in schema if (names := _find_category_names(each))), [])
    return []


def _view_note(row: JSON) -> CaseNote:
    at = format_date(row["at"])
    return CaseNote(
        by=row["person"], at=f"{at}, to the leads" if row["kind"] == "escalated" else at,
        words=row["words"] or "(erased)",
    )  # fmt: skip


def _view_activity(row: JSON) -> ActivityEntry:
    details = row["details"] or {}
    who = (
        "the service"
        if row["who"] == "replica"
        else details.get("reviewer") or row["name"] or row["who"]
    )
    did = str(_ACTIONS.get(row["kind"], row["kind"]))
    if row["kind"] == "case.undone" and details.get("action") == "escalate":
        did = "undid the escalation"
    if row["kind"] in _RECEIVED:  # whose key it is sent it, and no person took it
        who, did = "Received", f"{_RECEIVED[row['kind']]}(key: {who})"
    shown = []
    for name in _SHOWN_DETAILS:
        value = details.get(name)
        if value is not None:
            words = f"(hash {value[:12]})" if name.endswith("_sha") else wellformed(str(value))
            words = format_date(value) if name == "until" and isinstance(value, float) else words
            shown.append(f"{name.removesuffix('_sha')}: {words}")
    return ActivityEntry(
        number=row["seq"], by=wellformed(str(who)), did=wellformed(did),
        at=format_date(row["at"]), details=tuple(shown),
    )  # fmt: skip
