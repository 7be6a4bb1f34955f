"""A database by its address: opened, looked at, and brought up to date."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock
from sqlalchemy import Connection, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.dml import Insert

from tribunal.database import set_write_ahead_mode
from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.store.checkpoint_tables import VERSION_IN_POSTGRES, newest_in_postgres

WAIT = 30.0  # seconds that one writer of a SQLite file waits for another
POOL = 16  # connections of a replica that are open at once; on SQLite all but one only read


class Unreachable(BadInput):
    """A database that may be there again in a moment: it doesn't answer, is locked, or can't be written."""


class Store:
    """An open database of the service.

    Attributes:
        address: where it is, without its password.
        postgres: whether it is PostgreSQL.
        file: the SQLite file; None for any other.
    """

    def __init__(self, engine: AsyncEngine, reader: AsyncEngine | None = None) -> None:
        """Use `open`."""
        self._engine, self._reader = engine, reader or engine
        self.address = engine.url.render_as_string(hide_password=True)
        self.postgres = engine.dialect.name == "postgresql"
        held = engine.url.database
        self.file = Path(held) if not self.postgres and held else None

    @classmethod
    async def open(cls, address: str | None = None, *, make: bool | None = None) -> Store:
        """The store at an address.

        Args:
            address: `postgresql://…`, `sqlite:///FILE`, or None for `service.sqlite` in the data folder.
            make: bring its tables up to date. None does so for SQLite only: a shared database is changed by
                `tribunal migrate` and by nothing else.

        Raises:
            BadInput: the address is wrong, it can't be reached, or its tables are of another version.
        """
        url, wanted = await asyncio.to_thread(lambda: (_url(address), newest()))
        postgres = url.get_backend_name() == "postgresql"
        reader = None
        # Parameters are hidden in errors: they are posts, records and secrets. Every transaction is ended by whoever
        # began it, so a connection that is given back need not be rolled back once more.
        common: dict[str, Any] = {"hide_parameters": True, "max_overflow": 0, "pool_reset_on_return": None}
        if postgres:
            engine = create_async_engine(url, pool_size=POOL, pool_pre_ping=True, **common)
        else:
            try:
                await asyncio.to_thread(_own_folder, Path(url.database))
            except OSError as error:
                why = error.strerror or type(error).__name__
                raise Unreachable(f"database: {url.database}: can't be made: {why}; give another place") from None
            # One connection that writes: several would wait for each other's lock by sleeping, and not in turn. So a
            # transaction must not be begun within another.
            driver = {"timeout": WAIT, "isolation_level": None, "factory": _ReleasedOnClose}
            common |= {"connect_args": driver, "pool_timeout": WAIT}
            engine = create_async_engine(url, pool_size=1, **common)
            event.listen(engine.sync_engine, "connect", _set_up_writer)
            event.listen(engine.sync_engine, "begin", _begin_writing)
            reader = create_async_engine(url, pool_size=POOL, **common)
            event.listen(reader.sync_engine, "connect", _set_up_reader)
        store = cls(engine, reader)
        try:
            held = await store.version()
            if held != wanted:
                if make or (make is None and not postgres):
                    await asyncio.to_thread(upgrade, address)
                elif held is None:
                    raise BadInput(f"database: {store.address}: has no tables yet; run tribunal migrate once")
                else:
                    raise BadInput(
                        f"database: {store.address}: its tables are of version {held}, and this program wants "
                        f"{wanted}; run tribunal migrate, or the program that they are of"
                    )
            if postgres:
                await store._check_checkpoints()
        except (SQLAlchemyError, OSError) as error:
            await store.close()
            raise Unreachable(
                f"database: {store.address}: {_said(error)}; see that it runs and takes this user"
            ) from None
        except BadInput:
            await store.close()
            raise
        return store

    async def _check_checkpoints(self) -> None:
        async with self._engine.connect() as connection:
            there = await connection.scalar(text("SELECT to_regclass('checkpoint_migrations')"))
            held = await connection.scalar(text(VERSION_IN_POSTGRES)) if there else None
        if held != newest_in_postgres():
            raise BadInput(
                f"database: {self.address}: its tables of checkpoints are of version {held}, and the installed "
                f"langgraph-checkpoint-postgres wants {newest_in_postgres()}; run tribunal migrate"
            )

    async def version(self) -> str | None:
        """Return the version of its tables, or None if it has none."""
        async with self.reading() as connection:
            return await connection.run_sync(_version)

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()
        await self._reader.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection whose statements are done together or not at all.

        On SQLite it is the only writer from its beginning: every other one waits, in this process and in others.
        """
        async with self._engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection that writes nothing: it holds nobody up, however long it takes."""
        async with self._reader.begin() as connection:
            yield connection

    def insert(self, table: Any) -> Any:
        """An INSERT that may say what to do on a conflict."""
        made: Insert = postgresql.insert(table) if self.postgres else sqlite.insert(table)
        return made


def _url(address: str | None) -> Any:
    if address is None:
        return make_url(f"sqlite+aiosqlite:///{data_folder() / 'service.sqlite'}")
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise BadInput(f"database: is no address ({_said(error)}); write postgresql://user@host/name") from None
    kinds = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite+aiosqlite"}
    if (kind := kinds.get(url.drivername.partition("+")[0])) is None:
        raise BadInput(f"database: {url.drivername}: is no kind that is known; they are postgresql and sqlite")
    if kind.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise BadInput(f"database: {address}: names no file; write sqlite:///FILE")
    return url.set(drivername=kind)


def _own_folder(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.touch(mode=0o600, exist_ok=True)


class _ReleasedOnClose(sqlite3.Connection):
    """A connection that gives its locks up when it is closed.

    A cancelled task leaves a statement behind that isn't over, and SQLite keeps the lock for as long as there is one.
    """

    def close(self) -> None:
        """Undo the transaction that is open, then close."""
        if self.in_transaction:
            self.rollback()
        super().close()


def _set_up_writer(connection: Any, _: object) -> None:
    _set_pragmas(connection, "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON")


def _set_up_reader(connection: Any, _: object) -> None:
    _set_pragmas(connection, "query_only=ON")


def _set_pragmas(connection: Any, *pragmas: str) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_writing(connection: Connection) -> None:
    """Take SQLite's write lock at once: a transaction that reads first could not take it where another wrote since."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _said(error: Exception) -> str:
    """What a driver says, on one line; SQLAlchemy's own words repeat the statement and point at the web."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]


# Migrations


def _config(address: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("tribunal.store") / "migrations"))
    config.attributes["url"] = _url(address)
    return config


@cache
def newest() -> str:
    """The version of the tables that this program works on."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(address: str | None = None) -> str:
    """Bring the tables up to date; gives their version. Blocks: call it off the event loop.

    Raises:
        BadInput: as `Store.open`.
    """
    url = _url(address)
    try:
        if url.get_backend_name() == "sqlite":  # PostgreSQL has a lock of its own for this
            with FileLock(f"{url.database}.migrating", mode=0o600):
                with closing(sqlite3.connect(url.database, timeout=WAIT)) as file:
                    set_write_ahead_mode(file)
                command.upgrade(_config(address), "head")
        else:
            command.upgrade(_config(address), "head")
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        shown = url.render_as_string(hide_password=True)
        raise Unreachable(f"database: {shown}: {_said(error)}; see that it runs and takes this user") from None
    return newest()
