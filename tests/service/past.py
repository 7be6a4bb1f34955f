"""Databases as past releases left them: see past_tables/README.md."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.service.conftest import POSTGRES, new_postgres_database

DUMPS = Path(__file__).parent / "past_tables"
RELEASES = ("1bd20e1", "c2f2152", "724bcce", "3710f32", "c506773")  # by commit, the oldest first


@contextmanager
def past_database(release: str, kind: str, folder: Path) -> Iterator[str]:
    """The address of a database as this release left it; `kind` is sqlite or postgresql."""
    statements = (DUMPS / f"{release}.{kind}.sql").read_text("utf-8")
    if kind == "sqlite":
        file = folder / "service.sqlite"
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(statements)
        yield f"sqlite:///{file}"
        return
    server = os.environ.get(POSTGRES)
    if not server:
        pytest.skip(f"no PostgreSQL: {POSTGRES} names none")
    with new_postgres_database(server) as name:
        with psycopg.connect(f"{server}/{name}", autocommit=True) as connection:
            connection.execute("SET search_path = public")
            connection.execute(statements.encode())
        yield f"{server}/{name}"
