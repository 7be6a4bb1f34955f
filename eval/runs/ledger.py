"""Ledgers: files that count how often something was done with the same data, a line of JSON each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tribunal.errors import BadInput
from tribunal.files import LockHeld, hold_lock, read_text, write_whole
from tribunal.schema import JSON
from tribunal.text import parse_json


def count_entry(
    ledger: Path, entry: JSON, *, same: Sequence[str], is_counted: Callable[[JSON], bool], called: str
) -> int:
    """Write an entry with the time, and return its number among those that are counted, from 1.

    An entry that is there already keeps its number.

    Args:
        ledger: the file.
        entry: what is written.
        same: the fields by which an entry is known again.
        is_counted: whether another entry is counted before this one.
        called: what an entry is of, for errors.

    Raises:
        BadInput: the file can't be read or written, or another process is at it.
    """
    try:
        ledger.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(ledger.with_name(f".{ledger.name}.lock")):
            held = read_text(ledger) if ledger.exists() else ""
            counted = [each for each in _parse_entries(held) if is_counted(each)]
            for number, each in enumerate(counted, start=1):
                if all(each[name] == entry[name] for name in same):
                    return number
            new: JSON = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **entry}
            end = "" if not held or held.endswith("\n") else "\n"
            write_whole(ledger, f"{held}{end}{json.dumps(new, ensure_ascii=False)}\n")
            return len(counted) + 1
    except LockHeld as error:
        raise BadInput(f"{ledger}: another process is at it, where every {called} is counted; wait for it") from error
    except OSError as error:
        raise BadInput(
            f"{ledger}: {error.strerror or error}: every {called} is counted there; make it a file that can be written"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{ledger}: broken: {error!r}: every {called} is counted there; put its lines right") from error


def read_entries(ledger: Path) -> list[JSON]:
    """Return the entries of a ledger; none if there is no such file, or it can't be read."""
    try:
        entries = _parse_entries(read_text(ledger))
    except (OSError, ValueError):
        return []
    return [each for each in entries if isinstance(each, dict)]


def _parse_entries(text: str) -> list[JSON]:
    return [parse_json(line) for line in text.splitlines() if line.strip()]
