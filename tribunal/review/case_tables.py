"""Finished cases, and the tables and precedents made from them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import exists, func, or_, select, true, tuple_

from tribunal.docket.record_rows import text_of
from tribunal.explanations.deciders import find_case_decider, find_models_outcome
from tribunal.process.files import read_regular, write_atomically, write_whole
from tribunal.prompts.policy import Policy, parse_policy
from tribunal.retrievers.precedents.building import forget_cases, list_case_ids
from tribunal.retrievers.precedents.store import DecidedCase, make_decided_case
from tribunal.review.table_files import ColumnKind, TableWriter
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, LogEntry, append
from tribunal.store.engine import Store
from tribunal.store.tables import COUNTED, cases, decisions

_PAGE = 100  # rows; a record may be long


async def finished_cases(
    store: Store, *conditions: Any, since: float | None = None, until: float | None = None
) -> AsyncIterator[JSON]:
    """Give the cases that are done, and ended in this time, in the order in which they did."""
    by_end = cases.c.finished, cases.c.id
    held = (*_finished_conditions(*conditions), *_in_time(cases.c.finished, since, until))
    query = select(cases).where(*held).order_by(*by_end).limit(_PAGE)
    later: Any = true()
    while True:
        rows = await store.fetch_rows(query.where(later))
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        later = tuple_(*by_end) > tuple_(rows[-1]["finished"], rows[-1]["id"])


async def cases_decided_by_people(
    store: Store, since: float | None = None, until: float | None = None
) -> AsyncIterator[JSON]:
    """Give the cases with a verdict that people decided, on review or on an appeal, for the last time in this time.

    Practice is left out.
    """
    # A case with a verdict has a reason for review only where a person has given it.
    theirs = or_(cases.c.reason.is_not(None), exists().where(decisions.c.case_id == cases.c.id))
    within = decision_time_conditions(since, until)
    async for row in finished_cases(store, COUNTED, cases.c.outcome == "verdict", theirs, *within):
        record = row["record"] or {}
        if record.get("appeals") or (record.get("review") or {}).get("action") in (
            "accept",
            "edit",
        ):
            yield row


async def count_cases(store: Store, *conditions: Any) -> int:
    """Return how many cases `finished_cases` gives."""
    query = select(func.count()).select_from(cases).where(*_finished_conditions(*conditions))
    return int(await store.fetch_value(query))


def decision_time_conditions(since: float | None, until: float | None) -> list[Any]:
    """Return the conditions that the last decision on a case, on an appeal perhaps, was made in this time."""
    made = (
        select(func.max(decisions.c.at)).where(decisions.c.case_id == cases.c.id).scalar_subquery()
    )
    return _in_time(func.coalesce(made, cases.c.finished), since, until)


def _in_time(at: Any, since: float | None, until: float | None) -> list[Any]:
    return ([at >= since] if since is not None else []) + (
        [at < until] if until is not None else []
    )


def _finished_conditions(*conditions: Any) -> tuple[Any, ...]:
    # The new trial of an appeal is no case of its own.
    return (
        cases.c.status == "done",
        cases.c.finished.is_not(None),
        cases.c.appeal_id.is_(None),
        *conditions,
    )


def has_words(row: JSON) -> bool:
    """Return whether a case still has its post: text or image. One that was erased, or never kept, has neither."""
    post = row["post"] or {}
    return row["erased"] is None and bool(str(post.get("text") or "").strip() or post.get("image"))


def iso_time(seconds: float | None) -> str | None:
    """Return a time of the database as ISO 8601 in UTC."""
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    )


def models_of(record: JSON) -> str:
    """Return the names of the models that were asked."""
    return ", ".join(sorted({str(call["model"]) for call in record.get("calls") or []}))


async def policy_of_row(store: Store, row: JSON) -> Policy | None:
    """Return the policy of a case, as it was kept with it, or None if its text isn't there.

    Raises:
        BadInput: what was kept of it was altered since.
    """
    text = await text_of(store, row["policy_sha"], "policy")
    return None if text is None else _parse_policy(text)


_parse_policy = lru_cache(maxsize=64)(parse_policy)


async def log_export(store: Store, what: str, details: JSON) -> None:
    """Write into the audit log that cases were written to a file; `what` is the kind of file."""
    async with store.transaction() as connection:
        await append(
            connection, OPERATOR, LogEntry(kind="cases.exported", subject=what, details=details)
        )


# As precedents are built of them


_AT_ONCE = 500  # ids in one question to the database


async def decided_cases_in_database(store: Store) -> AsyncIterator[DecidedCase | None]:
    """Give every case that a person decided: in a review, on an appeal, or because a lead opened it again.

    None for one that no precedent can be made of: its words were erased or never kept, or no category was decided. Of
    a case that was appealed, what was decided at last.
    """
    async for row in cases_decided_by_people(store):
        yield decided_case_of_row(row) if has_words(row) else None


def decided_case_of_row(row: JSON) -> DecidedCase | None:
    """Return a case that a person decided as a precedent; None where its post has no text."""
    record: JSON = row["record"]
    post = row["post"]
    review = record.get("review") or {}
    policy = record.get("policy") or {}
    last: JSON = next(
        (each for each in reversed(record.get("appeals") or []) if each.get("decided")), {}
    )
    return make_decided_case(
        case=row["id"],
        post_id=record["post_id"],
        text=str(post.get("text") or ""),
        category=str(row["category"] or ""),
        hateful=row["hateful"],
        how="appealed" if last else "accepted" if review.get("action") == "accept" else "changed",
        note=str(last.get("note") or review.get("note") or ""),
        at=str(last.get("decided") or review.get("at") or iso_time(row["finished"])),
        policy=str(policy.get("name") or ""),
        policy_sha=str(policy.get("sha") or ""),
    )


async def forget_erased_precedents(store: Store) -> int:
    """Take cases whose words were erased in the database out of every store of precedents in the data folder.

    Returns:
        how many precedents are gone.

    Raises:
        BadInput: a store can't be read, or a process is building it.
    """
    held = sorted(await asyncio.to_thread(list_case_ids))
    gone = set[str]()
    for start in range(0, len(held), _AT_ONCE):
        wanted = cases.c.id.in_(held[start : start + _AT_ONCE]), cases.c.erased.is_not(None)
        gone |= {row["id"] for row in await store.fetch_rows(select(cases.c.id).where(*wanted))}
    return sum((await forget_cases(gone)).values()) if gone else 0


# `label` is what people decided, in the words that every reader of a table knows. The columns of the court say what it
# had come to before them. Nobody's name is there.
DATASET_COLUMNS: dict[str, ColumnKind] = {
    "id": "text", "post_id": "text", "text": "text", "image": "text", "language": "text", "earlier": "texts",
    "label": "text", "category": "text", "clause": "text", "scheme": "text", "action": "text", "decided": "text",
    "court_outcome": "text", "court_category": "text", "court_clause": "text", "court_hateful": "flag",
    "court_confidence": "number", "court_uncertain": "flag", "decided_by": "text", "rehearsed": "flag",
    "reason": "text", "graph": "text",
    "models": "text", "line_up": "text", "policy": "text", "policy_sha": "text", "prompts_sha": "text",
    "calls": "integer", "tokens": "integer",
}  # fmt: skip
ERASED = "erased, or never kept"
_OF_MODELS = ("model", "aux_model", "judge_model", "seats")  # the settings that name a model
_OF_ROW = (
    "id",
    "via",
    "practice",
    "graph",
    "outcome",
    "category",
    "hateful",
    "uncertain",
    "policy_sha",
)
_OF_COURT = ("outcome", "category", "hateful", "confidence", "uncertain")
_MOST_IMAGE = 20 * 1024**2  # bytes, as the service takes them


@dataclass
class ExportResult:
    """The result of an export: rows written, and those left out, by reason; `images_lost` are posts without theirs."""

    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    images_lost: int = 0


async def export_decided(
    store: Store, out: Path, form: str, *, since: float | None = None, until: float | None = None
) -> ExportResult:
    """Write the cases that people decided in this time to a file; whole, or not at all.

    Images are copied to a folder beside it.

    Raises:
        BadInput: there is no such format.
        OSError: the file can't be written.
    """
    done = ExportResult()
    images = out.with_name(f"{out.name}.images")
    with write_atomically(out) as file, closing(TableWriter(form, DATASET_COLUMNS, file)) as table:
        async for row in cases_decided_by_people(store, since, until):
            if not has_words(row):
                done.left_out[ERASED] += 1
                continue
            if row["hateful"] is None:
                done.left_out["not about hate"] += 1
                continue
            post = row["post"]
            made = case_row(row)
            image = await asyncio.to_thread(
                copy_image, post.get("image"), images, f"{images.name}/"
            )
            lost = bool(post.get("image")) and image is None
            done.images_lost += lost
            if lost and not (post.get("text") or "").strip():
                done.left_out["nothing but an image, which is gone"] += 1
                continue
            made |= {
                "text": post.get("text") or "", "image": image, "language": post.get("language") or made["language"],
                "earlier": list(post.get("earlier") or ()),
            }  # fmt: skip
            await asyncio.to_thread(table.add, made)
            done.rows += 1
        await asyncio.to_thread(table.close)
    return done


def case_row(row: JSON) -> JSON:
    """Return a case as a row: what was decided, by the court and by people, and how; and its post and record."""
    record = row["record"] or {}
    post = row["post"] or {}
    review = record.get("review") or {}
    appeals = record.get("appeals") or []
    usage = record.get("usage") or {}
    court = find_models_outcome(record)
    last = appeals[-1] if appeals else {}
    by_people = iso_time(row["finished"]) if review.get("action") else None
    return {
        **{name: row[name] for name in _OF_ROW},
        **{
            name: record.get(name)
            for name in ("rehearsed", "language", "scheme", "confidence", "probability")
        },
        **{name: iso_time(row[name]) for name in ("created", "finished", "erased")},
        **{
            name: usage.get(name)
            for name in ("calls", "prompt_tokens", "completion_tokens", "seconds")
        },
        **find_case_decider(record)._asdict(),
        **{f"court_{name}": court.get(name) for name in _OF_COURT},
        **{name: post.get(name) for name in ("text", "image")},
        "clause": ", ".join(record.get("clauses") or ()) or None,
        "court_clause": ", ".join(court.get("clauses") or ()) or None,
        "post_id": record.get("post_id") or post.get("post_id"),
        "batch": row["batch_id"],
        "label": "hate" if row["hateful"] else "not",
        "action": last.get("result") or review.get("action"),
        "decided": last.get("decided") or review.get("at") or by_people,
        "reason": review.get("reason") or "an appeal",
        "review": review.get("action") or ("waits" if review else None),
        "appeals": len(appeals),
        "appeal": last.get("result"),
        "models": models_of(record) or None,
        "line_up": json.dumps(
            {name: row["settings"][name] for name in _OF_MODELS if row["settings"].get(name)}
        ),
        "policy": (record.get("policy") or {}).get("name"),
        "prompts_sha": (record.get("prompts") or {}).get("sha"),
        "tokens": (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0),
        "record": json.dumps(record, ensure_ascii=False) if record else None,
    }


def copy_image(ref: str | None, folder: Path, prefix: str) -> str | None:
    """Copy an image into a folder, by its content, and return where it is, or None if it is gone.

    One on the web stays where it is. `prefix` stands before a copy's name.
    """
    if not ref or ref.casefold().startswith(("http://", "https://")):
        return ref or None
    try:
        raw, suffix = (
            _decode_data_uri(ref)
            if ref.startswith("data:")
            else (read_regular(Path(ref), _MOST_IMAGE), "")
        )
    except (OSError, ValueError):
        return None
    if not _is_image(raw):  # whatever else a path leads to is nobody's to hand out
        return None
    name = hashlib.sha256(raw).hexdigest()[:32] + (suffix or Path(ref).suffix.casefold()[:8])
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / name
    if not copy.exists():
        write_whole(copy, raw)
    return f"{prefix}{name}"


def _is_image(raw: bytes) -> bool:
    starts = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*")
    return raw.startswith(starts) or raw[8:12] == b"WEBP" or raw[4:8] == b"ftyp"


def _decode_data_uri(uri: str) -> tuple[bytes, str]:
    """Return the bytes of a data URI, and the suffix of a file of its type.

    Raises:
        ValueError: it holds no bytes in base64.
    """
    head, _, encoded = uri.partition(",")
    kind = head.removeprefix("data:").partition(";")[0].rpartition("/")[2]
    return base64.b64decode(encoded, validate=True), f".{kind}" if kind.isalnum() else ".img"


# Every case as a row


CASE_COLUMNS: dict[str, ColumnKind] = {
    "id": "text", "post_id": "text", "created": "text", "finished": "text", "via": "text",
    "practice": "text", "batch": "text",
    "graph": "text", "outcome": "text", "category": "text", "clause": "text", "hateful": "flag", "uncertain": "flag",
    "confidence": "number", "probability": "number", "rehearsed": "flag", "language": "text", "scheme": "text",
    "policy": "text", "policy_sha": "text", "prompts_sha": "text", "models": "text", "calls": "integer",
    "prompt_tokens": "integer", "completion_tokens": "integer", "seconds": "number", "review": "text",
    "appeals": "integer", "appeal": "text", "decided": "text", "decided_by": "text", "reviewer": "text",
    "court_outcome": "text", "court_category": "text", "court_clause": "text", "court_hateful": "flag",
    "erased": "text",
}  # fmt: skip
WITH_POSTS: dict[str, ColumnKind] = {"text": "text", "image": "text"}
WITH_RECORDS: dict[str, ColumnKind] = {"record": "text"}


async def export_cases(
    store: Store,
    out: Path,
    form: str,
    *,
    since: float | None = None,
    until: float | None = None,
    posts: bool = False,
    records: bool = False,
) -> int:
    """Write all cases that ended in this time to a file, and return how many there are; whole, or not at all.

    With `posts`, the words and the image of each post that is still kept; with `records`, each whole record as JSON,
    which may quote the post.

    Raises:
        BadInput: there is no such format.
        OSError: the file can't be written.
    """
    columns = CASE_COLUMNS | (WITH_POSTS if posts else {}) | (WITH_RECORDS if records else {})
    count = 0
    with write_atomically(out) as file, closing(TableWriter(form, columns, file)) as table:
        async for row in finished_cases(store, since=since, until=until):
            await asyncio.to_thread(table.add, case_row(row))
            count += 1
        await asyncio.to_thread(table.close)
    return count
