"""Appeals: a decision is opened again, by the person whom it is about or by a lead, and another person decides.

The decision in force stands until the appeal is decided, and in the record after that, too. A new trial is a case of
its own, so it is tried, taken over and counted as any; it is nobody's decision. Whatever changes is written in one
transaction, which locks the case first, then the appeal: so two reviewers can't both decide, and a replica that is
killed leaves nothing half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import DAY, database_now, new_id
from tribunal.docket.decision_effects import announce_step, insert_decision
from tribunal.docket.leases import existing_for_request
from tribunal.docket.outbox import Outbox
from tribunal.docket.record_rows import policy_columns
from tribunal.docket.reservations import USUAL_BOUNDS, CaseBounds, reserve
from tribunal.errors import BadInput, Problem
from tribunal.nodes.forms import named_clauses
from tribunal.review.claims import (
    NO_CLAIM,
    ClaimStore,
    add_appeal,
    appeal_result,
    check_not_erased,
    chosen_outcome,
    lock_case,
    policy_of_case,
)
from tribunal.schema import JSON, Frozen, Record
from tribunal.store.audit import OPERATOR, Who, sha
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import appeals, cases, decisions

Action = Literal["uphold", "change", "retry"]
_EVENTS: dict[str, Literal["case.appealed", "case.reopened"]] = {
    "appeal": "case.appealed",
    "reopened": "case.reopened",
}


class NewAppeal(Frozen):
    """An appeal to be opened: what somebody says against a decision."""

    kind: Literal["appeal", "reopened"] = "appeal"
    appellant: str
    reason: str
    context: str = ""


class Appeals(ClaimStore):
    """The appeals of a database."""

    table = appeals
    noun = "appeal"
    claimed_kind = "appeal.claimed"
    released_kind = "appeal.given_back"
    answered_kind = "appeal.answered"
    undone_kind = "appeal.undone"

    def __init__(
        self, store: Store, outbox: Outbox, days: float, queued: asyncio.Event | None = None,
        bounds: CaseBounds = USUAL_BOUNDS,
    ) -> None:  # fmt: skip
        """Keep where each step is told, and how a new trial is begun.

        Args:
            store: the database.
            outbox: where each step is told.
            days: how many days a decision may be appealed.
            queued: what is set for a new trial.
            bounds: what a new trial takes of its key's daily budget where its settings don't say.
        """
        super().__init__(store)
        self._outbox = outbox
        self._days = days
        self._queued = queued
        self._bounds = bounds

    async def open_appeal(
        self,
        case_id: str,
        new: NewAppeal,
        key_id: str = "",
        by: Who = OPERATOR,
        *,
        idempotency_key: str | None = None,
    ) -> tuple[JSON, bool]:
        """Open a decision again, and return the appeal's row and whether it is new.

        Raises:
            Problem: there is no such case, it isn't decided or kept, its time is over, or an appeal is open.
        """
        appeal_id = new_id("appeal")
        now = database_now()
        async with self._store.transaction() as connection:
            # The new trial of an appeal is no case of its own.
            own = (cases.c.id == case_id) & cases.c.appeal_id.is_(None)
            case = await lock_case(connection, own, f"case: {case_id[:80]}")
            if idempotency_key is not None:
                request = {"case": case_id, **new.dump()}
                before = await existing_for_request(
                    self._store, connection, key_id, request, appeal_id, key=idempotency_key
                )
                if before is not None:
                    return await self._update(connection, before, {}), False
            _check_appealable(case)
            if new.kind == "appeal":
                latest = select(func.max(decisions.c.at)).where(decisions.c.case_id == case["id"])
                days = (now - (await connection.scalar(latest) or case["finished"])) / DAY
                if days > self._days:
                    raise Problem(
                        "conflict",
                        f"case: {case['id']}: was decided {days:.0f} days ago, over {self._days:g}",
                    )
            record = Record.model_validate(case["record"])
            row = {
                "id": appeal_id, "case_id": case_id, "created": now, "key_id": key_id or None, **new.dump(),
                "status": "waiting", "note": "", "category_before": record.category, "hateful_before": record.hateful,
            }  # fmt: skip
            opening = (
                self._store.insert(appeals)
                .values(**row)
                .on_conflict_do_nothing()
                .returning(appeals)
            )
            opened = await first_row(connection, opening)
            if opened is None:
                still_open = select(appeals.c.id).where(
                    appeals.c.case_id == case_id, appeals.c.decided.is_(None)
                )
                other = await connection.scalar(still_open)
                raise Problem(
                    "conflict",
                    f"case: {case_id}: an appeal is open already: {other}; wait for its decision",
                )
            event = _EVENTS[new.kind]
            await announce_step(connection, self._outbox, event, opened, case)
            details = {"appellant_sha": sha(new.appellant), "reason_sha": sha(new.reason)}
            await self._log(connection, by, event, opened, **details)
        self._outbox.send()
        return opened, True

    async def release(
        self, row_id: str, reviewer: str, by: Who = OPERATOR, *, lead: bool = False
    ) -> JSON:
        """Give a claim back; a lead may do so for whoever is away, and the appeal is then anybody's again.

        Raises:
            Problem: there is none, it is decided, or somebody else has it.
        """
        async with self._store.transaction() as connection:
            _, appeal = await self._lock(connection, row_id)
            if not lead or appeal["status"] == "decided":
                self._check_waits(appeal, reviewer)
            row = await self._update(
                connection, row_id, NO_CLAIM | ({"reviewer": None} if lead else {})
            )
            await self._log(connection, by, self.released_kind, row, reviewer=reviewer)
        return row

    async def decide(
        self, appeal_id: str, reviewer: str, action: Action, *, category: str | None = None, note: str = "",
        clauses: Sequence[str] = (), by: Who = OPERATOR, undo_seconds: float = 0.0, held: JSON | None = None,
    ) -> JSON:  # fmt: skip
        """Decide an appeal, or order a new trial, after which the same person decides; return the appeal's row.

        To decide the same once more changes nothing.

        Args:
            appeal_id: the appeal.
            reviewer: who decides.
            action: what they decide.
            category: of a change: a category of the policy, by its name or its number.
            note: why.
            clauses: those of the policy that it rests on, by their ids.
            by: who asks, for the audit log.
            undo_seconds: for how long they can undo it; until then nothing of it takes effect.
            held: the same decision as it lay in the appeal's row, of one that could be undone until now.

        Raises:
            Problem: there is none, it is decided, somebody else has it, its new trial is under way, this person has
                decided the case, or the budget of the case's key doesn't reach for a new trial.
            BadInput: the category, the note or a clause doesn't fit the action, or the case's policy; or a case without
                a verdict is upheld.
        """
        if (category is not None) != (action == "change"):
            way_out = "give it" if action == "change" else "leave it out"
            raise BadInput(f"category: {category!r}: belongs to a change; {way_out}")
        if action == "change" and not note.strip():
            raise BadInput("note: is empty: say why; it becomes the verdict's explanation")
        if clauses and action == "retry":
            raise BadInput("clauses: belong to a decision; leave them out of a new trial")
        after = None
        named = tuple[str, ...]()
        if category is not None or clauses:
            case = await self.case_of(await self.find(appeal_id))
            check_not_erased(case, f"case: {case['id']}")
            policy = await policy_of_case(self._store, case)
            named = named_clauses(policy, clauses)
            if category is not None:
                after = chosen_outcome(policy, Record.model_validate(case["record"]), category)
        async with self._store.transaction() as connection:
            case, appeal = await self._lock_answer(connection, appeal_id, held)
            if _is_repeated(appeal, reviewer, action, note, after):
                return appeal
            self._check_may_decide(case, appeal, reviewer)
            _check_is_another(case, after)
            if action == "uphold" and case["outcome"] != "verdict":
                raise BadInput(
                    "action: uphold: the case has no verdict to keep; choose a category or order a new run"
                )
            if action == "retry" and await self._had_trial(connection, appeal):
                if appeal["note"] == note:  # ordered once more: the answer was lost on the way
                    return appeal
                raise Problem(
                    "conflict",
                    f"appeal: {appeal['id']}: had its new trial; uphold the decision, or change it",
                )
            if undo_seconds:
                answer = {
                    "action": action,
                    "category": category,
                    "note": note,
                    "clauses": list(named),
                }
                return await self._hold(connection, appeal_id, reviewer, answer, undo_seconds, by)
            if action == "retry":
                row = await self._order_trial(connection, case, appeal, reviewer, note, by)
            else:
                at = held["at"] if held else database_now()
                row = await self._write_decision(
                    connection, case, appeal, reviewer, note, after, named, by, at
                )
        self._outbox.send()
        if action == "retry" and self._queued is not None:
            self._queued.set()
        return row

    async def _carry_out(self, row_id: str, answer: JSON) -> None:
        """Decide as a person did who may not undo it any more."""
        given = {name: answer[name] for name in ("category", "note", "clauses")}
        by = Who.model_validate(answer["by"])
        await self.decide(row_id, answer["reviewer"], answer["action"], **given, by=by, held=answer)

    async def _write_decision(
        self, connection: AsyncConnection, case: JSON, appeal: JSON, reviewer: str, note: str, after: JSON | None,
        clauses: Sequence[str], by: Who, now: float,
    ) -> JSON:  # fmt: skip
        record = Record.model_validate(case["record"])
        result = "upheld" if after is None else appeal_result(record, after)
        before = {"category": record.category, "hateful": record.hateful}
        outcome = {name: after[name] for name in before} if after else before
        row = await self._update(connection, appeal["id"], {
            "status": "decided", "reviewer": reviewer, "result": result, "note": note, "decided": now,
            "clauses": list(clauses),
            "category_before": record.category, "hateful_before": record.hateful, **outcome, **NO_CLAIM,
        })  # fmt: skip
        decided = add_appeal(record, row, await _ended_trial(connection, row), after, clauses)
        dumped = decided.dump()
        changes: JSON = {"record": dumped, "uncertain": False, **policy_columns(decided)}
        if after is not None:
            changes |= {
                **outcome,
                "outcome": decided.outcome,
                "confidence": None,
                "reviewer": reviewer,
            }
        await connection.execute(update(cases).where(cases.c.id == case["id"]).values(**changes))
        await insert_decision(
            connection,
            case["id"],
            appeal["kind"],
            reviewer,
            result,
            before,
            outcome,
            at=now,
            appeal_id=appeal["id"],
        )
        await announce_step(connection, self._outbox, "appeal.decided", row, case | changes)
        cited = {"clauses": list(clauses)} if clauses else {}
        details = {
            "reviewer": reviewer,
            "result": result,
            **outcome,
            **cited,
            "note_sha": sha(note),
            "record_sha": sha(dumped),
        }
        await self._log(connection, by, "appeal.decided", row, **details)
        return row

    async def _order_trial(
        self,
        connection: AsyncConnection,
        case: JSON,
        appeal: JSON,
        reviewer: str,
        note: str,
        by: Who,
    ) -> JSON:
        trial_id = new_id()
        now = database_now()
        against = {"reason": appeal["reason"], "context": appeal["context"]}
        same = {
            name: case[name]
            for name in ("key_id", "graph", "via", "post_id", "post_sha", "priority")
        }
        settings = {**case["settings"], "review": False, "review_rule": []}
        reserved = await reserve(
            self._store, connection, case["key_id"], case["graph"], settings, 1, self._bounds
        )
        await connection.execute(cases.insert().values(
            **same, id=trial_id, created=now, status="queued", attempt=0, post={**case["post"], "appeal": against},
            settings=settings, keep=True, appeal_id=appeal["id"], **(reserved.columns() if reserved else {}),
        ))  # fmt: skip
        row = await self._update(connection, appeal["id"], {
            "status": "trying", "reviewer": reviewer, "trial_id": trial_id, "trial_ordered": now,
            "trial_failed": None, "note": note,
        })  # fmt: skip
        await announce_step(connection, self._outbox, "appeal.trial", row, case)
        await self._log(
            connection,
            by,
            "appeal.trial",
            row,
            reviewer=reviewer,
            trial=trial_id,
            note_sha=sha(note),
        )
        return row

    async def _had_trial(self, connection: AsyncConnection, appeal: JSON) -> bool:
        """Return whether an appeal has had a new trial with a verdict."""
        trial = await _ended_trial(connection, appeal)
        return trial is not None and trial["outcome"] == "verdict"

    def _check_waits(self, row: JSON, reviewer: str) -> None:
        name = f"appeal: {row['id']}"
        if row["status"] == "decided":
            raise Problem(
                "conflict", f"{name}: was decided already: {row['result']} by {row['reviewer']}"
            )
        if row["status"] == "trying":
            raise Problem(
                "conflict",
                f"{name}: its new trial is under way; look again in a moment",
                retry_after=5,
            )
        if row["reviewer"] not in (None, reviewer):
            raise Problem("conflict", f"{name}: is {row['reviewer']}'s, who ordered its new trial")
        super()._check_waits(row, reviewer)

    async def trial(self, appeal: JSON) -> JSON | None:
        """Return the row of the new trial, or None if none was ordered, it is under way, or it came to nothing."""
        async with self._store.reading() as connection:
            return await _ended_trial(connection, appeal)

    async def search(
        self, filters: JSON, *, before: str | None = None, limit: int = 50
    ) -> list[JSON]:
        """Return appeals, the newest first, by columns and their values; `before` is the last id of the page before."""
        query = select(appeals).order_by(appeals.c.id.desc()).limit(limit)
        bounds: dict[str, Any] = {
            "since": appeals.c.created.__ge__,
            "until": appeals.c.created.__lt__,
        }
        for name, value in filters.items():
            query = query.where(bounds[name](value) if name in bounds else appeals.c[name] == value)
        if before is not None:
            query = query.where(appeals.c.id < before)
        return await self._store.fetch_rows(query)


def _check_appealable(case: JSON) -> None:
    why = None
    if case["status"] != "done" or case["question"] is not None:
        why = "isn't decided yet; look again when it is"
    elif case["erased"] is not None:
        why = "its words were erased, so nobody could look at it again"
    elif not case["keep"] or not case["record"] or not case["post"]:
        why = "its words weren't kept; send the post again"
    if why is not None:
        raise Problem("conflict", f"case: {case['id']}: {why}")


def _check_is_another(case: JSON, after: JSON | None) -> None:
    """Check that a change is one; raise BadInput if it names the category that was decided before."""
    if (
        after is not None
        and appeal_result(Record.model_validate(case["record"]), after) == "upheld"
    ):
        raise BadInput(f"category: {after['category']}: is what was decided already; uphold it")


def _is_repeated(
    appeal: JSON, reviewer: str, action: Action, note: str, after: JSON | None
) -> bool:
    """Return whether somebody decides once more what counts already: their answer was lost on the way."""
    if (appeal["reviewer"], appeal["note"]) != (reviewer, note):
        return False
    if action == "retry":
        return bool(appeal["status"] == "trying")
    same = (
        appeal["result"] == "upheld" if after is None else appeal["category"] == after["category"]
    )
    return bool(appeal["status"] == "decided" and same)


async def _ended_trial(connection: AsyncConnection, appeal: JSON) -> JSON | None:
    """Return the new trial's row once it has come to something."""
    ended = (cases.c.id == appeal["trial_id"]) & cases.c.outcome.is_not(None)
    return await first_row(connection, select(cases).where(ended))
