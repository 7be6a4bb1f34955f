"""A database by its address: opened, looked at, and brought up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from filelock import FileLock
from sqlalchemy import Connection, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.sql.dml import Insert

from tribunal.environment import data_folder
from tribunal.errors import BadInput

WAIT = 30.0  # seconds that one writer of a SQLite file waits for another
POOL = 20  # connections of a replica to PostgreSQL


class Store:
    """An open database of the service.

    Attributes:
        address: where it is, without its password.
        postgres: whether it is PostgreSQL.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        """Use `open`."""
        self._engine = engine
        self.address = engine.url.render_as_string(hide_password=True)
        self.postgres = engine.dialect.name == "postgresql"

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
        url = _url(address)
        postgres = url.get_backend_name() == "postgresql"
        if postgres:
            engine = create_async_engine(url, pool_size=POOL, max_overflow=POOL, pool_pre_ping=True)
        else:
            if url.database and url.database != ":memory:":
                await asyncio.to_thread(_own_folder, Path(url.database))
            engine = create_async_engine(url, connect_args={"timeout": WAIT})
            event.listen(engine.sync_engine, "connect", _in_write_ahead_mode)
        store = cls(engine)
        try:
            async with engine.connect() as connection:
                held = await connection.run_sync(_version)
            if held != newest():
                if make or (make is None and not postgres):
                    await asyncio.to_thread(upgrade, address)
                elif held is None:
                    raise BadInput(f"database: {store.address}: has no tables yet; run tribunal migrate once")
                else:
                    raise BadInput(
                        f"database: {store.address}: its tables are of version {held}, and this program wants "
                        f"{newest()}; run tribunal migrate, or the program that they are of"
                    )
        except (SQLAlchemyError, OSError) as error:
            await store.close()
            raise BadInput(f"database: {store.address}: {_said(error)}; see that it runs and takes this user") from None
        except BadInput:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose statements are done together or not at all."""
        async with self._engine.begin() as connection:
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
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
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
            with FileLock(f"{url.database}.migrating"):
                command.upgrade(_config(address), "head")
        else:
            command.upgrade(_config(address), "head")
    except (SQLAlchemyError, OSError) as error:
        shown = url.render_as_string(hide_password=True)
        raise BadInput(f"database: {shown}: {_said(error)}; see that it runs and takes this user") from None
    return newest()
