"""Cases are held for a model's server, and tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, case, exists, func, select, update

from tribunal.core.times import database_now
from tribunal.docket.leases import MINE, Held
from tribunal.docket.outbox import CaseMessage, Outbox
from tribunal.docket.reservations import NO_RESERVATION, settle
from tribunal.errors import Problem
from tribunal.models.budget import Spending
from tribunal.schema import JSON, Frozen
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, sha
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import batches, cases, deliveries

# The columns of a case that is held no more.
NOT_HELD: JSON = {"held": None, "held_for": None, "held_until": None}


class Hold(Frozen):
    """Why a case is held, and until when.

    Attributes:
        why: in a line, for whoever asks for the case.
        provider: whose server doesn't answer; empty: the case is held by itself, and others go on.
        until: when the case may be taken up again.
        deadline: when it fails, if no model has answered by then; None: a row of a batch, whose tries are counted.
        begin_anew: whether what its trial has written so far is of no use, so that it begins from its beginning.
    """

    why: str
    provider: str
    until: float
    deadline: float | None = None
    begin_anew: bool = False

    def columns(self) -> JSON:
        """Return the columns of a case that is held so."""
        until = self.until if self.deadline is None else min(self.until, self.deadline)
        return {
            "held": self.why,
            "held_for": self.provider or None,
            "held_until": until,
            "deadline": self.deadline,
        }


async def hold_case(
    store: Store,
    lease: JSON,
    held: Held,
    hold: Hold,
    calls: Sequence[JSON],
    spent: Spending,
    money: float | None,
) -> None:
    """Let a case go on later; what its attempt has cost is counted now.

    Args:
        store: the database.
        lease: that of the attempt (`CaseStore.lease_of`).
        held: the case.
        hold: why, and until when.
        calls: all calls of the attempt.
        spent: what the attempt has spent of its key's budget.
        money: what it cost; None where that isn't known.
    """
    values: JSON = {
        "status": "queued" if held.batch_id is None else "waiting", "owner": None, "attempts_before": held.attempt,
        "money": held.add_money(money), "calls_paid": [*(held.calls_paid or ()), *(call["id"] for call in calls)],
        **hold.columns(), **NO_RESERVATION,
    }  # fmt: skip
    async with store.transaction() as connection:
        if (await connection.execute(update(cases).where(MINE), {**lease, **values})).rowcount:
            if hold.begin_anew:
                await delete_checkpoints(connection, [held.id])
            await settle(store, connection, held.key_id, held.reserved, spent)


_WAITING = cases.c.status.in_(("queued", "waiting"))


async def hold_longer(
    store: Store, provider: str, why: str, until: float, *, but: str = ""
) -> None:
    """Hold all cases and batches that wait for a provider until another time, but for the case that is tried now.

    No case is held beyond its deadline.
    """
    bounded = case(
        (cases.c.id == but, cases.c.held_until),
        (cases.c.deadline < until, cases.c.deadline),
        else_=until,
    )
    await _update(
        store, provider, {"held": why, "held_until": bounded}, {"held": why, "held_until": until}
    )


async def mark_held(store: Store, case_ids: Sequence[str], provider: str, why: str) -> None:
    """Say of queued cases that they wait for a provider. They are due, so that another replica may take them up."""
    unheld = and_(cases.c.id.in_(case_ids), cases.c.status == "queued", cases.c.held.is_(None))
    async with store.transaction() as connection:
        values = {"held": why, "held_for": provider, "held_until": database_now()}
        await connection.execute(update(cases).where(unheld).values(**values))


async def count_waiting(store: Store) -> dict[str, int]:
    """Return how many cases wait for each provider: those that are held for it, and the rows of batches that are."""
    provider = func.coalesce(cases.c.held_for, batches.c.held_for)
    counting = select(provider.label("provider"), func.count().label("number"))
    counting = counting.select_from(cases.outerjoin(batches, batches.c.id == cases.c.batch_id))
    counting = counting.where(_WAITING, provider.is_not(None)).group_by(provider)
    return {row["provider"]: row["number"] for row in await store.fetch_rows(counting)}


EXPIRING_SECONDS = 600.0  # before its deadline: how early webhooks are told of a case that is held


async def announce_expiring_cases(store: Store, outbox: Outbox) -> None:
    """Tell webhooks, once, of the cases that are held and fail soon if no model answers."""
    now = database_now()
    told = exists().where(deliveries.c.case_id == cases.c.id, deliveries.c.event == "case.expiring")
    near = cases.c.deadline.between(now, now + EXPIRING_SECONDS)
    expiring = and_(cases.c.held.is_not(None), _WAITING, near, ~told)
    if not await outbox.is_wanted("case.expiring"):
        return
    for case_id in [
        row["id"] for row in await store.fetch_rows(select(cases.c.id).where(expiring))
    ]:
        async with store.transaction() as connection:
            # Locked before it is looked at once more: another replica may have told of it meanwhile.
            same = update(cases).where(cases.c.id == case_id).values(attempt=cases.c.attempt)
            await connection.execute(same)
            found = await connection.execute(select(cases).where(cases.c.id == case_id, expiring))
            row = found.mappings().first()
            if row is not None:
                message = CaseMessage(
                    id=case_id, post_id=row["post_id"], graph=row["graph"], link=outbox.link(case_id),
                    reason=row["held"],
                )  # fmt: skip
                await outbox.announce(connection, "case.expiring", message)
    outbox.send()


async def release(store: Store, provider: str) -> None:
    """Let all cases and batches be taken up that wait for a provider: it answers again."""
    await _update(store, provider, NOT_HELD, NOT_HELD)


async def _update(store: Store, provider: str, of_cases: JSON, of_batches: JSON) -> None:
    held = and_(cases.c.held_for == provider, _WAITING)
    statements: Sequence[Any] = (
        update(cases).where(held).values(**of_cases),
        update(batches)
        .where(batches.c.held_for == provider, batches.c.finished.is_(None))
        .values(**of_batches),
    )
    for each in statements:
        async with store.transaction() as connection:
            await connection.execute(each)


# The columns of a case that has come to nothing yet.
_UNDECIDED: JSON = dict.fromkeys((
    "outcome", "category", "hateful", "uncertain", "confidence", "record", "finished", "owner", "reason", "reviewer",
    "calls_paid", "deadline",
))  # fmt: skip


async def retry_case(
    store: Store, case_id: str, by: Who = OPERATOR, deadline: float | None = None
) -> JSON:
    """Put a case that failed or was cancelled into the queue again, or into its batch; return its row.

    Args:
        store: the database.
        case_id: the case.
        by: who asks, for the audit log.
        deadline: when it fails again, if no model answers until then; None: a while after it is first held.

    Raises:
        Problem: there is no such case, it is under way or decided, or its words aren't there any more.
    """
    async with store.transaction() as connection:
        row = await first_row(
            connection, select(cases).where(cases.c.id == case_id).with_for_update()
        )
        if row is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        why = _why_not(row)
        if why is not None:
            raise Problem("conflict", f"case: {case_id}: {why}")
        anew = {
            **_UNDECIDED,
            **NOT_HELD,
            "attempts_before": row["attempt"],
            "status": "queued",
            "deadline": deadline,
        }
        if row["batch_id"] is not None:
            own = batches.c.id == row["batch_id"]
            status = await connection.scalar(select(batches.c.status).where(own).with_for_update())
            if status not in ("running", "done"):
                raise Problem(
                    "conflict", f"case: {case_id}: its batch was cancelled; send the post again"
                )
            await connection.execute(
                update(batches).where(own).values(status="running", finished=None)
            )
            anew |= {"status": "waiting", "deadline": None}
        changing = (
            update(cases)
            .where(cases.c.id == case_id, cases.c.attempt == row["attempt"])
            .values(**anew)
        )
        changed = (await connection.execute(changing.returning(cases))).mappings().one()
        await delete_checkpoints(connection, [case_id])
        # The hash is that of no record: from here on the case has none.
        details = {
            "outcome_before": row["outcome"] or row["status"],
            "outcome": None,
            "record_sha": sha(None),
        }
        await append(
            connection, by, LogEntry(kind="case.retried", subject=case_id, details=details)
        )
    return dict(changed)


def _why_not(row: JSON) -> str | None:
    """Return why a case may not be tried anew, or None if it may."""
    if row["status"] in ("queued", "running", "waiting"):
        return "is under way already; look again when it has ended"
    if row["status"] == "done" and row["outcome"] not in ("failure", "refusal"):
        return f"ended in a {row['outcome']}; only a case without a verdict is tried again"
    if row["erased"] is not None:
        return "its words were erased, so nobody can try it again"
    if not row["keep"] or row["post"] is None:
        return "its words weren't kept; send the post again"
    if row["appeal_id"] is not None:
        return f"is the new trial of appeal {row['appeal_id']}; order another one there"
    if row["via"] != "service" and row["batch_id"] is None:
        return f"came in by another way ({row['via']}); judge the post there again"
    return None
