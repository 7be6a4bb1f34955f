"""Cases that wait for a person: claimed by one at a time, and decided once.

What a person says is written down in the transaction that takes the case up again, so it outlives the replica that it
was said to: whoever takes the case up next goes on from it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sqlalchemy import and_, or_, select, update

from tribunal.cases.answers import answer_of
from tribunal.schema import JSON
from tribunal.service.replica import audited, notes
from tribunal.service.replica.caseload import Caseload, held_from
from tribunal.service.replica.judging import Judging, Opened
from tribunal.service.replica.keys import Caller
from tribunal.service.replica.problems import Problem
from tribunal.service.replica.queues import Queue
from tribunal.service.replica.worker import Worker
from tribunal.store.audit import OPERATOR, Entry, Who, append
from tribunal.store.engine import Store
from tribunal.store.tables import cases


def person(who: Caller, named: str | None) -> str:
    """Who decides: the key's name, and before it the person whom its holder names."""
    return f"{named} ({who.name})" if named else who.name


class Reviews:
    """The cases that wait for a person, as one replica sees them."""

    def __init__(self, store: Store, caseload: Caseload, queue: Queue, worker: Worker, judging: Judging) -> None:
        self._store, self._caseload, self._queue = store, caseload, queue
        self._worker, self._judging = worker, judging

    async def claim(
        self, case_id: str, reviewer: str, seconds: float, by: Who = OPERATOR, *, leads: bool = True
    ) -> JSON:
        """Let nobody else decide a case meanwhile; to claim it again is to keep it longer.

        Args:
            case_id: the case.
            reviewer: the person.
            seconds: for how long.
            by: who asks, for the audit log.
            leads: whether they may decide what was escalated.

        Returns:
            the case as it lies in the store.

        Raises:
            Problem: there is none, it doesn't wait for a person, somebody else has claimed it, or it waits for a lead.
        """
        values = {"claimed_by": reviewer, "claimed_until": time.time() + seconds}
        details = {"reviewer": reviewer, "until": values["claimed_until"]}
        told = Entry(kind="case.claimed", subject=case_id, details=details)
        return await self._change(case_id, reviewer, values, by, told, leads=leads)

    async def escalate(self, case_id: str, reviewer: str, reason: str, by: Who = OPERATOR) -> JSON:
        """Leave a case to the leads: from here on only they decide it, and nobody has claimed it. As `claim`."""
        if not reason.strip():
            raise Problem("bad_input", "reason: is empty; say to the leads why you leave it to them")
        note = notes.row_of(case_id, reviewer, "escalated", reason.strip())
        values = {"claimed_by": None, "claimed_until": None, "escalated": note["at"]}
        return await self._change(case_id, reviewer, values, by, notes.told_of(note), leads=False, note=note)

    async def skip(self, case_id: str, reviewer: str, by: Who = OPERATOR) -> JSON:
        """Leave a case to others; for a day the desk doesn't give it to this person again. As `claim`."""
        note = notes.row_of(case_id, reviewer, "skipped", "")
        values = {"claimed_by": None, "claimed_until": None}
        return await self._change(case_id, reviewer, values, by, notes.told_of(note), note=note)

    async def release(self, case_id: str, reviewer: str, by: Who = OPERATOR) -> JSON:
        """Give a claim back. As `claim`."""
        told = Entry(kind="case.given_back", subject=case_id, details={"reviewer": reviewer})
        return await self._change(case_id, reviewer, {"claimed_by": None, "claimed_until": None}, by, told)

    async def decide(
        self, case_id: str, reviewer: str, said: JSON, question: str | None, by: Who = OPERATOR, *, leads: bool = True
    ) -> Opened:
        """Take in what a person says of a case, and go on with it.

        Args:
            case_id: the case.
            reviewer: who says it.
            said: `action` (accept, change or ask), and what belongs to it.
            question: the id of the question that was before them; None: whichever there is.
            by: who asks, for the audit log.
            leads: whether they may decide what was escalated.

        Returns:
            the case, which is under way again.

        Raises:
            Problem: there is no such case, it doesn't wait, somebody else has claimed it, it waits for a lead, or it
                asks another question.
            BadInput: what is said doesn't fit the policy of the case. It goes on waiting.
        """
        if self._worker.stopping:
            raise Problem("unavailable", "this replica stops; send it again", retry_after=1)
        row = await self._caseload.case(case_id)
        self._check_waits(row, reviewer, leads=leads)
        if question is not None and question != row["question"]["id"]:
            raise Problem("conflict", f"answers: {question[:80]}: the case was tried again since; look at it once more")
        answer = answer_of(**said, reviewer=reviewer)
        await self._worker.on_checkpoints.check(row, answer)
        here = self._worker.has_room
        values: JSON = {
            "status": "running" if here else "queued",
            "owner": self._caseload.replica if here else None,
            "attempt": row["attempt"] + (1 if here else 0),
            "attempts_before": row["attempt"],
            "answer": {"question": row["question"]["id"], "answer": answer},
        }
        told = audited.answered(case_id, reviewer, said)
        # On its own, so that whoever goes away doesn't leave it between its row and its trial.
        going_on = self._go_on(row, reviewer, values, by, told, here=here, leads=leads)
        return await asyncio.shield(asyncio.create_task(going_on))

    async def _go_on(
        self, row: JSON, reviewer: str, values: JSON, by: Who, told: Entry, *, here: bool, leads: bool
    ) -> Opened:
        same = cases.c.attempt == row["attempt"]
        changed = await self._change(row["id"], reviewer, values, by, told, same, leads=leads)
        if not here:
            await self._queue.put(row["id"])
            return Opened(self._judging, row["id"], None)
        return Opened(self._judging, row["id"], await self._worker.at_once(held_from(changed)))

    async def _change(
        self,
        case_id: str,
        reviewer: str,
        values: JSON,
        by: Who,
        told: Entry,
        *more: Any,
        leads: bool = True,
        note: JSON | None = None,
    ) -> JSON:
        """Change a case that waits and that nobody else has claimed, and keep a note with it."""
        if not leads:
            more = (*more, cases.c.escalated.is_(None))
        mine = or_(cases.c.claimed_by.is_(None), cases.c.claimed_by == reviewer, cases.c.claimed_until <= time.time())
        waits = and_(cases.c.id == case_id, cases.c.status == "done", cases.c.question.is_not(None), mine, *more)
        changing = update(cases).where(waits).values(**values).returning(cases)
        async with self._store.transaction() as connection:
            row = (await connection.execute(changing)).mappings().first()
            if row is not None:
                if note is not None:
                    await notes.put(connection, note)
                await append(connection, by, told)
                return dict(row)
            now = (await connection.execute(select(cases).where(cases.c.id == case_id))).mappings().first()
        self._check_waits(dict(now) if now is not None else None, reviewer, leads=leads)
        raise Problem("conflict", f"case: {case_id[:80]}: somebody else has just decided it; look at it once more")

    def _check_waits(self, row: JSON | None, reviewer: str, *, leads: bool = True) -> None:
        if row is None:
            raise Problem("not_found", "case: there is none")
        if row["question"] is None:
            review: JSON = (row["record"] or {}).get("review") or {}
            decided = f"was decided already: {review.get('action')} by {review.get('reviewer')} at {review.get('at')}"
            why = decided if review.get("action") else "waits for nobody's decision"
            raise Problem("conflict", f"case: {row['id']}: {why}; nothing was changed")
        if row["status"] != "done":
            by = ((row["answer"] or {}).get("answer") or {}).get("reviewer")
            raise Problem("conflict", f"case: {row['id']}: is being decided by {by} right now; look again in a moment")
        if row["escalated"] is not None and not leads:
            raise Problem("conflict", f"case: {row['id']}: was escalated and waits for a lead; nothing was changed")
        if row["claimed_by"] not in (None, reviewer) and row["claimed_until"] > time.time():
            left = max(1, round(row["claimed_until"] - time.time()))
            raise Problem(
                "conflict", f"case: {row['id']}: {row['claimed_by']} has claimed it for {left} s more", retry_after=left
            )
