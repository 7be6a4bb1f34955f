"""Whether the process is alive, and whether it can take work: what a load balancer and an orchestrator ask."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text

from tests.service.conftest import POSTGRES, get_json, serving
from tests.service.live import key_of, listening
from tribunal.service.limits import LimitedConnection
from tribunal.store.engine import Store

READY: dict[str, Any] = {
    "ready": False,
    "trouble": None,
    "degraded": False,
    "clock_offset_s": None,
    "providers": {},
}


async def test_a_replica_says_that_it_is_alive_and_ready_and_wants_no_key_for_it(
    database: str,
) -> None:
    await key_of(database, "judge")
    async with serving(database) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
        assert (alive.status_code, alive.json()) == (200, {"alive": True})
        assert (ready.status_code, ready.json()) == (200, {**READY, "ready": True})
        assert (await client.get("/v1/cases")).status_code == 401


@pytest.mark.parametrize("change", [
    ("UPDATE alembic_version SET version_num = '0002'",),
    ("UPDATE alembic_version SET version_num = '9999'", "ALTER TABLE notes DROP COLUMN kind"),
])  # fmt: skip
async def test_tables_of_an_earlier_version_or_without_a_column_are_no_tables_to_work_on(
    database: str, change: tuple[str, ...]
) -> None:
    store = await Store.open(database)
    async with serving(database) as client:
        async with store.transaction() as connection:
            for statement in change:
                await connection.execute(text(statement))
        got = await client.get("/readyz")
        assert (got.status_code, got.json()) == (503, {**READY, "trouble": "tables"})
        assert (await client.get("/healthz")).status_code == 200
    await store.close()


@pytest.mark.skipif(not os.environ.get(POSTGRES), reason=f"no PostgreSQL: {POSTGRES} names none")
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_a_database_that_is_gone_makes_it_unready_and_leaves_it_alive(database: str) -> None:
    """And what it says tells nothing of the database."""
    server, _, name = database.rpartition("/")
    async with serving(database) as client:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
        got = await client.get("/readyz")
        assert got.status_code == 503
        assert got.json()["trouble"] in ("database", "queue")
        assert name not in got.text
        assert (await client.get("/healthz")).status_code == 200
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


async def test_nothing_brings_it_work(database: str) -> None:
    async with serving(database) as client:
        replica = client.app.state.replica  # type: ignore[attr-defined]
        replica.work_tasks[0].cancel()
        await asyncio.wait([replica.work_tasks[0]])
        assert await get_json(client, "/readyz", "trouble") == "queue"
        replica.work_tasks.pop(0)
        replica.last_heartbeat -= replica.options.takeover + 1
        assert await get_json(client, "/readyz", "trouble") == "no sign of life"


@pytest.mark.long
async def test_an_answer_is_sent_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head and its body go out as two pieces, and the second must not wait for the first one's acknowledgement."""
    without_delay: list[int] = []
    made = LimitedConnection.connection_made

    def looked_at(self: LimitedConnection, transport: asyncio.Transport) -> None:
        made(self, transport)
        held = transport.get_extra_info("socket")
        without_delay.append(held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(LimitedConnection, "connection_made", looked_at)
    async with (
        listening(f"sqlite:///{tmp_path / 'a.sqlite'}") as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
    assert without_delay == [1]
