"""Cases as the docket lists them, from their rows."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field

from tribunal.docket.leases import seconds_left
from tribunal.docket.waiting_cases import SOMEBODY, claim_seconds_left
from tribunal.explanations.deciders import find_models_outcome
from tribunal.schema import JSON, Frozen


class DocketEntry(Frozen):
    """A case as the docket lists it.

    `opened` is in seconds of the epoch; `court` and `decided` are one line each; `holder` says who works on it. Status:
    `running`: a process works on it; `cut_off`: that process ended in the middle; `erased`: its words were.
    """

    thread: str
    graph: str
    settings: JSON
    opened: Annotated[float, Field(ge=0, le=1e11)]
    status: Literal["running", "cut_off", "pending", "decided", "erased"]
    post_id: str | None
    reason: str | None
    court: str | None
    decided: str | None
    holder: str | None


def entry_of_row(row: JSON) -> DocketEntry:
    """Return a case as the docket lists it, from its row and the last heartbeat of whoever has it (`seen`)."""
    if not isinstance(row["post"], dict | None):
        raise TypeError("the post is none")
    status = "decided"
    holder = None
    decided = None
    if row["status"] in ("running", "queued"):
        alive = row["status"] == "queued" or seconds_left(row["seen"]) > 0
        status = "running" if alive else "cut_off"
        holder = holder_line(row)
    elif row["status"] == "done" and row["question"] is not None:
        status = "pending"
        if row["claimed_by"] is not None and claim_seconds_left(row["claimed_until"]) > 0:
            holder = f"claimed by {row['claimed_by']}"
    elif row["status"] in ("done", "cancelled", "waiting"):
        status = "erased" if row["erased"] is not None and row["words"] else "decided"
        decided = decided_line(row)
    else:
        raise ValueError(f"{row['status']}: is no status")
    court = find_models_outcome(row["record"])
    said = str(court.get("category") or court["outcome"]) if court else None
    if court.get("rehearsed"):
        said = f"{said} (by the rehearsal's rules)"
    same = {name: row[name] for name in ("graph", "settings", "post_id", "reason")}
    fields = {
        "thread": row["id"],
        "opened": row["created"],
        "court": said,
        "decided": decided,
        "holder": holder,
    }
    return DocketEntry.model_validate({**same, **fields, "status": status})


def holder_line(row: JSON) -> str:
    """Return what a process does with a case."""
    reviewer = ((row["answer"] or {}).get("answer") or {}).get("reviewer")
    return (
        "is being tried" if row["answer"] is None else f"is being decided by {reviewer or SOMEBODY}"
    )


def decided_line(row: JSON) -> str:
    """Return what was decided, by whom and when."""
    record: JSON = row["record"] or {}
    review: JSON = record.get("review") or {}
    line = str(record.get("cancelled") or "by the models alone")
    if review.get("action"):
        line = f"{review['action']} by {review.get('reviewer') or 'somebody'} at {review.get('at')}"
    if row["erased"] is None or not row["words"]:
        return line
    return f"{line}; its words were erased at {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(row['erased']))}"
