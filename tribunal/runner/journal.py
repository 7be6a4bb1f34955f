"""The journal of a run: its lines, each with the hash of the one before."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tribunal.core.calls import REHEARSAL
from tribunal.core.text import count_noun, parse_json
from tribunal.errors import BadInput, TribunalError
from tribunal.process.files import (
    bounded_lines,
    open_regular,
    open_to_append,
    read_regular,
    write_atomically,
)
from tribunal.schema import JSON

CHAINED = "sha256"  # run.json's `chain`: every line of its results has a link
_LINK = re.compile(rb',"previous":"([0-9a-f]{64})"\}\n\Z')
# fields of run.json that change after the first line
_AT_END = (
    "finished",
    "head",
    "served",
    "continued",
)


def hash_line(line: bytes) -> str:
    """Return the hash of a line, which the next line quotes."""
    return hashlib.sha256(line).hexdigest()


def hash_beginning(run: JSON) -> str:
    """Return the hash of a run.json that the first line names."""
    fields = {name: value for name, value in run.items() if name not in _AT_END}
    return hash_line(
        json.dumps(fields, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    )


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
    """Return a line with the hash of the previous line, in place of its old link."""
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
            self._report(
                f"line {self._lines} has no link to the line before it: it was changed or inserted"
            )
        elif link is not None and self._previous is not None and link != self._previous:
            before = f"line {self._lines - 1}" if self._lines > 1 else "run.json"
            self._report(
                f"line {self._lines} does not follow {before}: one of them was changed, moved or removed after it was "
                "written"
            )
        self._linked = self._linked or link is not None
        self._previous = hash_line(line)

    def check_end(self) -> None:
        """Check that a finished run has all its lines, and that its last line is the line that run.json names."""
        posts = self._run.get("n")
        repeats = self._run.get("repeats")
        if (
            self._run.get("finished")
            and self._linked
            and isinstance(posts, int)
            and isinstance(repeats, int)
        ):
            missing = posts * repeats - self._lines
            if missing:
                lines = count_noun(abs(missing), "line")
                self._report(
                    f"line {self._lines + 1}: {lines} {'missing' if missing > 0 else 'too many'}"
                )
        head = self._run.get("head")
        if head and head != self._previous:
            self._report(
                f"line {self._lines} is not the last line that run.json names: it was changed or inserted"
            )

    def _report(self, fault: str) -> None:
        self.fault = self.fault or fault


# the files of a run's folder
RUN = "run.json"
RESULTS = "results.jsonl"
SUPERSEDED = "superseded.jsonl"
SYNC_EVERY = 1.0  # seconds
# As the record says it, and as its calls do; in the text of a post the quotes would be escaped.
_REHEARSED = (b',"rehearsed":true,"track":', f'"model":"{REHEARSAL}"'.encode())
_START = re.compile(
    rb'\{"place":(\d{1,15}),"repeat":(\d{1,15}),"seconds":[-+.\deE]+,"outcome":"(\w+)"'
)


class DiskFull(TribunalError):
    """Say that a result could not be written; everything before it is in the file."""


class OutputUnwritten(BadInput):
    """Say that an output made of the results could not be written; the results are kept."""


@contextmanager
def report_unwritten(what: object) -> Iterator[None]:
    """Raise `OutputUnwritten` if this output can't be written within the context."""
    try:
        yield
    except OSError as error:
        raise OutputUnwritten(
            f"{what}: can't be written: {error.strerror or error}; make room"
        ) from error


class LineStart(NamedTuple):
    """Hold the first fields of a line, its offset, and the whole line."""

    place: int
    repeat: int
    outcome: str
    offset: int
    line: bytes


class Journal:
    """Append results to the file of one run. Close it."""

    def __init__(self, folder: Path) -> None:
        """Open the file, and cut off a torn last line; raise `DiskFull` if it can't be opened for writing."""
        self.path = folder / RESULTS
        try:
            _cut_torn_line(self.path)
            self._file = open_to_append(self.path)
        except OSError as error:
            raise DiskFull(
                f"{self.path}: can't be opened for writing: {error}; make room"
            ) from error
        self._end = self._file.seek(0, os.SEEK_END)
        self._head = read_head(folder)
        self._synced = time.monotonic()
        self._syncing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def append(self, line: bytes) -> None:
        """Write a line, including its end, with its link to the line before (`tribunal.runner.journal`).

        Raises:
            DiskFull: it doesn't fit, and the file is as it was before; or earlier lines could not be put on the disk.
        """
        try:
            if self._syncing is not None and self._syncing.done():
                self._syncing.result()
            line = link_line(line, self._head)
            written = self._file.write(line)
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes were taken")
        except OSError as error:
            self._file.truncate(self._end)
            raise DiskFull(f"{self.path}: a result could not be written: {error}") from error
        self._end = self._end + len(line)
        self._head = hash_line(line)
        if time.monotonic() - self._synced > SYNC_EVERY and (
            self._syncing is None or self._syncing.done()
        ):
            self._synced = time.monotonic()
            self._syncing = asyncio.ensure_future(asyncio.to_thread(os.fsync, self._file.fileno()))

    async def sync_to_disk(self) -> None:
        """Wait until every line is on the disk; raise `DiskFull` if they could not be put there."""
        try:
            if self._syncing is not None:
                await self._syncing
            await asyncio.to_thread(os.fsync, self._file.fileno())
        except OSError as error:
            raise DiskFull(f"{self.path}: results could not be put on the disk: {error}") from error


def read_line_starts(path: Path, offset: int = 0) -> Iterator[LineStart]:
    """Yield the first fields of every whole line of a results file from an offset on; skip a torn last line.

    Raises:
        BadInput: another line is none of ours; its number, or where it begins. Or the file can't be read.
    """
    if not path.exists():
        return
    try:
        with open_regular(path) as file:
            file.seek(offset)
            begin = offset
            for number, line in enumerate(bounded_lines(file), start=1):
                if not line.endswith(b"\n"):
                    return
                found = _START.match(line)
                if found is None:
                    place = f"the line at byte {offset}" if begin else f"line {number}"
                    raise BadInput(
                        f"{path}: {place}: is no result of a run; remove the line, and let the run go on"
                    )
                yield LineStart(int(found[1]), int(found[2]), found[3].decode(), offset, line)
                offset += len(line)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give the folder of a run") from error


def parse_result(path: Path, line: bytes, offset: int) -> JSON:
    """Return the result in a line of a results file, which begins at this byte.

    Raises:
        BadInput: it is broken.
    """
    try:
        held = parse_json(line)
        if not isinstance(held, dict):
            raise ValueError("it holds no object")
    except ValueError as error:
        raise BadInput(
            f"{path}: the line that begins at byte {offset:,}: {error}; remove the line, and let the run go on"
        ) from error
    return held


def shows_rehearsal(line: bytes) -> bool:
    """Return whether the rehearsal model took part in a result."""
    return any(sign in line for sign in _REHEARSED)


def replace_results(folder: Path, replacement: Callable[[LineStart], bytes | None]) -> int:
    """Replace results by other lines; the old lines go to superseded.jsonl.

    A crash at any moment leaves every result in one of the two files, and each place at most once in results.jsonl.

    Args:
        folder: the run's.
        replacement: returns the line that takes a result's place, an empty one so that its post is decided again, or
            None to leave it.

    Returns:
        How many were replaced. `DiskFull` is raised if there is no room; results.jsonl is then as it was.
    """
    path = folder / RESULTS
    replaced = 0
    try:
        _cut_torn_line(path)
        if all(replacement(start) is None for start in read_line_starts(path)):
            return 0
        with write_atomically(path) as kept, open_to_append(folder / SUPERSEDED) as aside:
            old = new = read_beginning(folder / RUN)
            for start in read_line_starts(path):
                fresh = replacement(start)
                line = start.line if fresh is None else fresh
                # A link that was broken before stays so, that a mended chain hides nothing.
                if line and link_of_line(start.line) in (None, old):
                    line = link_line(line, new)
                kept.write(line)
                old = hash_line(start.line)
                new = hash_line(line) if line else new
                if fresh is not None:
                    aside.write(start.line)
                    replaced += 1
            os.fsync(aside.fileno())  # before the file that lacks these lines takes its place
    except OSError as error:
        raise DiskFull(
            f"{path}: results could not be replaced: {error}; make room, and run again"
        ) from error
    return replaced


def read_head(folder: Path) -> str:
    """Return the hash that the next line of a run's results names; errors as `open_regular`."""
    path = folder / RESULTS
    if not path.exists() or not (size := path.stat().st_size):
        return read_beginning(folder / RUN)
    with open_regular(path) as file:
        start = size
        tail = b""
        while start and b"\n" not in tail[:-1]:
            end = start
            start = max(0, start - 65536)
            file.seek(start)
            tail = file.read(end - start) + tail
    return hash_line(tail[tail.rfind(b"\n", 0, -1) + 1 :])


def _cut_torn_line(path: Path) -> None:
    """Cut off a last line that a crash has left without its end."""
    if not path.exists():
        return
    with open_to_append(path) as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found != -1:
                end = start + found + 1
                break
            end = start
        file.truncate(end)
