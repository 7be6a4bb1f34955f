"""Read the rows of a file: CSV, TSV, JSONL, JSON or Parquet. Errors name the row."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from tribunal.core.text import make_visible, nearest_names, parse_json, restore_cell, wellformed
from tribunal.errors import BadInput
from tribunal.plugins import require_extra
from tribunal.process.files import check_regular, is_lfs_pointer, open_regular
from tribunal.retrievers.indexes.bounded_text import (
    MOST_ROW,
    JsonParts,
    RowLines,
    find_marked_encoding,
    too_large,
)
from tribunal.settings.environment import say_once

if TYPE_CHECKING:
    from pyarrow import RecordBatch

Cells = Mapping[str, Any]
EXTRA = "\0"  # under which a row holds the cells that it has more than the file has columns
YES = ("1", "true", "yes")
NO = ("0", "false", "no")
_MOST_BATCH = 4096  # rows of Parquet
_DELIMITERS = ",;\t|"
_SHOWN_DELIMITER = {"\t": "a tab"}
_SEPARATOR_LINE = re.compile(r"\ufeff?sep=(.)\r?\n?", re.IGNORECASE)  # Excel's own first line
_QUOTED = re.compile(r'"[^"]*"?')
_REMEDY = (
    "give its encoding, such as --encoding cp1252 or --columns encoding=cp1252, or save it as UTF-8"
)
_PACKED = ".gz"
# Columns of tables that Tribunal has written: batches and cases, and annotations.
_OURS = ({"decided_by", "rehearsed"}, {"smi_pattern", "policy_sha"})
_WHOLE = re.compile(r"(\d+)\.0+")  # a flag as pandas writes it where a cell of its column was empty
# Usual names of columns, by what they hold.
_USUAL = {
    "text": ("tweet", "comment", "comment_text", "content", "post", "message", "body", "sentence"),
    "label": ("hate", "hateful", "is_hate", "hate_speech", "toxic", "class", "gold", "category"),
    "id": ("post_id", "tweet_id", "comment_id"),
}


class TableFile(NamedTuple):
    """A file of rows. `str()` is what its errors call it.

    Attributes:
        path: where it is read.
        shown: what its user calls it, where that is another place; its suffix says what it is.
        cells: what every row of it has beside its own cells.
    """

    path: Path
    shown: str = ""
    cells: Cells = {}  # noqa: RUF012 (it is never changed)

    def __str__(self) -> str:
        """Return what errors call it."""
        return self.shown or str(self.path)

    @property
    def name(self) -> str:
        """Return its name, without its folder."""
        return self.shown.rpartition("/")[2] or self.path.name

    @property
    def suffix(self) -> str:
        """Return the suffix of its format, without `.gz`."""
        return PurePath(self.name.lower().removesuffix(_PACKED)).suffix

    @property
    def is_packed(self) -> bool:
        """Return whether it is packed by gzip."""
        return self.name.lower().endswith(_PACKED)

    @contextmanager
    def open_bytes(self) -> Iterator[IO[bytes]]:
        """Open its bytes, unpacked."""
        with open_regular(self.path) as file:
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if self.is_packed else file


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a file.

    Attributes:
        owner: whose file it is, as errors name it: `data set kodoli`, `perspective kodoli`.
        file: its name.
        number: counts from 1, or is the row's key in a file that has keys.
        cells: the values by column.
    """

    owner: str
    file: str
    number: int | str
    cells: Cells

    def __getitem__(self, column: str) -> Any:
        """Return the cell of a column that must be there.

        Raises:
            BadInput: it isn't; the message names those that are.
        """
        try:
            return self.cells[column]
        except KeyError as error:
            raise self.missing_column(column) from error

    def text(self, column: str) -> str:
        """Return the text of a cell, ends trimmed; blank where it holds nothing.

        Raises:
            BadInput: there is no such column, or the cell holds a list, an object or bytes.
        """
        cell = self[column]
        if isinstance(cell, list | tuple | dict | bytes):
            raise self.value_error(
                column, cell, "one text or number; give a column of plain values"
            )
        return wellformed(cell_text(cell))

    def optional_text(self, column: str | None) -> str:
        """Return the text of a cell; blank also where the row, as one of JSONL may, lacks the column."""
        return self.text(column) if column is not None and column in self.cells else ""

    def text_list(self, column: str, separator: str | None = None) -> list[str]:
        """Return the texts in a cell that holds a list, or several texts with a separator between them."""
        cell = self[column]
        if isinstance(cell, list | tuple):
            return [wellformed(cell_text(value)) for value in cell]
        return (
            [part.strip() for part in self.text(column).split(separator)]
            if separator
            else [self.text(column)]
        )

    def yes_or_no(
        self, column: str, yes: Collection[str] = YES, no: Collection[str] = NO
    ) -> bool | None:
        """Return yes or no from a column, in any letter case; None if the cell is blank.

        1.0 is read as 1, and 0.0 as 0.

        Raises:
            BadInput: there is no such column, or its value is of neither kind.
        """
        value = self.text(column)
        if not value:
            return None
        answer = drop_decimal_point(value).casefold()
        if answer not in {*yes, *no}:
            raise self.value_error(
                column, value, f"{' or '.join(yes)} (yes), {' or '.join(no)} (no)"
            )
        return answer in yes

    def number_of(self, column: str) -> float | None:
        """Return the number in a column; None where it is blank; raise `BadInput` if it is not a number."""
        value = self.text(column)
        try:
            number = float(value) if value else None
        except ValueError as error:
            raise self.value_error(column, value, "a number") from error
        if number is not None and not math.isfinite(number):
            raise self.value_error(column, value, "a number")
        return number

    def error(self, problem: str) -> BadInput:
        """Return the error for a problem of this row."""
        return BadInput(f"{self.owner}: {self.file} row {self.number}: {problem}")

    def missing_column(self, column: str, remedy: str = "") -> BadInput:
        """Return the error for a missing column, with all columns and the likeliest."""
        near = likely_columns(column, self.cells)
        likely = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        has = ", ".join(str(name) for name in self.cells)
        return self.error(f"has no column {column!r}{remedy}; it has {has}{likely}")

    def value_error(self, column: str, value: object, expected: str) -> BadInput:
        """Return the error for a cell with an unexpected value."""
        shown = repr(value)
        return self.error(
            f"{column} = {shown if len(shown) < 80 else shown[:77] + '…'}: is not {expected}"
        )


def likely_columns(wanted: str, names: Iterable[str]) -> list[str]:
    """Return at most two likely columns for a role: of a similar name, or of a usual name."""
    there = {str(name).strip().casefold(): str(name) for name in names if name != EXTRA}
    same = there.get(wanted.casefold())
    usual = [there[name] for name in _USUAL.get(wanted, ()) if name in there]
    return (
        [same]
        if same is not None
        else [*dict.fromkeys([*usual, *nearest_names(wanted, there.values())])][:2]
    )


def cell_text(value: Any) -> str:
    """Return a cell as text, ends trimmed: nothing, NaN too, is blank, and a whole number has no point."""
    if value is None or value != value:  # NaN, by which tables say that there is nothing
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def drop_decimal_point(value: str) -> str:
    """Return a whole number without its point, so that a flag 1.0 is 1; any other text as it is."""
    found = _WHOLE.fullmatch(value)
    return found[1] if found else value


def refuse_pointer(path: Path) -> None:
    """Refuse a file that Git LFS has only left a pointer to: raise `BadInput`, and say how the file itself is had."""
    if is_lfs_pointer(path):
        raise BadInput(
            f"file {path}: is a Git LFS pointer, not the file itself; run `git lfs pull` in its repository, or "
            "download the file from its page"
        )


def find_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the files of the first of these names that is there; none where none is. A name may hold `*`."""
    return next((found for name in names if (found := sorted(folder.glob(name)))), [])


def find_arrow_files(folder: Path) -> tuple[Path, ...]:
    """Return the tables in a folder that `save_to_disk` of Hugging Face datasets wrote; none in any other folder.

    Raises:
        BadInput: the folder has several splits.
    """
    splits = sorted(each.parent for each in folder.glob("*/state.json"))
    if (folder / "dataset_dict.json").is_file() and splits:
        names = ", ".join(each.name for each in splits)
        raise BadInput(
            f"data: {folder}: has the splits {names}; give the folder of one: --data {splits[-1]}"
        )
    return tuple(sorted(folder.glob("data*.arrow"))) if (folder / "state.json").is_file() else ()


def read_rows(
    file: Path | TableFile,
    owner: str,
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    strict: bool = False,
    ragged: bool = False,
    keyed: bool = False,
    remedy: str = _REMEDY,
) -> Iterator[TableRow]:
    """Yield every row of a file. CSV, TSV, JSONL, JSON and Parquet go by the suffix.

    Of `.csv.gz` and the like, the unpacked rows are read; packed Parquet isn't. Memory holds one row, of at most
    `MOST_ROW` characters. An assumed encoding or delimiter is logged once for each file.

    Args:
        file: the file.
        owner: whose it is, for the errors of its rows.
        encoding: of CSV, TSV and JSON. A byte order mark at the file's start overrides it.
        delimiter: between cells. None: that of a first line `sep=;`; otherwise the one that the header has most of; a
            comma in .csv, a tab in .tsv, .tab and .txt if the header has none.
        strict: refuse a cell whose quotes don't close, which otherwise takes the rest of the file for its own.
        ragged: give a row with more cells than there are columns, the cells that are over under `EXTRA`.
        keyed: the file is one JSON object of rows by their ids.
        remedy: the advice in the error for a wrong encoding.

    Raises:
        BadInput: the file can't be read, a row is too large, or the content is not of the kind that the suffix says.
    """
    table = file if isinstance(file, TableFile) else TableFile(file)
    refuse_pointer(table.path)
    suffix = table.suffix
    rows: Iterator[tuple[int | str, Any]]
    number = 0
    try:
        if suffix == ".parquet" and not table.is_packed:
            require_extra(str(table), "eval")
            rows = enumerate(_read_parquet(table), start=1)
        elif suffix == ".arrow" and not table.is_packed:
            require_extra(str(table), "eval")
            rows = enumerate(_read_arrow(table), start=1)
        elif suffix in {".csv", ".tsv", ".tab", ".txt"}:
            rows = enumerate(_read_delimited(table, encoding, delimiter, strict, ragged), start=1)
        elif suffix in {".json", ".jsonl", ".ndjson"}:
            rows = _read_json(table, encoding, keyed=keyed)
        else:
            shown_suffix = suffix + _PACKED * table.is_packed or "no suffix"
            raise BadInput(
                f"file {table}: {shown_suffix}: not CSV, TSV, TXT, JSONL, JSON, Parquet or Arrow"
            )
        for number, (key, cells) in enumerate(rows, start=1):  # noqa: B007 (errors name it)
            row = TableRow(
                owner, table.name, wellformed(key) if isinstance(key, str) else key, cells
            )
            if not isinstance(cells, dict):
                raise row.error(f"a row is an object with named fields, not {type(cells).__name__}")
            yield row
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(
            f"file {table}: isn't packed by gzip, or not all of it is there: {error}"
        ) from error
    except OSError as error:
        where = f"row {number + 1}: " if error.errno == errno.EFBIG else ""
        raise BadInput(f"file {table}: {where}{error.strerror or error}") from error
    except (UnicodeError, LookupError) as error:
        where = f"row {number + 1}: " if isinstance(error, UnicodeError) else ""
        raise BadInput(
            f"file {table}: {where}can't be read as {encoding} ({error}); {remedy}"
        ) from error


@contextmanager
def _open_text(
    table: TableFile, encoding: str, newline: str | None = None
) -> Iterator[io.TextIOWrapper]:
    """Open a file as text. Bytes that its encoding doesn't have are found by `RowLines` and `JsonParts`, row by row."""
    with table.open_bytes() as raw:
        marked = find_marked_encoding(raw.read(4))
        raw.seek(0)
        if marked is not None and marked != "utf-8-sig":
            say_once(
                f"{make_visible(table.name)}: read as {marked.upper()}, by its byte order mark"
            )
        with io.TextIOWrapper(raw, marked or encoding, "surrogateescape", newline) as file:
            yield file


def _detect_delimiter(table: TableFile, lines: RowLines) -> str:
    """Return a file's delimiter by its first line; a line `sep=;` is skipped. An unusual delimiter is logged."""
    usual = "," if table.suffix == ".csv" else "\t"
    header = lines.peek()
    separator = _SEPARATOR_LINE.fullmatch(header)
    if separator:
        lines.skip_line()
        delimiter = separator[1]
    else:
        bare = _QUOTED.sub("", header)
        delimiter = max((usual, *_DELIMITERS), key=bare.count)
    if delimiter != usual:
        shown = _SHOWN_DELIMITER.get(delimiter, repr(delimiter))
        say_once(f"{make_visible(table.name)}: cells are separated by {shown}, by its first line")
    return delimiter


def _read_delimited(
    table: TableFile, encoding: str, delimiter: str | None, strict: bool, ragged: bool
) -> Iterator[Cells]:
    csv.field_size_limit(MOST_ROW)
    with _open_text(table, encoding, newline="") as file:
        lines = RowLines(file, "; look for a double quote that isn't closed")
        delimiter = delimiter or _detect_delimiter(table, lines)
        try:
            reader = csv.DictReader(lines, delimiter=delimiter, strict=strict)
            names = reader.fieldnames or ()
            is_ours = any(columns <= set(names) for columns in _OURS)
            if is_ours:
                names = reader.fieldnames = [restore_cell(name) for name in names]
            _refuse_repeated(table, names)
            while True:
                lines.start_row()
                cells = next(reader, None)
                if cells is None:
                    return
                extra = [cell for cell in cells.pop(None, ()) if cell.strip()]
                if extra and ragged:
                    cells[EXTRA] = extra
                elif extra:
                    raise BadInput(
                        f"file {table}: line {reader.line_num}: more cells than the {len(names)} columns; "
                        f"put a cell that holds {delimiter!r} into double quotes"
                    )
                if is_ours:
                    cells = {
                        name: restore_cell(cell) if isinstance(cell, str) else cell
                        for name, cell in cells.items()
                    }
                yield cells
        except (csv.Error, TypeError) as error:  # TypeError: the delimiter can't be one
            raise BadInput(
                f"file {table}: after line {reader.line_num}: not delimited by {delimiter!r}: {error}"
            ) from error


def _refuse_repeated(table: TableFile, names: Iterable[str]) -> None:
    """Refuse a table in which two columns have one name: only the last of them would be read."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise BadInput(
            f"file {table}: the column {twice[0]!r} is there twice; give each a name of its own"
        )


def _read_json(table: TableFile, encoding: str, *, keyed: bool) -> Iterator[tuple[int | str, Any]]:
    """Yield the values of an array or of lines with their numbers; if `keyed`, those of an object with their keys."""
    with _open_text(table, encoding) as file:
        is_array = file.read(64).lstrip().startswith("[")
        file.seek(0)
        if keyed or is_array:
            yield from JsonParts(str(table), file).members(keyed=keyed)
            return
        row = 0
        lines = RowLines(file)
        for line_number, line in enumerate(lines, start=1):
            lines.start_row()
            if line.isspace():
                continue
            row += 1
            try:
                value = parse_json(line, unique=True)
            except ValueError as error:
                raise BadInput(f"file {table}: line {line_number}: not JSON: {error}") from error
            yield row, value


def _read_parquet(table: TableFile) -> Iterator[Cells]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_regular(table.path)
    try:
        with pq.ParquetFile(table.path, memory_map=True) as file:
            _refuse_repeated(table, file.schema_arrow.names)
            groups = [file.metadata.row_group(each) for each in range(file.metadata.num_row_groups)]
            longest = max(
                (group.total_byte_size // max(1, group.num_rows) for group in groups), default=0
            )
            for batch in file.iter_batches(
                batch_size=max(1, min(_MOST_BATCH, MOST_ROW // max(1, longest)))
            ):
                yield from _rows_of_batch(batch)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"file {table}: not Parquet: {error}") from error


def _read_arrow(table: TableFile) -> Iterator[Cells]:
    """Read a file that `save_to_disk` of Hugging Face datasets writes: an Arrow stream."""
    import pyarrow as pa

    check_regular(table.path)
    try:
        with pa.memory_map(str(table.path)) as file, pa.ipc.open_stream(file) as stream:
            for batch in stream:
                batch.validate(full=True)
                yield from _rows_of_batch(batch)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"file {table}: not an Arrow stream: {error}") from error


def _rows_of_batch(batch: RecordBatch) -> Iterator[Cells]:
    if batch.nbytes <= MOST_ROW:
        yield from batch.to_pylist()
        return
    for row in (batch.slice(place, 1) for place in range(batch.num_rows)):
        if row.nbytes > MOST_ROW:
            raise too_large()
        yield from row.to_pylist()
