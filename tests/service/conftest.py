"""A replica in this process, on SQLite and on a PostgreSQL database of the tests' own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import Connection, Executable
from typer.testing import Result

from tests.service import live
from tribunal.service.replica.options import ServiceOptions
from tribunal.store import engine, table_versions
from tribunal.store.engine import Store, upgrade

POSTGRES = "TRIBUNAL_TEST_POSTGRES"


# All that the comparison of tables looks at, as text.
SHAPES = {
    "sqlite": "SELECT sql FROM sqlite_master ORDER BY name",
    "postgresql": """
        SELECT attrelid::regclass::text AS held, attname, format_type(atttypid, atttypmod), attnotnull,
            pg_get_expr(adbin, adrelid)
        FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (
            SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        )
        UNION ALL SELECT indexdef, '', '', false, '' FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL SELECT conrelid::regclass::text, pg_get_constraintdef(oid), '', false, ''
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        ORDER BY 1, 2
    """,
}
# Where there is a PostgreSQL, SQLite's half of these tests is played with the slow ones: CI has ten minutes.
_SQLITE = pytest.param("sqlite", marks=pytest.mark.slow) if os.environ.get(POSTGRES) else "sqlite"


@contextmanager
def new_postgres_database(server: str, template: str = "template1") -> Iterator[str]:
    """The name of a new one on a PostgreSQL server; it goes with the block."""
    name = f"tribunal_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield name
    finally:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def migrated_database() -> Iterator[str]:
    """A PostgreSQL database with its tables made, to be copied."""
    server = os.environ.get(POSTGRES)
    if not server:
        pytest.skip(
            f"no PostgreSQL: {POSTGRES} names none (such as postgresql://postgres@127.0.0.1:5432)"
        )
    with new_postgres_database(server) as name:
        upgrade(f"{server}/{name}")
        yield name


@pytest.fixture(params=[_SQLITE, "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address with its tables made."""
    if request.param == "sqlite":
        yield live.sqlite(tmp_path)
        return
    template, server = request.getfixturevalue("migrated_database"), os.environ[POSTGRES]
    with new_postgres_database(server, template) as name:
        yield f"{server}/{name}"


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """An address of a file with its tables made."""
    return live.sqlite(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def tables_compared_once() -> Iterator[None]:
    """Compare tables of one shape only once a process: that takes a tenth of a second, and every replica does it."""
    sound = set[str]()

    def check_tables(connection: Connection, shown: str) -> None:
        shape = str(connection.exec_driver_sql(SHAPES[connection.dialect.name]).fetchall())
        if shape not in sound:
            compare(connection, shown)
            sound.add(shape)

    compare = table_versions.check_tables
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "check_tables", check_tables)
        yield


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[Store]:
    """The store of a database, as whoever has the database sees it."""
    store = await Store.open(database)
    try:
        yield store
    finally:
        await store.close()


async def write(database: str, statement: Executable) -> None:
    """Change rows of a database, as time or whoever has the database does."""
    async with opened(database) as store, store.transaction() as connection:
        await connection.execute(statement)


def check_refusal(got: httpx.Response, status: int, words: str) -> None:
    """An answer has this status, and its text these words."""
    assert (got.status_code, words in got.text) == (status, True), got.text


def check_exit(done: Result, status: int, words: str) -> None:
    """A command ended in this status, and printed these words."""
    assert (done.exit_code, words in done.output) == (status, True), done.output


@asynccontextmanager
async def serving(database: str, **options: object) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a replica that is at work."""
    usual = {"database": database, "takeover": 3.0, "graceful": 5.0, "desk_undo": 0.0}
    app = live.make_app(ServiceOptions.model_validate({**usual, **options}))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=60
        ) as client:
            client.app = app  # type: ignore[attr-defined]
            yield client


async def get_json(
    client: httpx.AsyncClient, path: str, name: str | None = None, **more: Any
) -> Any:
    """Return the JSON of an answer, or what it has under a name."""
    answer = (await client.get(path, **more)).json()
    return answer if name is None else answer[name]


@pytest.fixture(scope="session")
def app_document() -> dict[str, Any]:
    """The OpenAPI document."""
    return live.with_routes(True).openapi()
