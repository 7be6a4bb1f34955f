"""A replica in this process, on SQLite and on a PostgreSQL database of the tests' own."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tribunal.service.app import create_app
from tribunal.service.replica.options import ServiceOptions
from tribunal.store.engine import Store, upgrade

POSTGRES = "TRIBUNAL_TEST_POSTGRES"


# Where there is a PostgreSQL, SQLite's half of these tests is played with the slow ones: CI has ten minutes.
_SQLITE = pytest.param("sqlite", marks=pytest.mark.slow) if os.environ.get(POSTGRES) else "sqlite"


@pytest.fixture(params=[_SQLITE, "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address with its tables made."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'service.sqlite'}"
        upgrade(address)
        yield address
        return
    server = os.environ.get(POSTGRES)
    if not server:
        pytest.skip(f"no PostgreSQL: {POSTGRES} names none (such as postgresql://postgres@127.0.0.1:5432)")
    name = f"tribunal_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        upgrade(f"{server}/{name}")
        yield f"{server}/{name}"
    finally:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """An address of a file that isn't there yet."""
    return f"sqlite:///{tmp_path / 'service.sqlite'}"


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[Store]:
    """The store of a database, as whoever has the database sees it."""
    store = await Store.open(database)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def serving(database: str, **options: object) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a replica that is at work."""
    app = create_app(ServiceOptions.model_validate({"database": database, "takeover": 3.0, "graceful": 5.0, **options}))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://tribunal", timeout=60) as client:
            client.app = app  # type: ignore[attr-defined]
            yield client


@pytest.fixture(scope="session")
def app_document() -> dict[str, Any]:
    """The OpenAPI document."""
    return create_app(ServiceOptions()).openapi()
