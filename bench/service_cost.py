"""Measure what a dismissed post costs a replica, in processor time: on SQLite, on PostgreSQL, and with a webhook there.

The posts are the same one again and again and are answered by the cache, so what is counted is the service's own work.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from bench.scripts import court
from bench.server import server
from bench.service import SETTINGS, by_graph, over_http, p95, replica
from bench.table import table
from tribunal.process.loops import run_many
from tribunal.process.terminal import say

_DISMISSED = "[[track=none]] Good morning!"
_IN_FLIGHT = 64
_TICKS = os.sysconf("SC_CLK_TCK")


def service_cost(quick: bool) -> None:
    """Print a replica's processor time for a dismissed post, its webhooks included, and the 95th percentile."""
    number = 256 if quick else 4000
    say(
        f"### A dismissed post's cost to a replica ({_IN_FLIGHT} in flight, {number:,} posts)\n",
        lines=True,
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder, server(0.0, court):
        settings = {**SETTINGS, "cache": f"{folder}/cache.sqlite"}
        run_many(p95(_IN_FLIGHT, 1, by_graph(settings), _DISMISSED))
        began = time.process_time()
        seconds = run_many(p95(number, _IN_FLIGHT, by_graph(settings), _DISMISSED))
        rows.append(_row("nowhere: the graph alone", time.process_time() - began, number, seconds))
        for name, database, has_webhook in _databases():
            with (
                database as address,
                replica(address, **settings) as at,
                _webhook(address, at.folder, has_webhook) as url,
            ):
                run_many(p95(_IN_FLIGHT, _IN_FLIGHT, over_http(at.url, _IN_FLIGHT), _DISMISSED))
                taken, began = _count_taken(url), _processor_seconds(at.pid)
                seconds = run_many(
                    p95(number, _IN_FLIGHT, over_http(at.url, _IN_FLIGHT), _DISMISSED)
                )
                while url and _count_taken(url) < taken + number:
                    time.sleep(0.1)
                rows.append(_row(name, _processor_seconds(at.pid) - began, number, seconds))
    table(("where cases are kept", "processor time a post", "p95"), rows)


def _row(name: str, seconds: float, number: int, p95: float) -> tuple[str, str, str]:
    return name, f"{1000 * seconds / (number + _IN_FLIGHT):.1f} ms", f"{1000 * p95:.0f} ms"


def _databases() -> Iterator[tuple[str, contextlib.AbstractContextManager[str | None], bool]]:
    """Yield what is measured: its name, its database's address, and whether a webhook is told of each case."""
    yield "SQLite", contextlib.nullcontext(), False
    if server_address := os.environ.get("TRIBUNAL_TEST_POSTGRES"):
        yield "PostgreSQL", _new_database(server_address), False
        yield "PostgreSQL, with a webhook", _new_database(server_address), True
    else:
        say("TRIBUNAL_TEST_POSTGRES names no server: PostgreSQL is left out\n", lines=True)


@contextlib.contextmanager
def _new_database(server_address: str) -> Iterator[str]:
    name = f"bench_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(f"{server_address}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield make_url(server_address).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextlib.contextmanager
def _webhook(address: str | None, folder: Path, there: bool) -> Iterator[str]:
    """Yield the address of an endpoint that is told of each case, or nothing."""
    if not there:
        yield ""
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.receiver"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        command = [
            sys.executable,
            "-m",
            "tribunal",
            "service",
            "webhooks",
            "add",
            f"{url}/",
            "--http",
        ]
        environment = {
            **os.environ,
            "TRIBUNAL_DATA": str(folder),
            "TRIBUNAL_DATABASE": address or "",
        }
        subprocess.run(
            command,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        yield url
    finally:
        process.terminate()
        process.wait()


def _count_taken(url: str) -> int:
    """Return how many messages an endpoint has taken; without one, 0."""
    if not url:
        return 0
    with urllib.request.urlopen(f"{url}/taken") as answer:  # noqa: S310 (loopback)
        return int(json.load(answer))


def _processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken, in its own code and in the system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
