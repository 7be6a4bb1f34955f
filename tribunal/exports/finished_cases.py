"""The cases of the database that have an outcome, read a page at a time, so that memory stays flat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import exists, func, or_, select, true, tuple_

from tribunal.cases.record_rows import text_of
from tribunal.prompts.policy import Policy, parse_policy
from tribunal.retrievers.precedents.building import forget_cases, list_case_ids
from tribunal.retrievers.precedents.store import DecidedCase, make_decided_case
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, LogEntry, append
from tribunal.store.engine import Store
from tribunal.store.tables import cases, decisions

_PAGE = 100  # rows; a record may be long


async def finished_cases(
    store: Store, *conditions: Any, since: float | None = None, until: float | None = None
) -> AsyncIterator[JSON]:
    """Give the cases that are done, and ended in this time, in the order in which they did."""
    by_end = cases.c.finished, cases.c.id
    held = (*_finished_conditions(*conditions), *_in_time(cases.c.finished, since, until))
    query = select(cases).where(*held).order_by(*by_end).limit(_PAGE)
    later: Any = true()
    while True:
        rows = await store.fetch_rows(query.where(later))
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        later = tuple_(*by_end) > tuple_(rows[-1]["finished"], rows[-1]["id"])


async def cases_decided_by_people(
    store: Store, since: float | None = None, until: float | None = None
) -> AsyncIterator[JSON]:
    """Give the cases with a verdict that people decided, on review or on an appeal, for the last time in this time."""
    # A case with a verdict has a reason for review only where a person has given it.
    theirs = or_(cases.c.reason.is_not(None), exists().where(decisions.c.case_id == cases.c.id))
    within = decision_time_conditions(since, until)
    async for row in finished_cases(store, cases.c.outcome == "verdict", theirs, *within):
        record = row["record"] or {}
        if record.get("appeals") or (record.get("review") or {}).get("action") in ("accept", "edit"):
            yield row


async def count_cases(store: Store, *conditions: Any) -> int:
    """Return how many cases `finished_cases` gives."""
    query = select(func.count()).select_from(cases).where(*_finished_conditions(*conditions))
    return int(await store.fetch_value(query))


def decision_time_conditions(since: float | None, until: float | None) -> list[Any]:
    """Return the conditions that the last decision on a case, on an appeal perhaps, was made in this time."""
    made = select(func.max(decisions.c.at)).where(decisions.c.case_id == cases.c.id).scalar_subquery()
    return _in_time(func.coalesce(made, cases.c.finished), since, until)


def _in_time(at: Any, since: float | None, until: float | None) -> list[Any]:
    return ([at >= since] if since is not None else []) + ([at < until] if until is not None else [])


def _finished_conditions(*conditions: Any) -> tuple[Any, ...]:
    # The new trial of an appeal is no case of its own.
    return cases.c.status == "done", cases.c.finished.is_not(None), cases.c.appeal_id.is_(None), *conditions


def has_words(row: JSON) -> bool:
    """Return whether a case still has its post: text or image. One that was erased, or never kept, has neither."""
    post = row["post"] or {}
    return row["erased"] is None and bool(str(post.get("text") or "").strip() or post.get("image"))


def iso_time(seconds: float | None) -> str | None:
    """Return a time of the database as ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def models_of(record: JSON) -> str:
    """Return the names of the models that were asked."""
    return ", ".join(sorted({str(call["model"]) for call in record.get("calls") or []}))


async def policy_of_row(store: Store, row: JSON) -> Policy | None:
    """Return the policy of a case, as it was kept with it, or None if its text isn't there.

    Raises:
        BadInput: what was kept of it was altered since.
    """
    text = await text_of(store, row["policy_sha"], "policy")
    return None if text is None else _parse_policy(text)


_parse_policy = lru_cache(maxsize=64)(parse_policy)


async def log_export(store: Store, what: str, details: JSON) -> None:
    """Write into the audit log that cases were written to a file; `what` is the kind of file."""
    async with store.transaction() as connection:
        await append(connection, OPERATOR, LogEntry(kind="cases.exported", subject=what, details=details))


# As precedents are built of them


_AT_ONCE = 500  # ids in one question to the database


async def decided_cases_in_database(store: Store) -> AsyncIterator[DecidedCase | None]:
    """Give every case that a person decided: in a review, on an appeal, or because a lead opened it again.

    None for one that no precedent can be made of: its words were erased or never kept, or no category was decided. Of
    a case that was appealed, what was decided at last.
    """
    async for row in cases_decided_by_people(store):
        yield decided_case_of_row(row) if has_words(row) else None


def decided_case_of_row(row: JSON) -> DecidedCase | None:
    """Return a case that a person decided as a precedent; None where its post has no text."""
    record: JSON = row["record"]
    post, review, policy = row["post"], record.get("review") or {}, record.get("policy") or {}
    last: JSON = next((each for each in reversed(record.get("appeals") or []) if each.get("decided")), {})
    return make_decided_case(
        case=row["id"],
        post_id=record["post_id"],
        text=str(post.get("text") or ""),
        category=str(row["category"] or ""),
        hateful=row["hateful"],
        how="appealed" if last else "accepted" if review.get("action") == "accept" else "changed",
        note=str(last.get("note") or review.get("note") or ""),
        at=str(last.get("decided") or review.get("at") or iso_time(row["finished"])),
        policy=str(policy.get("name") or ""),
        policy_sha=str(policy.get("sha") or ""),
    )


async def forget_erased_precedents(store: Store) -> int:
    """Take cases whose words were erased in the database out of every store of precedents in the data folder.

    Returns:
        how many precedents are gone.

    Raises:
        BadInput: a store can't be read, or a process is building it.
    """
    held, gone = sorted(await asyncio.to_thread(list_case_ids)), set[str]()
    for start in range(0, len(held), _AT_ONCE):
        wanted = cases.c.id.in_(held[start : start + _AT_ONCE]), cases.c.erased.is_not(None)
        gone |= {row["id"] for row in await store.fetch_rows(select(cases.c.id).where(*wanted))}
    return sum((await forget_cases(gone)).values()) if gone else 0
