"""Compare the records of cases with the audit log, whose entries hold the hash of each record as it was written.

A record and its entry are written in one transaction, and read here in one statement, so no case is found in between.
A case that the log tells of and that isn't there must be among those that it says were deleted by their age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import JSON as JSONColumn
from sqlalchemy import LargeBinary, Text, cast, exists, func, select, true, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import NullType

from tribunal.core.text import parse_json
from tribunal.docket.erasure import without_words
from tribunal.docket.record_rows import record_columns
from tribunal.errors import BadInput
from tribunal.process.files import bounded_lines, open_regular
from tribunal.schema import JSON, Record
from tribunal.store.audit import readable, sha
from tribunal.store.engine import Store
from tribunal.store.tables import audit, cases

_AT_ONCE = 100  # cases that are read together: their records may be long
_SHOWN = 20  # faults of which the lines are kept
TOLD = ("outcome", "category", "hateful")  # what an entry says of a record beside its hash
_READ = (
    "id", "status", "keep", "batch_id", "record", "outcome", "category", "hateful", "uncertain", "confidence",
    "language", "policy_sha", "prompts_sha", "protocol_sha", "policy_name", "reason", "reviewer", "post_id",
    "image_sha",
)  # fmt: skip
NAMES_RECORD = audit.c.details.contains('"record_sha":"', autoescape=True)
_LAST_ENTRY = (
    select(audit.c.seq)
    .where(audit.c.subject == cases.c.id, NAMES_RECORD)
    .order_by(audit.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)


@dataclass
class RecordTally:
    """Count the records that were compared with the log; a fault's line has the case, the entry, and what differs.

    Attributes:
        found: the number of faults.
        faults: the lines of the first faults.
        compared: how many records were compared, those that differ included.
        uncompared: how many had nothing to compare, by reason.
    """

    found: int = 0
    faults: list[str] = field(default_factory=list)
    compared: int = 0
    uncompared: Counter[str] = field(default_factory=Counter)

    def add_fault(self, line: str) -> None:
        """Count a fault."""
        self.found += 1
        if self.found <= _SHOWN:
            self.faults.append(line)


async def check_records(store: Store) -> RecordTally:
    """Compare every case with the last entry of the log that holds the hash of its record, some at a time."""
    tally = RecordTally()
    after = ""
    columns = [_readable(store, name) for name in _READ]
    while True:
        wanted = (
            select(*columns, _LAST_ENTRY.label("seq"))
            .where(cases.c.id > after)
            .order_by(cases.c.id)
        )
        rows = [_as_text(row) for row in await store.fetch_rows(wanted.limit(_AT_ONCE))]
        if not rows:
            await _find_missing(store, tally)
            return tally
        numbers = [row["seq"] for row in rows if row["seq"] is not None]
        found = select(audit.c.seq, audit.c.kind, audit.c.details).where(audit.c.seq.in_(numbers))
        entries = {entry["seq"]: entry for entry in await store.fetch_rows(found)}
        unkept = await _taken_in_unkept(store, [row["id"] for row in rows if row["record"] is None])
        for row in rows:
            _compare(row, entries.get(row["seq"]), row["id"] in unkept, tally)
        after = rows[-1]["id"]


async def _find_missing(store: Store, tally: RecordTally) -> None:
    """Count as a fault each case that has an entry in the log and no row, unless the log says that it was deleted.

    The database takes the deleted from the missing: of either there may be more than memory holds.
    """
    after = ""
    there = exists().where(cases.c.id == audit.c.subject)
    told = select(audit.c.subject.label("id")).where(
        audit.c.kind.like("case.%"), NAMES_RECORD, ~there
    )
    if store.postgres:
        listed = func.jsonb_array_elements_text(cast(audit.c.details, JSONB)["ids"])
        deleted = listed.table_valued("value", name="deleted").render_derived()
    else:
        deleted = func.json_each(audit.c.details, "$.ids").table_valued("value", name="deleted")
    missing = told.except_(
        select(deleted.c.value)
        .select_from(audit.join(deleted, true()))
        .where(audit.c.kind == "cases.retired")
    ).subquery()
    while True:
        wanted = (
            select(missing.c.id).where(missing.c.id > after).order_by(missing.c.id).limit(_AT_ONCE)
        )
        ids = [row["id"] for row in await store.fetch_rows(wanted)]
        for each in ids:
            tally.add_fault(
                f"case {each}: is gone, and no entry of the log says that it was deleted"
            )
        if len(ids) < _AT_ONCE:
            return
        after = ids[-1]


def _readable(store: Store, name: str) -> Any:
    """Return a column so that whatever somebody wrote into it can be read."""
    column = cases.c[name]
    if isinstance(column.type, Text | JSONColumn):  # SQLite would stumble over a text that is none
        return cast(column, Text if store.postgres else LargeBinary).label(name)
    return type_coerce(column, NullType()).label(name)


def _as_text(row: JSON) -> JSON:
    return {
        name: value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
        for name, value in row.items()
    }


async def _taken_in_unkept(store: Store, ids: Sequence[str]) -> set[str]:
    """Return which of these cases the log says were taken in with `keep: false`."""
    if not ids:
        return set()
    wanted = select(audit.c.subject, audit.c.details)
    taken_in = wanted.where(audit.c.subject.in_(ids), audit.c.kind == "case.taken_in")
    rows = [readable(row) for row in await store.fetch_rows(taken_in)]
    return {row["subject"] for row in rows if (row["details"] or {}).get("keep") is False}


def _compare(row: JSON, entry: Mapping[str, Any] | None, unkept: bool, tally: RecordTally) -> None:
    """Compare a case with the last entry that holds the hash of its record; None: there is no such entry."""
    name = f"case {row['id']}"
    try:
        record = None if row["record"] is None else parse_json(row["record"])
    except ValueError:
        record = "no JSON"
    if entry is None:
        if record is None and row["outcome"] is None:
            tally.uncompared["not decided yet"] += 1
        elif row["batch_id"] is not None and row["status"] == "cancelled" and _is_cancelled(record):
            tally.uncompared["cancelled with their batch"] += 1
        else:
            tally.add_fault(f"{name}: no entry of the log tells of its record")
        return
    told = readable(dict(entry))["details"] or {}
    if record is None and unkept:
        tally.uncompared["not kept"] += 1
        differ = [each for each in TOLD if each in told and told[each] != row[each]]
    else:
        tally.compared += 1
        differ = _differences(row, record, told)
    if differ:
        tally.add_fault(
            f"{name}: {', '.join(differ)}: not as entry {entry['seq']} ({entry['kind']}) tells"
        )


def _differences(row: JSON, record: Any, told: JSON) -> list[str]:
    """Return what of a case isn't as the log tells: its record, and columns that say something else than it does."""
    if _is_whole(record, told):
        return _columns_beside(row, record) if isinstance(record, dict) else []
    if not isinstance(record, dict):
        return ["record"]
    changed = [name for name in TOLD if name in told and record.get(name) != told[name]]
    # The column may still hold what the record held.
    beside = _columns_beside(row, record)
    return ["record", *dict.fromkeys([*changed, *beside])]


def _is_whole(record: Any, told: JSON) -> bool:
    """Return whether a record has the hash that the log tells.

    Before tables of version 0003, `kept` was noted in the record of a waiting case without an entry.
    """
    if sha(record) == told.get("record_sha"):
        return True
    return (
        isinstance(record, dict)
        and bool(record.get("kept"))
        and sha({**record, "kept": None}) == told.get("record_sha")
    )


def _columns_beside(row: JSON, record: JSON) -> list[str]:
    """Return the columns that say something else than the record beside them."""
    if _is_cancelled(record):
        return [] if row["outcome"] is None and row["status"] == "cancelled" else ["outcome"]
    try:
        columns = record_columns(Record.model_validate(record), keep=bool(row["keep"]))
    except ValidationError:  # of an older version: its hash is right
        columns = {name: record.get(name) for name in TOLD}
    return [name for name, value in columns.items() if name in _READ and row[name] != value]


def _is_cancelled(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and "cancelled" in record
        and record.keys() <= {"cancelled", "edited"}
    )


# The results of a run compared with the audit log
# A run doesn't write to the log. A verdict of it that was kept as a case did, when it was kept, and its line in
# results.jsonl names the case (`kept`).

_FIELDS = set(Record.model_fields)


async def check_results(store: Store, file: Path) -> RecordTally:
    """Compare each line of a file of results with the entries of the case that it was kept as.

    Whatever a person decided of the case later changes its record and not the line, so any entry of the case may tell
    of the line.

    Raises:
        BadInput: the file can't be read.
    """
    tally = RecordTally()
    lines = _read_lines(file)
    while some := list(islice(lines, _AT_ONCE)):
        ids = [
            line["kept"]
            for _, line in some
            if line is not None and isinstance(line.get("kept"), str)
        ]
        wanted = select(audit.c.subject, audit.c.seq, audit.c.kind, audit.c.details)
        found = wanted.where(audit.c.subject.in_(ids), NAMES_RECORD).order_by(audit.c.seq)
        entries: dict[str, list[JSON]] = {}
        for entry in await store.fetch_rows(found):
            entries.setdefault(entry["subject"], []).append(readable(entry))
        for number, line in some:
            _compare_line(f"{file}, line {number}", line, entries, tally)
    return tally


def _read_lines(file: Path) -> Iterator[tuple[int, JSON | None]]:
    """Yield the results with the numbers of their lines; None for a line that is none."""
    try:
        with open_regular(file) as opened:
            for number, line in enumerate(bounded_lines(opened), 1):
                try:
                    result = parse_json(line)
                except ValueError:
                    result = None
                yield number, result if isinstance(result, dict) else None
    except (OSError, ValueError) as error:
        raise BadInput(f"results: {file}: can't be read: {error}") from error


def _compare_line(
    name: str, line: JSON | None, entries: dict[str, list[JSON]], tally: RecordTally
) -> None:
    if line is None:
        tally.uncompared["cut off or no result"] += 1
    elif not isinstance(case := line.get("kept"), str):
        tally.uncompared["not kept as a case"] += 1
    elif case not in entries:
        tally.uncompared["kept as a case of another database"] += 1
    else:
        tally.compared += 1
        told = [entry["details"] or {} for entry in entries[case]]
        record = {field: value for field, value in line.items() if field in _FIELDS}
        if not _record_shas(record) & {each.get("record_sha") for each in told}:
            first = entries[case][0]
            differ = [
                field for field in TOLD if record.get(field) != (first["details"] or {}).get(field)
            ]
            entry = f"entry {first['seq']} ({first['kind']})"
            tally.add_fault(
                f"{name}: case {case}: {', '.join(['record', *differ])}: not as {entry} tells"
            )


def _record_shas(record: JSON) -> set[Any]:
    """Return the hashes that a result's record may have in the log: with its words, and without.

    A result that a person decided later has the calls that were counted before, which its case doesn't.
    """
    shas = {sha(record), sha({**record, "unseen_calls": 0})}
    try:
        return shas | {sha(without_words(record))}
    except ValidationError:
        return shas
