"""results.jsonl: a line a post and repeat, written as it comes, and never half.

A line begins with its place in the run, so that a run that goes on needs a byte a post to know what is done. A line is
in the file once `append` returns: a killed process loses what was in flight. It is on the disk a second later at most
(`fsync`), which is what a power cut can cost.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tribunal.errors import BadInput, TribunalError
from tribunal.files import whole
from tribunal.rehearsed import REHEARSAL

RESULTS, SUPERSEDED = "results.jsonl", "superseded.jsonl"
SYNC_EVERY = 1.0  # seconds
# As the record says it, and as its calls do; in the text of a post the quotes would be escaped.
_REHEARSED = (b',"rehearsed":true,"track":', f'"model":"{REHEARSAL}"'.encode())
_START = re.compile(rb'\{"place":(\d+),"repeat":(\d+),"seconds":[-+.\deE]+,"outcome":"(\w+)"')


class DiskFull(TribunalError):
    """A result could not be written; everything before it is in the file."""


class Unwritten(BadInput):
    """What is made of the results could not be written; the results themselves are kept."""


class LineStart(NamedTuple):
    """What a line says first, where it begins, whether the rehearsal model was asked, and all of it."""

    place: int
    repeat: int
    outcome: str
    offset: int
    rehearsed: bool
    line: bytes


class Journal:
    """The results of one run, open for appending."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        try:
            _cut_torn(self.path)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise DiskFull(f"{self.path}: can't be opened for writing: {error}; make room") from error
        self._end = os.fstat(self._file).st_size
        self._synced = time.monotonic()
        self._syncing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    async def append(self, line: bytes) -> None:
        """Write a line, its end included.

        Raises:
            DiskFull: it doesn't fit, and the file is as it was before; or earlier lines could not be put on the disk.
        """
        try:
            if self._syncing is not None and self._syncing.done():
                self._syncing.result()
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes were taken")
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise DiskFull(f"{self.path}: a result could not be written: {error}") from error
        self._end += len(line)
        if time.monotonic() - self._synced > SYNC_EVERY and (self._syncing is None or self._syncing.done()):
            self._synced = time.monotonic()
            self._syncing = asyncio.ensure_future(asyncio.to_thread(os.fsync, self._file))

    async def settled(self) -> None:
        """Wait until every line is on the disk.

        Raises:
            DiskFull: they could not be put there.
        """
        try:
            if self._syncing is not None:
                await self._syncing
            await asyncio.to_thread(os.fsync, self._file)
        except OSError as error:
            raise DiskFull(f"{self.path}: results could not be put on the disk: {error}") from error


def line_starts(path: Path) -> Iterator[LineStart]:
    """What every whole line of a results file says first; a torn last line is left out.

    Raises:
        BadInput: another line is none of ours; its number.
    """
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            found = _START.match(line)
            if found is None:
                raise BadInput(f"{path}: line {number}: is no result of a run; remove the line, and let the run go on")
            rehearsed = shows_rehearsal(line)
            yield LineStart(int(found[1]), int(found[2]), found[3].decode(), offset, rehearsed, line)
            offset += len(line)


def shows_rehearsal(line: bytes) -> bool:
    """Whether the rehearsal model was asked for a result."""
    return any(sign in line for sign in _REHEARSED)


def set_aside(folder: Path, superseded: Callable[[LineStart], bool]) -> int:
    """Take results out, to be decided anew; they are kept in superseded.jsonl.

    A crash at any moment leaves every result in one of the two files, and each place at most once in results.jsonl.

    Returns:
        how many were taken out.

    Raises:
        DiskFull: there is no room for it; results.jsonl is as it was.
    """
    path = folder / RESULTS
    taken = 0
    try:
        _cut_torn(path)
        if not any(map(superseded, line_starts(path))):
            return 0
        with path.open("rb") as old, whole(path) as kept, (folder / SUPERSEDED).open("ab") as aside:
            for start, line in zip(line_starts(path), old, strict=False):
                out = superseded(start)
                (aside if out else kept).write(line)
                taken += out
            aside.flush()
            os.fsync(aside.fileno())  # before the file that lacks these lines takes its place
    except OSError as error:
        raise DiskFull(f"{path}: results could not be set aside: {error}; make room, and retry again") from error
    return taken


def _cut_torn(path: Path) -> None:
    """Cut off a last line that a crash has left without its end."""
    if not path.exists() or not (size := path.stat().st_size):
        return
    with path.open("r+b") as file:
        at = size
        while at:
            start = max(0, at - 65536)
            file.seek(start)
            found = file.read(at - start).rfind(b"\n")
            if found != -1:
                file.truncate(start + found + 1)
                return
            at = start
        file.truncate(0)
