"""Results as rows of a table, and a table that grows while a run goes on."""

from __future__ import annotations

import io
import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import ValidationError

from tribunal.core.calls import was_rehearsed
from tribunal.errors import BadInput
from tribunal.eval.datasets.post_table import TELL_EVERY, PostTable
from tribunal.explanations.deciders import find_case_decider
from tribunal.process.files import (
    MOST_LINE,
    check_regular,
    open_regular,
    open_to_append,
    read_regular,
    write_atomically,
    write_whole,
)
from tribunal.retrievers.indexes.table_rows import TableFile
from tribunal.review.table_files import ColumnKind, TableWriter, arrow_schema
from tribunal.runner.journal import (
    RESULTS,
    SUPERSEDED,
    OutputUnwritten,
    parse_result,
    read_line_starts,
)
from tribunal.runner.tally import RunTally, Watch
from tribunal.schema import JSON, Frozen

if TYPE_CHECKING:
    import pyarrow as pa

# What is added to the input's columns.
COLUMNS: dict[str, ColumnKind] = {
    "outcome": "text", "label": "integer", "category": "text", "clause": "text", "hateful": "flag",
    "confidence": "number", "probability": "number", "uncertain": "flag", "explanation": "text", "rehearsed": "flag",
    "track": "text", "calls": "integer", "tokens": "integer", "case": "text", "review": "text", "decided_by": "text",
    "reviewer": "text",
}  # fmt: skip
FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_ROWS_A_GROUP = 10_000


def check_format(out: Path) -> None:
    """Check that an output's name has the suffix of a known format; raise `BadInput` if it is none of them."""
    if out.suffix.casefold() not in FORMATS:
        raise BadInput(f"out: {out.name}: its suffix is none of {', '.join(FORMATS)}")


def write_parquet_table(
    dataset: PostTable,
    run: Path,
    count: int,
    out: Path,
    tell: Callable[[int], None] = lambda count: None,
) -> None:
    """Write the outcomes of a finished run beside their rows as Parquet, whole or not at all.

    Parquet has its table of contents at the end, so that no file can be gone on with.

    Args:
        dataset: the input.
        run: the folder of the run over it.
        count: how many posts it has.
        out: the file; it gets the input's columns, and `COLUMNS`.
        tell: is told now and then how many rows were written.

    Raises:
        OutputUnwritten: the file can't be written.
    """
    rows = _read_decided_rows(dataset, run / RESULTS, count, tell)
    schema = _common_schema(dataset.tables.files)
    with report_unwritten_table(out, run), write_atomically(out) as file:
        if schema is not None:
            _write_parquet_with_outcomes(dataset.tables.files, schema, rows, file)
            return
        with closing(OutcomeTable("parquet", OutputColumns(dataset.column_names), file)) as table:
            for row, record in rows:
                table.add_row(row, record)


@contextmanager
def report_unwritten_table(out: Path, run: Path) -> Iterator[None]:
    """Raise `OutputUnwritten` if a batch's table can't be written within the context, or `BadInput` for a folder."""
    try:
        yield
    except IsADirectoryError as error:
        raise BadInput(
            f"out: {out}: {error.strerror}; the results are in {run}, run it again"
        ) from error
    except OSError as error:
        raise OutputUnwritten(
            f"out: {out}: can't be written: {error.strerror or error}; make room"
        ) from error


def _read_decided_rows(
    dataset: PostTable, path: Path, count: int, tell: Callable[[int], None]
) -> Iterator[tuple[JSON, JSON]]:
    """Yield the input's rows with their records. Memory holds eight bytes a row."""
    for place, row in enumerate(
        zip(dataset.cells(), read_records_in_order(path, count), strict=True)
    ):
        if place % TELL_EVERY == 0:
            tell(place)
        yield row


def read_records_in_order(path: Path, count: int) -> Iterator[JSON]:
    """Yield the results of a finished run in the order of its posts. Memory holds eight bytes a post."""
    offsets = array("q", bytes(8 * count))
    for start in read_line_starts(path):
        offsets[start.place] = start.offset
    with open_regular(path) as results:
        for offset in offsets:
            results.seek(offset)
            yield parse_result(path, results.readline(MOST_LINE), offset)


class OutputColumns:
    """Name the columns of an output table.

    `given` are the input's, of all its rows. `added` leads those beside them to what they are called in the output:
    tribunal_NAME where the input has a column of that name. `added_kinds` are what they hold, by these names.
    """

    def __init__(self, given: Iterable[str], beside: Mapping[str, ColumnKind] = COLUMNS) -> None:
        """Name the columns that are added to the input's."""
        self.given = list(dict.fromkeys(given))
        self.added = {name: self._free_name(name) for name in beside}
        self.added_kinds = {called: beside[name] for name, called in self.added.items()}

    def _free_name(self, name: str) -> str:
        while name in self.given:
            name = f"tribunal_{name}"
        return name

    def row_cells(self, row: JSON, record: JSON) -> tuple[JSON, JSON]:
        """Return a row's own cells and the added cells, by their names in the output.

        The record of a row that has none is whatever of the added columns is to be said of it.
        """
        usage = record.get("usage", {})
        review = record.get("review")
        found = {
            "rehearsed": was_rehearsed(record["calls"])
            if usage
            else None,  # what an older record doesn't say itself
            **record,
            **find_case_decider(record)._asdict(),
            "calls": usage.get("calls"),
            "tokens": usage["prompt_tokens"] + usage["completion_tokens"] if usage else None,
            "case": record.get("case") or record.get("kept") or record.get("thread"),
            "clause": ", ".join(record.get("clauses") or ()) or None,
            "review": (review.get("action") or "waits") if review else None,
        }
        return (
            {name: _plain_cell(value) for name, value in row.items()},
            {called: found.get(name) for name, called in self.added.items()},
        )


class OutcomeTable:
    """Write rows with their outcomes as JSON Lines, CSV, TSV or Parquet, in pieces. Close it.

    Cells of the input are texts in Parquet, since a later row may differ.
    """

    def __init__(
        self, form: str, columns: OutputColumns, file: IO[bytes], *, begun: bool = False
    ) -> None:
        """Begin a table in an open file: `jsonl`, `csv`, `tsv` or `parquet`; or go on with one that has its head."""
        self._form = form
        self._columns = columns
        self._file = file
        self._writer: TableWriter | None = None
        if form != "jsonl":
            kinds: dict[str, ColumnKind] = {
                **dict.fromkeys(columns.given, "text"),
                **columns.added_kinds,
            }
            separated = {"csv": ",", "tsv": "\t"}
            form = "csv" if form in separated else form
            self._writer = TableWriter(
                form, kinds, file, separated.get(self._form, ","), begun=begun
            )

    def add_row(self, row: JSON, record: JSON) -> None:
        """Add a row with its record; a line of JSON is the record, with who decided, and the row in `input`."""
        if self._writer is None:
            decider = find_case_decider(record)._asdict()
            line = json.dumps({**record, **decider, "input": row}, ensure_ascii=False) + "\n"
            self._file.write(line.encode("utf-8", "replace"))
            return
        given, added = self._columns.row_cells(row, record)
        if self._form == "parquet":
            given = {name: None if cell is None else str(cell) for name, cell in given.items()}
        self._writer.add({**given, **added})

    def close(self) -> None:
        """Write the remaining rows and the end of the table."""
        if self._writer is not None:
            self._writer.close()


def _plain_cell(value: Any) -> Any:
    plain = value is None or isinstance(value, str | int | float | bool)
    return value if plain else json.dumps(value, ensure_ascii=False)


def _write_parquet_with_outcomes(
    files: Iterable[TableFile], schema: pa.Schema, rows: Iterator[tuple[JSON, JSON]], out: IO[bytes]
) -> None:
    """Write the rows of Parquet files as they are, with their outcomes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = OutputColumns(schema.names)
    added = arrow_schema(columns.added_kinds)
    with closing(pq.ParquetWriter(out, pa.schema([*schema, *added]))) as writer:
        for each in files:
            check_regular(each.path)
            with pq.ParquetFile(each.path, memory_map=True) as given:
                for batch in given.iter_batches(batch_size=_ROWS_A_GROUP):
                    cells = [
                        columns.row_cells({}, record)[1]
                        for _, record in islice(rows, batch.num_rows)
                    ]
                    beside = pa.Table.from_pylist(cells, schema=added)
                    whole = [*pa.Table.from_batches([batch]).columns, *beside.columns]
                    writer.write_table(pa.Table.from_arrays(whole, schema=writer.schema))


def _common_schema(tables: Iterable[TableFile]) -> pa.Schema | None:
    """Return the schema that all Parquet files share, or None; also None if folders add cells to rows."""
    if any(table.suffix != ".parquet" or table.cells for table in tables):
        return None
    import pyarrow.parquet as pq

    first, *others = (pq.read_schema(table.path) for table in tables)
    return first if all(each.equals(first) for each in others) else None


GROWING = (".csv", ".tsv", ".jsonl")
# New results are written after so many, or so many seconds.
_ROWS = 500
_SECONDS = 5.0
# The most that is written at a time.
_MOST_ROWS = 2_000
_MOST_BYTES = 2**23


class WrittenRows(Frozen):
    """Note how much of the file is whole, and how large superseded.jsonl was."""

    rows: int = 0
    bytes: int = 0
    superseded: int = 0


class GrowingTable:
    """Write the rows of one batch as they are decided. Memory holds eight bytes a row."""

    def __init__(self, folder: Path, suffix: str, table: PostTable, count: int) -> None:
        """Use a run's folder for a table of so many rows; nothing is read or written yet."""
        self.path = folder / f"rows{suffix}"
        self._note = folder / f"rows{suffix}.json"
        self._folder = folder
        self._table = table
        self._form = suffix.removeprefix(".")
        # of each row's result, from 1 on; 0: there is none yet
        self._offsets = array("q", bytes(8 * count))
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
                self._looked = time.monotonic()
                self._seen = tally.done
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
            # the note is read again, and the input from its begin
            self._written = None
            self._failed = True
            raise
        self._written = written
        self._failed = False
        return rows

    def _encode_rows(self, place: int) -> tuple[bytes, int]:
        """Return the next rows from a place on as they are written, and how many they are."""
        path = self._folder / RESULTS
        for start in read_line_starts(path, self._read):
            self._offsets[start.place] = start.offset + 1
            self._read = start.offset + len(start.line)
        content = io.BytesIO()
        rows = 0
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
                table.add_row(
                    next(self._cells), parse_result(path, results.readline(MOST_LINE), offset - 1)
                )
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
