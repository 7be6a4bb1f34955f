"""A file system that is really full, under the service and under `batch`: what the runbook says of it comes true."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.commands.test_run_faults import ANSWER, process
from tests.court import court_script
from tests.doubles import Fault, Reply, Request, ScriptedServer
from tests.service.command import started
from tests.service.conftest import get_json
from tests.service.live import key_of
from tests.service.test_runbook import TOOLS, Operator
from tribunal.commands import app
from tribunal.store.engine import upgrade

pytestmark = pytest.mark.long


class SmallDisk:
    """A file system of a few megabytes, with a file that may leave no room on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._filler = folder, folder / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as filler:
            for piece in (bytes(4096), bytes(1)):
                with suppress(OSError):
                    while filler.write(piece):
                        pass

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """One that is the data folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("a file system of its own can't be mounted here: mount -t tmpfs is root's")
    monkeypatch.setenv("TRIBUNAL_DATA", str(folder))
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_what_the_service_has_decided_waits_for_room_and_is_written_once(
    disk: SmallDisk,
) -> None:
    if missing := [each for each in TOOLS["SQLite"] if shutil.which(each) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    database = f"sqlite:///{disk.folder / 'service.sqlite'}"
    upgrade(database)
    key = await key_of(database, "admin")
    operator, court, may_answer = (
        Operator(database, disk.folder, key, ""),
        court_script(),
        asyncio.Event(),
    )

    async def script(request: Request) -> Reply | Fault:
        await may_answer.wait()
        answer: Reply | Fault = court(request)
        return answer

    async with ScriptedServer(script) as server:
        told = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "",
            "TRIBUNAL_MODEL": "openai:scripted",
        }
        async with started(database, **told, TRIBUNAL_DATA=str(disk.folder)) as service:
            client = service.client
            client.headers["X-API-Key"] = key
            posts = [
                {"text": f"Good morning, number {each}!", "graph": "baseline"} for each in range(4)
            ]
            taken = [
                (await client.post("/v1/judge", json=each)).headers["location"]
                for each in posts[:3]
            ]
            while len(server.requests) < len(taken):
                await asyncio.sleep(0.05)
            disk.fill()
            refused = await client.post("/v1/judge", json=posts[3])
            assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "unavailable")
            may_answer.set()
            while service.stderr().count("asked again: database or disk is full") < len(taken):
                await asyncio.sleep(0.05)
            assert {await get_json(client, each, "status") for each in taken} == {"running"}
            told_off = await asyncio.to_thread(
                CliRunner().invoke, app, ["service", "keys", "add", "shop", "--scope", "judge"]
            )
            assert (told_off.exit_code, told_off.stderr.count("\n")) == (2, 1)
            assert "can't be written: database or disk is full; make room" in told_off.stderr
            disk.make_room()
            assert (await client.post("/v1/judge?wait=60", json=posts[3])).json()[
                "outcome"
            ] == "verdict"
            while {await get_json(client, each, "status") for each in taken} != {"done"}:
                await asyncio.sleep(0.1)
            assert "nothing was erased" in await operator.carry_out(
                "The disk is full", url=service.url
            )
            listed = await get_json(client, "/v1/cases", "cases")
            assert [each["record"]["outcome"] for each in listed] == ["verdict"] * len(posts)
            assert len(server.requests) == len(posts), "no model is asked twice"
    await operator.carry_out("The disk is full", stopped=True)
    verified = await asyncio.create_subprocess_exec(
        "tribunal", "audit", "verify", env=os.environ | operator.variables
    )
    assert await verified.wait() == 0


async def test_a_batch_stops_with_a_line_and_goes_on_once_there_is_room(disk: SmallDisk) -> None:
    rows, at_once = 40, 4
    (disk.folder / "posts.csv").write_text(
        "id,text\n" + "".join(f"p{each},word-{each}.\n" for each in range(rows))
    )
    command = ["batch", "posts.csv", "--out", "out.jsonl", "--graph", "baseline", "--model", "openai:scripted",
               "--keep", "--concurrency", str(at_once)]  # fmt: skip

    def script(request: Request) -> Reply | Fault:
        if request.index == rows // 2:
            disk.fill()
        return ANSWER

    async with ScriptedServer(script) as server:
        for _ in range(2):
            stopped = await asyncio.to_thread(
                process, disk.folder, server, command, subprocess.PIPE
            )
            warning, line = stopped.stderr.splitlines()
            assert (stopped.returncode, "not saved to the database" in warning) == (1, True)
            assert "a result could not be written: " in line
            assert "Make room; " in line
            assert line.endswith("Run the same command again to go on")
        disk.make_room()
        done = await asyncio.to_thread(process, disk.folder, server, command, subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    decided = [
        json.loads(each)["post_id"]
        for each in (disk.folder / "out.jsonl").read_text("utf-8").splitlines()
    ]
    assert decided == [f"p{each}" for each in range(rows)]
    assert len(server.requests) <= rows + 2 * 2 * at_once, (
        "only what was in flight is decided again"
    )
