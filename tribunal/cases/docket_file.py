"""The docket's file: its tables, and what is said where it isn't one or can't be written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tribunal.cases.lease import LEASES
from tribunal.database import DatabaseError, Unwritable, database_error
from tribunal.errors import BadInput
from tribunal.store.checkpoint_tables import IN_SQLITE

VERSION = 1
_APPLICATION = 0x54524243  # "TRBC", in the file's header: told apart from any other SQLite file
_TABLES = (
    "CREATE TABLE cases (thread TEXT PRIMARY KEY, graph TEXT NOT NULL, settings TEXT NOT NULL, given TEXT NOT NULL,"
    " opened REAL NOT NULL, status TEXT NOT NULL, post_id TEXT, reason TEXT, court TEXT, decided TEXT)",
    LEASES,
    *IN_SQLITE,
)
# What reading a file that somebody has written into may come to, besides SQLite's own errors.
_MISSHAPEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, AssertionError)


class DocketUnwritable(BadInput):
    """The docket can't be written, through no fault of its file: a full or lost disk, rights, another program."""


@contextmanager
def told(file: Path, reading: str = "") -> Iterator[None]:
    """Say in a line what is the matter with the docket.

    Args:
        file: the docket.
        reading: what is read from it; then whatever it is not fit for is told as well.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _said(file, database_error(file, error)) from error
    except DatabaseError as error:
        raise _said(file, error) from error
    except BadInput:
        raise
    except _MISSHAPEN as error:
        if not reading:
            raise
        raise _said(file, DatabaseError(f"{reading}: {type(error).__name__}: {error}")) from error


def _said(file: Path, error: DatabaseError) -> BadInput:
    why = str(error).removeprefix(f"{file}: ")
    if isinstance(error, Unwritable):
        return DocketUnwritable(
            f"cases: {file}: can't be written: {why}; make room, or see that you may write there and that no other "
            "program keeps it locked, or set TRIBUNAL_DATA to another folder"
        )
    return BadInput(
        f"cases: {file}: can't be used: it is no docket or is damaged: {why}; put back a copy, or move it away, or set "
        "TRIBUNAL_DATA to another folder"
    )


def make(file: Path, connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file.

    Raises:
        DatabaseError: it is something else than a docket of this version.
    """
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    held = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if not held and not application:
        for statement in (*_TABLES, f"PRAGMA application_id={_APPLICATION}", f"PRAGMA user_version={VERSION}"):
            connection.execute(statement)
        return
    if (application == _APPLICATION and version != VERSION) or any(
        each.startswith("CREATE TABLE claims") for each in held
    ):
        why = f"it is of another version of this program ({version}, and this one takes {VERSION})"
        raise DatabaseError(why)
    if application != _APPLICATION or held != set(_TABLES):
        raise DatabaseError("its tables are none of ours")
