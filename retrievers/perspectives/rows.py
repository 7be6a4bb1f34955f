"""The labelled rows of a perspective, read from its files as their authors publish them."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.perspective import Perspective, Rule, Source

Record = Mapping[str, Any]
_TRUE, _FALSE = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no", ""})
# The csv module takes 128 KiB a cell; FakeNewsNet puts every tweet id of a story into one.
_CELL = 16 * 1024 * 1024


class Row(NamedTuple):
    """One labelled text; `text` is blank where the file's was."""

    text: str
    hate: bool


def locate(perspective: Perspective, folder: Path) -> list[Path]:
    """The files of a perspective's set in `folder`, in the order of its spec.

    Raises:
        BadInput: one is missing: its names, and where the set is obtained.
    """
    source = source_of(perspective)
    found: list[Path] = []
    for entry in source.files:
        names = (entry,) if isinstance(entry, str) else entry
        matches = next((hit for name in names if (hit := sorted(folder.glob(name)))), None)
        if matches is None:
            raise BadInput(
                f"perspective {perspective.name}: no {' or '.join(names)} in {folder}; "
                f"the set is obtained from {source.obtain}"
            )
        found += matches
    return found


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(perspective: Perspective, files: Iterable[Path]) -> Iterator[Row]:
    """Every row of these files, blank texts included.

    Raises:
        BadInput: a column is missing (those present are named), a value is in neither label's list, or a file is not
            what its suffix says; with the file and the row.
    """
    source = source_of(perspective)
    for path in files:
        found = records(path, encoding=source.encoding, delimiter=source.delimiter, remedy="set source.encoding")
        for number, record in enumerate(found, start=1):
            try:
                text, hate = record[source.text], is_hate(record, source.label)
            except KeyError as error:
                raise BadInput(
                    f"perspective {perspective.name}: {path.name} row {number} has no column {error.args[0]!r}; "
                    f"it has {', '.join(str(name) for name in record)}"
                ) from error
            except ValueError as error:
                raise BadInput(f"perspective {perspective.name}: {path.name} row {number}: {error}") from error
            # A lone surrogate, which JSON can carry, has no form in Parquet.
            yield Row(as_text(text).encode("utf-8", "replace").decode("utf-8"), hate)


def source_of(perspective: Perspective) -> Source:
    """The files of a perspective's set.

    Raises:
        BadInput: it has none; its texts lie in its own file.
    """
    if perspective.source is None:
        raise BadInput(f"perspective {perspective.name}: its texts lie in its own file; there is nothing to build")
    return perspective.source


def is_hate(record: Record, rule: Rule) -> bool:
    """Whether a row is hate by a perspective's rule.

    Raises:
        KeyError: it has no such column.
        ValueError: the value is in neither label's list; the message names the column, the value and both lists.
    """
    if rule.column is None:
        # All columns are read, so that one that is missing or not 0/1 is found whatever the others hold.
        flags = [_flag(column, record[column]) for column in rule.any_of]
        return any(flags)
    cell = record[rule.column]
    if isinstance(cell, list | tuple):
        values = [as_text(value) for value in cell]
    else:
        values = [part.strip() for part in as_text(cell).split(rule.separator)] if rule.separator else [as_text(cell)]
    found = [_value_is_hate(value, rule) for value in values]
    return any(found)


def _value_is_hate(value: str, rule: Rule) -> bool:
    folded = value.casefold()
    if folded in (known.casefold() for known in rule.hate):
        return True
    if folded in (known.casefold() for known in rule.not_hate):
        return False
    if rule.hate and rule.not_hate:
        raise ValueError(
            f"{rule.column} = {value!r} is neither among the values of hate ({', '.join(rule.hate)}) "
            f"nor of not hate ({', '.join(rule.not_hate)})"
        )
    return not rule.hate


def _flag(column: str, cell: Any) -> bool:
    value = as_text(cell).casefold()
    if value not in _TRUE | _FALSE:
        raise ValueError(f"{column} = {value!r} is neither 0 nor 1")
    return value in _TRUE


def as_text(value: Any) -> str:
    """A cell as text, ends trimmed: nothing, NaN too, is blank, and a whole number has no point."""
    if value is None or value != value:  # NaN, by which tables say that there is nothing
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def records(
    path: Path,
    *,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    strict: bool = False,
    remedy: str = "save it as UTF-8",
) -> Iterator[Record]:
    """Every row of a file as its columns' values, one at a time. CSV, TSV, JSONL, JSON and Parquet go by the suffix.

    Args:
        path: the file.
        encoding: of CSV, TSV and JSON.
        delimiter: between cells; none given: a comma in .csv, a tab in .tsv, .tab and .txt.
        strict: refuse a cell whose quotes don't close, which else takes the rest of the file for its own.
        remedy: what the error for a wrong encoding advises.

    Raises:
        BadInput: the file can't be read, or is not what its suffix says.
    """
    suffix = path.suffix.lower()
    # A mark at a file's start, as spreadsheets leave one, would become part of the first column's name.
    codec = "utf-8-sig" if encoding.lower() in {"utf-8", "utf8"} else encoding
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix in {".csv", ".tsv", ".tab", ".txt"}:
            yield from _delimited(path, codec, delimiter or ("," if suffix == ".csv" else "\t"), strict)
        elif suffix in {".json", ".jsonl", ".ndjson"}:
            yield from _json(path, codec)
        else:
            raise BadInput(f"file {path}: {suffix or 'no suffix'}: not CSV, TSV, TXT, JSONL, JSON or Parquet")
    except OSError as error:
        raise BadInput(f"file {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, LookupError) as error:
        raise BadInput(f"file {path}: can't be read as {encoding} ({error}); {remedy}") from error


def _delimited(path: Path, encoding: str, delimiter: str, strict: bool) -> Iterator[Record]:
    csv.field_size_limit(_CELL)
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter, strict=strict)
        try:
            for record in reader:
                if any(cell.strip() for cell in record.pop(None, ())):
                    raise BadInput(
                        f"file {path}: line {reader.line_num}: more cells than the {len(reader.fieldnames or ())} "
                        f"columns; put a cell that holds {delimiter!r} into double quotes"
                    )
                yield record
        except csv.Error as error:
            raise BadInput(
                f"file {path}: after line {reader.line_num}: not delimited by {delimiter!r}: {error}"
            ) from error


def _json(path: Path, encoding: str) -> Iterator[Record]:
    with path.open(encoding=encoding) as file:
        number, line = 1, ""
        try:
            if file.read(64).lstrip().startswith("["):
                file.seek(0)
                yield from _objects(path, json.load(file))
                return
            file.seek(0)
            for number, line in enumerate(file, start=1):  # noqa: B007 - the error names the line
                if line.strip():
                    yield from _objects(path, [json.loads(line)])
        except (UnicodeDecodeError, BadInput):
            raise
        # A number of very many digits is a ValueError of another kind, very deep nesting a RecursionError.
        except (ValueError, RecursionError) as error:
            raise BadInput(f"file {path}: line {number}: not JSON: {error}") from error


def _objects(path: Path, values: Iterable[Any]) -> Iterator[Record]:
    for value in values:
        if not isinstance(value, dict):
            raise BadInput(f"file {path}: a row is an object with named fields, not {type(value).__name__}")
        yield value


def _parquet(path: Path) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(batch_size=4096):
                yield from batch.to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"file {path}: not Parquet: {error}") from error
