"""What `tribunal batch` gives back: the input's rows with their outcomes, in the order of the input."""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tribunal.errors import BadInput
from tribunal.eval.runs.every_row import EveryRow
from tribunal.eval.runs.journal import RESULTS, Unwritten, line_starts
from tribunal.files import whole
from tribunal.parsed import from_json
from tribunal.rehearsed import rehearsed
from tribunal.retrievers.perspectives.rows import TableFile
from tribunal.schema import JSON

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    "outcome", "label", "category", "hateful", "confidence", "explanation", "rehearsed", "track", "calls", "tokens",
    "case", "review",
)  # fmt: skip
FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_ROWS_A_GROUP = 10_000


def check_format(out: Path) -> None:
    """Hold an output's name to the formats there are.

    Raises:
        BadInput: it is none of them.
    """
    if out.suffix.casefold() not in FORMATS:
        raise BadInput(f"out: {out.name}: its suffix is none of {', '.join(FORMATS)}")


def write_table(dataset: EveryRow, run: Path, count: int, out: Path) -> None:
    """Write the outcomes of a finished run beside the rows they are of; whole, or not at all.

    Args:
        dataset: the input.
        run: the folder of the run over it.
        count: how many posts it has.
        out: JSON Lines hold the full records; CSV, TSV and Parquet the input's columns, and `COLUMNS`.

    Raises:
        Unwritten: the file can't be written.
    """
    try:
        decided = _Decided(dataset, run, count)
        with whole(out) as file:
            _WRITERS[out.suffix.casefold()](decided, file)
    except IsADirectoryError as error:
        raise BadInput(f"out: {out}: {error.strerror}; the results are in {run}, run it again") from error
    except OSError as error:
        raise Unwritten(f"out: {out}: can't be written: {error.strerror or error}; make room") from error


class Columns:
    """The columns of a table that is given back.

    `given` are the input's, of all its rows. `added` leads `COLUMNS` to what they are called in the output:
    tribunal_NAME where the input has a column of that name.
    """

    def __init__(self, given: Iterable[str]) -> None:
        self.given = list(dict.fromkeys(given))
        self.added = {name: self._free(name) for name in COLUMNS}

    def _free(self, name: str) -> str:
        while name in self.given:
            name = f"tribunal_{name}"
        return name

    def cells(self, row: JSON, record: JSON) -> tuple[JSON, JSON]:
        """A row's cells: the input's, and what is added, by the names it has here.

        Args:
            row: the input's.
            record: its record; of a row that has none, whatever of `COLUMNS` is to be said of it.
        """
        usage, review = record.get("usage", {}), record.get("review")
        found = {
            "rehearsed": rehearsed(record["calls"]) if usage else None,  # what an older record doesn't say itself
            **record,
            "calls": usage.get("calls"),
            "tokens": usage["prompt_tokens"] + usage["completion_tokens"] if usage else None,
            "case": record.get("case") or record.get("kept") or record.get("thread"),
            "review": (review.get("action") or "waits") if review else None,
        }
        return (
            {name: _cell(value) for name, value in row.items()},
            {called: found.get(name) for name, called in self.added.items()},
        )


def as_line(row: JSON, record: JSON) -> bytes:
    """A row as a line of JSON: its record, and the row in `input`."""
    return (json.dumps({**record, "input": row}, ensure_ascii=False) + "\n").encode("utf-8", "replace")


class AsText:
    """Rows as CSV or TSV, in pieces."""

    def __init__(self, columns: Columns, delimiter: str = ",") -> None:
        self._columns, self._held = columns, io.StringIO(newline="")
        self._writer = csv.DictWriter(self._held, [*columns.given, *columns.added.values()], delimiter=delimiter)
        self._writer.writeheader()

    def add(self, row: JSON, record: JSON) -> None:
        given, added = self._columns.cells(row, record)
        self._writer.writerow({**given, **{name: harmless(value) for name, value in added.items()}})

    def taken(self) -> bytes:
        """What was added since this was last asked for; at first with the header."""
        text = self._held.getvalue()
        self._held.seek(0)
        self._held.truncate()
        return text.encode("utf-8", "replace")


def added_types(columns: Columns) -> pa.Schema:
    """What is added, with its types."""
    import pyarrow as pa

    kinds = {
        "label": pa.int64(), "hateful": pa.bool_(), "rehearsed": pa.bool_(), "confidence": pa.float64(),
        "calls": pa.int64(), "tokens": pa.int64(),
    }  # fmt: skip
    return pa.schema([(called, kinds.get(name, pa.string())) for name, called in columns.added.items()])


class AsParquet:
    """Rows as Parquet. What is added has types; the input's cells are texts, since a later row may differ.

    Where the input is Parquet, give its schema: its columns then stay what they are, and `add_batch` takes them whole.
    """

    def __init__(self, columns: Columns, file: IO[bytes], schema: pa.Schema | None = None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        given = [(name, pa.string()) for name in columns.given] if schema is None else list(schema)
        self._columns, self._group = columns, list[JSON]()
        self._added = added_types(columns)
        self._writer = pq.ParquetWriter(file, pa.schema([*given, *self._added]))

    def add(self, row: JSON, record: JSON) -> None:
        given, added = self._columns.cells(row, record)
        self._group.append({**{name: None if cell is None else str(cell) for name, cell in given.items()}, **added})
        if len(self._group) == _ROWS_A_GROUP:
            self._write()

    def add_batch(self, rows: pa.RecordBatch, records: Iterable[JSON]) -> None:
        """Rows of a Parquet file as they are, and the record of each."""
        import pyarrow as pa

        added = [self._columns.cells({}, record)[1] for record in records]
        beside = pa.Table.from_pylist(added, schema=self._added)
        columns = [*pa.Table.from_batches([rows]).columns, *beside.columns]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._writer.schema))

    def _write(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._group, schema=self._writer.schema))
        self._group.clear()

    def close(self) -> None:
        """Write what is left, and the end."""
        if self._group:
            self._write()
        self._writer.close()


class _Decided:
    """Each row of the input with its record, in order. In memory are eight bytes a row, and the names of columns."""

    def __init__(self, dataset: EveryRow, run: Path, count: int) -> None:
        self._dataset, self._results = dataset, run / RESULTS
        self._offsets = array("q", bytes(8 * count))
        for start in line_starts(self._results):
            self._offsets[start.place] = start.offset
        self.columns = Columns(name for cells in dataset.cells() for name in cells)
        self.input = dataset.tables.files

    def __iter__(self) -> Iterator[tuple[JSON, JSON]]:
        with self._results.open("rb") as results:
            for offset, cells in zip(self._offsets, self._dataset.cells(), strict=True):
                results.seek(offset)
                yield cells, from_json(results.readline())


def _cell(value: Any) -> Any:
    return (
        value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value, ensure_ascii=False)
    )


def harmless(value: Any) -> Any:
    """A text that a model has written, so that a spreadsheet doesn't take it for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _lines(decided: _Decided, file: IO[bytes]) -> None:
    for row, record in decided:
        file.write(as_line(row, record))


def _text(delimiter: str) -> Callable[[_Decided, IO[bytes]], None]:
    def write(decided: _Decided, file: IO[bytes]) -> None:
        text = AsText(decided.columns, delimiter)
        for row, record in decided:
            text.add(row, record)
            file.write(text.taken())
        file.write(text.taken())

    return write


def _parquet(decided: _Decided, file: IO[bytes]) -> None:
    if (schema := _one_schema(decided.input)) is not None:
        _parquet_as_it_was(decided, schema, file)
        return
    with closing(AsParquet(decided.columns, file)) as table:
        for row, record in decided:
            table.add(row, record)


def _one_schema(tables: Iterable[TableFile]) -> pa.Schema | None:
    """The schema of Parquet files that all have the same one, and whose rows have no cell of their folders."""
    import pyarrow.parquet as pq

    schema = None
    for table in tables:
        if table.suffix != ".parquet" or table.cells:
            return None
        held = pq.read_schema(table.path)
        if schema is not None and not held.equals(schema):
            return None
        schema = held
    return schema


def _parquet_as_it_was(decided: _Decided, schema: pa.Schema, file: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    records = (record for _, record in decided)
    with closing(AsParquet(Columns(schema.names), file, schema)) as table:
        for each in decided.input:
            with pq.ParquetFile(each.path, memory_map=True) as given:
                for rows in given.iter_batches(batch_size=_ROWS_A_GROUP):
                    table.add_batch(rows, islice(records, rows.num_rows))


_WRITERS: dict[str, Callable[[_Decided, IO[bytes]], None]] = {
    ".jsonl": _lines,
    ".csv": _text(","),
    ".tsv": _text("\t"),
    ".parquet": _parquet,
}
