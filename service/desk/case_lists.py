"""Lists of cases at the desk: the queue, the search and the board; and the decisions on the cases of the queue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import ValidationError
from sqlalchemy import select

from tribunal.core.times import DAY, database_now
from tribunal.docket import waiting_cases as notes
from tribunal.docket.case_search import CaseFilter
from tribunal.docket.waiting_cases import names_of_person
from tribunal.errors import BadInput, Problem
from tribunal.explanations.case_drawing import mark_cues
from tribunal.explanations.deciders import find_models_outcome
from tribunal.explanations.quotations import cut_segments
from tribunal.nodes.forms import clause_list
from tribunal.prompts.policy import Policy
from tribunal.review.claims import policy_of_case
from tribunal.schema import JSON, Cue, Frozen, Scheme
from tribunal.service.desk.pages import parse_days
from tribunal.service.desk.visits import (
    AnyVisit,
    Cookies,
    DeskVisit,
    OverseerVisit,
    ReviewerVisit,
    name_post,
)
from tribunal.service.replica import case_queries
from tribunal.service.replica.case_intake import OpenCase
from tribunal.service.replica.case_queries import PAGE, VERDICT_FILTERS, QueueFilter, model_category
from tribunal.service.replica.figures import DayFigures, TimeSpan, count_figures
from tribunal.service.replica.near_copies import MOST_TOGETHER
from tribunal.service.routes.monitoring import FigureTimes
from tribunal.settings.validation import describe_validation_error
from tribunal.store import audit as audit_log
from tribunal.store.tables import audit

router = APIRouter()
OUTCOMES = ("verdict", "refusal", "failure", "pending")
_SEARCH_FIELDS = ("post_id", "text", "category", "outcome", "reviewer", "since", "until")


def filters_from_query(visit: DeskVisit) -> QueueFilter:
    """Return which cases the address asks for; raise Problem if a filter is wrong."""
    given = {name: visit.parameter(name, 1000) for name in QueueFilter.model_fields}
    if visit.hides_verdicts:
        given = {name: value for name, value in given.items() if name not in VERDICT_FILTERS}
        given["sort"] = given["sort"] if given["sort"] in ("oldest", "newest") else ""
    try:
        return QueueFilter.model_validate({name: value for name, value in given.items() if value})
    except ValidationError as error:
        raise Problem("bad_input", describe_validation_error(error)) from None


def query_string(wanted: QueueFilter, **more: object) -> str:
    """Return the filters as a part of an address, with its question mark."""
    fields = {
        **wanted.model_dump(exclude_defaults=True),
        **{name: value for name, value in more.items() if value},
    }
    return f"?{urlencode(fields)}" if fields else ""


@router.get("/queue")
async def show_queue(visit: AnyVisit) -> Response:
    """Return how many wait, and a page of them."""
    store = visit.replica.store
    wanted = filters_from_query(visit)
    blind = visit.hides_verdicts
    there = await case_queries.count_queue(store, wanted, visit.person, blind=blind)
    pages = max(1, math.ceil(there.lines / PAGE))
    given = visit.parameter("page", 9)
    page = min(pages, max(1, int(given) if given.isdecimal() else 1))
    rows = await case_queries.list_queue(store, wanted, visit.person, page, blind=blind)
    copies = await visit.replica.near_copies.count([row["id"] for row in rows])
    for row in rows:
        cues = [] if blind else [Cue.model_validate(each) for each in row["cues"] or ()]
        row["segments"] = cut_segments(row["text"] or "", mark_cues((), cues, row["text"] or ""))
    return visit.page(
        "queue.html.jinja", title="Queue", here="/queue", wanted=wanted, there=there, rows=rows, page=page,
        pages=pages, copies=copies, most_together=MOST_TOGETHER, providers=await visit.replica.outages.show(),
        query=query_string(wanted), earlier=query_string(wanted, page=page - 1),
        later=query_string(wanted, page=page + 1),
    )  # fmt: skip


@router.post("/next")
async def take_next_case(visit: ReviewerVisit) -> Response:
    """Claim the next case, and go to it."""
    return await go_to_next_case(visit, filters_from_query(visit))


@router.post("/together")
async def open_together(visit: ReviewerVisit) -> Response:
    """Claim the first of the cases that were ticked, and go to its page, where the others are ticked beside it."""
    wanted = filters_from_query(visit)
    reviews = visit.replica.reviews
    picked = [name.removeprefix("pick.") for name in visit.form if name.startswith("pick.")]
    if not picked:
        raise Problem("bad_input", "pick: tick one or more cases first")
    first, *others = picked
    await reviews.claim(
        first, visit.person, visit.replica.options.desk_lease, visit.who, leads=visit.leads
    )
    return visit.go(f"/cases/{first}{query_string(wanted, also=','.join(others))}")


async def go_to_next_case(visit: DeskVisit, wanted: QueueFilter, **done: object) -> Response:
    """Claim the next case that matches the filters and go to it; to the queue where there is none.

    Args:
        visit: whose.
        wanted: which cases they work through.
        done: what was done before, as parameters of the address: `said` is what, as `messages.html.jinja` has it;
            `about` the post's name; `category_now` what it was changed to; `others` how many were decided with it, and
            `left_out` which were not; `undo` which can be undone `until` then.
    """
    reviews = visit.replica.reviews
    lease = visit.replica.options.desk_lease
    for case_id in await case_queries.next_cases(
        visit.replica.store, wanted, visit.person, leads=visit.leads
    ):
        try:
            await reviews.claim(case_id, visit.person, lease, visit.who, leads=visit.leads)
        except Problem as problem:
            if problem.kind not in ("conflict", "not_found"):
                raise
            continue  # somebody was faster
        return visit.go(f"/cases/{case_id}{query_string(wanted, **done)}")
    return visit.go(f"/queue{query_string(wanted, **{**done, 'said': done.get('said') or 'none'})}")


@router.get("/break")
async def suggest_break(visit: ReviewerVisit) -> Response:
    """Suggest a break."""
    query = query_string(filters_from_query(visit))
    return visit.page("break.html.jinja", title="Time for a break", query=query)


@router.post("/break")
async def end_break(visit: ReviewerVisit) -> Response:
    """They go on."""
    await visit.sessions.count_hard_case(visit.session, hard=False)
    return await go_to_next_case(visit, filters_from_query(visit))


@router.get("/help")
async def show_help(visit: AnyVisit) -> Response:
    """Show the keyboard shortcuts, and how a case is decided."""
    return visit.page("help.html.jinja", title="Keyboard shortcuts and help")


@router.post("/blur")
async def switch_blur(visit: AnyVisit) -> Response:
    """Blur the texts of posts in this browser from now on, or no longer."""
    answer = visit.go("/help")
    if visit.blurs_texts:
        Cookies(visit.request).delete(answer, "blur")
    else:
        Cookies(visit.request).write(answer, "blur", "1")
    return answer


@router.get("/search")
async def search_cases(visit: AnyVisit) -> Response:
    """Show the form and a page of results; with an empty form, the newest cases."""
    given = {name: visit.parameter(name, 1000) for name in _SEARCH_FIELDS}
    filled: dict[str, Any] = {name: value for name, value in given.items() if value}
    before = visit.parameter("before") or None
    rows = []
    wrong = None
    status = 200
    try:
        if given["outcome"] and given["outcome"] not in OUTCOMES:
            raise Problem("bad_input", f"outcome: unknown; it is one of {', '.join(OUTCOMES)}")
        query = CaseFilter.model_validate(filled | parse_days(given))
        rows = await case_queries.search_cases(
            visit.replica.store,
            query,
            reviewed=not visit.sees_all,
            before=before,
            blind=visit.hides_verdicts,
        )
    except Problem as problem:
        wrong = problem.message
        status = problem.status
    older = urlencode({**filled, "before": rows[-1]["id"]}) if len(rows) == PAGE else None
    return visit.page(
        "search.html.jinja", status, title="Search", here="/search", given=given, rows=rows, wrong=wrong,
        outcomes=OUTCOMES, first=urlencode(filled) if before else None, later=older,
    )  # fmt: skip


_MOST_DAYS = 400  # of a picture


@router.get("/board")
async def show_board(visit: OverseerVisit) -> Response:
    """Show the figures of a time: the last 30 days, or from one day to another."""
    wrong = None
    status = 200
    try:
        times = parse_days({name: visit.parameter(name) for name in ("since", "until")})
        # Not validated: the board takes any day that there is.
        span, _ = FigureTimes.model_construct(None, **times).spans()
    except Problem as problem:
        wrong = problem.message
        status = problem.status
        span, _ = FigureTimes().spans()
    figures = await count_figures(visit.replica.store, span)
    return visit.page(
        "board.html.jinja", status, title="Board", here="/board", wrong=wrong, f=figures, outcomes=OUTCOMES,
        since=_day_of(span.since), until=_day_of(span.until - 1), days=_fill_days(figures.days, span),
    )  # fmt: skip


def _day_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _fill_days(days: list[DayFigures], span: TimeSpan) -> list[DayFigures]:
    """Return every day of a time, with or without posts; of a very long time only the days with posts."""
    if span.until - span.since > _MOST_DAYS * DAY:
        return days[-_MOST_DAYS:]
    by_name = {day.day: day for day in days}
    numbers = range(int(span.since // DAY), int((span.until - 1) // DAY) + 1)
    return [
        by_name.get(day) or DayFigures(day=day)
        for day in (_day_of(number * DAY) for number in numbers)
    ]


# Decisions at the desk: submitted of a case, and undone in the first seconds, before anything comes of them

_MOST_NAMED = 10  # of the cases that could not be decided
_SOON = 1.0  # seconds in which a decision is usually carried out


class CategoryChoice(Frozen):
    """A category that a person may choose, with its reasons in the policy's language; letters translate them."""

    name: str
    meaning: str = ""
    reasons: tuple[str, ...] = ()


def list_choices(
    names: Sequence[str], policy: Policy | None, scheme: Scheme
) -> list[CategoryChoice]:
    """Return the categories of these names; without a policy, or where it lacks one, the name alone."""
    if policy is None:
        return [CategoryChoice(name=name) for name in names]
    known = {
        each.name: CategoryChoice(
            name=each.name, meaning=each.meaning, reasons=policy.reasons_for(each)
        )
        for each in policy.categories(scheme)
    }
    return [known.get(name, CategoryChoice(name=name)) for name in names or known]


def read_decision(visit: DeskVisit, action: str) -> JSON:
    """Return what the form decides, as `Reviews.decide` takes it; raise Problem if something is missing."""
    note, question, category = (visit.text(name) for name in ("note", "question", "category"))
    note = note or visit.text("canned")
    if action == "retry":
        return {"action": action}
    if action == "ask":
        if not question:
            raise Problem("bad_input", "question: is empty; write a question for the model")
        return {"action": action, "question": question}
    clauses = clause_list(visit.text("clauses"))
    if action == "accept":
        return {"action": action, "note": note, "clauses": clauses}
    if not category:
        raise Problem("bad_input", "category: choose a category")
    return {"action": action, "note": note, "category": category, "clauses": clauses}


async def submit_decision(visit: DeskVisit, case_id: str, action: str) -> Response:
    """Write down what the form decides of a case, and go on to the next one.

    Raises:
        Problem, BadInput: as `Reviews.decide`, or something is missing in the form.
    """
    decision = read_decision(visit, action)
    replica = visit.replica
    undo_seconds = replica.options.desk_undo
    before = await replica.case_store.case(case_id)
    answers = visit.form.get("answers") or None
    again = action in ("ask", "retry")
    others = {} if again else _read_others(visit, case_id)
    together = [case_id, *others] if others else []
    blind = not again and await decides_blind(visit, case_id)
    opened = await _decide_one(visit, before, decision, answers, together, blind=blind)
    left_out = await _decide_others(visit, before, decision, others, together)
    about = name_post(before)
    decided = [each for each in together if each not in left_out] or [case_id]
    if again and (note := visit.text("note")):  # it isn't part of what is asked, and not to be lost
        await notes.write_note(replica.store, case_id, visit.person, note, visit.who)
    elif (
        not again and not undo_seconds
    ):  # which asks no model, so that it has nearly always come to its end then
        await opened.outcome(_SOON)
    if decision.get("category") == model_category(before):
        action = "accept"
    done: JSON = {"said": action, "about": about, "category_now": decision.get("category", "")}
    if action == "change" and decision["category"] == model_category(before):
        done["said"] = "accept"
    if blind:
        done |= {"said": "blind", "court": model_category(before) or ""}
    if others:
        done |= {
            "others": len(decided) - 1,
            "left_out": "\n".join(list(left_out.values())[:_MOST_NAMED]),
        }
    if undo_seconds:
        done |= {"undo": ",".join(decided), "until": round(database_now() + undo_seconds)}
    wanted = filters_from_query(visit)
    most = replica.options.desk_break
    hard_case = bool((before["post"] or {}).get("image")) or await _decides_hate(
        visit, before, decision
    )
    hard = await visit.sessions.count_hard_case(visit.session, hard=hard_case)
    if most and hard >= most:
        return visit.go(f"/break{query_string(wanted, **done)}")
    return await go_to_next_case(visit, wanted, **done)


async def _decides_hate(visit: DeskVisit, row: JSON, decision: JSON) -> bool:
    """Return whether a post is hateful by what was just decided of it; by the model's verdict if that remains."""
    if decision["action"] != "change":
        return bool(find_models_outcome(row["record"]).get("hateful"))
    scheme = row["record"]["scheme"]
    try:
        policy = await policy_of_case(visit.replica.store, row)
    except BadInput:  # the policy isn't known any more, so nobody can tell
        return True
    return policy.is_hate(scheme, policy.label(scheme, decision["category"])) is True


def _read_others(visit: DeskVisit, case_id: str) -> dict[str, str]:
    """Return the cases that are to be decided together with this one, each with the question that was before them."""
    ticked = {
        name.removeprefix("also."): value
        for name, value in visit.form.items()
        if name.startswith("also.")
    }
    if len(ticked) > MOST_TOGETHER:
        raise Problem(
            "bad_input", f"also: {len(ticked)} cases are ticked; tick at most {MOST_TOGETHER}"
        )
    return {each: question for each, question in ticked.items() if each != case_id}


async def decides_blind(visit: DeskVisit, case_id: str) -> bool:
    """Return whether this person decides a case without seeing the model verdict: by the setting, the first time.

    Whoever has undone a decision has seen the verdict.
    """
    if not visit.hides_verdicts:
        return False
    rows = await visit.replica.store.fetch_rows(
        select(audit.c.details).where(audit.c.subject == case_id, audit.c.kind == "case.undone")
    )
    names = names_of_person(visit.person)
    undone = [audit_log.readable(dict(row))["details"] or {} for row in rows]
    return not any(
        each.get("reviewer") in names and each.get("action") != "escalate" for each in undone
    )


async def _decide_one(
    visit: DeskVisit,
    row: JSON,
    decision: JSON,
    question: str | None,
    together: Sequence[str],
    *,
    blind: bool,
) -> OpenCase:
    """Decide a case. Whoever chooses the model's category has accepted its verdict."""
    court = model_category(row)
    noted: JSON = {"together": list(together)} if together else {}
    if blind:
        noted |= {"blind": True, "court": court}
    if decision["action"] == "change" and decision["category"] == court:
        decision = {"action": "accept", "note": decision["note"], "clauses": decision["clauses"]}
    return await visit.replica.reviews.decide(
        row["id"], visit.person, decision, question, visit.who, leads=visit.leads,
        undo_seconds=visit.replica.options.desk_undo, noted=noted,
    )  # fmt: skip


async def _decide_others(
    visit: DeskVisit,
    first: JSON,
    decision: JSON,
    others: Mapping[str, str],
    together: Sequence[str],
) -> dict[str, str]:
    """Decide the cases that were ticked beside the first one in the same way.

    Returns:
        those that could not be, by id: each with its reason, a name of `LEFT_OUT`, and the platform's id of its post.
    """
    cases = visit.replica.case_store
    left_out = dict[str, str]()
    for case_id, question in others.items():
        try:
            row = await cases.case(case_id)
        except Problem:  # there is none
            left_out[case_id] = f"changed:{case_id}"
            continue
        try:
            why = _find_obstacle(visit, row, first, decision, question)
            if not why:
                blind = await decides_blind(visit, case_id)
                await _decide_one(visit, row, decision, question or None, together, blind=blind)
        except BadInput:
            why = "category"
        except Problem:  # it has changed since it was read
            why = (
                _find_obstacle(visit, await cases.case(case_id), first, decision, question)
                or "changed"
            )
        if why:
            left_out[case_id] = f"{why}:{name_post(row)}"
    return left_out


def _find_obstacle(visit: DeskVisit, row: JSON, first: JSON, decision: JSON, question: str) -> str:
    """Return why a case can't be decided as the first one is, as `LEFT_OUT` names it; empty if it can."""
    if row["question"] is None or row["status"] != "done":
        return "decided"
    if visit.claim_of(row) == (True, False):
        return "claimed"
    if row["escalated"] is not None and not visit.leads:
        return "escalated"
    if question and question != row["question"]["id"]:
        return "changed"
    if decision["action"] == "accept" and model_category(row) != model_category(first):
        return "no_verdict" if model_category(row) is None else "unlike"
    return ""


@router.post("/undo")
async def undo_decisions(visit: ReviewerVisit) -> Response:
    """Take back what this person has just decided; each case waits for them again, as if nothing had been said."""
    wanted = filters_from_query(visit)
    reviews = visit.replica.reviews
    lease = visit.replica.options.desk_lease
    case_ids = visit.text("cases").split(",")
    for case_id in case_ids:
        await reviews.undo(
            case_id,
            visit.person,
            lease,
            visit.who,
            escalated_within=visit.replica.options.desk_undo,
        )
    about: Any = len(case_ids)
    if len(case_ids) == 1:
        about = name_post(await visit.replica.case_store.case(case_ids[0]))
    said = "undo" if len(case_ids) == 1 else "undo_all"
    return visit.go(f"/cases/{case_ids[0]}{query_string(wanted, said=said, about=about)}")
