"""Cases as the desk lists them: found again by what is known of them, and the queue of those that wait for a person.

The queue is counted, filtered and sorted by one index, which holds all that is asked for, so that it takes the same
short time whatever posts and records weigh.
"""

from __future__ import annotations

import time
from typing import Any, Literal
from weakref import WeakKeyDictionary

from sqlalchemy import and_, case, func, or_, select

from tribunal.core.times import database_now
from tribunal.docket.case_search import (
    CaseFilter,
    ContentFilter,
    filter_conditions,
    find_cases,
    post_text,
)
from tribunal.docket.waiting_cases import claim_holds, names_of_person
from tribunal.schema import JSON, Frozen
from tribunal.store.engine import Store
from tribunal.store.tables import cases, notes

QueueOrder = Literal["oldest", "newest", "least sure", "most sure"]
ClaimState = Literal["free", "mine", "claimed", "escalated"]
Choices = list[dict[str, int]]
PAGE = 25
_TAKEN_AT_ONCE = 20  # cases that are offered to one person: others take some of them meanwhile
_SKIP_SECONDS = 86_400.0  # for which nobody is given a case again that they skipped
_EXCERPT = 200  # characters
_MANY_CASES = 10_000  # from which on what one may choose from isn't counted for every page
_CHOICES_SECONDS = 30.0  # for which such a count is kept
_SEARCH_COLUMNS = (
    "id", "created", "finished", "status", "post_id", "outcome", "category", "hateful", "language", "reviewer",
)  # fmt: skip
_QUEUE_COLUMNS = (
    "id", "created", "post_id", "reason", "policy_name", "language", "confidence", "escalated", "claimed_by",
    "claimed_until", "question",
)  # fmt: skip
# What is one line of the queue: one text, and one verdict of the models where that is shown.
_BLIND_LINE = func.coalesce(cases.c.same_text, cases.c.id)
_LINE = func.coalesce(cases.c.same_text + func.coalesce(cases.c.model_category, ""), cases.c.id)
_counted_choices: WeakKeyDictionary[Store, tuple[float, Choices]] = WeakKeyDictionary()


class QueueFilter(ContentFilter):
    """A filter of waiting cases, and their order."""

    reason: str | None = None
    policy: str | None = None
    held: ClaimState | None = None
    sort: QueueOrder = "oldest"


# Filters that tell what the model came to.
VERDICT_FILTERS = ("reason", "category", "clause", "severity", "surer", "less_sure")


class QueueCounts(Frozen):
    """Numbers of waiting cases by what one may choose from, in all, and of what was asked for."""

    reasons: dict[str, int]
    policies: dict[str, int]
    languages: dict[str, int]
    total: int
    free: int
    escalated: int
    matching: int
    lines: int


async def search_cases(
    store: Store, query: CaseFilter, *, reviewed: bool, before: str | None, blind: bool = False
) -> list[JSON]:
    """Return a page of cases, the newest first, each with the beginning of its post.

    Those that are `reviewed` alone have to be decided by a person, or have been. To whoever is `blind` a search by
    category doesn't tell the models' verdict on those that wait.
    """
    theirs = [or_(cases.c.question.is_not(None), cases.c.reviewer.is_not(None))] if reviewed else []
    if blind and query.category is not None:
        theirs.append(cases.c.question.is_(None))
    columns = [
        *(cases.c[name] for name in _SEARCH_COLUMNS),
        func.substr(post_text(store), 1, _EXCERPT).label("text"),
    ]
    return await find_cases(store, query, *theirs, before=before, limit=PAGE, columns=columns)


def waits_for_review() -> Any:
    """Return the condition that a case waits for a person.

    It is written so that SQLite takes the index of those that wait; by `status = 'done'` it would read every case that
    is over.
    """
    not_now = cases.c.status.in_(("queued", "running", "cancelled"))
    return and_(cases.c.waits_since.is_not(None), ~not_now, cases.c.appeal_id.is_(None))


def model_category(row: JSON) -> str | None:
    """Return the category that the model came to in a case that waits; None where it came to none."""
    request: JSON = (row["question"] or {}).get("request") or {}
    return request.get("action_request", {}).get("args", {}).get("category") or None


def _is_free(person: str, now: float) -> Any:
    """Return the condition that nobody else has claimed a case."""
    return or_(
        cases.c.claimed_by.is_(None),
        cases.c.claimed_by.in_(names_of_person(person)),
        ~claim_holds(now),
    )


def _is_unassigned(now: float) -> Any:
    """Return the condition that nobody has claimed a case, and it isn't the leads'."""
    return and_(or_(cases.c.claimed_by.is_(None), ~claim_holds(now)), cases.c.escalated.is_(None))


def _matches(store: Store, filters: QueueFilter, person: str, now: float) -> Any:
    claims: dict[str | None, Any] = {
        "free": _is_unassigned(now),
        "mine": and_(cases.c.claimed_by.in_(names_of_person(person)), claim_holds(now)),
        "claimed": claim_holds(now),
        "escalated": cases.c.escalated.is_not(None),
        None: True,
    }
    conditions = {
        "reason": cases.c.reason == filters.reason,
        "policy": cases.c.policy_name == filters.policy,
        "held": claims[filters.held],
    }
    given = [each for name, each in conditions.items() if getattr(filters, name) is not None]
    contents = ContentFilter(
        **{name: getattr(filters, name) for name in ContentFilter.model_fields}
    )
    return and_(waits_for_review(), *given, *filter_conditions(store, contents))


def _sort_columns(sort: QueueOrder, column: Any = cases.c) -> tuple[Any, ...]:
    by_time = column.created, column.id
    # Those that state no confidence are the least sure of all.
    by_confidence = case((column.confidence.is_(None), 0), else_=1), column.confidence
    columns = {
        "oldest": by_time,
        "newest": (column.created.desc(), column.id.desc()),
        "least sure": (*by_confidence, *by_time),
        "most sure": (*(each.desc() for each in by_confidence), *by_time),
    }
    return columns[sort]


async def count_queue(
    store: Store, filters: QueueFilter, person: str, *, blind: bool = False
) -> QueueCounts:
    """Return how many cases wait, in all and by what one may ask for; lines as of `list_queue`."""
    now = database_now()
    matching = _matches(store, filters, person, now)
    counting = select(
        func.count().label("total"),
        func.count(cases.c.escalated).label("escalated"),
        func.count().filter(matching).label("matching"),
        func.count(_line_of(filters, blind=blind).distinct()).filter(matching).label("lines"),
        func.count().filter(_is_unassigned(now)).label("free"),
    ).where(waits_for_review())
    [counts] = await store.fetch_rows(counting)
    reasons, policies, languages = await _count_choices(store, counts["total"])
    return QueueCounts(reasons=reasons, policies=policies, languages=languages, **counts)


async def _count_choices(store: Store, total: int) -> Choices:
    """Return the reasons, policies and languages that there are, each with how many wait."""
    counted_at, kept = _counted_choices.get(store, (0.0, []))
    if total >= _MANY_CASES and time.monotonic() - counted_at < _CHOICES_SECONDS and kept:
        return kept
    columns = (cases.c.reason, cases.c.policy_name, cases.c.language)
    counting = (
        select(*columns, func.count().label("number")).where(waits_for_review()).group_by(*columns)
    )
    rows = await store.fetch_rows(counting)
    choices = []
    for column in columns:
        counts: dict[str, int] = {}
        for row in rows:
            name = row[column.name]
            if name is not None:
                counts[name] = counts.get(name, 0) + row["number"]
        choices.append(dict(sorted(counts.items())))
    _counted_choices[store] = time.monotonic(), choices
    return choices


def _line_of(filters: QueueFilter, *, blind: bool) -> Any:
    return cases.c.id if filters.cluster else _BLIND_LINE if blind else _LINE


async def list_queue(
    store: Store, filters: QueueFilter, person: str, page: int, *, blind: bool = False
) -> list[JSON]:
    """Return a page of the queue, from 1 on.

    Cases of the same text are one line, that of the first that is free, unless their `cluster` is asked for: `copies`
    is how many they are. Those to which the models gave different verdicts are lines of their own, but not to whoever
    is `blind`. `court` is the category that the agents came to; `text` and `cues` are the
    beginning of the post and its cues.
    """
    now = database_now()
    line = _line_of(filters, blind=blind)
    taken = case((and_(_is_free(person, now), cases.c.escalated.is_(None)), 0), else_=1)
    ranked = select(
        cases.c.id, cases.c.created, cases.c.confidence,
        func.row_number().over(partition_by=line, order_by=(taken, *_sort_columns(filters.sort))).label("rank"),
        func.count().over(partition_by=line).label("copies"),
    ).where(_matches(store, filters, person, now)).subquery()  # fmt: skip
    lines = select(ranked.c.id, ranked.c.copies).where(ranked.c.rank == 1)
    lines = (
        lines.order_by(*_sort_columns(filters.sort, ranked.c)).limit(PAGE).offset((page - 1) * PAGE)
    )
    copies = {row["id"]: row["copies"] for row in await store.fetch_rows(lines)}
    ids = list(copies)
    columns = [cases.c[name] for name in _QUEUE_COLUMNS if name != "confidence"]
    # Before the column was filled while a case waits, the record alone had it.
    recorded = cases.c.record["review", "court", "confidence"].as_float()
    excerpt = func.substr(post_text(store), 1, _EXCERPT).label("text")
    confidence = func.coalesce(cases.c.confidence, recorded).label("confidence")
    shown = select(*columns, confidence, excerpt, cases.c.record["cues"].label("cues"))
    shown = shown.where(cases.c.id.in_(ids))
    rows = {row["id"]: row for row in await store.fetch_rows(shown)}
    for row in rows.values():
        row["court"] = model_category(row)
        row["copies"] = copies[row["id"]]
    return [rows[each] for each in ids if each in rows]


async def next_cases(store: Store, filters: QueueFilter, person: str, *, leads: bool) -> list[str]:
    """Return which cases to give somebody next: free ones that they haven't skipped lately, in their order.

    Leads are given what was escalated, too.
    """
    now = database_now()
    skipped = select(notes.c.id).where(
        notes.c.case_id == cases.c.id, notes.c.person == person, notes.c.kind == "skipped",
        notes.c.at > now - _SKIP_SECONDS,
    )  # fmt: skip
    following = select(cases.c.id).where(
        _matches(store, filters, person, now), _is_free(person, now), ~skipped.exists()
    )
    if not leads:
        following = following.where(cases.c.escalated.is_(None))
    rows = await store.fetch_rows(
        following.order_by(*_sort_columns(filters.sort)).limit(_TAKEN_AT_ONCE)
    )
    return [row["id"] for row in rows]


async def count_under_way(store: Store) -> dict[str, int]:
    """Return how many cases are queued, held for a provider, and running, in the whole database."""
    under_way = cases.c.status.in_(("queued", "running"))
    held = cases.c.held_for.is_not(None)
    state = case((held, "held"), else_=cases.c.status).label("state")
    counted = select(state, func.count().label("number")).where(under_way | held).group_by(state)
    return {row["state"]: row["number"] for row in await store.fetch_rows(counted)}
