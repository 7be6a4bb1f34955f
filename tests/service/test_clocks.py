"""Replicas on machines whose clocks differ or jump: the database's clock counts, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import re
import shutil
import struct
import subprocess
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Double, func, select

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.openai_server import OpenAIServer
from tests.service.command import Service, started
from tests.service.conftest import get_json, opened, serving
from tests.service.live import key_of
from tests.service.test_service import ended
from tribunal.core import times as clock
from tribunal.store.tables import METADATA

ROOT = Path(__file__).parents[2]
POSTS = 24
# In which rows are dated, or compared with the time.
ROOMS = [
    "service",
    *(f"tribunal/{room}" for room in ("runner", "docket", "review", "explanations", "store")),
]
# What dates no row: a run that waits for a server, a page's own date, an exam of a model that is in no table, and a
# migration that was released.
OTHERS = {
    "outage.py",
    "transparency.py",
    "statements.py",
    "author_letter.py",
    "model_exam.py",
    "0001_the_first_tables.py",
}


def test_rows_are_dated_by_the_clock_of_the_database_alone() -> None:
    files = [
        file for room in ROOMS for file in (ROOT / room).rglob("*.py") if file.name not in OTHERS
    ]
    assert len(files) > 80
    own = [
        str(each.relative_to(ROOT))
        for each in files
        if re.search(r"time\.time\(|datetime\.now\(", each.read_text())
    ]
    assert own == [], "use tribunal.core.times"


@pytest.mark.parametrize(
    ("said", "asked", "answered", "ahead"),
    [
        (1000.0, 10.0, 10.2, 989.9),  # the middle of asking and being answered
        (7000.0, 10.0, 10.2, 6989.9),
        (1000.5, 10.0, 12.0, 990.0),  # a slow answer that fits the clock before leaves it
        (1003.0, 10.0, 12.0, 992.0),
    ],
)
def test_the_clock_follows_the_database(
    monkeypatch: pytest.MonkeyPatch, said: float, asked: float, answered: float, ahead: float
) -> None:
    monkeypatch.setattr(clock, "CLOCK", clock.DatabaseClock())
    if answered == 12.0:
        clock.set_database_clock(990.0, 0.0, 0.0)
    clock.set_database_clock(said, asked, answered)
    assert clock.database_now() - time.monotonic() == pytest.approx(ahead, abs=0.05)
    clock.set_database_clock(None)
    assert clock.database_now() == pytest.approx(time.time(), abs=0.05)


@pytest.mark.parametrize("seconds", [50.0, 7200.0, -7200.0])
async def test_every_row_is_dated_by_the_database(
    database: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.startswith("sqlite"):
        pytest.skip("SQLite has the clock of the machine")
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + seconds)
    begin = true_time()
    headers = {"X-API-Key": await key_of(database, "admin")}
    options: dict[str, Any] = {
        "graph": "arcade",
        "settings": {"model": "rehearsal"},
        "webhook_timeout": 1.0,
    }
    async with serving(database, **options) as client:
        client.headers.update(headers)
        got = await client.post(
            "/v1/judge?wait=60", json={"text": "Good morning!"}, headers={"Idempotency-Key": "a"}
        )
        assert got.json()["outcome"] == "verdict"
        case = got.headers["tribunal-case"]
        await client.post(f"/v1/cases/{case}/appeal", json={"appellant": "a", "reason": "b"})
        rows: dict[str, Any] = {
            "content": '{"text": "Good morning!"}\n',
            "headers": {"Content-Type": "application/x-ndjson"},
        }
        batch = (await client.post("/v1/batches", **rows)).headers["location"]
        while (await get_json(client, batch))["finished"] is None:
            await asyncio.sleep(0.05)
        ready = await get_json(client, "/readyz")
        assert (ready["ready"], ready["clock_offset_s"]) == (True, pytest.approx(seconds, abs=1.0))
        kept = await dates(database)
    assert {
        "cases.created",
        "cases.finished",
        "replicas.seen",
        "api_keys.created",
        "audit.at",
    } <= kept.keys()
    ahead = {"cases.deadline": 90_000.0}  # that the operator lets a case be held
    wrong = {
        name: (first - begin, last - begin)
        for name, (first, last) in kept.items()
        if not begin - 5 <= first <= last <= true_time() + 5 + ahead.get(name, 0.0)
    }
    assert wrong == {}


async def dates(database: str) -> dict[str, tuple[float, float]]:
    """The first and the last date of each column that holds dates."""
    found = {}
    async with opened(database) as store:
        for table in METADATA.sorted_tables:
            for column in table.c:
                if isinstance(column.type, Double) and column.name not in (
                    "money",
                    "probability",
                    "confidence",
                ):
                    row = await store.fetch_row(
                        select(func.min(column).label("first"), func.max(column).label("last"))
                    )
                    assert row is not None
                    if row["last"] and row["last"] > 1e9:
                        found[f"{table.name}.{column.name}"] = row["first"], row["last"]
    return found


async def test_a_clock_that_jumps_loses_nothing_on_one_machine(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_time, offset = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true_time() + offset[0])
    async with (
        ScriptedServer(court_script(), latency=0.1) as server,
        serving(database, graph="baseline", settings={"model": "openai:scripted"}) as client,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        locations = []
        for number, jump in enumerate([0.0, 7200.0, -7200.0, 50.0]):
            offset[0] = jump
            for each in range(3):
                got = await client.post(
                    "/v1/judge", json={"text": f"Good morning, {number}-{each}!"}
                )
                locations.append(got.headers["location"])
        done = [await ended(client, each) for each in locations]
        assert {each["record"]["outcome"] for each in done} == {"verdict"}
        assert len(server.requests) == len(locations)


@pytest.mark.parametrize("jump", [50.0, 7200.0, -7200.0])
async def test_after_a_jump_a_replica_takes_no_case_from_one_that_lives(
    sqlite: str, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_time, offset, answer = time.time, [0.0], asyncio.Event()
    monkeypatch.setattr(time, "time", lambda: true_time() + offset[0])

    async def script(request: Any) -> Any:
        await answer.wait()
        return {"category": "NotHate", "explanation": "words", "confidence": 0.9}

    options: dict[str, Any] = {"graph": "baseline", "settings": {"model": "openai:scripted"}}
    async with (
        OpenAIServer(script) as server,
        serving(sqlite, **options) as first,
        serving(sqlite, **options) as second,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        location = (await first.post("/v1/judge", json={"text": "Good morning!"})).headers[
            "location"
        ]
        while not server.requests:
            await asyncio.sleep(0.02)
        other = second.app.state.replica  # type: ignore[attr-defined]
        await other.take_up_free_cases()
        offset[0] = jump
        assert await other.take_up_free_cases() == 0
        answer.set()
        await ended(first, location)
        row = await other.case_store.case(location.rpartition("/")[2])
    assert (row["outcome"], row["attempt"], len(server.requests)) == ("verdict", 1, 1)


# Machines of their own


@pytest.fixture(scope="session")
def other_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that gives a process another clock."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc), which makes another clock")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("other_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def _set_clock(file: Path, seconds: int) -> None:
    with file.open("r+b" if file.exists() else "wb") as held:
        held.write(struct.pack("q", seconds))


@pytest.mark.long
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("offsets", "jumps"),
    [
        ((0, 50, 0), ()),
        ((0, 7200, -7200), ()),
        ((0, 0, 0), (7200, -7200, 50)),
        ((50, -7200, 7200), (0, 7200, -50)),
    ],
    ids=["ahead", "hours", "jumps", "all"],
)
async def test_replicas_with_other_clocks_lose_nothing_and_do_nothing_twice(
    database: str,
    offsets: tuple[int, ...],
    jumps: tuple[int, ...],
    other_clock: Path,
    tmp_path: Path,
) -> None:
    key = await key_of(database, "admin", daily_calls=4 * POSTS)
    async with ScriptedServer(court_script(), latency=0.4) as server, AsyncExitStack() as stack:
        told = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        replicas: list[Service] = []
        clocks = [tmp_path / f"clock-{number}" for number in range(len(offsets))]
        for file, seconds in zip(clocks, offsets, strict=True):
            _set_clock(file, seconds)
            own = {"LD_PRELOAD": str(other_clock), "CLOCK_OFFSET_FILE": str(file)}
            options = (
                "--graph",
                "baseline",
                "--takeover",
                "20",
                "--in-flight",
                "2",
                "--case-calls",
                "1",
            )
            replicas.append(
                await stack.enter_async_context(started(database, *options, **told, **own))
            )
        for each in replicas:
            each.client.headers["X-API-Key"] = key
        for each, seconds in zip(replicas, offsets, strict=True):
            offset = (await get_json(each.client, "/readyz"))["clock_offset_s"]
            assert offset == (None if not seconds else pytest.approx(seconds, abs=1.0))
            assert ("clock of this machine" in each.stderr()) is bool(seconds)
        taken: list[str] = []
        for number in range(POSTS):
            if jumps and number and number % 6 == 0:
                _jump(clocks, jumps, number // 6)
            client = replicas[number % len(replicas)].client
            got = await client.post("/v1/judge", json={"text": f"Good morning, number {number}!"})
            assert got.status_code == 202, got.text
            taken.append(got.headers["location"])
            await asyncio.sleep(0.05)
        done = [await ended(replicas[0].client, each) for each in taken]
        async with opened(database) as store:
            attempts = await store.fetch_rows(select(METADATA.tables["cases"].c.attempt))
        assert {(each["status"], each["record"]["outcome"]) for each in done} == {
            ("done", "verdict")
        }
        assert {row["attempt"] for row in attempts} == {1}, "no replica was thought dead"
        assert len(server.requests) == POSTS
        usage = await get_json(replicas[-1].client, "/v1/usage")
    assert [(each["spent"]["calls"], each["day"]) for each in usage["days"]] == [
        (POSTS, f"{datetime.now(UTC):%Y-%m-%d}")
    ]


def _jump(clocks: list[Path], jumps: tuple[int, ...], number: int) -> None:
    for place, file in enumerate(clocks):
        _set_clock(file, jumps[(place + number) % len(jumps)])
