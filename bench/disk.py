"""Measure the disk that a post takes in the service's database, on SQLite and on PostgreSQL, and in which tables."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg

from bench.scripts import court
from bench.server import server
from bench.service import SETTINGS, over_http, replica, timed
from bench.service_cost import databases
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

_POSTS = {"dismissed": "[[track=none]] Good morning!", "tried": "[[track=deep]] Good morning!"}
_IN_FLIGHT = 64
_SHOWN = 4  # tables that take the most


def disk(quick: bool) -> None:
    """Print the bytes that a dismissed post and one that is tried take, and the gigabytes of a million."""
    number = 512 if quick else 5000
    say(f"### Disk of a post in the service's database ({number:,} posts)\n", lines=True)
    rows = []
    for name, database, has_webhook in databases():
        if has_webhook:
            continue
        with database as address:
            rows += [_measured(name, address, kind, words, number) for kind, words in _POSTS.items()]
    table(("database", "a post", "bytes a post", "GB a million", "most of it (bytes a post)"), rows)


def _measured(name: str, address: str | None, kind: str, words: str, number: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder, server(0.0, court):
        settings = {**SETTINGS, "cache": f"{folder}/cache.sqlite"}
        with replica(address, **settings) as at:
            run_many(timed(_IN_FLIGHT, _IN_FLIGHT, over_http(at.url, _IN_FLIGHT), words))
            before = _sizes(address, at.folder)
            run_many(timed(number, _IN_FLIGHT, over_http(at.url, _IN_FLIGHT), words))
            after = _sizes(address, at.folder)
    grown = {each: (size - before.get(each, 0)) / number for each, size in after.items()}
    whole = sum(grown.values())
    most = sorted(grown.items(), key=lambda each: -each[1])[:_SHOWN]
    shown = ", ".join(f"{each} {size:,.0f}" for each, size in most)
    return name, kind, f"{whole:,.0f}", f"{whole / 1000:.1f}", shown


def _sizes(address: str | None, folder: Path) -> dict[str, int]:
    """Return the bytes of each table, its indexes included."""
    if address is not None:
        query = "SELECT relname, pg_total_relation_size(relid) FROM pg_catalog.pg_statio_user_tables"
        with psycopg.connect(address) as connection:
            return dict(connection.execute(query).fetchall())
    with closing(sqlite3.connect(folder / "service.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint")
        owner = "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY 1"
        try:
            return dict(connection.execute(owner).fetchall())
        except sqlite3.OperationalError:  # this SQLite can't tell tables apart
            pages, size = (connection.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "page_size"))
            return {"all": pages * size}
