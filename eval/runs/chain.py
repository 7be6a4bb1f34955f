"""Chain the lines of results.jsonl by hash, so that a changed, dropped, swapped or inserted line is found.

A line ends with the SHA-256 of the line before it, with its end; the first one has that of run.json without what is
written there when the run ends. Lines of an earlier version have no link, and still read.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tribunal.files import bounded_lines, open_regular, read_regular
from tribunal.schema import JSON
from tribunal.text import count_noun, parse_json

CHAINED = "sha256"  # run.json's `chain`: every line of its results has a link
_LINK = re.compile(rb',"previous":"([0-9a-f]{64})"\}\n\Z')
AT_END = ("finished", "head", "served", "continued")  # of run.json, what isn't known when the first line is written


def hash_line(line: bytes) -> str:
    """Return the hash by which the next line names this one."""
    return hashlib.sha256(line).hexdigest()


def hash_beginning(run: JSON) -> str:
    """Return the hash of a run.json that the first line names."""
    held = {name: value for name, value in run.items() if name not in AT_END}
    return hash_line(json.dumps(held, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))


def read_beginning(path: Path) -> str:
    """Return the hash of the run.json at a path, or that of an empty one if there is none that can be read."""
    try:
        held = parse_json(read_regular(path))
    except (OSError, ValueError):
        held = {}
    return hash_beginning(held if isinstance(held, dict) else {})


def link_line(line: bytes, previous: str) -> bytes:
    """Return a line with the hash of the one before it, in place of the link that it had."""
    return _LINK.sub(b"}\n", line)[:-2] + f',"previous":"{previous}"}}\n'.encode()


def link_of_line(line: bytes) -> str | None:
    """Return the hash that a line names, or None if it has no link."""
    found = _LINK.search(line[-100:])
    return found[1].decode() if found else None


def find_chain_fault(results: Path, run: JSON) -> str:
    """Return where the chain of a run's results breaks first, or an empty text.

    Raises:
        OSError: the file can't be read, or a line is too long.
    """
    previous, linked, number = hash_beginning(run), run.get("chain") == CHAINED, 0
    try:
        with open_regular(results) as file:
            for number, line in enumerate(bounded_lines(file), start=1):
                link = link_of_line(line)
                if link is None and linked:
                    return f"line {number}: names no line before it: it was altered or inserted"
                if link is not None and link != previous:
                    before = f"line {number - 1}" if number > 1 else "run.json"
                    return f"line {number}: doesn't follow {before}: one of them was altered, moved or dropped"
                previous, linked = hash_line(line), linked or link is not None
    except FileNotFoundError:
        number = 0
    whole = run.get("n"), run.get("repeats")
    lost = whole[0] * whole[1] - number if isinstance(whole[0], int) and isinstance(whole[1], int) else 0
    if run.get("finished") and lost:
        many = count_noun(abs(lost), "line")
        return f"line {number + 1}: {many} {'missing' if lost > 0 else 'too many'} of a finished run"
    if (head := run.get("head")) and head != previous:
        return f"line {number}: isn't the last line that run.json names"
    return ""
