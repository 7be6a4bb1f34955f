"""Second opinions: another person says what they would decide, without having seen what was decided.

Nothing of it changes a decision. Where the two differ a lead sees both, and may reopen the case.
"""

from __future__ import annotations

import time

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.errors import BadInput
from tribunal.schema import JSON, Record
from tribunal.service.replica.appealed import deciders, policy_for, see_that_another_decides
from tribunal.service.replica.appeals import Appeals, Made
from tribunal.service.replica.problems import Problem
from tribunal.store.audit import OPERATOR, Entry, Who, append, sha
from tribunal.store.engine import Store
from tribunal.store.tables import cases, second_opinions

_POST = ("text", "image", "language", "earlier")  # what of a post is shown: its name may tell who decided on it


class SecondOpinions:
    """The second opinions, as one replica sees them.

    Args:
        store: the database.
        appeals: through which a lead reopens a case.
    """

    def __init__(self, store: Store, appeals: Appeals) -> None:
        self._store, self._appeals = store, appeals

    async def search(self, status: str, *, before: str | None = None, limit: int = 50) -> list[JSON]:
        """Second opinions of a status, in the order of their ids, which tells nothing of their cases.

        Args:
            status: waiting, agreed, disagreed or settled.
            before: the id after which the last page ended.
            limit: how many.
        """
        query = select(second_opinions).where(second_opinions.c.status == status)
        if before is not None:
            query = query.where(second_opinions.c.id > before)
        async with self._store.reading() as connection:
            rows = await connection.execute(query.order_by(second_opinions.c.id).limit(limit))
            return [dict(row) for row in rows.mappings()]

    async def shown(self, opinion_id: str) -> tuple[JSON, JSON]:
        """A second opinion's row, and what whoever gives it may see: the post, and the policy's categories.

        Raises:
            Problem: there is none, or its words were erased.
            BadInput: the case's policy isn't known any more.
        """
        async with self._store.reading() as connection:
            row = await _row(connection, opinion_id)
            wanted = select(cases).where(cases.c.id == row["case_id"])
            case = dict((await connection.execute(wanted)).mappings().one())
        if case["erased"] is not None or not case["record"] or not case["post"]:
            raise Problem("conflict", f"opinion: {opinion_id}: the post's words were erased")
        policy, record = await policy_for(self._store, case), Record.model_validate(case["record"])
        categories = [{"name": each.name, "meaning": each.meaning} for each in policy.categories(record.scheme)]
        post = {name: case["post"][name] for name in _POST if case["post"].get(name)}
        return row, {"post": post, "policy": policy.name, "categories": categories}

    async def claim(self, opinion_id: str, reviewer: str, seconds: float, by: Who = OPERATOR) -> JSON:
        """Let nobody else give it meanwhile; to claim it again is to keep it longer.

        Raises:
            Problem: there is none, it was given, somebody else has it, or this person has decided the case.
        """
        until = time.time() + seconds
        async with self._store.transaction() as connection:
            row, _ = await self._locked(connection, opinion_id, reviewer)
            row = await _changed(connection, opinion_id, {"claimed_by": reviewer, "claimed_until": until})
            details = {"opinion": opinion_id, "reviewer": reviewer, "until": until}
            told = Entry(kind="opinion.claimed", subject=row["case_id"], details=details)
            await append(connection, by, told)
        return row

    async def release(self, opinion_id: str, reviewer: str, by: Who = OPERATOR) -> JSON:
        """Give a claim back. As `claim`."""
        async with self._store.transaction() as connection:
            await self._locked(connection, opinion_id, reviewer)
            row = await _changed(connection, opinion_id, {"claimed_by": None, "claimed_until": None})
            details = {"opinion": opinion_id, "reviewer": reviewer}
            told = Entry(kind="opinion.given_back", subject=row["case_id"], details=details)
            await append(connection, by, told)
        return row

    async def give(self, opinion_id: str, reviewer: str, category: str, note: str = "", by: Who = OPERATOR) -> JSON:
        """Say what one would decide.

        Args:
            opinion_id: the second opinion.
            reviewer: the person.
            category: of the case's policy, by its name or its number.
            note: why.
            by: who asks, for the audit log.

        Returns:
            its row: agreed, or disagreed, and then a lead sees it.

        Raises:
            Problem: as `claim`.
            BadInput: the policy has no such category.
        """
        _, known = await self.shown(opinion_id)
        names = [each["name"] for each in known["categories"]]
        wanted = names[int(category)] if category.isdecimal() and int(category) < len(names) else category
        async with self._store.transaction() as connection:
            row = await _locked_row(connection, opinion_id)
            if row["second"] == reviewer and row["second_category"] == wanted and row["note"] == note:
                return row  # said once more: the answer was lost on the way
            _, case = await self._locked(connection, opinion_id, reviewer)
            if wanted not in names:
                raise BadInput(
                    f"category: {category[:80]!r}: is none of this case's policy; they are {', '.join(names)}"
                )
            status = "agreed" if wanted == row["first_category"] else "disagreed"
            row = await _changed(connection, opinion_id, {
                "status": status, "second": reviewer, "second_category": wanted, "note": note, "given": time.time(),
                "claimed_by": None, "claimed_until": None,
            })  # fmt: skip
            details = {"opinion": opinion_id, "reviewer": reviewer, "category": wanted, "agrees": status == "agreed"}
            told = Entry(kind="opinion.given", subject=case["id"], details=details | {"note_sha": sha(note)})
            await append(connection, by, told)
        return row

    async def settle(
        self, opinion_id: str, lead: str, reason: str | None, key_id: str = "", by: Who = OPERATOR
    ) -> JSON:
        """A lead has seen to a disagreement.

        Args:
            opinion_id: the second opinion.
            lead: the person.
            reason: why the case is reopened; None: the decision stays as it is.
            key_id: whose request it is.
            by: the same, for the audit log.

        Raises:
            Problem: there is none, the two don't differ, it was settled, or the case can't be reopened.
        """
        async with self._store.reading() as connection:
            row = await _row(connection, opinion_id)
        _see_that_they_differ(row)
        appeal_id = None
        if reason is not None:
            made = Made(kind="reopened", appellant=lead, reason=reason)
            # Under a name of its own, so that a second attempt finds what the first one opened.
            once = f"settles {opinion_id}"
            appeal, _ = await self._appeals.make(row["case_id"], made, key_id, by, idempotency_key=once)
            appeal_id = appeal["id"]
        async with self._store.transaction() as connection:
            _see_that_they_differ(await _locked_row(connection, opinion_id))
            settled = {"status": "settled", "settled_by": lead, "settled": time.time(), "appeal_id": appeal_id}
            row = await _changed(connection, opinion_id, settled)
            details = {"opinion": opinion_id, "lead": lead, "appeal": appeal_id}
            await append(connection, by, Entry(kind="opinion.settled", subject=row["case_id"], details=details))
        return row

    async def _locked(self, connection: AsyncConnection, opinion_id: str, reviewer: str) -> tuple[JSON, JSON]:
        """The row and its case; nobody else can change the row before the transaction ends."""
        row = await _locked_row(connection, opinion_id)
        name = f"opinion: {opinion_id}"
        if row["status"] != "waiting":
            raise Problem("conflict", f"{name}: was given already, by {row['second']}")
        if row["claimed_by"] not in (None, reviewer) and row["claimed_until"] > time.time():
            left = max(1, round(row["claimed_until"] - time.time()))
            raise Problem("conflict", f"{name}: {row['claimed_by']} has claimed it for {left} s more", retry_after=left)
        wanted = select(cases).where(cases.c.id == row["case_id"])
        case = dict((await connection.execute(wanted)).mappings().one())
        if not case["record"]:
            raise Problem("conflict", f"{name}: the post's words were erased")
        see_that_another_decides(reviewer, deciders(Record.model_validate(case["record"])))
        return row, case


def _see_that_they_differ(row: JSON) -> None:
    if row["status"] != "disagreed":
        raise Problem("conflict", f"opinion: {row['id']}: is {row['status']}; only where two differ a lead settles it")


async def _row(connection: AsyncConnection, opinion_id: str) -> JSON:
    wanted = select(second_opinions).where(second_opinions.c.id == opinion_id)
    row = (await connection.execute(wanted)).mappings().first()
    if row is None:
        raise Problem("not_found", f"opinion: {opinion_id[:80]}: there is none")
    return dict(row)


async def _locked_row(connection: AsyncConnection, opinion_id: str) -> JSON:
    same = update(second_opinions).where(second_opinions.c.id == opinion_id)
    locked = same.values(status=second_opinions.c.status).returning(second_opinions)
    row = (await connection.execute(locked)).mappings().first()
    if row is None:
        raise Problem("not_found", f"opinion: {opinion_id[:80]}: there is none")
    return dict(row)


async def _changed(connection: AsyncConnection, opinion_id: str, values: JSON) -> JSON:
    changed = update(second_opinions).where(second_opinions.c.id == opinion_id).values(**values)
    return dict((await connection.execute(changed.returning(second_opinions))).mappings().one())
