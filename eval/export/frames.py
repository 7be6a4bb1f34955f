"""A run, or several, as flat tables: Parquet or CSV, a file each. Results are read one at a time, and none is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal

from tribunal.errors import BadInput
from tribunal.eval.export.posts_of_run import words_by_post
from tribunal.eval.export.results import (
    FIELD,
    ExportColumn,
    ExportedRun,
    Kind,
    export_tables,
    read_exported,
    rows_of_result,
)
from tribunal.eval.runs.tables import escape_formula
from tribunal.exports.table_files import ColumnKind, TableWriter
from tribunal.files import write_atomically
from tribunal.runner.results import read_results

Form = Literal["parquet", "csv"]
_KINDS: dict[Kind, ColumnKind] = {"text": "text", "whole": "integer", "number": "number", "yes/no": "flag"}
_MOST_FIELDS = 200


def write_frames(
    runs: Sequence[ExportedRun],
    out: Path,
    form: Form,
    *,
    alone: Path | None = None,
    named: Mapping[str, Path] | None = None,
) -> dict[Path, int]:
    """Write a file for each table, whole; a file of that name is replaced.

    Args:
        runs: whose rows they hold.
        out: the folder, made if it isn't there.
        form: parquet: columns have the types of `schema`; csv: as text, with a quotation mark before what a
            spreadsheet would take for a formula.
        alone: the data set of every run, whose texts are laid beside it.
        named: data sets by name.

    Returns:
        How many rows each file holds.

    Raises:
        BadInput: a run's results are broken, the data isn't theirs, or the files can't be written.
    """
    columns = export_tables()
    columns = {**columns, "posts": (*columns["posts"], *_dataset_columns(runs))}
    counts = {out / f"{name}.{form}": 0 for name in columns}
    paths = dict(zip(columns, counts, strict=True))
    try:
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            tables = {}
            for name, each in columns.items():
                file = stack.enter_context(write_atomically(paths[name]))
                writer = TableWriter(form, {column.name: _KINDS[column.kind] for column in each}, file)
                tables[name] = stack.enter_context(closing(writer))
            for source in runs:
                for exported in read_exported(source, words_by_post(source.run, alone, named or {}, source.folder)):
                    for name, row in rows_of_result(exported, source.prices):
                        cells = {each.name: _cell_value(each.kind, row.get(each.name), form) for each in columns[name]}
                        tables[name].add(cells)
                        counts[paths[name]] += 1
    except OSError as error:
        raise BadInput(f"out: {out}: can't be written: {error.strerror or error}; take another folder") from error
    return counts


def _cell_value(kind: Kind, value: Any, form: Form) -> Any:
    """Return a value as it is written; one of a column of text that holds several is JSON."""
    if value is None:
        return None
    if kind == "text":
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return escape_formula(text) if form == "csv" else text
    if kind == "yes/no" and form == "csv":
        return "true" if value else "false"
    return float(value) if kind == "number" else value


def _dataset_columns(runs: Sequence[ExportedRun]) -> list[ExportColumn]:
    """Return a column for each of the sets' own fields, of the one kind that all of its values are, else text.

    Raises:
        BadInput: there are too many to be columns.
    """
    kinds: dict[str, set[Kind]] = {}
    for source in runs:
        for _, result in read_results(source.folder):
            for name, value in result.fields.items():
                kinds.setdefault(name, set()).update([] if value is None else [_kind_of_value(value)])
    if len(kinds) > _MOST_FIELDS:
        raise BadInput(f"{runs[0].folder}: its posts have {len(kinds)} fields, over the {_MOST_FIELDS} that are taken")
    return [ExportColumn(f"{FIELD}{name}", _common_kind(each), "of the data set") for name, each in kinds.items()]


def _kind_of_value(value: Any) -> Kind:
    if isinstance(value, bool):
        return "yes/no"
    if isinstance(value, int):
        return "whole" if abs(value) < 2**63 else "text"
    return "number" if isinstance(value, float) else "text"


def _common_kind(kinds: set[Kind]) -> Kind:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds == {"whole", "number"} else "text"
