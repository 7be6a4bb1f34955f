"""A database by its address: opened, looked at, and brought up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
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
from sqlalchemy.exc import TimeoutError as TimedOut
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.dml import Insert

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.store.checkpoint_tables import VERSION_IN_POSTGRES, newest_in_postgres
from tribunal.store.on_loop import connect

WAIT = 30.0  # seconds that one writer of a SQLite file waits for another
POOL = 16  # connections of a replica to PostgreSQL; its transactions are short


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
        self._held: AsyncConnection | None = None  # on SQLite, between two transactions
        self._turn = asyncio.Lock()
        self.address = engine.url.render_as_string(hide_password=True)
        self.postgres = engine.dialect.name == "postgresql"
        held = engine.url.database
        self.file = Path(held) if not self.postgres and held and held != ":memory:" else None

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
            if url.database and url.database != ":memory:":
                try:
                    await asyncio.to_thread(_own_folder, Path(url.database))
                except OSError as error:
                    why = error.strerror or type(error).__name__
                    raise Unreachable(f"database: {url.database}: can't be made: {why}; give another place") from None
            # One connection: several would wait for each other's lock by sleeping, and not in turn. So a transaction
            # must not be begun within another.
            file = url.database or ":memory:"
            engine = create_async_engine(url, async_creator=lambda: connect(file, WAIT), pool_size=1, **common)
            event.listen(engine.sync_engine, "connect", _in_write_ahead_mode)
            if url.database and url.database != ":memory:":
                reader = create_async_engine(url, pool_size=2, **common)
                event.listen(reader.sync_engine, "connect", _reading_only)
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
        """Of its tables; None where it has none."""
        async with self.transaction() as connection:
            return await connection.run_sync(_version)

    async def close(self) -> None:
        async with self._turn:
            if self._held is not None:
                await self._held.close()
                self._held = None
        await self._engine.dispose()
        await self._reader.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose statements are done together or not at all. On SQLite everybody else waits meanwhile."""
        if self.postgres:
            async with self._engine.begin() as connection:
                yield connection
            return
        # The one connection is kept at hand: to ask the pool for it costs more than most transactions do.
        try:
            async with asyncio.timeout(WAIT) if self._turn.locked() else nullcontext():
                await self._turn.acquire()
        except TimeoutError:
            raise TimedOut(f"the transaction before it didn't end within {WAIT:g} seconds") from None
        try:
            held, self._held = self._held or await self._engine.connect(), None
            try:
                async with held.begin():
                    yield held
            except BaseException:
                await asyncio.shield(held.close())
                raise
            self._held = held
        finally:
            self._turn.release()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for what reads much and writes nothing: it holds nobody up, however long it takes."""
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
    return url.set(drivername=kind)


def _own_folder(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.touch(mode=0o600, exist_ok=True)


def _in_write_ahead_mode(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _reading_only(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={int(1000 * WAIT)}", "query_only=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


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
                command.upgrade(_config(address), "head")
        else:
            command.upgrade(_config(address), "head")
    except (SQLAlchemyError, OSError) as error:
        shown = url.render_as_string(hide_password=True)
        raise Unreachable(f"database: {shown}: {_said(error)}; see that it runs and takes this user") from None
    return newest()
