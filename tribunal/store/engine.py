"""A database by its address: opened, looked at, and brought up to date."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DisconnectionError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.dml import Insert

from tribunal.core.times import set_database_clock
from tribunal.errors import BadInput
from tribunal.plugins import require_extra
from tribunal.process.database import WAIT, check_sqlite_file, connect, set_write_ahead_mode
from tribunal.settings.environment import data_folder
from tribunal.store.checkpoint_tables import (
    VERSION_IN_POSTGRES,
    newest_in_postgres,
    upgrade_checkpoint_tables,
)
from tribunal.store.table_versions import (
    check_compatible,
    check_tables,
    create_tables,
    database_problem,
    database_problems,
    is_newer,
    read_version,
    run_migrations,
    words_of,
)
from tribunal.store.tables import VERSION, AdvisoryLock

_POOL = 16  # connections of a process that are open at once; on SQLite all but one only read
_ITS_TIME = text("SELECT extract(epoch FROM clock_timestamp())::float8")
# seconds in which a connection of PostgreSQL needs no look at whether it is there
_FRESH = 1.0
_USED = "tribunal.used"


class Store:
    """An open database of the service.

    Attributes:
        address: where it is, without its password.
        postgres: whether it is PostgreSQL.
        file: the SQLite file; None for any other.
    """

    def __init__(self, engine: AsyncEngine, reader: AsyncEngine | None = None) -> None:
        """Use `open`."""
        self._engine = engine
        self._reader = reader or engine
        # One query needs no BEGIN and no COMMIT.
        self._asked = (
            engine.execution_options(isolation_level="AUTOCOMMIT") if reader is None else reader
        )
        self.address = engine.url.render_as_string(hide_password=True)
        self.postgres = engine.dialect.name == "postgresql"
        held = engine.url.database
        self.file = Path(held) if not self.postgres and held else None

    @classmethod
    async def open(cls, address: str | None = None, *, make: bool | None = None) -> Store:
        """Open the store at an address: `postgresql://…`, `sqlite:///FILE`; None: the file in the data folder.

        With `make` its tables are brought up to date. None does so for SQLite only: a shared database is changed by
        `tribunal service migrate` and by nothing else.

        Raises:
            BadInput: the address is wrong, it can't be reached, or its tables are of an earlier release, or not as
                this one needs them.
        """
        # it reads `.env`, to find the data folder
        url = await asyncio.to_thread(_parse_address, address)
        postgres = url.get_backend_name() == "postgresql"
        reader = None
        # Parameters are hidden in errors: they are posts, records and secrets. Every transaction is ended by whoever
        # began it, so a connection that is given back need not be rolled back once more.
        common: dict[str, Any] = {
            "hide_parameters": True,
            "max_overflow": 0,
            "pool_reset_on_return": None,
        }
        if postgres:
            require_extra("database", "service")
            engine = create_async_engine(url, pool_size=_POOL, **common)
            _ping_the_idle(engine.sync_engine)
        else:
            await asyncio.to_thread(_prepare_file, Path(url.database))
            # One connection that writes: several would wait for each other's lock by sleeping, and not in turn. So a
            # transaction must not be begun within another.
            driver = {"timeout": WAIT, "isolation_level": None, "factory": _ReleasedOnClose}
            common |= {"connect_args": driver, "pool_timeout": WAIT}
            engine = create_async_engine(url, pool_size=1, **common)
            _set_pragmas(engine.sync_engine, "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON",
                         "secure_delete=ON")  # fmt: skip
            event.listen(engine.sync_engine, "begin", _begin_writing)
            reader = create_async_engine(url, pool_size=_POOL, **common)
            _set_pragmas(reader.sync_engine, "query_only=ON")
        store = cls(engine, reader)
        try:
            with database_problems(store.address, "its version"):
                await store._check_version(address, make=not postgres if make is None else make)
                await store.measure_clock()
        except BadInput:
            await store.close()
            raise
        return store

    async def _check_version(self, address: str | None, *, make: bool) -> None:
        version = await self.version()
        if version is not None and is_newer(version):
            await self.check_tables()
        elif version != VERSION:
            if version is None and not make:
                raise BadInput(
                    f"database: {self.address}: has no tables yet; run tribunal service migrate once"
                )
            if not make:
                raise BadInput(
                    f"database: {self.address}: its tables are of version {version}, and this program wants {VERSION}; "
                    "run tribunal service migrate, or the program that they are of"
                )
            await asyncio.to_thread(upgrade, address)
        if not self.postgres:
            return
        there = await self.fetch_value(text("SELECT to_regclass('checkpoint_migrations')"))
        held = await self.fetch_value(text(VERSION_IN_POSTGRES)) if there else None
        if held != newest_in_postgres():
            raise BadInput(
                f"database: {self.address}: its tables of checkpoints are of version {held}, and the installed "
                f"langgraph-checkpoint-postgres wants {newest_in_postgres()}; run tribunal service migrate"
            )

    async def check_tables(self) -> None:
        """Compare the tables with those that this program works on: a tenth of a second.

        Raises:
            BadInput: they differ, or are of a later release that this program can't work with.
        """
        async with self.reading() as connection:
            await connection.run_sync(check_compatible, self.address)
            await connection.run_sync(check_tables, self.address)

    async def measure_clock(self) -> None:
        """Set this process's clock by the database's (`database_now`). SQLite's is this machine's."""
        if not self.postgres:
            set_database_clock(None)
            return
        async with self._asked.connect() as connection:
            asked = time.monotonic()
            said = (await connection.execute(_ITS_TIME)).scalar_one()
            set_database_clock(float(said), asked, time.monotonic())

    async def version(self) -> str | None:
        """Return the version of its tables, or None if it has none."""
        async with self.reading() as connection:
            return await connection.run_sync(read_version)

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

    async def fetch_rows(self, query: Any) -> list[dict[str, Any]]:
        """Return the rows that a query selects, each by the names of its columns."""
        async with self._asked.connect() as connection:
            return [dict(row) for row in (await connection.execute(query)).mappings()]

    async def fetch_row(self, query: Any) -> dict[str, Any] | None:
        """Return the first row that a query selects, or None if there is none."""
        async with self._asked.connect() as connection:
            return await first_row(connection, query)

    async def fetch_value(self, query: Any) -> Any:
        """Return the first column of the first row that a query selects, or None if there is none."""
        async with self._asked.connect() as connection:
            return (await connection.execute(query)).scalar()

    def insert(self, table: Any) -> Any:
        """Return an INSERT that may say what to do on a conflict."""
        made: Insert = postgresql.insert(table) if self.postgres else sqlite.insert(table)
        return made


async def first_row(connection: AsyncConnection, statement: Any) -> dict[str, Any] | None:
    """Return the first row that a statement of a transaction gives, or None if it gives none."""
    row = (await connection.execute(statement)).mappings().first()
    return None if row is None else dict(row)


def _parse_address(address: str | None) -> Any:
    if address is None:
        return make_url(f"sqlite+aiosqlite:///{data_folder() / 'service.sqlite'}")
    try:
        url = make_url(address)
    except ArgumentError as error:
        raise BadInput(
            f"database: is no address ({words_of(error)}); write postgresql://user@host/name"
        ) from None
    kinds = {
        "postgresql": "postgresql+psycopg",
        "postgres": "postgresql+psycopg",
        "sqlite": "sqlite+aiosqlite",
    }
    kind = kinds.get(url.drivername.partition("+")[0])
    if kind is None:
        raise BadInput(
            f"database: {url.drivername}: is no kind that is known; they are postgresql and sqlite"
        )
    if kind.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise BadInput(f"database: {address}: names no file; write sqlite:///FILE")
    return url.set(drivername=kind)


def shown_address(address: str | None) -> str:
    """Return an address as it may be shown, without its password; None is the file in the data folder.

    Raises:
        BadInput: it is none.
    """
    shown: str = _parse_address(address).render_as_string(hide_password=True)
    return shown


def _prepare_file(file: Path) -> None:
    """Create a private SQLite file and folder, in write-ahead mode.

    Raises:
        BadInput: it can't be made, or is something else than a SQLite file.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_sqlite_file(file)  # before `touch`, which would wait for a pipe
        file.touch(mode=0o600, exist_ok=True)
        with closing(connect(file)) as connection:
            set_write_ahead_mode(connection)
    except (
        OSError,
        sqlite3.Error,
        UnicodeError,
    ) as error:  # the last: of what SQLite says of a damaged file
        raise database_problem(str(file), error) from None


def _ping_the_idle(engine: Engine) -> None:
    """Make a connection anew that was ended while nobody used it. One that was just used is taken to be there."""

    def note_use(connection: Any, record: Any) -> None:
        record.info[_USED] = time.monotonic()

    def ping(connection: Any, record: Any, proxy: Any) -> None:
        if time.monotonic() - record.info.get(_USED, -_FRESH) < _FRESH:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error:
            raise DisconnectionError from None  # and the pool tries another

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", ping)


class _ReleasedOnClose(sqlite3.Connection):
    """A connection that gives its locks up when it is closed.

    A cancelled task leaves a statement behind that isn't over, and SQLite keeps the lock for as long as there is one.
    """

    def close(self) -> None:
        """Undo the transaction that is open, then close."""
        if self.in_transaction:
            self.rollback()
        super().close()


def _set_pragmas(engine: Any, *pragmas: str) -> None:
    """Set these on every new connection of an engine."""

    def set_up(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    event.listen(engine, "connect", set_up)


def _begin_writing(connection: Connection) -> None:
    """Take SQLite's write lock at once: a transaction that reads first could not take it where another wrote since."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


# Migrations


def upgrade(address: str | None = None) -> str:
    """Make the tables, or bring them up to date, and return their version. Blocks: call it off the event loop.

    Raises:
        BadInput: as `Store.open`.
    """
    url = _parse_address(address)
    postgres = url.get_backend_name() == "postgresql"
    if postgres:
        require_extra("database", "service")
    shown = url.render_as_string(hide_password=True)
    if postgres:
        engine = create_engine(url)
    else:
        _prepare_file(Path(url.database))
        # All of it in one transaction, which others wait for, so that nobody ever finds a half.
        engine = create_engine(
            url.set(drivername="sqlite"), connect_args={"timeout": WAIT, "isolation_level": None}
        )
        event.listen(engine, "begin", _begin_writing)
    try:
        with database_problems(shown, "its version"), engine.begin() as connection:
            if postgres:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({AdvisoryLock.TABLES})"))
            version = read_version(connection)
            if version is None:
                create_tables(connection, shown)
            elif version != VERSION and not is_newer(version):
                run_migrations(connection, shown, version)
            # they have versions of their own, those of the installed library
            upgrade_checkpoint_tables(connection)
            check_compatible(connection, shown)
            check_tables(connection, shown)
    finally:
        engine.dispose()
    return version if version is not None and is_newer(version) else VERSION
