"""Statements of reasons made of decided cases: each case once, in batches of at most 100."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import exists, insert
from sqlalchemy.exc import IntegrityError

from tribunal.context import describe
from tribunal.errors import BadInput
from tribunal.exports.decided import count, decided_within, finished, has_words
from tribunal.exports.dsa.mapping import FIELD, Mapping
from tribunal.exports.dsa.statement import MOST_IN_A_BATCH, Statement
from tribunal.exports.dsa.wording import explanation, facts, models_explanation
from tribunal.exports.policies import Policies
from tribunal.files import write_whole
from tribunal.schema import JSON
from tribunal.store.audit import OPERATOR, Entry, append, sha
from tribunal.store.engine import Store
from tribunal.store.tables import cases, statements

BEFORE = "stated before"
REHEARSED = "decided by the rehearsal model"
NO_RECORD = "without a record, or erased"


class Batch(NamedTuple):
    """Statements that were written together."""

    path: Path
    number: int


class Made:
    """How it went: the files that were written, and the cases that were left out, by reason."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.left_out: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(batch.number for batch in self.batches)


class Wanted(NamedTuple):
    """Which cases, and how they are told of: `explanations` are the model's own words, with quotations taken out."""

    mapping: Mapping
    since: float | None = None
    until: float | None = None
    explanations: bool = False


async def make(store: Store, folder: Path, wanted: Wanted) -> Made:
    """Make a statement of each case that was decided to be hateful, and write them down; of a case that has one, none.

    Args:
        store: the database, which keeps each statement.
        folder: where the batches are written, as the register takes them.
        wanted: which cases, and what is told of them.

    Raises:
        BadInput: a field of a statement is missing or wrong. Then none was made.
        OSError: a file can't be written. Those before it are made.
    """
    policies = Policies(store)
    async for _ in _statements(store, wanted, policies, Made()):
        pass  # every one is held to the rules before the first is kept
    made, held = Made(), list[tuple[str, Statement]]()
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    name = f"statements-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    async for each in _statements(store, wanted, policies, made):
        held.append(each)
        if len(held) == MOST_IN_A_BATCH:
            made.batches.append(await _keep(store, folder / f"{name}-{len(made.batches) + 1:04}.json", held))
            held = []
    if held:
        made.batches.append(await _keep(store, folder / f"{name}-{len(made.batches) + 1:04}.json", held))
    return made


async def _statements(
    store: Store, wanted: Wanted, policies: Policies, made: Made
) -> AsyncIterator[tuple[str, Statement]]:
    """The statements that are still to be made, with the ids of their cases."""
    within = decided_within(wanted.since, wanted.until)
    hateful = (cases.c.outcome == "verdict", cases.c.hateful.is_(True), *within)
    stated = exists().where(statements.c.case_id == cases.c.id)
    if before := await count(store, None, None, *hateful, stated):
        made.left_out[BEFORE] = before
    async for row in finished(store, None, None, *hateful, ~stated):
        if not row["record"] or row["record"].get("outcome") != "verdict":
            made.left_out[NO_RECORD] += 1
        elif row["record"].get("rehearsed"):
            made.left_out[REHEARSED] += 1
        else:
            policy = await policies.of(row)
            categories = policy.categories(row["record"]["scheme"]) if policy else ()
            meaning = next((each.meaning for each in categories if each.name == row["category"]), None)
            yield row["id"], statement_of(row, wanted, meaning)


def puid(case_id: str) -> str:
    """What the register calls the statement of a case: it follows from the case's id, and can't be led back to it."""
    return f"tribunal-{hashlib.sha256(f'statement of reasons {case_id}'.encode()).hexdigest()[:40]}"


def statement_of(row: JSON, wanted: Wanted, meaning: str | None) -> Statement:
    """The statement of a case.

    Args:
        row: the case, as it lies in the database.
        wanted: what the platform tells.
        meaning: what the policy says of its category.

    Raises:
        BadInput: a field is missing or wrong; which, and where it may be told.
    """
    told = wanted.mapping.of(row["category"])
    record = row["record"]
    # A person who accepts or changes an outcome decides with a machine's help.
    by_person = bool(record.get("appeals") or (record.get("review") or {}).get("action"))
    content = _content(row)
    named = {"CONTENT_TYPE_TEXT": "text", "CONTENT_TYPE_IMAGE": "an image"}
    why = (models_explanation(row) if wanted.explanations else None) or explanation(row, meaning)
    illegal = told.get("decision_ground") == "DECISION_GROUND_ILLEGAL_CONTENT"
    derived: JSON = {
        "content_type": content or None,
        "content_language": _language(record.get("language")),
        "category": "STATEMENT_CATEGORY_ILLEGAL_OR_HARMFUL_SPEECH",
        "decision_facts": facts(row, [named[each] for each in content]),
        "automated_decision": "AUTOMATED_DECISION_PARTIALLY" if by_person else "AUTOMATED_DECISION_FULLY",
        "application_date": "decided",
        "illegal_content_explanation" if illegal else "incompatible_content_explanation": why,
        "puid": puid(row["id"]),
    }
    fields = {**{name: value for name, value in derived.items() if value is not None}, **told}
    turned = [each["decided"] for each in record.get("appeals") or () if each["result"] != "upheld"]
    decided = date.fromisoformat(turned[-1][:10]) if turned else _of(row["finished"])
    for name, of_case in (("content_date", _of(row["created"])), ("application_date", decided)):
        if name in fields:
            fields[name] = _day(row, name, str(fields[name]), of_case)
    try:
        return Statement.model_validate(fields)
    except ValidationError as error:
        raise BadInput(
            f"case {row['id']} ({row['category']}): {_said(error)}; set it in the mapping (tribunal dsa mapping "
            "prints one), or with --field"
        ) from error


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] == "missing":
        return f"{first['loc'][-1]}: is missing"
    return describe(error) if first["loc"] else str(first["msg"]).removeprefix("Value error, ")


def _content(row: JSON) -> list[str]:
    """What the post consists of; of one that was erased, what a model was shown of it."""
    shown, post = row["record"].get("shown") or (), row["post"] or {}
    kept = has_words(row)
    text = bool(str(post.get("text") or "").strip()) if kept else "text" in shown
    image = bool(post.get("image")) if kept else "image" in shown
    return ["CONTENT_TYPE_TEXT"] * text + ["CONTENT_TYPE_IMAGE"] * image


def _language(tag: str | None) -> str | None:
    code = (tag or "").partition("-")[0].upper()
    return code if len(code) == 2 and code.isascii() and code.isalpha() else None


def _of(seconds: float) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def _day(row: JSON, name: str, source: str, of_case: date) -> date:
    if not source.startswith(FIELD):
        return of_case
    column = source.removeprefix(FIELD)
    value = (row["fields"] or {}).get(column)
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        raise BadInput(
            f"case {row['id']}: {name}: its column {column} holds no date such as 2026-11-22; put one there, or tell "
            "the date another way"
        ) from None


async def _keep(store: Store, path: Path, held: list[tuple[str, Statement]]) -> Batch:
    """Keep a batch in the database and write its file: both, or neither."""
    now, bodies = time.time(), [each.wire() for _, each in held]
    rows = [
        {
            "puid": body["puid"], "case_id": case_id, "created": now, "file": path.name, "place": place, "body": body,
            "status": "made",
        }
        for place, ((case_id, _), body) in enumerate(zip(held, bodies, strict=True))
    ]  # fmt: skip
    told = Entry(kind="statements.made", subject=path.name, details={"statements": len(rows), "body_sha": sha(bodies)})
    content = json.dumps({"statements": bodies}, indent=1, ensure_ascii=False) + "\n"
    try:
        async with store.transaction() as connection:
            await connection.execute(insert(statements), rows)
            await asyncio.to_thread(write_whole, path, content)
            await append(connection, OPERATOR, told)
    except IntegrityError:
        raise BadInput(
            "statements: another process makes the same ones now; run it again when that has ended"
        ) from None
    return Batch(path, len(rows))
