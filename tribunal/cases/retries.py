"""A case that failed, or was cancelled, tried anew: from its beginning, under its own id."""

from __future__ import annotations

from sqlalchemy import select, update

from tribunal.cases.holds import NOT_HELD
from tribunal.cases.problem import Problem
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, LogEntry, Who, append, sha
from tribunal.store.checkpoint_tables import delete_checkpoints
from tribunal.store.engine import Store, first_row
from tribunal.store.tables import batches, cases

# The columns of a case that has come to nothing yet.
_UNDECIDED: JSON = dict.fromkeys((
    "outcome", "category", "hateful", "uncertain", "confidence", "record", "finished", "owner", "reason", "reviewer",
    "calls_paid", "deadline",
))  # fmt: skip


async def retry_case(store: Store, case_id: str, by: Who = OPERATOR, deadline: float | None = None) -> JSON:
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
        row = await first_row(connection, select(cases).where(cases.c.id == case_id).with_for_update())
        if row is None:
            raise Problem("not_found", f"case: {case_id[:80]}: there is none")
        if (why := _why_not(row)) is not None:
            raise Problem("conflict", f"case: {case_id}: {why}")
        anew = {**_UNDECIDED, **NOT_HELD, "attempts_before": row["attempt"], "status": "queued", "deadline": deadline}
        if row["batch_id"] is not None:
            own = batches.c.id == row["batch_id"]
            status = await connection.scalar(select(batches.c.status).where(own).with_for_update())
            if status not in ("running", "done"):
                raise Problem("conflict", f"case: {case_id}: its batch was cancelled; send the post again")
            await connection.execute(update(batches).where(own).values(status="running", finished=None))
            anew |= {"status": "waiting", "deadline": None}
        changing = update(cases).where(cases.c.id == case_id, cases.c.attempt == row["attempt"]).values(**anew)
        changed = (await connection.execute(changing.returning(cases))).mappings().one()
        await delete_checkpoints(connection, [case_id])
        # The hash is that of no record: from here on the case has none.
        details = {"outcome_before": row["outcome"] or row["status"], "outcome": None, "record_sha": sha(None)}
        await append(connection, by, LogEntry(kind="case.retried", subject=case_id, details=details))
    return dict(changed)


def _why_not(row: JSON) -> str | None:
    """Return why a case may not be tried anew, or None if it may."""
    if row["status"] in ("queued", "running", "waiting"):
        return "is under way already; look again when it has ended"
    if row["status"] == "done" and row["outcome"] != "failure":
        return f"ended in a {row['outcome']}, and only what failed or was cancelled is tried again"
    if row["erased"] is not None:
        return "its words were erased, so nobody can try it again"
    if not row["keep"] or row["post"] is None:
        return "its words weren't kept; send the post again"
    if row["appeal_id"] is not None:
        return f"is the new trial of appeal {row['appeal_id']}; order another one there"
    if row["via"] != "service" and row["batch_id"] is None:
        return f"came in by another way ({row['via']}); judge the post there again"
    return None
