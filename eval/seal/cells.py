"""Compare stored figures with recomputed ones, cell by cell, and name the first that differs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tribunal.files import MOST_LINE, bounded_lines, open_regular, read_text
from tribunal.schema import JSON
from tribunal.text import parse_json

_MISSING = "nothing"
# Keys that metrics.json of older versions doesn't have; their absence is no difference.
_ABSENT_IN_OLDER_VERSIONS = {"by_language", "calibration", "cost", "coverage_at_risk", "interval", "notes"}
_LONGEST = 120  # letters of a cell in a message
_ROWS_A_GROUP = 1_000
_UNROUNDED = re.compile(r"-?\d+\.\d{9,}(e[-+]?\d+)?")  # a number in a text, with all its digits
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class CellDiffers(Exception):
    """Say which cell isn't what the results give."""


class Recount:
    """Count the cells that were compared; raise `CellDiffers` at the first that differs."""

    def __init__(self, place: str = "") -> None:
        """Begin; `place` stands before each file's name. `unchecked` names files that can't be computed again."""
        self.place, self.count, self.unchecked = place, 0, list[str]()

    def compare_cell(self, file: str, row: str, column: str, stored: Any, recomputed: Any) -> None:
        """Compare a cell."""
        self.count += 1
        if not _are_equal(stored, recomputed):
            where = ", ".join(filter(None, [row, column]))
            raise CellDiffers(
                f"{self.place}{file}: {where}: stands as {_shorten(stored)}, and the results give "
                f"{_shorten(recomputed)}"
            )

    def compare_values(
        self,
        file: str,
        stored: JSON,
        recomputed: JSON,
        *,
        row: str = "",
        leave_out: Iterable[str] = (),
        older: bool = False,
    ) -> None:
        """Compare every value of two objects, the nested ones too, but for names at the top that are left out.

        In measures of an `older` version, keys that it didn't know may be absent.
        """
        skipped, absent = set(leave_out), _ABSENT_IN_OLDER_VERSIONS if older else set[str]()
        for where, then, now in _pair_values("", stored, recomputed, absent):
            if where.partition(".")[0].partition("[")[0] not in skipped:
                self.compare_cell(file, row, where, then, now)

    def compare_rows(self, file: str, stored: Iterable[JSON], recomputed: Iterable[JSON]) -> None:
        """Compare two tables, row by row; of a stored row, only the columns that the recomputed one has."""
        for number, (then, now) in enumerate(zip_longest(stored, recomputed), start=1):
            row = f"row {number}"
            if then is None or now is None:
                kept, found = (_MISSING if each is None else "a row" for each in (then, now))
                self.compare_cell(file, row, "", kept, found)
                continue
            self.compare_row(file, row, then, now)

    def compare_row(self, file: str, row: str, stored: JSON, recomputed: JSON) -> None:
        """Compare the cells of a stored row with those that were recomputed."""
        for column, value in recomputed.items():
            self.compare_cell(file, row, f"column {column}", stored.get(column, _MISSING), value)

    def compare_text(self, file: str, path: Path, recomputed: str) -> None:
        """Compare a written page with its text as it would be written now: of a table, cell by cell."""
        try:
            stored = read_text(path, MOST_LINE)
            written = _split_cells(file, stored), _split_cells(file, recomputed)
            rows: Iterator[tuple[list[str], list[str]]] = zip_longest(*written, fillvalue=[])
            heads: list[str] = []
            for number, (then, now) in enumerate(rows, start=1):
                for place, (kept, found) in enumerate(zip_longest(then, now, fillvalue=_MISSING)):
                    column = f"column {heads[place]}" if place < len(heads) and heads[place] else f"cell {place + 1}"
                    self.compare_cell(file, f"line {number}", column if len(now) > 1 else "", kept, found)
                heads = _heads_after(file, number, now, heads)
        except (OSError, ValueError, csv.Error) as error:
            raise CellDiffers(f"{self.place}{file}: can't be read: {error}") from error


def read_stored_rows(path: Path) -> Iterator[JSON]:
    """Yield the rows of a CSV, TSV, JSONL or Parquet file, one at a time.

    Raises:
        CellDiffers: the file is broken.
    """
    try:
        suffix = path.suffix.casefold()
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as table:
                for rows in table.iter_batches(batch_size=_ROWS_A_GROUP):
                    yield from rows.to_pylist()
            return
        with open_regular(path) as file:
            if suffix == ".jsonl":
                for line in bounded_lines(file):
                    yield parse_json(line)
            else:
                csv.field_size_limit(MOST_LINE)
                text = io.TextIOWrapper(file, "utf-8", newline="")
                yield from csv.DictReader(text, delimiter=_DELIMITERS[suffix], strict=True)
    except (OSError, ValueError, csv.Error) as error:
        raise CellDiffers(f"{path.name}: can't be read: {error}") from error


def as_csv_cell(value: Any) -> str:
    """Return a value as CSV has it."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _split_cells(name: str, text: str) -> list[list[str]]:
    """Return the cells of each line of a table's text; a line that is no row of a table is one cell."""
    if name.endswith(".csv"):
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if name.endswith(".md"):
        return [re.split(r"(?<!\\)\|", line) if line.startswith("|") else [line] for line in text.split("\n")]
    if name.endswith(".html"):
        return [re.split(r"(?=<t[dhr][ >])", line) for line in text.split("\n")]
    return [[line] for line in text.split("\n")]


def _heads_after(name: str, number: int, row: list[str], heads: list[str]) -> list[str]:
    """Return what the columns are called after a row."""
    if name.endswith(".csv"):
        return row if number == 1 else heads
    is_head = name.endswith(".md") and len(row) > 1 and not heads
    return [each.strip() for each in row] if is_head else heads if len(row) > 1 else []


def _pair_values(where: str, then: Any, now: Any, may_be_absent: set[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each value of two measures with its place; a nested one value by value."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in {**now, **then}:
            if name in may_be_absent and name not in then:
                continue
            inside = f"{where}.{name}" if where else str(name)
            yield from _pair_values(inside, then.get(name, _MISSING), now.get(name, _MISSING), may_be_absent)
    elif isinstance(then, list) and isinstance(now, list | tuple):
        for place, pair in enumerate(zip_longest(then, now, fillvalue=_MISSING)):
            yield from _pair_values(f"{where}[{place}]", *pair, may_be_absent)
    else:
        yield where, then, now


def _are_equal(then: Any, now: Any) -> bool:
    """Return whether two figures are equal but for how machines round; in a text, too."""
    if isinstance(then, str) and isinstance(now, str) and then != now:
        numbers = _NUMBER.fullmatch(then) and _NUMBER.fullmatch(now)
        # One with all its digits is enough: 0.3 has no more.
        unrounded = _UNROUNDED.fullmatch(then) or _UNROUNDED.fullmatch(now)
        return bool(numbers and unrounded) and _are_equal(float(then), float(now))
    if isinstance(then, float) and isinstance(now, float):
        return math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(then) and math.isnan(now))
    return type(then) is type(now) and bool(then == now)


def _shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
