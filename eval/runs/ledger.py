"""The looks at a run's figures that count: those at its risk, and the final ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tribunal.core.text import parse_json
from tribunal.errors import BadInput
from tribunal.process.files import LockHeld, hold_lock, read_text, write_whole
from tribunal.schema import JSON


def count_entry(
    ledger: Path,
    entry: JSON,
    *,
    same: Sequence[str],
    is_counted: Callable[[JSON], bool],
    called: str,
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
        raise BadInput(
            f"{ledger}: another process is at it, where every {called} is counted; wait for it"
        ) from error
    except OSError as error:
        raise BadInput(
            f"{ledger}: {error.strerror or error}: every {called} is counted there; make it a file that can be written"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{ledger}: broken: {error!r}: every {called} is counted there; put its lines right"
        ) from error


def read_entries(ledger: Path) -> list[JSON]:
    """Return the entries of a ledger; none if there is no such file, or it can't be read."""
    try:
        entries = _parse_entries(read_text(ledger))
    except (OSError, ValueError):
        return []
    return [each for each in entries if isinstance(each, dict)]


def _parse_entries(text: str) -> list[JSON]:
    return [parse_json(line) for line in text.splitlines() if line.strip()]


LOOKS = "test_looks.jsonl"
_OF_THE_DATA = ("data", "split", "sha256")


def count_look(folder: Path, data: JSON, made_by: JSON) -> JSON:
    """Count a look at a test split, and return what its runs note of it: `look` is its number.

    The same look that goes on keeps its number.

    Args:
        folder: of the comparison.
        data: the set's `name`, `split` and `sha256`, as run.json has them.
        made_by: what looks.

    Raises:
        BadInput: the ledger can't be read or written.
    """
    of_data: JSON = {"data": data["name"], "split": data["split"], "sha256": data["sha256"]}
    entry = {"comparison": folder.resolve().name, **of_data, **made_by}
    look = count_entry(
        folder.resolve().parent / LOOKS,
        entry,
        same=list(entry),
        is_counted=lambda each: all(each.get(name) == of_data[name] for name in _OF_THE_DATA),
        called="look at a test split",
    )
    return {"look": look, **of_data}


def final_look_in_words(run: JSON, folder: Path) -> str | None:
    """Return in a sentence how often the test split of a run was looked at, or None if the run was no such look.

    Args:
        run: its run.json.
        folder: its folder.
    """
    noted = run.get("final")
    if not isinstance(noted, dict) or not isinstance(look := noted.get("look"), int):
        return None
    entries = read_entries(folder.resolve().parent.parent / LOOKS)
    known = [
        each for each in entries if all(each.get(name) == noted.get(name) for name in _OF_THE_DATA)
    ]
    return (
        f"A final look at the split {noted.get('split')} of {noted.get('data')}: number {look} of "
        f"{max(len(known), look)} comparisons of prompts made on it here. Each look beyond the first makes its figures "
        "more optimistic"
    )
