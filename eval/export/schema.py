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
    """Return every table with its columns, as docs/export.md holds them; those of the key stand in the first alone."""
    parts, seen = [], set[ExportColumn]()
    for name, columns in export_tables().items():
        rows = "\n".join(f"| `{each.name}` | {each.kind} | {each.says} |" for each in columns if each not in seen)
        parts.append(f"### {name}\n\n| column | type | what stands in it |\n|---|---|---|\n{rows}\n")
        seen = seen or set(columns[:3])
    return "\n".join(parts)
