"""Claims of one person at a time on appeals and second opinions, and the case that these make."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import Table, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.core.times import database_now
from tribunal.docket.record_rows import text_of
from tribunal.docket.waiting_cases import check_claim, seconds_to_undo
from tribunal.errors import BadInput, Problem
from tribunal.nodes.threshold import probability_by_person
from tribunal.prompts.policy import Policy, parse_policy, policy_in_force
from tribunal.schema import JSON, Appealed, Record, Trial
from tribunal.settings.context import context_from
from tribunal.store.audit import OPERATOR, Kind, LogEntry, Who, append, sha
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import cases

NO_CLAIM: JSON = {"claimed_by": None, "claimed_until": None}
NO_ANSWER: JSON = {"answer": None, "held_until": None}
_LOG = logging.getLogger(__name__)


class ClaimStore:
    """The rows of a table that people claim and decide on.

    A decision that its person may undo lies in its row (`answer`) until its seconds are over. Then a replica carries it
    out, and only now is anything written that others are told.

    Attributes:
        table: the table.
        noun: what one of its rows is called, also in the audit log.
    """

    table: ClassVar[Table]
    noun: ClassVar[str]
    claimed_kind: ClassVar[Kind]
    released_kind: ClassVar[Kind]
    answered_kind: ClassVar[Kind]
    undone_kind: ClassVar[Kind]

    def __init__(self, store: Store) -> None:
        """Keep the database."""
        self._store = store

    async def find(self, row_id: str) -> JSON:
        """Return a row; raise Problem if there is none."""
        return self._existing(
            await self._store.fetch_row(select(self.table).where(self.table.c.id == row_id)), row_id
        )

    async def case_of(self, row: JSON) -> JSON:
        """Return the row of the case that one of these rows is about."""
        case = await self._store.fetch_row(select(cases).where(cases.c.id == row["case_id"]))
        assert case is not None  # noqa: S101 (a case is deleted together with what is about it)
        return case

    async def claim(self, row_id: str, reviewer: str, seconds: float, by: Who = OPERATOR) -> JSON:
        """Let nobody else decide meanwhile; to claim it again is to keep it longer.

        Raises:
            Problem: there is none, it is decided, somebody else has it, or this person has decided the case.
        """
        until = database_now() + seconds
        values = {"claimed_by": reviewer, "claimed_until": until}
        return await self._set_claim(row_id, reviewer, values, by, self.claimed_kind, until=until)

    async def release(self, row_id: str, reviewer: str, by: Who = OPERATOR) -> JSON:
        """Give a claim back. As `claim`."""
        return await self._set_claim(row_id, reviewer, NO_CLAIM, by, self.released_kind)

    async def _set_claim(
        self, row_id: str, reviewer: str, values: JSON, by: Who, kind: Kind, **details: object
    ) -> JSON:
        async with self._store.transaction() as connection:
            self._check_may_decide(*await self._lock(connection, row_id), reviewer)
            row = await self._update(connection, row_id, values)
            await self._log(connection, by, kind, row, reviewer=reviewer, **details)
        return row

    async def undo(self, row_id: str, reviewer: str, seconds: float, by: Who = OPERATOR) -> JSON:
        """Take back what this person has just decided on a row, which is theirs again for so many seconds.

        Raises:
            Problem: there is none, it is too late, or somebody else has decided.
        """
        async with self._store.transaction() as connection:
            _, row = await self._lock(connection, row_id)
            if undo_seconds_left(row, reviewer) <= 0:
                raise Problem(
                    "conflict",
                    f"{self.noun}: {row_id}: it is too late to undo this; nothing was changed",
                )
            values = {
                **NO_ANSWER,
                "claimed_by": reviewer,
                "claimed_until": database_now() + seconds,
            }
            row = await self._update(connection, row_id, values)
            await self._log(connection, by, self.undone_kind, row, reviewer=reviewer)
        return row

    async def carry_out_due(self) -> None:
        """Carry out the decisions that can't be undone any more; one that doesn't hold any more is dropped."""
        columns = self.table.c
        due = select(self.table).where(
            columns.held_until <= database_now(), columns.answer.is_not(None)
        )
        for row in await self._store.fetch_rows(due):
            try:
                await self._carry_out(row["id"], row["answer"])
            except (Problem, BadInput) as error:
                await self._drop_answer(row, str(error))

    async def _carry_out(self, row_id: str, answer: JSON) -> None:
        """Decide as a person did who may not undo it any more."""
        raise NotImplementedError

    async def _drop_answer(self, held: JSON, why: str) -> None:
        """Let a row wait for a person again whose decision could not be carried out, unless it has been meanwhile."""
        async with self._store.transaction() as connection:
            _, row = await self._lock(connection, held["id"])
            if row["answer"] == held["answer"]:
                failed = {"trial_failed": why} if "trial_failed" in self.table.c else {}
                row = await self._update(connection, row["id"], {**NO_ANSWER, **NO_CLAIM, **failed})
                await self._log(
                    connection, OPERATOR, self.undone_kind, row, reviewer=held["answer"]["reviewer"]
                )
                _LOG.warning(
                    "%s %s: its decision could not be carried out: %s", self.noun, row["id"], why
                )

    async def _hold(
        self,
        connection: AsyncConnection,
        row_id: str,
        reviewer: str,
        answer: JSON,
        seconds: float,
        by: Who,
    ) -> JSON:
        """Write down what a person decides, which takes effect after so many seconds unless they undo it."""
        now = database_now()
        held = {**answer, "reviewer": reviewer, "at": now, "by": by.dump()}
        until = {
            "held_until": now + seconds,
            "claimed_by": reviewer,
            "claimed_until": now + seconds,
        }
        row = await self._update(connection, row_id, {"answer": held, **until})
        details = {
            name: answer[name] for name in ("action", "category", "clauses") if answer.get(name)
        }
        await self._log(
            connection,
            by,
            self.answered_kind,
            row,
            reviewer=reviewer,
            **details,
            note_sha=sha(answer["note"]),
        )
        return row

    async def _lock_answer(
        self, connection: AsyncConnection, row_id: str, held: JSON | None
    ) -> tuple[JSON, JSON]:
        """Return a case and its row as `_lock`, without the decision `held` that is carried out now, if one is.

        Raises:
            Problem: as `_lock`, or that decision was undone or carried out meanwhile.
        """
        case, row = await self._lock(connection, row_id)
        if held is not None:
            if row["answer"] != held:
                raise Problem(
                    "conflict",
                    f"{self.noun}: {row_id}: this decision was undone or has taken effect",
                )
            row = await self._update(connection, row_id, NO_ANSWER)
        return case, row

    async def _lock(self, connection: AsyncConnection, row_id: str) -> tuple[JSON, JSON]:
        """Return a row and, before it, its case, which nobody else can change before the transaction ends.

        The case is locked first: two that lock both never wait for each other.

        Raises:
            Problem: there is none, or the words of its case were erased.
        """
        of_row = select(self.table.c.case_id).where(self.table.c.id == row_id).scalar_subquery()
        case = await lock_case(connection, cases.c.id == of_row, f"{self.noun}: {row_id[:80]}")
        check_not_erased(case, f"{self.noun}: {row_id}")
        return case, await self._update(connection, row_id, {})

    def _check_may_decide(self, case: JSON, row: JSON, reviewer: str) -> None:
        """Check that this person may decide on a row; raise Problem as `claim`."""
        self._check_waits(row, reviewer)
        check_another_decides(reviewer, deciders(Record.model_validate(case["record"])))

    def _check_waits(self, row: JSON, reviewer: str) -> None:
        """Check that a row waits for this person; raise Problem if it is decided or somebody else has claimed it."""
        if row["answer"] is not None:
            by = row["answer"]["reviewer"]
            raise Problem(
                "conflict",
                f"{self.noun}: {row['id']}: is being decided by {by} right now; look again soon",
            )
        check_claim(row, self.noun, reviewer)

    async def _update(self, connection: AsyncConnection, row_id: str, values: JSON) -> JSON:
        """Change a row, which nobody else can change before the transaction ends; without values only lock it."""
        changing = update(self.table).where(self.table.c.id == row_id).returning(self.table)
        changing = changing.values(**(values or {"status": self.table.c.status}))
        return self._existing(await first_row(connection, changing), row_id)

    def _existing(self, row: JSON | None, row_id: str) -> JSON:
        if row is None:
            raise Problem("not_found", f"{self.noun}: {row_id[:80]}: there is none")
        return row

    async def _log(
        self, connection: AsyncConnection, by: Who, kind: Kind, row: JSON, **details: object
    ) -> None:
        entry = LogEntry(
            kind=kind, subject=row["case_id"], details={self.noun: row["id"], **details}
        )
        await append(connection, by, entry)


def undo_seconds_left(row: JSON, reviewer: str | None = None) -> float:
    """Return for how many seconds a decision can still be undone, by this reviewer if one is given; 0: it can't."""
    return (
        0.0
        if row["answer"] is None
        else seconds_to_undo(row, row["answer"]["reviewer"], reviewer or None)
    )


async def lock_case(connection: AsyncConnection, which: Any, name: str) -> JSON:
    """Return a case that nobody else can change before the transaction ends; raise Problem if there is none."""
    same = update(cases).where(which).values(attempt=cases.c.attempt).returning(cases)
    row = await first_row(connection, same)
    if row is None:
        raise Problem("not_found", f"{name}: there is none")
    return row


# The fields of a record that are its outcome.
_OUTCOME = {
    "outcome", "label", "category", "hateful", "explanation", "tie", "confidence", "uncertain", "probability",
    "probability_from", "clauses",
}  # fmt: skip


def outcome_of(record: Record) -> JSON:
    """Return the outcome that a record states."""
    return record.model_dump(mode="json", include=_OUTCOME)


def deciders(record: Record) -> list[str]:
    """Return everybody who has decided on the case so far."""
    return [*_reviewer_of(record), *(each.reviewer for each in record.appeals)]


def _reviewer_of(record: Record) -> list[str]:
    review = record.review
    return (
        [review.reviewer or "a reviewer"]
        if review is not None and review.action is not None
        else []
    )


def may_be_same_person(one: str, other: str) -> bool:
    """Return whether two names may be one person's: `kim (desk)`, `Kim (desk)`, and `desk`, who named nobody.

    At a terminal the operator has no key: `lee` there is `lee (operator)` over HTTP.
    """
    first, second = (" ".join(each.split()).casefold() for each in (one, other))
    same = first.removesuffix(" (operator)") == second.removesuffix(" (operator)")
    return same or first.endswith(f"({second})") or second.endswith(f"({first})")


def check_another_decides(reviewer: str, before: Iterable[str]) -> None:
    """Check that a person has had no part in the decision; raise Problem if they may have."""
    for each in before:
        if may_be_same_person(reviewer, each):
            why = (
                "decided this case"
                if reviewer == each
                else f"can't be told from {each}, who decided this case"
            )
            raise Problem(
                "conflict", f"reviewer: {reviewer} {why}, so another person has to decide now"
            )


def check_not_erased(case: JSON, name: str) -> None:
    """Check that the words of a case are there, which `name` is about; raise Problem if they were erased."""
    if case["erased"] is not None or not case["record"]:
        raise Problem("conflict", f"{name}: its words were erased, so nobody can decide on it")


async def policy_of_case(store: Store, case: JSON) -> Policy:
    """Return the policy that a case was decided under, by its full text, whatever became of its file.

    Raises:
        BadInput: the text isn't kept, and the file is another by now; or somebody has altered what is kept.
    """
    recorded: JSON = case["record"].get("policy") or {}
    sha = recorded.get("sha")
    context = context_from(case["settings"])
    name = context.policy
    text = await text_of(store, sha, "policy")
    if text is not None:
        return parse_policy(text, str(recorded.get("name") or name))
    found = await policy_in_force(name, context.policy_definition)
    if sha and found.sha != sha:
        raise BadInput(
            f"policy: {name}: is another ({found.sha}) than the case was decided under ({sha}); put the file back, or "
            "order a new trial"
        )
    return found


def category_named(names: Sequence[str], given: str) -> str:
    """Return the category that a person names, or gives by its number; raise BadInput if there is none of this name."""
    name = given.strip()
    if name.isdecimal() and int(name) < len(names):
        return names[int(name)]
    if name not in names:
        raise BadInput(
            f"category: {name[:80]!r}: is none of this case's policy; they are {', '.join(names)}"
        )
    return name


def chosen_outcome(policy: Policy, record: Record, category: str) -> JSON:
    """Return the label, category and hatefulness of the category that a person names.

    Raises:
        BadInput: the policy has no such category.
    """
    names = [each.name for each in policy.categories(record.scheme)]
    label = names.index(category_named(names, category))
    return {
        "label": label,
        "category": names[label],
        "hateful": policy.is_hate(record.scheme, label),
    }


def appeal_result(before: Record, after: JSON) -> str:
    """Return what a decision is called: reversed, if what was hateful is not, or the other way round."""
    if after["category"] == before.category:
        return "upheld"
    return (
        "reversed"
        if before.hateful is not None and after["hateful"] != before.hateful
        else "changed"
    )


def add_appeal(
    record: Record,
    appeal: JSON,
    trial: JSON | None,
    after: JSON | None,
    clauses: Sequence[str] = (),
) -> Record:
    """Return the record after an appeal was decided.

    Args:
        record: as it was.
        appeal: the appeal's row, as it is now.
        trial: the row of the new trial, if one was held.
        after: label, category and hatefulness that were decided on; None: the decision stands.
        clauses: those of the policy that the reviewer named.
    """
    tried = None
    if trial is not None and trial["record"]:
        ended = Record.model_validate(trial["record"])
        tried = Trial(
            id=trial["id"],
            question=appeal["reason"],
            reviewer=appeal["reviewer"],
            at=_iso_time(appeal["trial_ordered"]),
            outcome=outcome_of(ended),
            cues=ended.cues,
            transcript=ended.transcript,
        )
    turned = [each.reviewer for each in record.appeals if each.result != "upheld"]
    same = ("id", "kind", "appellant", "reason", "context", "result", "reviewer", "note")
    decided = Appealed(
        **{name: appeal[name] for name in same},
        at=_iso_time(appeal["created"]),
        before=outcome_of(record),
        decided_by=next(reversed([*_reviewer_of(record), *turned]), None),
        trial=tried,
        decided=_iso_time(appeal["decided"]),
        clauses=tuple(clauses),
    )
    changes: JSON = {"appeals": (*record.appeals, decided), "uncertain": False}
    if after is not None:
        changes |= {
            **after,
            "outcome": "verdict",
            "explanation": appeal["note"],
            "tie": False,
            "confidence": None,
        }
        changes |= {"votes": (), "steps": (), **probability_by_person(after["hateful"])}
    if after is not None or clauses:
        changes["clauses"] = tuple(clauses)
    return record.model_copy(update=changes)


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
