"""Appeals: a decision is opened again, by the person whom it is about or by a lead, and another person decides.

The decision in force stands until the appeal is decided, and in the record after that, too. A new trial is a case of
its own, so it is tried, taken over and counted as any; it is nobody's decision. Whatever changes is written in one
transaction, which locks the case first, then the appeal: so two reviewers can't both decide, and a replica that is
killed leaves nothing half done.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.errors import BadInput
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Frozen, Record
from tribunal.service.replica.appealed import (
    chosen,
    deciders,
    policy_for,
    result_of,
    see_that_another_decides,
    with_the_appeal,
)
from tribunal.service.replica.following import announce_step
from tribunal.service.replica.problems import Problem
from tribunal.service.replica.repeats import fingerprint, made_before
from tribunal.service.webhooks.outbox import Outbox
from tribunal.store.audit import OPERATOR, Entry, Who, append, sha
from tribunal.store.engine import Store
from tribunal.store.ids import new_id
from tribunal.store.noting import note_decision
from tribunal.store.tables import appeals, cases, decisions

DAY = 86_400.0
Kind = Literal["appeal", "reopened"]


class Made(Frozen):
    """What somebody says against a decision."""

    kind: Kind = "appeal"
    appellant: str
    reason: str
    context: str = ""


class Said(Frozen):
    """What a person decides on an appeal: the decision stands, another category, or a new trial first."""

    action: Literal["uphold", "change", "retry"]
    category: str | None = None
    note: str = ""


async def _unput(case_id: str) -> None:
    """Whoever has a replica finds it."""


class Appeals:
    """The appeals, as one replica sees them, or whoever has the database.

    Args:
        store: the database.
        outbox: what is told of each step is written there.
        days: how long after a decision it may be appealed.
        put: tells the queue that a case waits.
    """

    def __init__(
        self, store: Store, outbox: Outbox, days: float, put: Callable[[str], Awaitable[None]] = _unput
    ) -> None:
        self._store, self._outbox, self._days, self._put = store, outbox, days, put

    async def make(
        self, case_id: str, made: Made, key_id: str = "", by: Who = OPERATOR, *, idempotency_key: str | None = None
    ) -> tuple[JSON, bool]:
        """Open a decision again.

        Args:
            case_id: the case.
            made: who appeals, and why.
            key_id: whose request it is.
            by: the same, for the audit log.
            idempotency_key: the request's own name, under which it is done once.

        Returns:
            the appeal's row, and whether it is new.

        Raises:
            Problem: there is no such case, it has no verdict, it isn't kept, its time is over, or an appeal is open.
        """
        appeal_id, now = new_id("appeal"), time.time()
        row = {
            "id": appeal_id, "case_id": case_id, "created": now, "key_id": key_id or None, **made.dump(),
            "status": "waiting", "note": "",
        }  # fmt: skip
        async with self._store.transaction() as connection:
            case = await locked_case(connection, case_id)
            if idempotency_key is not None:
                request = fingerprint({"case": case_id, **made.dump()})
                before = await made_before(self._store, connection, key_id, idempotency_key, request, appeal_id)
                if before is not None:
                    return await _row(connection, before), False
            _see_that_it_may(case)
            if made.kind == "appeal":
                await self._see_that_it_is_in_time(connection, case, now)
            record = Record.model_validate(case["record"])
            row |= {"category_before": record.category, "hateful_before": record.hateful}
            opened = self._store.insert(appeals).values(**row).on_conflict_do_nothing().returning(appeals)
            found = (await connection.execute(opened)).mappings().first()
            if found is None:
                still = select(appeals.c.id).where(appeals.c.case_id == case_id, appeals.c.decided.is_(None))
                held = (await connection.execute(still)).scalar()
                raise Problem("conflict", f"case: {case_id}: an appeal is open already: {held}; wait for its decision")
            event: Literal["case.appealed", "case.reopened"] = (
                "case.appealed" if made.kind == "appeal" else "case.reopened"
            )
            await announce_step(connection, self._outbox, event, dict(found), case)
            details = {"appeal": appeal_id, "appellant_sha": sha(made.appellant), "reason_sha": sha(made.reason)}
            await append(connection, by, Entry(kind=event, subject=case_id, details=details))
        self._outbox.send()
        return dict(found), True

    async def _see_that_it_is_in_time(self, connection: AsyncConnection, case: JSON, now: float) -> None:
        latest = select(func.max(decisions.c.at)).where(decisions.c.case_id == case["id"])
        last = (await connection.execute(latest)).scalar() or case["finished"]
        if now - last > self._days * DAY:
            days = (now - last) / DAY
            raise Problem("conflict", f"case: {case['id']}: was decided {days:.0f} days ago, over {self._days:g}")

    async def claim(self, appeal_id: str, reviewer: str, seconds: float, by: Who = OPERATOR) -> JSON:
        """Let nobody else decide an appeal meanwhile; to claim it again is to keep it longer.

        Raises:
            Problem: there is none, it is decided, somebody else has it, or this person has decided the case.
        """
        until = time.time() + seconds
        async with self._store.transaction() as connection:
            case, appeal = await self._locked(connection, appeal_id)
            self._see_that_it_waits(appeal, reviewer)
            see_that_another_decides(reviewer, deciders(Record.model_validate(case["record"])))
            row = await _changed(connection, appeal_id, {"claimed_by": reviewer, "claimed_until": until})
            details = {"appeal": appeal_id, "reviewer": reviewer, "until": until}
            told = Entry(kind="appeal.claimed", subject=case["id"], details=details)
            await append(connection, by, told)
        return row

    async def release(self, appeal_id: str, reviewer: str, by: Who = OPERATOR, *, lead: bool = False) -> JSON:
        """Give a claim back; a lead may do so for whoever is away, and the appeal is then anybody's again.

        Raises:
            Problem: there is none, it is decided, or somebody else has it.
        """
        async with self._store.transaction() as connection:
            case, appeal = await self._locked(connection, appeal_id)
            if not lead or appeal["status"] == "decided":
                self._see_that_it_waits(appeal, reviewer)
            values: JSON = {"claimed_by": None, "claimed_until": None}
            row = await _changed(connection, appeal_id, values | ({"reviewer": None} if lead else {}))
            details = {"appeal": appeal_id, "reviewer": reviewer}
            told = Entry(kind="appeal.given_back", subject=case["id"], details=details)
            await append(connection, by, told)
        return row

    async def decide(self, appeal_id: str, reviewer: str, said: Said, by: Who = OPERATOR) -> JSON:
        """Decide an appeal, or order a new trial, after which the same person decides.

        Args:
            appeal_id: the appeal.
            reviewer: the person.
            said: what they decide.
            by: who asks, for the audit log.

        Returns:
            the appeal's row. To say the same once more changes nothing, and gives the same.

        Raises:
            Problem: there is none, it is decided, somebody else has it, its new trial is under way, or this person
                has decided the case.
            BadInput: what is said doesn't fit the action, or the case's policy.
        """
        if (said.category is not None) != (said.action == "change"):
            way = "give it" if said.action == "change" else "leave it out"
            raise BadInput(f"category: {said.category!r}: belongs to a change; {way}")
        if said.action == "change" and not said.note.strip():
            raise BadInput("note: is empty: say why; it becomes the verdict's explanation")
        before = await self.appeal(appeal_id)
        policy = await policy_for(self._store, await self._case(before)) if said.action == "change" else None
        async with self._store.transaction() as connection:
            case, appeal = await self._locked(connection, appeal_id)
            if _said_before(appeal, reviewer, said):
                return appeal
            self._see_that_it_waits(appeal, reviewer)
            record = Record.model_validate(case["record"])
            see_that_another_decides(reviewer, deciders(record))
            if said.action == "retry":
                row = await self._retried(connection, case, appeal, reviewer, said, by)
            else:
                row = await self._decided(connection, case, appeal, record, reviewer, said, policy, by)
        self._outbox.send()
        if said.action == "retry":
            await self._put(row["trial_id"])
        return row

    async def _decided(
        self, connection: AsyncConnection, case: JSON, appeal: JSON, record: Record, reviewer: str, said: Said,
        policy: Policy | None, by: Who,
    ) -> JSON:  # fmt: skip
        after = chosen(policy, record, said.category) if policy is not None else None
        result = "upheld" if after is None else result_of(record, after)
        if after is not None and result == "upheld":
            raise BadInput(f"category: {said.category}: is what was decided already; uphold it")
        now = time.time()
        outcome = after or {"category": record.category, "hateful": record.hateful}
        row = await _changed(connection, appeal["id"], {
            "status": "decided", "reviewer": reviewer, "result": result, "note": said.note, "decided": now,
            "category_before": record.category, "hateful_before": record.hateful, "category": outcome["category"],
            "hateful": outcome["hateful"], "claimed_by": None, "claimed_until": None,
        })  # fmt: skip
        trial = await _trial(connection, row)
        dumped = with_the_appeal(record, row, trial, after).dump()
        new: JSON = {"record": dumped}
        if after is not None:
            new |= {"category": after["category"], "hateful": after["hateful"], "uncertain": False, "confidence": None}
            new |= {"reviewer": reviewer}
        await connection.execute(update(cases).where(cases.c.id == case["id"]).values(**new))
        was = {"category": record.category, "hateful": record.hateful}
        await note_decision(
            connection, case["id"], appeal["kind"], reviewer, result, was, outcome, at=now, appeal_id=appeal["id"]
        )
        await announce_step(connection, self._outbox, "appeal.decided", row, case | new)
        details = {
            "appeal": appeal["id"], "reviewer": reviewer, "result": result, "category": outcome["category"],
            "hateful": outcome["hateful"], "note_sha": sha(said.note), "record_sha": sha(dumped),
        }  # fmt: skip
        await append(connection, by, Entry(kind="appeal.decided", subject=case["id"], details=details))
        return row

    async def _retried(
        self, connection: AsyncConnection, case: JSON, appeal: JSON, reviewer: str, said: Said, by: Who
    ) -> JSON:
        trial = await _trial(connection, appeal)
        if trial is not None and trial["outcome"] == "verdict":
            if appeal["note"] == said.note:  # said once more: the answer was lost on the way
                return appeal
            raise Problem("conflict", f"appeal: {appeal['id']}: had its new trial; uphold the decision, or change it")
        trial_id, now = new_id(), time.time()
        against = {"reason": appeal["reason"], "context": appeal["context"]}
        settings = {**case["settings"], "review": False, "review_rule": []}
        await connection.execute(cases.insert().values(
            id=trial_id, created=now, status="queued", attempt=0, key_id=case["key_id"], graph=case["graph"],
            post={**case["post"], "appeal": against}, settings=settings, keep=True, appeal_id=appeal["id"],
            via=case["via"], post_id=case["post_id"], post_sha=case["post_sha"],
        ))  # fmt: skip
        row = await _changed(connection, appeal["id"], {
            "status": "trying", "reviewer": reviewer, "trial_id": trial_id, "trial_ordered": now, "trial_failed": None,
            "note": said.note,
        })  # fmt: skip
        await announce_step(connection, self._outbox, "appeal.trial", row, case)
        details = {"appeal": appeal["id"], "reviewer": reviewer, "trial": trial_id, "note_sha": sha(said.note)}
        await append(connection, by, Entry(kind="appeal.trial", subject=case["id"], details=details))
        return row

    def _see_that_it_waits(self, appeal: JSON, reviewer: str) -> None:
        name = f"appeal: {appeal['id']}"
        if appeal["status"] == "decided":
            raise Problem("conflict", f"{name}: was decided already: {appeal['result']} by {appeal['reviewer']}")
        if appeal["status"] == "trying":
            raise Problem("conflict", f"{name}: its new trial is under way; look again in a moment", retry_after=5)
        if appeal["reviewer"] not in (None, reviewer):
            raise Problem("conflict", f"{name}: is {appeal['reviewer']}'s, who ordered its new trial")
        if appeal["claimed_by"] not in (None, reviewer) and appeal["claimed_until"] > time.time():
            left = max(1, round(appeal["claimed_until"] - time.time()))
            raise Problem(
                "conflict", f"{name}: {appeal['claimed_by']} has claimed it for {left} s more", retry_after=left
            )

    async def _locked(self, connection: AsyncConnection, appeal_id: str) -> tuple[JSON, JSON]:
        """The case and the appeal, which nobody else can change before the transaction ends."""
        of = select(appeals.c.case_id).where(appeals.c.id == appeal_id).scalar_subquery()
        same = update(cases).where(cases.c.id == of).values(attempt=cases.c.attempt).returning(cases)
        case = (await connection.execute(same)).mappings().first()
        if case is None:
            raise Problem("not_found", f"appeal: {appeal_id[:80]}: there is none")
        if case["erased"] is not None or not case["record"]:
            raise Problem("conflict", f"case: {case['id']}: its words were erased, so nobody can decide on it")
        appeal = await _changed(connection, appeal_id, {"status": appeals.c.status})
        return dict(case), appeal

    async def _case(self, appeal: JSON) -> JSON:
        wanted = select(cases).where(cases.c.id == appeal["case_id"])
        async with self._store.reading() as connection:
            case = dict((await connection.execute(wanted)).mappings().one())
        if not case["record"]:
            raise Problem("conflict", f"case: {case['id']}: its words were erased, so nobody can decide on it")
        return case

    # What there is

    async def appeal(self, appeal_id: str) -> JSON:
        """An appeal's row.

        Raises:
            Problem: there is none.
        """
        async with self._store.reading() as connection:
            return await _row(connection, appeal_id)

    async def trial(self, appeal: JSON) -> JSON | None:
        """The row of the new trial; None where none was ordered, it is under way, or it came to nothing."""
        async with self._store.reading() as connection:
            return await _trial(connection, appeal)

    async def search(self, wanted: JSON, *, before: str | None = None, limit: int = 50) -> list[JSON]:
        """Appeals, the newest first.

        Args:
            wanted: columns and their values; `since` and `until` in seconds of the epoch.
            before: the id after which the last page ended.
            limit: how many.
        """
        query = select(appeals).order_by(appeals.c.id.desc()).limit(limit)
        bounds: dict[str, Any] = {
            "since": lambda value: appeals.c.created >= value,
            "until": lambda value: appeals.c.created < value,
        }
        for name, value in wanted.items():
            query = query.where(bounds[name](value) if name in bounds else appeals.c[name] == value)
        if before is not None:
            query = query.where(appeals.c.id < before)
        async with self._store.reading() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]


def _see_that_it_may(case: JSON) -> None:
    name = f"case: {case['id']}"
    if case["status"] != "done" or case["question"] is not None:
        raise Problem("conflict", f"{name}: isn't decided yet; look again when it is")
    if case["erased"] is not None:
        raise Problem("conflict", f"{name}: its words were erased, so nobody could look at it again")
    if not case["keep"] or not case["record"] or not case["post"]:
        raise Problem("conflict", f"{name}: its words weren't kept; send the post again")
    if case["outcome"] != "verdict":
        raise Problem("conflict", f"{name}: ended in a {case['outcome']}, so there is no decision; send the post again")


def _said_before(appeal: JSON, reviewer: str, said: Said) -> bool:
    """Whether somebody says once more what counts already: their answer was lost on the way."""
    if appeal["reviewer"] != reviewer or appeal["note"] != said.note:
        return False
    if said.action == "retry":
        return bool(appeal["status"] == "trying")
    if appeal["status"] != "decided":
        return False
    return bool(appeal["result"] == "upheld" if said.action == "uphold" else appeal["category"] == said.category)


async def locked_case(connection: AsyncConnection, case_id: str) -> JSON:
    """A case, which nobody else can change before the transaction ends.

    Raises:
        Problem: there is none; the new trial of an appeal is none.
    """
    own = (cases.c.id == case_id) & cases.c.appeal_id.is_(None)
    same = update(cases).where(own).values(attempt=cases.c.attempt).returning(cases)
    row = (await connection.execute(same)).mappings().first()
    if row is None:
        raise Problem("not_found", f"case: {case_id[:80]}: there is none")
    return dict(row)


async def _row(connection: AsyncConnection, appeal_id: str) -> JSON:
    row = (await connection.execute(select(appeals).where(appeals.c.id == appeal_id))).mappings().first()
    if row is None:
        raise Problem("not_found", f"appeal: {appeal_id[:80]}: there is none")
    return dict(row)


async def _trial(connection: AsyncConnection, appeal: JSON) -> JSON | None:
    """The new trial's row, once it has come to something."""
    ended = (cases.c.id == appeal["trial_id"]) & cases.c.outcome.is_not(None)
    row = (await connection.execute(select(cases).where(ended))).mappings().first()
    return dict(row) if row is not None else None


async def _changed(connection: AsyncConnection, appeal_id: str, values: JSON) -> JSON:
    changed = update(appeals).where(appeals.c.id == appeal_id).values(**values).returning(appeals)
    return dict((await connection.execute(changed)).mappings().one())
