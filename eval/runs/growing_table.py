"""Write the output of a batch as CSV, TSV or JSON Lines while it goes on, in the input's order.

Rows lie in the run's folder, as far as no earlier one is missing, until all are there; then the file takes the place of
OUT. A note beside it says how many rows and bytes are whole, so that whoever goes on cuts off what a kill has left, and
writes exactly what is missing. Results that were replaced since (superseded.jsonl) have all rows written anew.
"""

from __future__ import annotations

import io
import os
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from tribunal.errors import BadInput
from tribunal.eval.datasets.post_table import PostTable
from tribunal.eval.runs.tables import OutcomeTable, OutputColumns
from tribunal.files import MOST_LINE, open_regular, open_to_append, read_regular, write_whole
from tribunal.runner.journal import RESULTS, SUPERSEDED, parse_result, read_line_starts
from tribunal.runner.tally import RunTally, Watch
from tribunal.schema import JSON, Frozen

GROWING = (".csv", ".tsv", ".jsonl")
_ROWS, _SECONDS = 500, 5.0  # of new results, after which their rows are written
_MOST_ROWS, _MOST_BYTES = 2_000, 2**23  # that are written at a time


class WrittenRows(Frozen):
    """Note how much of the file is whole, and how large superseded.jsonl was."""

    rows: int = 0
    bytes: int = 0
    superseded: int = 0


class GrowingTable:
    """Write the rows of one batch as they are decided. Memory holds eight bytes a row."""

    def __init__(self, folder: Path, suffix: str, table: PostTable, count: int) -> None:
        """Use a run's folder for a table of so many rows; nothing is read or written yet."""
        self.path, self._note = folder / f"rows{suffix}", folder / f"rows{suffix}.json"
        self._folder, self._table, self._form = folder, table, suffix.removeprefix(".")
        self._offsets = array("q", bytes(8 * count))  # of each row's result, from 1 on; 0: there is none yet
        self._read = self._seen = 0
        self._looked = time.monotonic()
        self._written: WrittenRows | None = None
        self._cells: Iterator[JSON] = iter(())
        self._failed = False

    def watching(self, watch: Watch) -> Watch:
        """Return a watcher of the run that writes what is new now and then; after an error `write_all` goes on."""

        def watch_and_write(tally: RunTally) -> None:
            """Show the state of the run, and write its new rows."""
            watch(tally)
            waited = tally.done > self._seen and time.monotonic() - self._looked > _SECONDS
            if not self._failed and (waited or tally.done >= self._seen + _ROWS):
                self._looked, self._seen = time.monotonic(), tally.done
                with suppress(OSError, BadInput):
                    self._write_next_rows()

        return watch_and_write

    def write_all(self, tell: Callable[[int], None] = lambda count: None) -> None:
        """Write every row that can be written now; `tell` is told now and then how many there are.

        Raises:
            OSError: they can't be written.
            BadInput: a result is broken.
        """
        while self._write_next_rows():
            tell(self._written.rows if self._written else 0)

    def remove(self) -> None:
        """Remove the file, if it is still there, and the note."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def _write_next_rows(self) -> int:
        """Write the next rows, up to a bound, and return how many."""
        try:
            written = self._written or self._find_whole_rows()
            content, rows = self._encode_rows(written.rows)
            if rows:
                written = self._append(content, written, rows)
        except (OSError, BadInput):
            self._written, self._failed = None, True  # the note is read again, and the input from its begin
            raise
        self._written, self._failed = written, False
        return rows

    def _encode_rows(self, place: int) -> tuple[bytes, int]:
        """Return the next rows from a place on as they are written, and how many they are."""
        path = self._folder / RESULTS
        for start in read_line_starts(path, self._read):
            self._offsets[start.place] = start.offset + 1
            self._read = start.offset + len(start.line)
        content, rows = io.BytesIO(), 0
        if place == len(self._offsets) or not self._offsets[place]:
            return b"", 0
        columns = OutputColumns(self._table.column_names)
        with (
            open_regular(path) as results,
            closing(OutcomeTable(self._form, columns, content, begun=place > 0)) as table,
        ):
            for at in range(place, min(place + _MOST_ROWS, len(self._offsets))):
                offset = self._offsets[at]
                if not offset or content.tell() > _MOST_BYTES:
                    break
                results.seek(offset - 1)
                table.add_row(next(self._cells), parse_result(path, results.readline(MOST_LINE), offset - 1))
                rows += 1
        return content.getvalue(), rows

    def _append(self, content: bytes, written: WrittenRows, rows: int) -> WrittenRows:
        """Append whole rows, put them on the disk, then note them; cut off first what no note tells of."""
        with open_to_append(self.path) as file:
            file.truncate(written.bytes)
            left = memoryview(content)
            while left:  # what stops a write in its midst says why at the next
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        changed = {"rows": written.rows + rows, "bytes": written.bytes + len(content)}
        written = written.model_copy(update=changed)
        write_whole(self._note, written.model_dump_json())
        return written

    def _find_whole_rows(self) -> WrittenRows:
        """Return how much of the file is whole and still as the results are, and go to the input's next row."""
        superseded = self._folder / SUPERSEDED
        now = WrittenRows(superseded=superseded.stat().st_size if superseded.exists() else 0)
        with suppress(OSError, ValidationError):
            note = WrittenRows.model_validate_json(read_regular(self._note))
            if self.path.stat().st_size >= note.bytes and note.superseded == now.superseded:
                now = note
        self._cells = islice(self._table.cells(), now.rows, None)
        return now
