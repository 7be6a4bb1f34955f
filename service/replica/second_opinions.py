"""Second opinions: another person says what they would decide, without having seen what was decided.

Nothing of it changes a decision. Where the two differ a lead sees both, and may reopen the case.
"""

from __future__ import annotations

import time

from sqlalchemy import or_, select

from tribunal.cases.deciders import rule_of_policy
from tribunal.cases.problem import Problem
from tribunal.cases.waiting_cases import names_of_person
from tribunal.schema import JSON, Record
from tribunal.service.replica.appeals import Appeals, NewAppeal
from tribunal.service.replica.claims import (
    NO_CLAIM,
    ClaimStore,
    category_named,
    check_not_erased,
    policy_of_case,
)
from tribunal.store.audit import OPERATOR, Who, sha
from tribunal.store.engine import Store
from tribunal.store.tables import second_opinions

_POST = ("text", "image", "language", "earlier")  # what of a post is shown: its name may tell who decided on it


class SecondOpinions(ClaimStore):
    """The second opinions of a database. Through `appeals` a lead reopens a case."""

    table, noun = second_opinions, "opinion"
    claimed_kind, released_kind = "opinion.claimed", "opinion.given_back"

    def __init__(self, store: Store, appeals: Appeals) -> None:
        """Keep the database and its appeals."""
        super().__init__(store)
        self._appeals = appeals

    async def search(self, status: str, *, before: str | None = None, limit: int = 50, besides: str = "") -> list[JSON]:
        """Return second opinions of a status, in the order of their ids, which tells nothing of their cases.

        Those of cases that the person `besides` decided first are left out.
        """
        query = select(second_opinions).where(second_opinions.c.status == status, second_opinions.c.id > (before or ""))
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
        row = await self.find(opinion_id)
        case = await self.case_of(row)
        check_not_erased(case, f"opinion: {opinion_id}")
        policy, record = await policy_of_case(self._store, case), Record.model_validate(case["record"])
        post = {name: case["post"][name] for name in _POST if case["post"].get(name)}
        return row, {"post": post, **rule_of_policy(policy, record.scheme).dump()}

    async def give(self, opinion_id: str, reviewer: str, category: str, note: str = "", by: Who = OPERATOR) -> JSON:
        """Write down what a person would decide, and return the row: agreed, or disagreed, and then a lead sees it.

        Raises:
            Problem: as `claim`.
            BadInput: the policy has no such category.
        """
        _, blind = await self.blind_case(opinion_id)
        chosen = category_named([each["name"] for each in blind["categories"]], category)
        async with self._store.transaction() as connection:
            case, row = await self._lock(connection, opinion_id)
            if row["second"] == reviewer and row["second_category"] == chosen and row["note"] == note:
                return row  # given once more: the answer was lost on the way
            self._check_may_decide(case, row, reviewer)
            agrees = chosen == row["first_category"]
            row = await self._update(connection, opinion_id, {
                "status": "agreed" if agrees else "disagreed", "second": reviewer, "second_category": chosen,
                "note": note, "given": time.time(), **NO_CLAIM,
            })  # fmt: skip
            details = {"reviewer": reviewer, "category": chosen, "agrees": agrees, "note_sha": sha(note)}
            await self._log(connection, by, "opinion.given", row, **details)
        return row

    async def settle(
        self, opinion_id: str, lead: str, reason: str | None, key_id: str = "", by: Who = OPERATOR
    ) -> JSON:
        """Settle a disagreement that a lead has seen: without a reason to reopen the case, the decision stays as it is.

        Raises:
            Problem: there is none, the two don't differ, it was settled, or the case can't be reopened.
        """
        row = await self.find(opinion_id)
        _check_disagreed(row)
        appeal_id = None
        if reason is not None:
            new = NewAppeal(kind="reopened", appellant=lead, reason=reason)
            # Under a name of its own, so that a second attempt finds what the first one opened.
            once = f"settles {opinion_id}"
            appeal, _ = await self._appeals.open_appeal(row["case_id"], new, key_id, by, idempotency_key=once)
            appeal_id = appeal["id"]
        async with self._store.transaction() as connection:
            _check_disagreed(await self._update(connection, opinion_id, {}))
            settled = {"status": "settled", "settled_by": lead, "settled": time.time(), "appeal_id": appeal_id}
            row = await self._update(connection, opinion_id, settled)
            await self._log(connection, by, "opinion.settled", row, lead=lead, appeal=appeal_id)
        return row

    def _check_waits(self, row: JSON, reviewer: str) -> None:
        if row["status"] != "waiting":
            raise Problem("conflict", f"opinion: {row['id']}: was given already, by {row['second']}")
        super()._check_waits(row, reviewer)


def _check_disagreed(row: JSON) -> None:
    if row["status"] != "disagreed":
        raise Problem("conflict", f"opinion: {row['id']}: is {row['status']}; only where two differ a lead settles it")
