"""The versions of the tables, the docket of an earlier release, and what a broken database is told as."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError, TimeoutError

from tribunal.errors import BadInput
from tribunal.process.database import Unwritable, check_sqlite_file, connect, database_error
from tribunal.store.tables import METADATA, VERSION, audit_head

# The earliest version whose programs can use the tables, too: raise it with a migration that does more than add.
COMPATIBLE_FROM = "0007"
# The table in which Alembic writes the version of the others; our column beside it says which programs can use them.
_VERSIONS = "alembic_version"
_COMPATIBLE_FROM = "compatible_from"
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
    """Return whether the tables are of a later release that this program can use."""
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
    others = (
        set()
        if connection.dialect.name == "postgresql"
        else set(inspect(connection).get_table_names())
    )
    if others:
        raise DatabaseDamaged(
            f"database: {shown}: can't be used: it is none of ours: it holds the table {min(others)}; give another "
            "place, or set TRIBUNAL_DATA to another folder"
        )
    METADATA.create_all(connection)
    connection.execute(audit_head.insert().values(id=1, seq=0, previous="0" * 64, hash="0" * 64))
    connection.exec_driver_sql(
        f"CREATE TABLE {_VERSIONS} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    )
    connection.exec_driver_sql(f"INSERT INTO {_VERSIONS} (version_num) VALUES ('{VERSION}')")  # noqa: S608
    _write_compatibility(connection)


def _write_compatibility(connection: Connection) -> None:
    """Write down which programs can use the tables, for replicas of earlier releases that still run."""
    if _COMPATIBLE_FROM not in [
        column["name"] for column in inspect(connection).get_columns(_VERSIONS)
    ]:
        connection.exec_driver_sql(
            f"ALTER TABLE {_VERSIONS} ADD COLUMN {_COMPATIBLE_FROM} VARCHAR(32)"
        )
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
    difference = _find_difference(connection, later=later)
    if difference is not None:
        raise DatabaseDamaged(
            f"database: {shown}: {difference}; the tables were changed, or another program made them: "
            "put back a copy, or take the program that made them, or set TRIBUNAL_DATA to another folder"
        )


def _find_difference(connection: Connection, *, later: bool) -> str | None:
    """Return how the tables differ from this program's; None if they don't.

    What is there besides is allowed, such as the columns of a later release: they have a value of their own or none.
    A `later` release may have changed an index: queries work without it, unless it keeps values unique.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    ours = {
        "include_name": lambda name, kind, _: kind != "table" or name in METADATA.tables,
        "compare_type": True,
    }
    differences = compare_metadata(MigrationContext.configure(connection, opts=ours), METADATA)
    return next(_describe(differences, later=later), None)


def _describe(differences: list[Any], *, later: bool) -> Iterator[str]:
    for each in differences:
        for kind, *rest in each if isinstance(each, list) else [each]:
            if kind.startswith("modify_"):
                table = rest[1]
                name = rest[2]
            elif kind.endswith("_column"):
                table = rest[1]
                column = rest[2]
                name = column.name
                if kind == "remove_column" and (
                    column.nullable or column.server_default is not None
                ):
                    continue
            elif kind.endswith("_table"):
                table = rest[0].name
                name = ""
            else:
                if later and kind == "add_index" and not rest[0].unique:
                    continue
                table = rest[0].table.name
                name = next(iter(rest[0].column_keys)) if kind == "add_fk" else str(rest[0].name)
            if kind in _WHAT_IS_WRONG:
                yield _WHAT_IS_WRONG[kind].format(table=table, name=name)


_DISK_FULL = "53100"  # PostgreSQL's code
# What reading rows that somebody else has written into may come to, besides the database's own errors.
MISSHAPEN = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
)


class DatabaseUnreachable(BadInput):
    """A database that may be there again in a moment: it doesn't answer, is locked, or can't be written."""


def words_of(error: BaseException) -> str:
    """Return what a driver says, on one line; SQLAlchemy's own words repeat the statement and point at the web."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]


def is_away(error: BaseException) -> bool:
    """Return whether an error says that the database can't be reached or written now, through no fault of its own."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error | OSError):
        return isinstance(database_error(Path(), cause), Unwritable)
    if isinstance(error, OperationalError | InterfaceError | TimeoutError | DatabaseUnreachable):
        return True
    psycopg: Any = sys.modules.get("psycopg")
    return psycopg is not None and isinstance(
        cause, psycopg.OperationalError | psycopg.InterfaceError
    )


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a disk is full: the database's, or one of this machine."""
    cause: Any = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) == _DISK_FULL or getattr(cause, "errno", None) in (
        errno.ENOSPC,
        errno.EDQUOT,
    ):
        return True
    if (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_FULL:
        return True
    return cause.__cause__ is not None and is_full(cause.__cause__)


def explain_error(error: BaseException) -> str:
    """Return how the log names an error: that a disk is full, or its type. Its message may quote a post."""
    return "the disk is full; make room" if is_full(error) else type(error).__name__


def is_broken(error: BaseException) -> bool:
    """Return whether an error is of the database: it is away, or damaged."""
    return is_away(error) or isinstance(
        error, SQLAlchemyError | sqlite3.Error | UnicodeError | DatabaseDamaged
    )


def database_problem(address: str, error: BaseException) -> BadInput:
    """Return the error that a user reads for one of a driver: a line with the way out."""
    if is_full(error):
        return DatabaseUnreachable(
            f"database: {address}: can't be written: {words_of(error)}; make room on the disk that holds it, then do "
            "the same again"
        )
    if address.startswith("postgresql") and not isinstance(error, MISSHAPEN):
        return DatabaseUnreachable(
            f"database: {address}: {words_of(error)}; see that it runs and takes this user"
        )
    if is_away(error):
        return DatabaseUnreachable(
            f"database: {address}: can't be written: {words_of(error)}; make room, or see that you may write there "
            "and that no other program keeps it locked, or set TRIBUNAL_DATA to another folder"
        )
    return DatabaseDamaged(
        f"database: {address}: can't be used: it is damaged or none of ours: {words_of(error)}; put back a copy, or "
        "move it away, or set TRIBUNAL_DATA to another folder"
    )


@contextmanager
def database_problems(address: str, reading: str = "") -> Iterator[None]:
    """Describe the database's problem in one line.

    With what is read from it (`reading`), whatever can't be read is told as well.

    Raises:
        BadInput: it can't be reached, written or read.
    """
    try:
        yield
    except (BadInput, BrokenPipeError):  # the second: of what is printed meanwhile
        raise
    except Exception as error:
        told: BaseException = error
        if isinstance(error, MISSHAPEN) and reading:
            told = ValueError(f"{reading}: {type(error).__name__}: {error}")
        elif not is_broken(error) and not isinstance(error, OSError):
            raise
        raise database_problem(address, told) from error


# "TRBC", by which it is told apart from any other SQLite file, and its version
_HEADER = (
    0x54524243,
    1,
)
# Each as one that was cut off. A case whose record was kept, too, is there already.
_COPY_CASES = """
INSERT INTO cases (id, created, status, attempt, attempts_before, owner, graph, settings, keep, via, post_id, post)
SELECT thread, CAST(opened AS REAL), 'running', 1, 0, 'the docket of an earlier release', graph, json(settings), true,
    'command', post_id, json(given)
FROM old.cases WHERE status <> 'erased'
ON CONFLICT (id) DO UPDATE SET status = excluded.status, owner = excluded.owner, attempt = excluded.attempt,
    post = excluded.post, settings = excluded.settings, graph = excluded.graph, finished = NULL, erased = NULL,
    words = cases.erased IS NULL
WHERE cases.outcome = 'pending' AND cases.question IS NULL
RETURNING id
"""


def copy_old_cases(file: Path, database: Path) -> list[str]:
    """Copy the cases of the file into the database, with their checkpoints, and return the ids of those that are new.

    Raises:
        DatabaseDamaged: the file is damaged, none of ours, or of another version; in a line with the way out.
    """
    try:
        check_sqlite_file(file)
        with closing(connect(database, "mode=rw")) as connection:
            connection.execute("ATTACH ? AS old", (f"{file.absolute().as_uri()}?mode=rw",))
            header = (
                connection.execute(f"PRAGMA old.{name}")
                for name in ("application_id", "user_version")
            )
            if tuple(each.fetchone()[0] for each in header) != _HEADER:
                raise ValueError("it is no docket of the release before this one")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                copied = connection.execute(_COPY_CASES).fetchall()
                for table in (
                    "checkpoints",
                    "writes",
                ):  # as LangGraph's own saver has them, in both files
                    copy = f"INSERT OR REPLACE INTO {table} SELECT * FROM old.{table} WHERE thread_id = ?"  # noqa: S608
                    connection.executemany(copy, copied)
            return [thread for (thread,) in copied]
    except (sqlite3.Error, OSError, ValueError) as error:
        if not file.exists():
            return []  # another process has just brought them in
        raise DatabaseDamaged(
            f"cases: {file}: the docket of an earlier release can't be taken over: {error}; put back a copy, or move "
            "it away, or set TRIBUNAL_DATA to another folder"
        ) from error
