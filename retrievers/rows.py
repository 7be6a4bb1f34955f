"""The labelled rows of a perspective, read from its files as their authors publish them."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nodes.errors import BadInput
from retrievers.perspectives import Perspective, Rule, Source

Record = Mapping[str, Any]
_TRUE, _FALSE = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no", ""})


class Row(NamedTuple):
    """One labelled text; `text` is blank where the file's was."""

    text: str
    hate: bool


def locate(perspective: Perspective, folder: Path) -> list[Path]:
    """The files of a perspective's set in `folder`, in the order of its spec.

    Raises:
        BadInput: one is missing: its names, and where the set is obtained.
    """
    source = _source(perspective)
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
    source = _source(perspective)
    for path in files:
        for number, record in enumerate(_records(path, source), start=1):
            try:
                text, hate = record[source.text], _is_hate(record, source.label)
            except KeyError as error:
                raise BadInput(
                    f"perspective {perspective.name}: {path.name} row {number} has no column {error.args[0]!r}; "
                    f"it has {', '.join(str(name) for name in record)}"
                ) from error
            except ValueError as error:
                raise BadInput(f"perspective {perspective.name}: {path.name} row {number}: {error}") from error
            # A lone surrogate, which JSON can carry, has no form in Parquet.
            yield Row(_text(text).encode("utf-8", "replace").decode("utf-8"), hate)


def _source(perspective: Perspective) -> Source:
    if perspective.source is None:
        raise BadInput(f"perspective {perspective.name}: its texts lie in its own file; there is nothing to build")
    return perspective.source


def _is_hate(record: Record, rule: Rule) -> bool:
    if rule.column is None:
        # All columns are read, so that one that is missing or not 0/1 is found whatever the others hold.
        flags = [_flag(column, record[column]) for column in rule.any_of]
        return any(flags)
    cell = record[rule.column]
    if isinstance(cell, list | tuple):
        values = [_text(value) for value in cell]
    else:
        values = [part.strip() for part in _text(cell).split(rule.separator)] if rule.separator else [_text(cell)]
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
    value = _text(cell).casefold()
    if value not in _TRUE | _FALSE:
        raise ValueError(f"{column} = {value!r} is neither 0 nor 1")
    return value in _TRUE


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _records(path: Path, source: Source) -> Iterator[Record]:
    suffix = path.suffix.lower()
    # A mark at a file's start, as spreadsheets leave one, would become part of the first column's name.
    encoding = "utf-8-sig" if source.encoding.lower() in {"utf-8", "utf8"} else source.encoding
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix in {".csv", ".tsv", ".tab", ".txt"}:
            yield from _delimited(path, encoding, source.delimiter or ("," if suffix == ".csv" else "\t"))
        elif suffix in {".json", ".jsonl", ".ndjson"}:
            yield from _json(path, encoding)
        else:
            raise BadInput(f"file {path}: {suffix or 'no suffix'}: not CSV, TSV, TXT, JSONL, JSON or Parquet")
    except OSError as error:
        raise BadInput(f"file {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, LookupError) as error:
        raise BadInput(f"file {path}: can't be read as {source.encoding} ({error}); set source.encoding") from error


def _delimited(path: Path, encoding: str, delimiter: str) -> Iterator[Record]:
    with path.open(encoding=encoding, newline="") as file:
        try:
            for record in csv.DictReader(file, delimiter=delimiter):
                record.pop(None, None)
                yield record
        except csv.Error as error:
            raise BadInput(f"file {path}: not delimited by {delimiter!r}: {error}") from error


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
        except json.JSONDecodeError as error:
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
    except pa.ArrowInvalid as error:
        raise BadInput(f"file {path}: not Parquet: {error}") from error
