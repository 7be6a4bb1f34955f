"""Compare the results of a run with the audit log.

A run doesn't write to the log. A verdict of it that was kept as a case did, when it was kept, and its line in
results.jsonl names the case (`kept`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select

from tribunal.cases.erasure import without_words
from tribunal.cases.record_audit import NAMES_RECORD, TOLD, RecordTally
from tribunal.errors import BadInput
from tribunal.files import bounded_lines, open_regular
from tribunal.schema import JSON, Record
from tribunal.store.audit import readable, sha
from tribunal.store.engine import Store
from tribunal.store.tables import audit
from tribunal.text import parse_json

_AT_ONCE = 100  # lines
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
        ids = [line["kept"] for _, line in some if line is not None and isinstance(line.get("kept"), str)]
        wanted = select(audit.c.subject, audit.c.seq, audit.c.kind, audit.c.details)
        found = wanted.where(audit.c.subject.in_(ids), NAMES_RECORD).order_by(audit.c.seq)
        entries: dict[str, list[JSON]] = {}
        for entry in await store.fetch_rows(found):
            entries.setdefault(entry["subject"], []).append(readable(entry))
        for number, line in some:
            _compare(f"{file}, line {number}", line, entries, tally)
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


def _compare(name: str, line: JSON | None, entries: dict[str, list[JSON]], tally: RecordTally) -> None:
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
            differ = [field for field in TOLD if record.get(field) != (first["details"] or {}).get(field)]
            entry = f"entry {first['seq']} ({first['kind']})"
            tally.add_fault(f"{name}: case {case}: {', '.join(['record', *differ])}: not as {entry} tells")


def _record_shas(record: JSON) -> set[Any]:
    """Return the hashes that a result's record may have in the log: with its words, and without.

    A result that a person decided later has the calls that were counted before, which its case doesn't.
    """
    shas = {sha(record), sha({**record, "unseen_calls": 0})}
    try:
        return shas | {sha(without_words(record))}
    except ValidationError:
        return shas
