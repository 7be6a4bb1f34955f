"""Tables are written as files of several kinds; an address is checked before a key goes to it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import IO, Any, Literal
from urllib.parse import urlsplit

from tribunal.core.text import escape_cell, wellformed
from tribunal.errors import BadInput
from tribunal.plugins import require_extra
from tribunal.schema import JSON


def check_address(field: str, url: str) -> str:
    """Return an address to which a key may go: over TLS, or on this machine.

    Raises:
        BadInput: it is none.
    """
    try:
        parsed = urlsplit(url)
        host = parsed.hostname
        alone = parsed.port is None or parsed.port > 0
    except ValueError:
        host = None
        alone = False
    if (
        not alone
        or not host
        or parsed.scheme not in ("http", "https")
        or "@" in parsed.netloc
        or not url.isprintable()
    ):
        raise BadInput(
            f"{field}: is no address of the form https://host/path, without a user in it"
        )
    if parsed.scheme == "http" and not _is_loopback(host):
        raise BadInput(
            f"{field}: {host}: is not asked over http, where others could read the key; give https"
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


ColumnKind = Literal["text", "number", "integer", "flag", "texts"]
FORMATS = ("jsonl", "csv", "parquet")
_GROUP_BYTES = 8 * 1024**2  # of texts, roughly, that a group of rows in Parquet holds


class CsvWriter:
    """Writes CSV or TSV whose cells command neither a terminal nor a spreadsheet (`escape_cell`)."""

    def __init__(self, file: IO[str], delimiter: str = ",", lineterminator: str = "\r\n") -> None:
        """Write to an open file."""
        self._writer = csv.writer(file, delimiter=delimiter, lineterminator=lineterminator)

    def write_row(self, cells: Iterable[Any]) -> None:
        """Write a row."""
        self._writer.writerow([escape_cell(cell) for cell in cells])


class TableWriter:
    """Writes rows, one at a time; a column that a row lacks is empty. Close it.

    CSV has a list as a JSON array, and its texts are escaped (`escape_cell`); the other formats keep them exactly.
    """

    def __init__(
        self,
        form: str,
        columns: Mapping[str, ColumnKind],
        file: IO[bytes],
        delimiter: str = ",",
        *,
        begun: bool = False,
    ) -> None:
        """Begin a table; the delimiter is that of CSV. One of CSV that is `begun` has its head already.

        Raises:
            BadInput: there is no such format.
        """
        if form not in FORMATS:
            raise BadInput(f"format: {form!r}: is none of {', '.join(FORMATS)}")
        self._columns = columns
        self._rows = list[JSON]()
        self._bytes = 0
        self._parquet: Any = None
        self._closed = False
        if form == "parquet":
            require_extra("parquet", "eval")
            from pyarrow.parquet import ParquetWriter

            self._parquet = ParquetWriter(file, arrow_schema(columns))
            return
        self._text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self._csv = CsvWriter(self._text, delimiter) if form == "csv" else None
        if self._csv and not begun:
            self._csv.write_row(columns)

    def add(self, row: JSON) -> None:
        """Write a row."""
        cells = {name: _writable_value(row.get(name)) for name in self._columns}
        if self._parquet:
            self._rows.append(cells)
            self._bytes += 200 + sum(
                len(value) for value in cells.values() if isinstance(value, str)
            )
            if self._bytes > _GROUP_BYTES:
                self._write_group()
        elif self._csv:
            self._csv.write_row(
                json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell
                for cell in cells.values()
            )
        else:
            self._text.write(json.dumps(cells, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Write what is left, and the end. It may be closed again, as where that failed."""
        if self._closed:
            return
        self._closed = True
        if self._parquet:
            self._write_group()
            self._parquet.close()
        else:
            self._text.detach()

    def _write_group(self) -> None:
        from pyarrow import Table

        self._parquet.write_table(Table.from_pylist(self._rows, schema=self._parquet.schema))
        self._rows = []
        self._bytes = 0


def arrow_schema(columns: Mapping[str, ColumnKind]) -> Any:
    """Return the Arrow schema of columns."""
    import pyarrow as pa

    kinds = {
        "text": pa.string(), "number": pa.float64(), "integer": pa.int64(), "flag": pa.bool_(),
        "texts": pa.list_(pa.string()),
    }  # fmt: skip
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def _writable_value(value: Any) -> Any:
    """Return a cell that can be written: a post may hold half a pair of surrogates."""
    if isinstance(value, list):
        return [_writable_value(each) for each in value]
    return wellformed(value) if isinstance(value, str) else value
