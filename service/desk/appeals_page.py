"""Appeals and second opinions at the desk: what waits, one of them, and the form by which a lead reopens a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from markupsafe import Markup
from sqlalchemy import func, select

from tribunal.core.times import format_date
from tribunal.docket.case_search import post_text
from tribunal.errors import BadInput, Problem
from tribunal.explanations.case_drawing import draw_fragment
from tribunal.explanations.deciders import rule_of_policy
from tribunal.nodes.forms import clause_list
from tribunal.review.appeals import NewAppeal
from tribunal.review.claims import deciders, may_be_same_person, policy_of_case, undo_seconds_left
from tribunal.schema import JSON, Record
from tribunal.service.desk.case_page import CaseId, serve_image, view_for_moderators
from tribunal.service.desk.visits import AnyVisit, DeskVisit, FormResult, LeadVisit, ReviewerVisit
from tribunal.store.tables import cases

router = APIRouter()
RowId = Annotated[str, Path(max_length=80, pattern=r"^[\w-]+$")]
PAGE = 50
_EXCERPT = 200  # characters


@router.get("/appeals")
async def list_appeals(visit: AnyVisit) -> Response:
    """Show the open appeals, first those whose new run has finished; or the decided ones."""
    appeals = visit.replica.appeals
    decided = visit.parameter("of") == "decided"
    rows = []
    if decided:
        rows = await appeals.search(
            {"status": "decided"}, before=visit.parameter("before") or None, limit=PAGE
        )
    else:
        for status in ("tried", "waiting", "trying"):
            found = await appeals.search({"status": status}, limit=PAGE)
            rows += sorted(found, key=lambda row: float(row["created"]))
    await _describe_rows(visit, rows)
    return visit.page(
        "appeals.html.jinja", title="Appeals", here="/appeals",
        rows=rows, decided=decided, more=decided and len(rows) == PAGE,
    )  # fmt: skip


async def _describe_rows(visit: DeskVisit, rows: Sequence[JSON]) -> None:
    """Give each row the beginning of its post (`text`), and why this person may not take it (`barred`)."""
    store = visit.replica.store
    columns = cases.c.id, cases.c.record, func.substr(post_text(store), 1, _EXCERPT).label("text")
    wanted = select(*columns).where(cases.c.id.in_([row["case_id"] for row in rows]))
    described = {row["id"]: row for row in await store.fetch_rows(wanted)}
    for row in rows:
        case = described[row["case_id"]]
        claimed, mine = visit.claim_of(row)
        record = Record.model_validate(case["record"]) if case["record"] else None
        row["text"] = case["text"]
        row["barred"] = ""
        if row["answer"] is not None:
            row["barred"] = "is being decided now"
        elif record is not None and _had_part(visit, record):
            row["barred"] = "you decided this case, or may have"
        elif claimed and not mine:
            row["barred"] = "somebody else has claimed it"


@router.get("/appeals/{appeal_id}")
async def show_appeal(appeal_id: RowId, visit: AnyVisit) -> Response:
    """Show an appeal, the decision that it is about, and what its new run came to."""
    return await _render_appeal(visit, appeal_id, FormResult())


@router.post("/appeals/{appeal_id}")
async def act_on_appeal(appeal_id: RowId, visit: ReviewerVisit) -> Response:
    """Do what the button says. If that can't be done the page says why, and has what was typed."""
    replica = visit.replica
    appeals = visit.replica.appeals
    person = visit.person
    who = visit.who
    action = visit.form.get("action", "")
    try:
        visit.check_lengths()
        match action:
            case "claim":
                await appeals.claim(appeal_id, person, replica.options.desk_lease, who)
            case "release":
                await appeals.release(appeal_id, person, who, lead=visit.leads)
            case "uphold" | "change" | "retry":
                category = visit.form.get("category") or None if action == "change" else None
                clauses = () if action == "retry" else clause_list(visit.text("clauses"))
                await appeals.decide(
                    appeal_id, person, action, category=category, note=visit.text("note"), clauses=clauses, by=who,
                    undo_seconds=replica.options.desk_undo,
                )  # fmt: skip
            case "undo":
                await appeals.undo(appeal_id, person, replica.options.desk_lease, who)
            case _:
                raise Problem("bad_input", "action: unknown; reload the page")
    except (Problem, BadInput) as error:
        return await _render_appeal(visit, appeal_id, FormResult.from_error(error, visit.form))
    return visit.go(f"/appeals/{appeal_id}?said={action}")


@router.get("/appeals/{appeal_id}/image")
async def appeal_image(appeal_id: RowId, visit: AnyVisit) -> Response:
    """Serve the image of the post that the appeal is about."""
    appeals = visit.replica.appeals
    return await serve_image(await appeals.case_of(await appeals.find(appeal_id)))


async def _render_appeal(visit: DeskVisit, appeal_id: str, result: FormResult) -> Response:
    appeals = visit.replica.appeals
    row = await appeals.find(appeal_id)
    case = await appeals.case_of(row)
    trial = await appeals.trial(row)
    is_there = case["erased"] is None and case["record"]
    record = Record.model_validate(case["record"]) if is_there else None
    tried = (
        Record.model_validate(trial["record"])
        if trial and trial["record"] and trial["status"] == "done"
        else None
    )
    policy = None
    trouble = ""
    if record is not None:
        try:
            policy = await policy_of_case(visit.replica.store, case)
        except BadInput as error:
            trouble = str(error)
    decided = row["category"] or row["category_before"] or ""
    rule = rule_of_policy(policy, record.scheme, decided) if record and policy else None
    claimed, mine = visit.claim_of(row)
    what = "Appeal" if row["kind"] == "appeal" else "Reopened"
    return visit.page(
        "appeal.html.jinja", result=result, title=f"{what}: post {case['post_id'] or case['id']}", here="/appeals",
        row=row, record=record, tried=tried, trouble=trouble, claimed=claimed, mine=mine, rule=rule,
        undo_seconds=int(undo_seconds_left(row, visit.person)), clauses=policy.clauses if policy else (),
        cited=record.clauses if record else (),
        had_part=record is not None and _had_part(visit, record),
        explained=record and _draw_case(visit, row, record, case, policy.source if policy else None, "case-"),
        tried_explained=tried and _draw_case(visit, row, tried, trial or {}, None, "trial-"),
    )  # fmt: skip


def _had_part(visit: DeskVisit, record: Record) -> bool:
    """Return whether they may have decided the case themselves."""
    return any(may_be_same_person(visit.person, each) for each in deciders(record))


def _draw_case(
    visit: DeskVisit, row: JSON, record: Record, case: JSON, policy_text: str | None, prefix: str
) -> Markup:
    """Return a case, or the new run of an appeal, drawn as a part of the page."""
    post = case["post"] or {}
    image = visit.desk_address(f"/appeals/{row['id']}/image") if post.get("image") else None
    made: JSON = {
        "post": post,
        "image": image,
        "case": case["id"],
        "decided_at": format_date(case["finished"]),
    }
    try:
        return draw_fragment(
            view_for_moderators(record, policy_text=policy_text, **made), prefix=prefix
        )
    except (
        BadInput
    ):  # the text is of another policy; without it the page says less, and nothing wrong
        return draw_fragment(view_for_moderators(record, **made), prefix=prefix)


@router.get("/cases/{case_id}/reopen")
async def show_reopen_form(case_id: CaseId, visit: LeadVisit) -> Response:
    """Show the form by which a lead reopens a case."""
    return await _render_reopen_form(visit, case_id, FormResult())


@router.post("/cases/{case_id}/reopen")
async def reopen_case(case_id: CaseId, visit: LeadVisit) -> Response:
    """Open a decision again; another person decides."""
    reason = visit.text("reason")
    context = visit.text("context")
    try:
        visit.check_lengths()
        if not reason:
            raise Problem("bad_input", "reason: is empty; say why the case is reopened")
        new = NewAppeal(kind="reopened", appellant=visit.person, reason=reason, context=context)
        row, _ = await visit.replica.appeals.open_appeal(
            case_id, new, visit.session.who.key_id, visit.who
        )
    except (Problem, BadInput) as error:
        return await _render_reopen_form(visit, case_id, FormResult.from_error(error, visit.form))
    return visit.go(f"/appeals/{row['id']}?said=reopen")


async def _render_reopen_form(visit: DeskVisit, case_id: str, result: FormResult) -> Response:
    row = await visit.replica.case_store.case(case_id)
    return visit.page(
        "reopen.html.jinja", result=result, title=f"Reopen: post {row['post_id'] or row['id']}", row=row,
        appeals=await visit.replica.appeals.search({"case_id": case_id}, limit=PAGE),
    )  # fmt: skip


# Second opinions: the post and the policy alone; and for a lead, where two people differ.


@router.get("/second-opinions")
async def list_opinions(visit: ReviewerVisit) -> Response:
    """Show the open second opinions; to a lead, first the disagreements."""
    opinions = visit.replica.second_opinions
    rows = await opinions.search("waiting", limit=PAGE, besides=visit.person)
    differ = await opinions.search("disagreed", limit=PAGE) if visit.leads else []
    await _describe_rows(visit, [*rows, *differ])
    return visit.page(
        "opinions.html.jinja",
        title="Second opinions",
        here="/second-opinions",
        rows=rows,
        differ=differ,
    )


@router.get("/second-opinions/{opinion_id}")
async def show_opinion(opinion_id: RowId, visit: ReviewerVisit) -> Response:
    """Show the post and the policy; to a lead, once both have spoken, what each said."""
    return await _render_opinion(visit, opinion_id, FormResult())


@router.post("/second-opinions/{opinion_id}")
async def act_on_opinion(opinion_id: RowId, visit: ReviewerVisit) -> Response:
    """Do what the button says. Where that can't be done the page says why, and has what was typed."""
    opinions = visit.replica.second_opinions
    person = visit.person
    who = visit.who
    undo_seconds = visit.replica.options.desk_undo
    lease = visit.replica.options.desk_lease
    action, note, category = (visit.text(name) for name in ("action", "note", "category"))
    try:
        visit.check_lengths()
        match action:
            case "claim":
                await opinions.claim(opinion_id, person, lease, who)
                return visit.go(f"/second-opinions/{opinion_id}")
            case "release":
                await opinions.release(opinion_id, person, who)
            case "give":
                if not category:
                    raise Problem("bad_input", "category: choose a category")
                clauses = clause_list(visit.text("clauses"))
                await opinions.give(
                    opinion_id,
                    person,
                    category,
                    note,
                    who,
                    clauses=clauses,
                    undo_seconds=undo_seconds,
                )
            case "keep" | "reopen" if visit.leads:
                if action == "reopen" and not note:
                    raise Problem("bad_input", "note: say why the case is reopened")
                reason = note if action == "reopen" else None
                key_id = visit.session.who.key_id
                await opinions.settle(
                    opinion_id, person, reason, key_id, who, undo_seconds=undo_seconds
                )
            case "undo":
                await opinions.undo(opinion_id, person, lease, who)
                return visit.go(f"/second-opinions/{opinion_id}?said=undo")
            case _:
                raise Problem("bad_input", "action: unknown; reload the page")
    except (Problem, BadInput) as error:
        return await _render_opinion(visit, opinion_id, FormResult.from_error(error, visit.form))
    undoable = f"/{opinion_id}" if undo_seconds and action != "release" else ""
    return visit.go(f"/second-opinions{undoable}?said={action}")


@router.get("/second-opinions/{opinion_id}/image")
async def opinion_image(opinion_id: RowId, visit: ReviewerVisit) -> Response:
    """Serve the image of the post that the opinion is about."""
    opinions = visit.replica.second_opinions
    return await serve_image(await opinions.case_of(await opinions.find(opinion_id)))


async def _render_opinion(visit: DeskVisit, opinion_id: str, result: FormResult) -> Response:
    opinions = visit.replica.second_opinions
    row, shown = await opinions.blind_case(opinion_id)
    claimed, mine = visit.claim_of(row)
    record = Record.model_validate((await opinions.case_of(row))["record"])
    if not visit.leads or row["status"] == "waiting":  # nobody else is shown what was decided first
        row |= {"case_id": None, "first": None, "first_category": None}
    return visit.page(
        "opinion.html.jinja", result=result, title="Second opinion", here="/second-opinions", claimed=claimed,
        mine=mine, had_part=_had_part(visit, record), row=row, post=shown["post"], rule=shown, clauses=shown["clauses"],
        undo_seconds=int(undo_seconds_left(row, visit.person)),
    )  # fmt: skip
