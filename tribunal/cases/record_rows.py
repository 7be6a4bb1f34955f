"""What the row of a case and the audit log say of its record: outcomes and hashes, and never a post's words."""

from __future__ import annotations

import hashlib
import time
from typing import Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from tribunal.contents import remembered_text
from tribunal.errors import BadInput
from tribunal.prompts.sets import PromptSet
from tribunal.schema import JSON, Record
from tribunal.store.audit import LogEntry, sha
from tribunal.store.engine import Store
from tribunal.store.tables import contents
from tribunal.text import parse_json


def record_columns(record: Record, *, keep: bool = True) -> JSON:
    """Return the columns of `tribunal.store.tables.cases` that follow from a record, the record itself aside.

    With `keep` the post may be found by what it is called, and by its image.
    """
    review = record.review
    same = ("outcome", "category", "hateful", "uncertain", "confidence", "language")
    return {
        **{name: getattr(record, name) for name in same},
        **_hashes(record),
        "policy_name": record.policy.get("name"),
        "reason": review.reason if review else None,
        "reviewer": review.reviewer if review and review.action else None,
        "post_id": record.post_id if keep else None,
        "image_sha": record.image_sha256 if keep else None,
    }


def decision_entry(case_id: str, post_sha: str, record: Record, dumped: JSON, **more: object) -> LogEntry:
    """Return the entry of a case that came to its record; `dumped` is the record as it is stored."""
    details: JSON = {
        **{name: getattr(record, name) for name in ("outcome", "category", "hateful", "graph")},
        **_hashes(record),
        "models": sorted({call.model for call in record.calls}),
        "post_sha": post_sha,
        "record_sha": sha(dumped),
        **more,
    }
    if record.review is not None and record.review.action is not None:
        details |= {"reviewer": record.review.reviewer, "action": record.review.action}
    kind = "case.pending" if record.outcome == "pending" else "case.decided"
    return LogEntry.model_validate({"kind": kind, "subject": case_id, "details": details})


def intake_entry(case_id: str, graph: str, post: JSON, settings: JSON, *, keep: bool) -> LogEntry:
    """Return the entry of a request that made a case. A row of a batch is told of with its batch, and when it ends."""
    details = {"graph": graph, "post_sha": sha(post), "settings_sha": sha(settings), "keep": keep}
    return LogEntry(kind="case.taken_in", subject=case_id, details=details)


def answer_entry(case_id: str, reviewer: str, answer: JSON) -> LogEntry:
    """Return the entry of what a person said of a case. Their own words are told by their hash: they may quote it."""
    kind, args = answer.get("type"), answer.get("args")
    chosen: JSON = (args or {}).get("args") or {} if kind == "edit" else {"note": answer.get("note")}
    category = chosen.get("category") or chosen.get("label")
    action = {"edit": "change", "response": "ask"}.get(str(kind), "accept")
    details: JSON = {"reviewer": reviewer, "action": action, "category": None if category is None else str(category)}
    words = {"question": args if kind == "response" else None, "note": chosen.get("note")}
    details |= {f"{name}_sha": sha(said) for name, said in words.items() if said}
    return LogEntry(kind="case.answered", subject=case_id, details=details)


def cancel_entry(case_id: str, record: JSON) -> LogEntry:
    """Return the entry of a case that ended without an outcome. Why lies with the case: it may quote the post."""
    return LogEntry(kind="case.cancelled", subject=case_id, details={"record_sha": sha(record)})


def _hashes(record: Record) -> JSON:
    return {
        "policy_sha": record.policy.get("sha"),
        "prompts_sha": record.prompts.get("sha"),
        "protocol_sha": record.protocol,
    }


# The texts that cases were tried by


TextKind = Literal["policy", "prompts", "protocol"]


async def text_of(store: Store, sha: str | None, kind: TextKind | None = None) -> str | None:
    """Return the text of a policy, a set of prompts or a protocol by its hash; None where it isn't kept.

    Raises:
        BadInput: what is kept under this hash has another one, so somebody has altered it.
    """
    if not sha:
        return None
    wanted = select(contents).where(contents.c.sha == sha)
    if kind is not None:
        wanted = wanted.where(contents.c.kind == kind)
    if (row := await store.fetch_row(wanted)) is None:
        return None
    text = str(row["text"])
    found = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    if row["kind"] == "prompts":
        found = PromptSet("", parse_json(text)).sha
    if found != sha:
        raise BadInput(f"{row['kind']}: {sha}: what is kept under this hash was altered since; {store.address}")
    return text


async def store_texts(store: Store, connection: AsyncConnection, record: Record) -> None:
    """Store the texts that a case was tried by and that aren't there yet, in the transaction that ends it.

    This process has met them if it has made the record.
    """
    named = {"policy": record.policy.get("sha"), "prompts": record.prompts.get("sha"), "protocol": record.protocol}
    texts = {(kind, sha): text for kind, sha in named.items() if sha and (text := remembered_text(kind, sha))}
    wanted = select(contents.c.kind, contents.c.sha).where(contents.c.sha.in_([sha for _, sha in texts]))
    there = {(row.kind, row.sha) for row in await connection.execute(wanted)} if texts else set()
    rows = [
        {"kind": kind, "sha": sha, "text": text, "created": time.time()}
        for (kind, sha), text in texts.items()
        if (kind, sha) not in there
    ]
    if rows:
        await connection.execute(store.insert(contents).on_conflict_do_nothing(), rows)
