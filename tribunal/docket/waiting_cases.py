"""Cases that wait for a person: claimed by one at a time, and decided once, at the desk or at a terminal.

What a person says is written down in the transaction that takes the case up again, so it outlives the process that it
was said to: whoever takes the case up next goes on from it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import and_, delete, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_datetime, database_now, format_time_left, new_id
from tribunal.docket.holds import NOT_HELD
from tribunal.docket.outbox import Outbox, escalation_message
from tribunal.docket.record_rows import answer_entry
from tribunal.docket.reservations import (
    NO_RESERVATION,
    USUAL_BOUNDS,
    CaseBounds,
    Reservation,
    reserve_for_attempt,
    settle,
)
from tribunal.errors import BadInput, Problem
from tribunal.models.budget import Spending
from tribunal.schema import JSON, Record
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, sha
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import cases, deliveries, notes

# Nobody can claim a case for longer than a day; a minute more is for clocks that don't agree. A claim that is dated
# further ahead was made by a clock that ran ahead, and counts for nothing.
_LONGEST_CLAIM = 86_400.0 + 60.0
SOMEBODY = "another reviewer"  # who decides, where nobody was named
_UNDOABLE = "a person has just decided it, and may still undo that"  # why such a case is held
_NO_CLAIM: JSON = {"claimed_by": None, "claimed_until": None}


def answer_of(
    action: Literal["accept", "change", "ask", "retry"],
    *,
    category: str | None = None,
    question: str | None = None,
    note: str = "",
    reviewer: str | None = None,
    clauses: Sequence[str] = (),
) -> JSON:
    """Return a person's answer, in the shape of the Agent Inbox.

    Args:
        action: `accept` the court's outcome, `change` it to a category, `ask` a question, which sends the case back,
            or `retry` a case without a verdict.
        category: of a change: a category of the policy, by its name or its number.
        question: of an ask.
        note: why; it becomes the explanation of a changed verdict.
        reviewer: who decides.
        clauses: the clauses of the policy that it rests on, by their ids; none with an ask.

    Raises:
        BadInput: something is missing, or doesn't belong to the action.
    """
    wanted = {"change": "category", "ask": "question"}.get(action)
    given = {"category": category, "question": question}
    for name, value in given.items():
        if value is not None and name != wanted:
            raise BadInput(f"{name}: {value[:80]!r}: doesn't belong to {action}; leave it out")
    if wanted is not None and not (given[wanted] or "").strip():
        raise BadInput(f"{wanted}: {given[wanted]!r}: {action} wants one; give it")
    if clauses and action in ("ask", "retry"):
        raise BadInput(
            f"clauses: {', '.join(clauses)[:80]!r}: belong to a decision; leave them out of a question"
        )
    by: JSON = {} if reviewer is None else {"reviewer": reviewer}
    by |= {"clauses": list(clauses)} if clauses else {}
    if action == "accept":
        return {"type": "accept", "args": None, "note": note, **by}
    if action in ("ask", "retry"):
        return {"type": "response", "args": question, **by}
    named = str(category)
    chosen: JSON = {"label": int(named)} if named.isdecimal() else {"category": named}
    return {"type": "edit", "args": {"action": "decide", "args": {**chosen, "note": note}}, **by}


class WaitingCases:
    """The cases of a database that wait for a person.

    Each method raises a `Problem` where there is no such case, it doesn't wait for a person, somebody else has claimed
    it, or it waits for a lead; and else returns the case as it lies in the store. `by` is who asks, for the audit log.
    """

    def __init__(
        self, store: Store, bounds: CaseBounds = USUAL_BOUNDS, outbox: Outbox | None = None
    ) -> None:
        """Use a database.

        `bounds` say what a case takes of a daily budget where its settings don't. The webhooks of `outbox` are told of
        what is escalated.
        """
        self._store = store
        self._bounds = bounds
        self._outbox = outbox or Outbox(store)

    async def claim(
        self, case_id: str, reviewer: str, seconds: float, by: Who = OPERATOR, *, leads: bool = True
    ) -> JSON:
        """Let nobody else decide a case for so many seconds; to claim it again is to keep it longer.

        With `leads` they may decide what was escalated.
        """
        values = {"claimed_by": reviewer, "claimed_until": database_now() + seconds}
        details = {"reviewer": reviewer, "until": values["claimed_until"]}
        entry = LogEntry(kind="case.claimed", subject=case_id, details=details)
        return await self._change(case_id, reviewer, values, by, entry, leads=leads)

    async def escalate(
        self,
        case_id: str,
        reviewer: str,
        reason: str,
        by: Who = OPERATOR,
        *,
        undo_seconds: float = 0.0,
    ) -> JSON:
        """Leave a case to the leads: from here on only they decide it, and nobody has claimed it.

        No webhook is told for `undo_seconds`, in which it can be undone.
        """
        if not reason.strip():
            raise Problem(
                "bad_input", "reason: is empty; say to the leads why you leave it to them"
            )
        note = new_note_row(case_id, reviewer, "escalated", reason.strip())
        values = {**_NO_CLAIM, "escalated": note["at"]}
        changed = await self._change(
            case_id,
            reviewer,
            values,
            by,
            note_entry(note),
            leads=False,
            note=note,
            tell_after=undo_seconds,
        )
        self._outbox.send()
        return changed

    async def skip(self, case_id: str, reviewer: str, by: Who = OPERATOR) -> JSON:
        """Leave a case to others; for a day the desk doesn't give it to this person again."""
        note = new_note_row(case_id, reviewer, "skipped", "")
        return await self._change(case_id, reviewer, _NO_CLAIM, by, note_entry(note), note=note)

    async def release(
        self, case_id: str, reviewer: str, by: Who = OPERATOR, *, lead: bool = False
    ) -> JSON:
        """Give a claim back; a lead may do so for whoever is away."""
        entry = LogEntry(kind="case.given_back", subject=case_id, details={"reviewer": reviewer})
        return await self._change(case_id, reviewer, _NO_CLAIM, by, entry, of_anybody=lead)

    async def take_answer(
        self, row: JSON, reviewer: str, answer: JSON, by: Who, owner: str | None, *, leads: bool = True,
        undo_seconds: float = 0.0, noted: JSON | None = None,
    ) -> JSON:  # fmt: skip
        """Write down what a person says of a case, in the transaction that takes it up again.

        `row` is the case as it lay in the store when the answer, in the Agent Inbox's shape, was checked. `owner` is
        the process that goes on with it; without one it is queued. What it may take of its key's daily budget is
        reserved. Nobody goes on with it for `undo_seconds`, in which it can be undone; then `owner` is to be None.
        `noted` is what the audit log tells beside the answer.
        """
        now = database_datetime()
        if undo_seconds:
            answer = {**answer, "at": now.isoformat(timespec="seconds")}
        values: JSON = {
            "status": "queued" if owner is None else "running",
            "owner": owner,
            "attempt": row["attempt"] + (0 if owner is None else 1),
            "attempts_before": row["attempt"],
            "deadline": None,
            "answer": {"question": row["question"]["id"], "answer": answer},
        }
        if undo_seconds:
            values |= {
                "held": _UNDOABLE,
                "held_for": None,
                "held_until": now.timestamp() + undo_seconds,
            }
        entry = answer_entry(row["id"], reviewer, answer, noted)
        same = cases.c.attempt == row["attempt"]
        return await self._change(
            row["id"], reviewer, values, by, entry, same, leads=leads, attempt=row["attempt"] + 1
        )

    async def undo(
        self,
        case_id: str,
        reviewer: str,
        seconds: float,
        by: Who = OPERATOR,
        *,
        escalated_within: float = 0.0,
    ) -> JSON:
        """Take back what this person has just said of a case, which waits again, and is theirs for so many seconds.

        So is an escalation of the last `escalated_within` seconds; its reason stays as a note. The audit log keeps
        both. A `Problem` is raised, too, if it is too late, or somebody else has said it.
        """
        async with self._store.transaction() as connection:
            row = await first_row(
                connection, select(cases).where(cases.c.id == case_id).with_for_update()
            )
            if row is None:
                raise Problem("not_found", "case: there is none")
            mine = {"claimed_by": reviewer, "claimed_until": database_now() + seconds}
            if await self._take_escalation_back(connection, row, reviewer, escalated_within):
                details = {"reviewer": reviewer, "action": "escalate"}
                await append(
                    connection, by, LogEntry(kind="case.undone", subject=case_id, details=details)
                )
                back = (
                    update(cases)
                    .where(cases.c.id == case_id)
                    .values(escalated=None, **mine)
                    .returning(cases)
                )
                return await first_row(connection, back) or row
            values = {"status": "done", "answer": None, **NOT_HELD, **NO_RESERVATION, **mine}
            same = (
                cases.c.id == case_id,
                cases.c.status == "queued",
                cases.c.attempt == row["attempt"],
            )
            undoing = update(cases).where(*same).values(**values).returning(cases)
            undone = (
                await first_row(connection, undoing)
                if undo_seconds_left(row, reviewer) > 0
                else None
            )
            if undone is None:
                raise Problem(
                    "conflict",
                    f"case: {case_id[:80]}: it is too late to undo this; nothing was changed",
                )
            await append(
                connection,
                by,
                LogEntry(kind="case.undone", subject=case_id, details={"reviewer": reviewer}),
            )
            reservation = Reservation.from_row(row)
            if reservation is not None:
                await settle(self._store, connection, row["key_id"], reservation, Spending())
        return undone

    async def _take_escalation_back(
        self, connection: AsyncConnection, row: JSON, reviewer: str, within: float
    ) -> bool:
        """Turn the reason of an escalation into a note and tell no webhook of it; return whether that could be done."""
        escalated = row["escalated"]
        waits = row["status"] == "done" and row["question"] is not None
        if row["claimed_by"] not in (None, *names_of_person(reviewer)) and claim_seconds_left(
            row["claimed_until"]
        ):
            return False
        if escalated is None or not waits or escalated + within <= database_now():
            return False
        turned_into_note = (
            update(notes)
            .where(
                notes.c.case_id == row["id"], notes.c.kind == "escalated", notes.c.at == escalated
            )
            .where(notes.c.person.in_(names_of_person(reviewer)))
            .values(kind="note")
        )
        if not (await connection.execute(turned_into_note)).rowcount:
            return False
        unsent = (
            deliveries.c.case_id == row["id"],
            deliveries.c.event == "case.escalated",
            deliveries.c.attempts == 0,
        )
        await connection.execute(delete(deliveries).where(*unsent))
        return True

    async def _change(
        self, case_id: str, reviewer: str, values: JSON, by: Who, entry: LogEntry, *more: Any, leads: bool = True,
        note: JSON | None = None, attempt: int | None = None, of_anybody: bool = False, tell_after: float = 0.0,
    ) -> JSON:  # fmt: skip
        """Change a case that waits and that nobody else has claimed; keep a note, and reserve for an attempt.

        With `of_anybody` somebody else may have claimed it. Webhooks are told after `tell_after` seconds.
        """
        if not leads:
            more = (*more, cases.c.escalated.is_(None))
        own = cases.c.claimed_by.in_(names_of_person(reviewer))
        mine = (
            true()
            if of_anybody
            else or_(cases.c.claimed_by.is_(None), own, ~claim_holds(database_now()))
        )
        waits = and_(
            cases.c.id == case_id,
            cases.c.status == "done",
            cases.c.question.is_not(None),
            mine,
            *more,
        )
        changing = update(cases).where(waits).values(**values).returning(cases)
        async with self._store.transaction() as connection:
            row = await first_row(connection, changing)
            if row is not None:
                if attempt is not None:
                    row = await reserve_for_attempt(
                        self._store, connection, row, attempt, self._bounds
                    )
                if note is not None:
                    await connection.execute(notes.insert().values(**note))
                    if note["kind"] == "escalated":
                        record = Record.model_validate(row["record"])
                        link = self._outbox.link(case_id)
                        told = escalation_message(
                            case_id, row["graph"], record, link, note["words"], reviewer
                        )
                        await self._outbox.announce(
                            connection, "case.escalated", told, after=tell_after
                        )
                await append(connection, by, entry)
                return row
        check_waits(
            await self._store.fetch_row(select(cases).where(cases.c.id == case_id)),
            reviewer,
            leads=leads,
        )
        raise Problem(
            "conflict",
            f"case: {case_id[:80]}: somebody else has just decided it; look at it once more",
        )


def names_of_person(reviewer: str) -> tuple[str, str]:
    """Return both names of a reviewer: at a terminal the operator has no key, so `lee (operator)` is `lee` there."""
    name = reviewer.removesuffix(" (operator)")
    return name, f"{name} (operator)"


def claim_holds(now: float) -> Any:
    """Return the condition that somebody has a case claimed at this time."""
    until = cases.c.claimed_until
    return and_(cases.c.claimed_by.is_not(None), until > now, until < now + _LONGEST_CLAIM)


def claim_seconds_left(until: float | None) -> float:
    """Return for how long a claim still holds, as `claim_holds`; 0: it doesn't."""
    left = (until or 0.0) - database_now()
    return left if 0 < left < _LONGEST_CLAIM else 0.0


def undo_seconds_left(row: Mapping[str, Any], reviewer: str | None = None) -> float:
    """Return for how many seconds a decision can still be undone, by this reviewer if one is given; 0: it can't."""
    if row["status"] != "queued" or row["held"] != _UNDOABLE or row["answer"] is None:
        return 0.0
    return seconds_to_undo(row, row["answer"]["answer"].get("reviewer"), reviewer)


def seconds_to_undo(row: Mapping[str, Any], decided_by: str | None, reviewer: str | None) -> float:
    """Return for how many seconds a decision is held in its row; 0 if another person than the reviewer made it."""
    if reviewer is not None and decided_by not in names_of_person(reviewer):
        return 0.0
    return max(0.0, (row["held_until"] or 0.0) - database_now())


def undoable_line(row: Mapping[str, Any]) -> str:
    """Return who decided a case, and until when they can undo it; empty if nobody can."""
    if undo_seconds_left(row) <= 0:
        return ""
    until = time.strftime("%H:%M:%S UTC", time.gmtime(row["held_until"]))
    by = row["answer"]["answer"].get("reviewer") or SOMEBODY
    return (
        f"was decided by {by} at the desk, takes effect at {until} by itself, and waits for nothing else; until then "
        "they can undo it on its page there (Undo), and then it can be decided again"
    )


def check_claim(row: JSON, noun: str, reviewer: str) -> None:
    """Check that nobody else has claimed a row, which is called so; raise Problem if somebody has."""
    left = claim_seconds_left(row["claimed_until"])
    if row["claimed_by"] not in (None, *names_of_person(reviewer)) and left > 0:
        seconds = max(1, round(left))
        claimed = (
            f"{noun}: {row['id']}: {row['claimed_by']} is reviewing this ({format_time_left(left)})"
        )
        raise Problem("conflict", claimed, retry_after=seconds)


def check_waits(row: JSON | None, reviewer: str, *, leads: bool = True) -> None:
    """Check that a person may say something of a case; with `leads` also of one that was escalated.

    Raises:
        Problem: there is none, it doesn't wait, somebody else has claimed it, or it waits for a lead.
    """
    if row is None:
        raise Problem("not_found", "case: there is none")
    why = ""
    if row["question"] is None:
        review: JSON = (row["record"] or {}).get("review") or {}
        why = "waits for nobody's decision; nothing was changed"
        if review.get("action"):
            who = review.get("reviewer")
            at = review.get("at")
            why = f"was decided already: {review['action']} by {who} at {at}; nothing was changed"
    elif row["status"] != "done":
        by = ((row["answer"] or {}).get("answer") or {}).get("reviewer") or SOMEBODY
        why = undoable_line(row) or f"is being decided by {by} right now; look again in a moment"
    elif row["escalated"] is not None and not leads:
        why = "was escalated and waits for a lead; nothing was changed"
    else:
        check_claim(row, "case", reviewer)
    if why:
        raise Problem("conflict", f"case: {row['id']}: {why}")


# Notes


NoteKind = Literal["note", "escalated", "skipped"]


def new_note_row(case_id: str, person: str, kind: NoteKind, words: str) -> JSON:
    """Return a note, as a row."""
    row = {"id": new_id("note"), "case_id": case_id, "at": database_now(), "person": person}
    return {**row, "kind": kind, "words": words}


def note_entry(row: JSON) -> LogEntry:
    """Return what the audit log is told of a note: whose it is, and the hash of its words."""
    details = {
        "reviewer": row["person"],
        **({"words_sha": sha(row["words"])} if row["words"] else {}),
    }
    kind = "case.noted" if row["kind"] == "note" else f"case.{row['kind']}"
    return LogEntry.model_validate({"kind": kind, "subject": row["case_id"], "details": details})


async def write_note(
    store: Store, case_id: str, person: str, words: str, by: Who = OPERATOR
) -> None:
    """Keep a note with a case, whatever became of it.

    Raises:
        Problem: there is no such case, or a note without words.
    """
    if not words.strip():
        raise Problem("bad_input", "note: is empty; write it")
    row = new_note_row(case_id, person, "note", words.strip())
    async with store.transaction() as connection:
        if (
            await connection.execute(select(cases.c.id).where(cases.c.id == case_id))
        ).first() is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        await connection.execute(notes.insert().values(**row))
        await append(connection, by, note_entry(row))


async def list_notes(store: Store, case_id: str) -> list[JSON]:
    """Return the notes of a case, the oldest first; of those that were erased, the words are empty."""
    return await store.fetch_rows(
        select(notes).where(notes.c.case_id == case_id).order_by(notes.c.at, notes.c.id)
    )
