"""Tables of every past release are brought up to date with all that is in them; what differs is told in a line."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, text
from typer.testing import CliRunner

from tests.service.conftest import get_json, opened, serving
from tests.service.live import key_of
from tests.service.past import RELEASES, past_database
from tribunal.errors import BadInput
from tribunal.store.engine import upgrade
from tribunal.store.migrations.first_tables import FIRST
from tribunal.store.tables import METADATA, VERSION

KINDS = ("sqlite", "postgresql")
# A migration that was released is never changed: another one follows it.
FROZEN = {
    "first_tables.py": "33091550f74697be",
    "versions/0001_the_first_tables.py": "f693a7b2fe5b6ed5",
    "versions/0002_words_of_waiting_cases.py": "3e0df88f28e5827c",
}


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def rows_of(address: str) -> dict[str, int]:
    """How many rows each table has that every release knows by this name."""
    with connected(address) as connection:
        there = set(inspect(connection).get_table_names()) & METADATA.tables.keys()
        counted = {
            name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar()
            for name in there
        }
        return {name: number for name, number in counted.items() if number}


def records_of(address: str) -> dict[str, Any]:
    with connected(address) as connection:
        return {
            row.id: (row.outcome, str(row.record))
            for row in connection.execute(text("SELECT * FROM cases"))
        }


async def _is_brought_up_to_date(release: str, kind: str, folder: Path) -> None:
    with past_database(release, kind, folder) as address:
        rows, records = rows_of(address), records_of(address)
        assert len(records) >= 5
        told = await asyncio.to_thread(
            CliRunner().invoke, _app(), ["service", "migrate", "--database", address]
        )
        assert (told.exit_code, told.stdout) == (0, f"database tables: version {VERSION}\n"), (
            told.output
        )
        # the first two releases had no audit log, which begins with its cases
        entries = rows.get("audit", len(records))
        assert rows_of(address) == {**rows, "audit": entries, "audit_head": 1}
        assert records_of(address) == records
        headers = {"X-API-Key": await key_of(address, "judge", "review", "audit")}
        async with serving(address, settings={"model": "rehearsal"}) as client:
            client.headers.update(headers)
            ready = await get_json(client, "/readyz")
            assert (ready["ready"], ready["trouble"]) == (True, None)
            got = await client.post(
                "/v1/judge?wait=60", json={"text": "Good morning!", "post_id": "t-1"}
            )
            assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
            listed = await get_json(client, "/v1/cases?limit=200", "cases")
            assert {each["id"] for each in listed} == records.keys() | {
                got.headers["tribunal-case"]
            }
            for each in listed:
                assert (await client.get(f"/v1/cases/{each['id']}")).status_code == 200
                # The first two releases kept no question with a case that a person had to decide.
                if (each["record"] or {}).get("outcome") == "pending" and release not in RELEASES[
                    :2
                ]:
                    said = {"action": "accept", "reviewer": "kim", "note": "I agree."}
                    done = await client.post(f"/v1/cases/{each['id']}/decision", json=said)
                    assert (done.status_code, done.json()["outcome"]) == (200, "verdict"), done.text
            found = await get_json(client, "/v1/cases?post_id=post-2", "cases")
            assert len(found) == 1
        told = await asyncio.to_thread(
            CliRunner().invoke, _app(), ["audit", "verify", "--database", address]
        )
        assert told.exit_code == 0, told.output


def _app() -> Any:
    from tribunal.commands import app

    return app


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES)
async def test_a_filled_database_of_every_past_release_goes_on(
    release: str, kind: str, tmp_path: Path
) -> None:
    await _is_brought_up_to_date(release, kind, tmp_path)


async def test_tables_that_say_0001_and_have_an_older_shape_are_mended(tmp_path: Path) -> None:
    with past_database("1bd20e1", "sqlite", tmp_path) as address:
        before = records_of(address)
        upgrade(address)
        assert records_of(address) == before
        async with opened(address) as store:
            await store.check_tables()


@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.long)])
def test_rows_that_no_release_wrote_are_refused_and_stay(kind: str, tmp_path: Path) -> None:
    with past_database("1bd20e1", kind, tmp_path) as address:
        with connected(address) as connection:
            connection.execute(text("INSERT INTO batches VALUES ('b', 1, NULL, 'n', 0, '[]')"))
        before = rows_of(address)
        told = CliRunner().invoke(_app(), ["service", "migrate", "--database", address])
        assert told.exit_code == 2
        assert told.stderr.count("\n") == 1
        assert (
            "can't be brought up to date: no release wrote rows of batches without status; delete "
            in told.stderr
        )
        assert rows_of(address) == before


# What migrations make


def shape(connection: Connection) -> dict[str, Any]:
    """Tables as they are: columns, keys, references and indexes, in no order."""
    seen = inspect(connection)
    return {
        name: {
            "columns": {
                each["name"]: (str(each["type"]), each["nullable"], each["default"])
                for each in seen.get_columns(name)
            },
            "key": seen.get_pk_constraint(name)["constrained_columns"],
            "unique": sorted(
                str(each["column_names"]) for each in seen.get_unique_constraints(name)
            ),
            "references": sorted(
                (str(each["constrained_columns"]), each["referred_table"], str(each["options"]))
                for each in seen.get_foreign_keys(name)
            ),
            "indexes": {
                each["name"]: (
                    each["column_names"],
                    bool(each["unique"]),
                    sorted(
                        f"{name}: {value}"
                        for name, value in each.get("dialect_options", {}).items()
                    ),
                )
                for each in seen.get_indexes(name)
            },
        }
        for name in METADATA.tables
    }


def test_migrations_from_the_first_on_make_the_tables_that_a_new_database_has(
    database: str,
) -> None:
    with connected(database) as connection:
        new = shape(connection)
        for table in reversed(METADATA.sorted_tables):
            table.drop(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    upgrade(database)
    with connected(database) as connection:
        assert shape(connection) == new


def test_a_released_migration_is_never_changed() -> None:
    folder = files("tribunal.store") / "migrations"
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:16] for name in FROZEN}
    assert found == FROZEN, "write a migration of your own after it"


def test_what_a_migration_adds_can_be_left_out_by_the_release_before() -> None:
    """Replicas of the release before go on writing rows beside those of this one."""
    for name, before in FIRST.tables.items():
        for column in METADATA.tables[name].c:
            if column.name not in before.c:
                assert column.nullable or column.server_default is not None, f"{name}.{column.name}"
        assert set(METADATA.tables[name].c.keys()) >= set(before.c.keys())


# Tables that were changed by hand


async def test_a_changed_table_is_told_in_a_line_by_migrate_and_serve(database: str) -> None:
    with connected(database) as connection:
        connection.execute(text("ALTER TABLE notes DROP COLUMN kind"))
    told = await asyncio.to_thread(
        CliRunner().invoke, _app(), ["service", "migrate", "--database", database]
    )
    assert told.exit_code == 2
    assert "table notes: column kind: is missing; " in told.stderr
    assert told.stderr.count("\n") == 1
    with pytest.raises(BadInput, match=r"table notes: column kind: is missing; .*put back a copy"):
        async with serving(database):
            pass


@pytest.mark.parametrize(
    ("migration", "compatible_from", "works"),
    [
        ("ALTER TABLE cases ADD COLUMN later TEXT", VERSION, True),
        ("ALTER TABLE cases ADD COLUMN later TEXT", "0001", True),
        ("ALTER TABLE cases ADD COLUMN later TEXT", None, True),
        ("CREATE TABLE later (id TEXT PRIMARY KEY)", VERSION, True),
        ("DROP INDEX cases_that_wait", VERSION, True),
        ("ALTER TABLE cases ADD COLUMN later TEXT", "9998", False),
        ("ALTER TABLE cases ADD COLUMN later TEXT", "9999", False),
        ("ALTER TABLE notes DROP COLUMN kind", VERSION, False),
        ("ALTER TABLE notes RENAME COLUMN kind TO type", VERSION, False),
    ],
)
async def test_a_replica_stays_ready_beside_the_next_release_if_its_tables_allow_it(
    database: str, migration: str, compatible_from: str | None, *, works: bool
) -> None:
    async with serving(database, settings={"model": "rehearsal"}) as client:
        with connected(database) as connection:
            connection.execute(text(migration))
            said = {"lowest": compatible_from}
            connection.execute(
                text("UPDATE alembic_version SET version_num = '9999', compatible_from = :lowest"),
                said,
            )
        got = await client.get("/readyz")
        assert (got.status_code, got.json()["trouble"]) == (
            (200, None) if works else (503, "tables")
        )
        if works:
            assert (
                await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
            ).status_code == 200
    if works:
        async with serving(database) as client:
            assert (await client.get("/readyz")).status_code == 200
    else:
        with pytest.raises(BadInput, match=r"database: "):
            async with opened(database):
                pass


async def test_tables_of_a_later_release_that_only_add_are_worked_on(database: str) -> None:
    """So a replica goes on, and may be started, beside those of the next release."""
    async with serving(database, settings={"model": "rehearsal"}) as client:
        with connected(database) as connection:
            connection.execute(text("ALTER TABLE cases ADD COLUMN later TEXT"))
            connection.execute(
                text("ALTER TABLE notes ADD COLUMN later INTEGER NOT NULL DEFAULT 0")
            )
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        ready = await get_json(client, "/readyz")
        assert (ready["ready"], ready["trouble"]) == (True, None)
        assert (
            await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
        ).status_code == 200
    async with serving(database) as client:
        assert (await client.get("/readyz")).status_code == 200
    assert upgrade(database) == "9999"
    with connected(database) as connection:
        connection.execute(text("ALTER TABLE notes DROP COLUMN kind"))
    with pytest.raises(BadInput, match="table notes: column kind: is missing"):
        async with opened(database):
            pass
