"""The tables of a database: made, brought up to date, and compared with those that this program works on."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, inspect, text

from tribunal.errors import BadInput
from tribunal.store.tables import METADATA, VERSION, audit_head

# The earliest version whose programs can use the tables, too: raise it with a migration that does more than add.
COMPATIBLE_FROM = "0007"
# The table in which Alembic writes the version of the others; our column beside it says which programs can use them.
_VERSIONS, _COMPATIBLE_FROM = "alembic_version", "compatible_from"
# What of a difference counts. Whatever else is there, such as a table or a comment, is in nobody's way.
_WHAT_IS_WRONG = {
    "add_table": "table {table}: is missing",
    "add_column": "table {table}: column {name}: is missing",
    "remove_column": "table {table}: column {name}: is none of ours, and must be given",
    "modify_nullable": "table {table}: column {name}: must be given where it may be left out, or the other way round",
    "modify_type": "table {table}: column {name}: is of another type",
    "add_index": "table {table}: index {name}: is missing, or of other columns",
    "add_constraint": "table {table}: a constraint is missing",
    "add_fk": "table {table}: column {name}: refers to no other table, or otherwise than it should",
}


class DatabaseDamaged(BadInput):
    """A database that holds what none of ours does, wherever it was damaged."""


def is_newer(version: str) -> bool:
    """Return whether tables are of a later release, beside which this one goes on working as long as they allow it."""
    return version.isdecimal() and version > VERSION


def read_version(connection: Connection) -> str | None:
    """Return the version of the tables; None if there are none."""
    if not inspect(connection).has_table(_VERSIONS):
        return None
    version = connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar()  # noqa: S608
    return None if version is None else str(version)


def create_tables(connection: Connection, shown: str) -> None:
    """Make every table in an empty database.

    Raises:
        DatabaseDamaged: it isn't empty, and none of ours.
    """
    others = set() if connection.dialect.name == "postgresql" else set(inspect(connection).get_table_names())
    if others:
        raise DatabaseDamaged(
            f"database: {shown}: can't be used: it is none of ours: it holds the table {min(others)}; give another "
            "place, or set TRIBUNAL_DATA to another folder"
        )
    METADATA.create_all(connection)
    connection.execute(audit_head.insert().values(id=1, seq=0, previous="0" * 64, hash="0" * 64))
    connection.exec_driver_sql(f"CREATE TABLE {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    connection.exec_driver_sql(f"INSERT INTO {_VERSIONS} (version_num) VALUES ('{VERSION}')")  # noqa: S608
    _write_compatibility(connection)


def _write_compatibility(connection: Connection) -> None:
    """Write down which programs can use the tables, for replicas of earlier releases that still run."""
    if _COMPATIBLE_FROM not in [column["name"] for column in inspect(connection).get_columns(_VERSIONS)]:
        connection.exec_driver_sql(f"ALTER TABLE {_VERSIONS} ADD COLUMN {_COMPATIBLE_FROM} VARCHAR(32)")
    connection.exec_driver_sql(f"UPDATE {_VERSIONS} SET {_COMPATIBLE_FROM} = '{COMPATIBLE_FROM}'")  # noqa: S608


def run_migrations(connection: Connection, shown: str, version: str) -> None:
    """Bring older tables up to date.

    Raises:
        BadInput: no release made tables of this version, or a table can't be mended.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(files("tribunal.store") / "migrations"))
    config.attributes["connection"] = connection
    if version == "0001":  # several shapes were called so: it is run again, and mends what it finds
        connection.exec_driver_sql(f"DELETE FROM {_VERSIONS}")  # noqa: S608
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise BadInput(
            f"database: {shown}: its tables are of version {version}, and this program wants {VERSION}; take the "
            "program that they are of, or set TRIBUNAL_DATA to another folder"
        ) from None
    _write_compatibility(connection)


def check_compatible(connection: Connection, shown: str) -> None:
    """Check that tables of a later release say that this program can use them; most migrations only add.

    Raises:
        BadInput: they say that it can't.
    """
    names = [column["name"] for column in inspect(connection).get_columns(_VERSIONS)]
    if _COMPATIBLE_FROM not in names:  # of a release before 0008
        return
    lowest = connection.exec_driver_sql(f"SELECT {_COMPATIBLE_FROM} FROM {_VERSIONS}").scalar()  # noqa: S608
    if lowest is not None and is_newer(str(lowest)):
        raise BadInput(
            f"database: {shown}: its tables need a program of version {lowest} or later, and this one is of version "
            f"{VERSION}; install the new release"
        )


def check_tables(connection: Connection, shown: str) -> None:
    """Compare the tables with those that this program works on.

    Raises:
        DatabaseDamaged: they differ.
    """
    version = read_version(connection)
    later = version is not None and is_newer(version)
    if (difference := _find_difference(connection, later=later)) is not None:
        raise DatabaseDamaged(
            f"database: {shown}: {difference}; the tables were changed, or another program made them: "
            "put back a copy, or take the program that made them, or set TRIBUNAL_DATA to another folder"
        )


def _find_difference(connection: Connection, *, later: bool) -> str | None:
    """Return in what the tables aren't as this program wants them; None if they are.

    What is there besides is allowed, such as the columns of a later release: they have a value of their own or none.
    A `later` release may have changed an index: queries work without it, unless it keeps values unique.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    ours = {"include_name": lambda name, kind, _: kind != "table" or name in METADATA.tables, "compare_type": True}
    differences = compare_metadata(MigrationContext.configure(connection, opts=ours), METADATA)
    return next(_describe(differences, later=later), None)


def _describe(differences: list[Any], *, later: bool) -> Iterator[str]:
    for each in differences:
        for kind, *rest in each if isinstance(each, list) else [each]:
            if kind.startswith("modify_"):
                table, name = rest[1], rest[2]
            elif kind.endswith("_column"):
                table, column = rest[1], rest[2]
                name = column.name
                if kind == "remove_column" and (column.nullable or column.server_default is not None):
                    continue
            elif kind.endswith("_table"):
                table, name = rest[0].name, ""
            else:
                if later and kind == "add_index" and not rest[0].unique:
                    continue
                table = rest[0].table.name
                name = next(iter(rest[0].column_keys)) if kind == "add_fk" else str(rest[0].name)
            if kind in _WHAT_IS_WRONG:
                yield _WHAT_IS_WRONG[kind].format(table=table, name=name)
