"""Second opinions: another person says what they would decide, without having seen what was decided.

Nothing of it changes a decision. Where the two differ a lead sees both, and may reopen the case.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import or_, select

from tribunal.core.times import database_now
from tribunal.docket.waiting_cases import names_of_person
from tribunal.errors import Problem
from tribunal.explanations.deciders import rule_of_policy
from tribunal.nodes.forms import named_clauses
from tribunal.prompts.policy import Policy
from tribunal.review.appeals import Appeals, NewAppeal
from tribunal.review.claims import (
    NO_ANSWER,
    NO_CLAIM,
    ClaimStore,
    category_named,
    check_not_erased,
    policy_of_case,
)
from tribunal.schema import JSON, Record
from tribunal.store.audit import OPERATOR, Who, sha
from tribunal.store.engine import Store
from tribunal.store.tables import second_opinions

# what of a post is shown: its name may tell who decided on it
_POST = (
    "text",
    "image",
    "language",
    "earlier",
)


class SecondOpinions(ClaimStore):
    """The second opinions of a database. Through `appeals` a lead reopens a case."""

    table = second_opinions
    noun = "opinion"
    claimed_kind = "opinion.claimed"
    released_kind = "opinion.given_back"
    answered_kind = "opinion.answered"
    undone_kind = "opinion.undone"

    def __init__(self, store: Store, appeals: Appeals) -> None:
        """Keep the database and its appeals."""
        super().__init__(store)
        self._appeals = appeals

    async def search(
        self, status: str, *, before: str | None = None, limit: int = 50, besides: str = ""
    ) -> list[JSON]:
        """Return second opinions of a status, in the order of their ids, which tells nothing of their cases.

        Those of cases that the person `besides` decided first are left out.
        """
        query = select(second_opinions).where(
            second_opinions.c.status == status, second_opinions.c.id > (before or "")
        )
        if besides:
            first = second_opinions.c.first
            query = query.where(or_(first.is_(None), first.not_in(names_of_person(besides))))
        return await self._store.fetch_rows(query.order_by(second_opinions.c.id).limit(limit))

    async def blind_case(self, opinion_id: str) -> tuple[JSON, JSON]:
        """Return a row, and what whoever gives the opinion may see: the post, and the policy.

        Raises:
            Problem: there is none, or its words were erased.
            BadInput: the case's policy isn't known any more.
        """
        row, case, policy = await self._find_with_policy(opinion_id)
        post = {name: case["post"][name] for name in _POST if case["post"].get(name)}
        rule = rule_of_policy(policy, Record.model_validate(case["record"]).scheme)
        clauses = [each.model_dump(include={"id", "category", "rule"}) for each in policy.clauses]
        return row, {"post": post, **rule.dump(), "clauses": clauses}

    async def _find_with_policy(self, opinion_id: str) -> tuple[JSON, JSON, Policy]:
        """Return a row, its case, and the policy that the case was decided under. As `blind_case`."""
        row = await self.find(opinion_id)
        case = await self.case_of(row)
        check_not_erased(case, f"opinion: {opinion_id}")
        return row, case, await policy_of_case(self._store, case)

    async def give(
        self, opinion_id: str, reviewer: str, category: str, note: str = "", by: Who = OPERATOR, *,
        clauses: Sequence[str] = (), undo_seconds: float = 0.0, held: JSON | None = None,
    ) -> JSON:  # fmt: skip
        """Write down what a person would decide, and return the row: agreed, or disagreed, and then a lead sees it.

        Args:
            opinion_id: the second opinion.
            reviewer: who gives it.
            category: what they would decide: a category of the policy, by its name or its number.
            note: why.
            by: who asks, for the audit log.
            clauses: those of the policy that it rests on, by their ids.
            undo_seconds: for how long they can undo it; until then nobody is told of it.
            held: the same opinion as it lay in its row, of one that could be undone until now.

        Raises:
            Problem: as `claim`.
            BadInput: the policy has no such category or clause.
        """
        _, first, policy = await self._find_with_policy(opinion_id)
        scheme = Record.model_validate(first["record"]).scheme
        chosen = category_named([each.name for each in policy.categories(scheme)], category)
        named = list(named_clauses(policy, clauses))
        async with self._store.transaction() as connection:
            case, row = await self._lock_answer(connection, opinion_id, held)
            if (
                row["second"] == reviewer
                and row["second_category"] == chosen
                and row["note"] == note
            ):
                return row  # given once more: the answer was lost on the way
            self._check_may_decide(case, row, reviewer)
            if undo_seconds:
                answer = {"action": "give", "category": chosen, "note": note, "clauses": named}
                return await self._hold(connection, opinion_id, reviewer, answer, undo_seconds, by)
            agrees = chosen == row["first_category"]
            row = await self._update(connection, opinion_id, {
                "status": "agreed" if agrees else "disagreed", "second": reviewer, "second_category": chosen,
                "note": note, "clauses": named, "given": held["at"] if held else database_now(), **NO_CLAIM,
            })  # fmt: skip
            details = {
                "reviewer": reviewer,
                "category": chosen,
                "agrees": agrees,
                "note_sha": sha(note),
            }
            details |= {"clauses": named} if named else {}
            await self._log(connection, by, "opinion.given", row, **details)
        return row

    async def settle(
        self, opinion_id: str, lead: str, reason: str | None, key_id: str = "", by: Who = OPERATOR, *,
        undo_seconds: float = 0.0, held: JSON | None = None,
    ) -> JSON:  # fmt: skip
        """Settle a disagreement that a lead has seen: without a reason to reopen the case, the decision stays as it is.

        They can undo it for `undo_seconds`; `held` is then the same as `give` has it.

        Raises:
            Problem: there is none, the two don't differ, it was settled, or the case can't be reopened.
        """
        async with self._store.transaction() as connection:
            _, row = await self._lock(connection, opinion_id)
            self._check_disagreed(row, held)
            if undo_seconds:
                answer = {"action": "settle", "note": reason or "", "key_id": key_id}
                return await self._hold(connection, opinion_id, lead, answer, undo_seconds, by)
        appeal_id = None
        if reason is not None:
            new = NewAppeal(kind="reopened", appellant=lead, reason=reason)
            # Under a name of its own, so that a second attempt finds what the first one opened.
            once = f"settles {opinion_id}"
            appeal, _ = await self._appeals.open_appeal(
                row["case_id"], new, key_id, by, idempotency_key=once
            )
            appeal_id = appeal["id"]
        async with self._store.transaction() as connection:
            self._check_disagreed(await self._update(connection, opinion_id, {}), held)
            at = held["at"] if held else database_now()
            settled = {
                "status": "settled",
                "settled_by": lead,
                "settled": at,
                "appeal_id": appeal_id,
            }
            row = await self._update(connection, opinion_id, {**settled, **NO_ANSWER, **NO_CLAIM})
            await self._log(connection, by, "opinion.settled", row, lead=lead, appeal=appeal_id)
        return row

    async def _carry_out(self, row_id: str, answer: JSON) -> None:
        """Give the opinion, or settle the disagreement, as a person did who may not undo it any more."""
        person = answer["reviewer"]
        by = Who.model_validate(answer["by"])
        if answer["action"] == "settle":
            await self.settle(
                row_id, person, answer["note"] or None, answer["key_id"], by, held=answer
            )
        else:
            clauses = answer["clauses"]
            await self.give(
                row_id, person, answer["category"], answer["note"], by, clauses=clauses, held=answer
            )

    def _check_waits(self, row: JSON, reviewer: str) -> None:
        if row["status"] != "waiting":
            raise Problem(
                "conflict", f"opinion: {row['id']}: was given already, by {row['second']}"
            )
        super()._check_waits(row, reviewer)

    def _check_disagreed(self, row: JSON, held: JSON | None) -> None:
        """Check that a lead may settle a disagreement, who has decided so before if `held`."""
        if row["status"] != "disagreed":
            why = f"is {row['status']}; only where two differ a lead settles it"
            raise Problem("conflict", f"opinion: {row['id']}: {why}")
        if row["answer"] != held:
            by = (row["answer"] or {}).get("reviewer")
            why = (
                f"is being settled by {by} right now; look again soon" if by else "this was undone"
            )
            raise Problem("conflict", f"opinion: {row['id']}: {why}")
