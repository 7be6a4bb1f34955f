"""Statements that are carried out for every case: put into words once, and on SQLite handed to its driver.

SQLAlchemy takes ten times as long over each execution as SQLite does, and on the event loop (`on_loop`) everybody waits
meanwhile. PostgreSQL is another process, so there it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Insert, Select
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.schema import ScalarElementColumnDefault
from sqlalchemy.types import TypeEngine

from tribunal.schema import JSON

_DIALECT = sqlite.dialect(paramstyle="named")
_Form = Callable[[Any], Any]  # makes what the driver takes of a value, or a value of what it gives


class _Words(NamedTuple):
    """A statement as SQLite's driver takes it, with the parameters that are the same each time."""

    text: str
    fixed: JSON
    forms: list[tuple[str, _Form]]


class Prepared:
    """A statement of SQLAlchemy's whose parameters alone differ from time to time.

    Args:
        statement: an INSERT, UPDATE or DELETE whose values are parameters, or a SELECT.
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._words: dict[tuple[str, ...], _Words] = {}
        self._columns: list[tuple[str, _Form | None]] = []
        if isinstance(statement, Select):
            self._columns = [(column.name, _out(column.type)) for column in statement.selected_columns]

    async def write(self, connection: AsyncConnection, given: JSON) -> int:
        """Carry it out in a transaction; gives how many rows an UPDATE or DELETE found.

        Raises:
            SQLAlchemyError, sqlite3.Error: it can't be, as its driver says.
        """
        if not _on_sqlite(connection):
            return int((await connection.execute(self._statement, given)).rowcount)
        text, row = self._said(given)
        cursor = await driver_of(connection).execute(text, row)
        return int(cursor.rowcount)

    async def write_all(self, connection: AsyncConnection, given: Sequence[JSON]) -> None:
        """As `write`, for several rows that have the same columns; there may be none."""
        if not given:
            return
        if not _on_sqlite(connection):
            await connection.execute(self._statement, given)
            return
        said = [self._said(each) for each in given]
        await driver_of(connection).executemany(said[0][0], [row for _, row in said])

    async def read(self, connection: AsyncConnection, given: JSON | None = None) -> list[JSON]:
        """What a SELECT finds: rows by the names of their columns.

        Raises:
            SQLAlchemyError, sqlite3.Error: as `write`.
        """
        if not _on_sqlite(connection):
            return [dict(row) for row in (await connection.execute(self._statement, given or {})).mappings()]
        text, row = self._said(given or {})
        found = await driver_of(connection).execute_fetchall(text, row)
        return [
            {name: form(value) if form else value for (name, form), value in zip(self._columns, each, strict=True)}
            for each in found
        ]

    def _said(self, given: JSON) -> tuple[str, JSON]:
        names = tuple(given)
        if (words := self._words.get(names)) is None:
            words = self._words[names] = _words(self._statement, names)
        row = {**words.fixed, **given}
        for name, form in words.forms:
            row[name] = form(row[name])
        return words.text, row


def driver_of(connection: AsyncConnection) -> Any:
    """The driver's own connection, in the transaction of this one."""
    made: Any = connection.sync_connection
    return made.connection.driver_connection


def _on_sqlite(connection: AsyncConnection) -> bool:
    return connection.dialect.name == "sqlite"


def _words(statement: Any, names: tuple[str, ...]) -> _Words:
    keys = None if isinstance(statement, Select) else list(names)
    compiled: SQLCompiler = statement.compile(dialect=_DIALECT, column_keys=keys)
    fixed = {name: value for name, value in compiled.params.items() if name not in names}
    if isinstance(statement, Insert):
        defaults = {column.key: column.default for column in compiled.insert_prefetch if column.key not in names}
        fixed |= {
            name: default.arg for name, default in defaults.items() if isinstance(default, ScalarElementColumnDefault)
        }
    forms = [(name, form) for name, bound in compiled.binds.items() if (form := _in(bound.type)) and name in names]
    return _Words(str(compiled), fixed, forms)


def _in(kind: TypeEngine[Any]) -> _Form | None:
    return kind.dialect_impl(_DIALECT).bind_processor(_DIALECT)


def _out(kind: TypeEngine[Any]) -> _Form | None:
    return kind.dialect_impl(_DIALECT).result_processor(_DIALECT, None)
