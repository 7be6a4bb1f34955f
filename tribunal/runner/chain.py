"""Chain the lines of results.jsonl by hash, so that a changed, removed, swapped or inserted line is detected.

Each line ends with the SHA-256 of the line before it, including its newline. The first line names the hash of run.json,
without the fields that are written when the run ends. Lines of an earlier version have no link and are still read.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tribunal.files import read_regular
from tribunal.schema import JSON
from tribunal.text import count_noun, parse_json

CHAINED = "sha256"  # run.json's `chain`: every line of its results has a link
_LINK = re.compile(rb',"previous":"([0-9a-f]{64})"\}\n\Z')
_AT_END = ("finished", "head", "served", "continued")  # fields of run.json that change after the first line


def hash_line(line: bytes) -> str:
    """Return the hash by which the next line names this one."""
    return hashlib.sha256(line).hexdigest()


def hash_beginning(run: JSON) -> str:
    """Return the hash of a run.json that the first line names."""
    fields = {name: value for name, value in run.items() if name not in _AT_END}
    return hash_line(json.dumps(fields, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))


def read_beginning(path: Path) -> str:
    """Return the hash of the run.json at a path, or that of an empty one if there is none that can be read."""
    return hash_beginning(_read_run_if_readable(path) or {})


def _read_run_if_readable(path: Path) -> JSON | None:
    try:
        run = parse_json(read_regular(path))
    except (OSError, ValueError):
        return None
    return run if isinstance(run, dict) else None


def link_line(line: bytes, previous: str) -> bytes:
    """Return a line with the hash of the one before it, in place of the link that it had."""
    return _LINK.sub(b"}\n", line)[:-2] + f',"previous":"{previous}"}}\n'.encode()


def link_of_line(line: bytes) -> str | None:
    """Return the hash that a line names, or None if it has no link."""
    link = _LINK.search(line[-100:])
    return link[1].decode() if link else None


class ChainCheck:
    """Check the chain of a run's results while its lines are read.

    Attributes:
        fault: the first line that breaks the chain, and how; empty as long as the chain holds.
    """

    def __init__(self, run_file: Path) -> None:
        """Begin at the run.json of a run. Without a readable one, the first line's link and the end go unchecked."""
        run = _read_run_if_readable(run_file)
        self.fault = ""
        self._run = run or {}
        self._previous = None if run is None else hash_beginning(run)
        self._linked = self._run.get("chain") == CHAINED
        self._lines = 0

    def check_line(self, line: bytes) -> None:
        """Check the link of the next line. A last line without its newline, cut by a crash, must not be given."""
        self._lines += 1
        link = link_of_line(line)
        if link is None and self._linked:
            self._report(f"line {self._lines} has no link to the line before it: it was changed or inserted")
        elif link is not None and self._previous is not None and link != self._previous:
            before = f"line {self._lines - 1}" if self._lines > 1 else "run.json"
            self._report(
                f"line {self._lines} does not follow {before}: one of them was changed, moved or removed after it was "
                "written"
            )
        self._linked = self._linked or link is not None
        self._previous = hash_line(line)

    def check_end(self) -> None:
        """Check that a finished run has all its lines, and that the last one is the one that run.json names."""
        posts, repeats = self._run.get("n"), self._run.get("repeats")
        if self._run.get("finished") and self._linked and isinstance(posts, int) and isinstance(repeats, int):
            missing = posts * repeats - self._lines
            if missing:
                lines = count_noun(abs(missing), "line")
                self._report(f"line {self._lines + 1}: {lines} {'missing' if missing > 0 else 'too many'}")
        head = self._run.get("head")
        if head and head != self._previous:
            self._report(f"line {self._lines} is not the last line that run.json names: it was changed or inserted")

    def _report(self, fault: str) -> None:
        self.fault = self.fault or fault
