"""The columns of every table that a run is exported as, which `columns.toml` declares."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from tribunal.text import parse_toml

Kind = Literal["text", "whole", "number", "yes/no"]
FIELD = "field_"  # begins the name of a column that is one of the data set's own fields


class ExportColumn(NamedTuple):
    """A column of a table: its name, its type, and what stands in it."""

    name: str
    kind: Kind
    says: str


@cache
def export_tables() -> dict[str, tuple[ExportColumn, ...]]:
    """Return the columns of each table, those of the key first."""
    declared = parse_toml(files(__package__).joinpath("columns.toml").read_text("utf-8"))
    key = declared.pop("key")
    return {
        table: tuple(ExportColumn(name, kind, says) for name, (kind, says) in (key | columns).items())
        for table, columns in declared.items()
    }


def schema_in_markdown() -> str:
    """Return every table with its columns, as docs/export.md holds them; a column of several tables stands once."""
    tables = export_tables()
    places = {
        column: [name for name, columns in tables.items() if column in columns]
        for columns in tables.values()
        for column in columns
    }
    rows = [
        f"{_as_row(column)} {'all' if len(names) == len(tables) else ', '.join(names)} |"
        for column, names in places.items()
        if len(names) > 1
    ]
    head = "### In several tables\n\n| column | type | what stands in it | tables |\n|---|---|---|---|\n"
    parts = [head + "\n".join(rows) + "\n"]
    for name, columns in tables.items():
        own = "\n".join(_as_row(column) for column in columns if len(places[column]) == 1)
        parts.append(f"### {name}\n\n| column | type | what stands in it |\n|---|---|---|\n{own}\n")
    return "\n".join(parts)


def _as_row(column: ExportColumn) -> str:
    return f"| `{column.name}` | {column.kind} | {column.says} |"
