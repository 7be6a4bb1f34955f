"""Errors of a database: what they mean, and the line with the way out that a user reads."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError, TimeoutError

from tribunal.database import Unwritable, database_error
from tribunal.errors import BadInput
from tribunal.store.table_versions import DatabaseDamaged

_DISK_FULL = "53100"  # PostgreSQL's code
# What reading rows that somebody else has written into may come to, besides the database's own errors.
MISSHAPEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, AssertionError)


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
    return psycopg is not None and isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a disk is full: the database's, or one of this machine."""
    cause: Any = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) == _DISK_FULL or getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return True
    if (getattr(cause, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_FULL:
        return True
    return cause.__cause__ is not None and is_full(cause.__cause__)


def explain_error(error: BaseException) -> str:
    """Return how the log names an error: that a disk is full, or its type. Its message may quote a post."""
    return "the disk is full; make room" if is_full(error) else type(error).__name__


def is_broken(error: BaseException) -> bool:
    """Return whether an error is of the database: it is away, or damaged."""
    return is_away(error) or isinstance(error, SQLAlchemyError | sqlite3.Error | UnicodeError | DatabaseDamaged)


def database_problem(address: str, error: BaseException) -> BadInput:
    """Return the error that a user reads for one of a driver: a line with the way out."""
    if is_full(error):
        return DatabaseUnreachable(
            f"database: {address}: can't be written: {words_of(error)}; make room on the disk that holds it, then do "
            "the same again"
        )
    if address.startswith("postgresql") and not isinstance(error, MISSHAPEN):
        return DatabaseUnreachable(f"database: {address}: {words_of(error)}; see that it runs and takes this user")
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
    """Say in a line what is the matter with the database.

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
