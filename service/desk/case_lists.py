"""Lists of cases: the queue, the next case of it, a break where it was hard, and the search; and the board."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import ValidationError

from tribunal.cases.case_search import CaseFilter
from tribunal.cases.problem import Problem
from tribunal.service.desk.pages import parse_days
from tribunal.service.desk.visits import AnyVisit, Cookies, DeskVisit, OverseerVisit, ReviewerVisit
from tribunal.service.replica import case_queries
from tribunal.service.replica.case_queries import PAGE, VERDICT_FILTERS, QueueFilter
from tribunal.service.replica.figures import DayFigures, TimeSpan, count_figures
from tribunal.service.replica.near_copies import MOST_TOGETHER
from tribunal.service.routes.monitoring import FigureTimes
from tribunal.times import DAY
from tribunal.validation import describe_validation_error

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
    fields = {**wanted.model_dump(exclude_defaults=True), **{name: value for name, value in more.items() if value}}
    return f"?{urlencode(fields)}" if fields else ""


@router.get("/queue")
async def show_queue(visit: AnyVisit) -> Response:
    """Return how many wait, and a page of them."""
    store, wanted = visit.replica.store, filters_from_query(visit)
    blind = visit.hides_verdicts
    there = await case_queries.count_queue(store, wanted, visit.person, blind=blind)
    pages = max(1, math.ceil(there.lines / PAGE))
    given = visit.parameter("page", 9)
    page = min(pages, max(1, int(given) if given.isdecimal() else 1))
    rows = await case_queries.list_queue(store, wanted, visit.person, page, blind=blind)
    copies = await visit.replica.near_copies.count([row["id"] for row in rows])
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
    wanted, reviews = filters_from_query(visit), visit.replica.reviews
    picked = [name.removeprefix("pick.") for name in visit.form if name.startswith("pick.")]
    if not picked:
        raise Problem("bad_input", "pick: tick one or more cases first")
    first, *others = picked
    await reviews.claim(first, visit.person, visit.replica.options.desk_lease, visit.who, leads=visit.leads)
    return visit.go(f"/cases/{first}{query_string(wanted, also=','.join(others))}")


async def go_to_next_case(visit: DeskVisit, wanted: QueueFilter, **done: object) -> Response:
    """Claim the next case that matches the filters and go to it; to the queue where there is none.

    Args:
        visit: whose.
        wanted: which cases they work through.
        done: what was done before, as parameters of the address: `said` is what, as `messages.html.jinja` has it;
            `about` the case; `category_now` what it was changed to; `others` how many were decided with it, and
            `left_out` which were not; `undo` which can be undone `until` then.
    """
    reviews, lease = visit.replica.reviews, visit.replica.options.desk_lease
    for case_id in await case_queries.next_cases(visit.replica.store, wanted, visit.person, leads=visit.leads):
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
    before, rows, wrong, status = visit.parameter("before") or None, [], None, 200
    try:
        if given["outcome"] and given["outcome"] not in OUTCOMES:
            raise Problem("bad_input", f"outcome: unknown; it is one of {', '.join(OUTCOMES)}")
        query = CaseFilter.model_validate(filled | parse_days(given))
        rows = await case_queries.search_cases(
            visit.replica.store, query, reviewed=not visit.sees_all, before=before, blind=visit.hides_verdicts
        )
    except Problem as problem:
        wrong, status = problem.message, problem.status
    older = urlencode({**filled, "before": rows[-1]["id"]}) if len(rows) == PAGE else None
    return visit.page(
        "search.html.jinja", status, title="Search", here="/search", given=given, rows=rows, wrong=wrong,
        outcomes=OUTCOMES, first=urlencode(filled) if before else None, later=older,
    )  # fmt: skip


_MOST_DAYS = 400  # of a picture


@router.get("/board")
async def show_board(visit: OverseerVisit) -> Response:
    """Show the figures of a time: the last 30 days, or from one day to another."""
    wrong, status = None, 200
    try:
        times = parse_days({name: visit.parameter(name) for name in ("since", "until")})
        # Not validated: the board takes any day that there is.
        span, _ = FigureTimes.model_construct(None, **times).spans()
    except Problem as problem:
        wrong, status = problem.message, problem.status
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
    return [by_name.get(day) or DayFigures(day=day) for day in (_day_of(number * DAY) for number in numbers)]
