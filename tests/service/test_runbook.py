"""The runbook: each of its commands, literally from the page, against the real `tribunal serve`."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import httpx
import pytest

from tests.service.command import started
from tests.service.live import key_of
from tests.test_docs import DOCS

RUNBOOK = (
    Path(DOCS, "operating.md")
    .read_text("utf-8")
    .partition("\n## Runbook\n")[2]
    .partition("\n## ")[0]
)
SECTIONS = {
    part.partition("\n")[0]: re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    for part in RUNBOOK.split("\n### ")[1:]
}
TOOLS = {"SQLite": ("sqlite3",), "PostgreSQL": ("psql", "pg_dump", "pg_restore")}
GREETING = {"text": "Good morning!", "graph": "baseline"}


class Operator:
    """Whoever carries the page out: a shell with its variables."""

    def __init__(self, database: str, folder: Path, key: str, leaked: str) -> None:
        self.kind = "SQLite" if database.startswith("sqlite") else "PostgreSQL"
        self.backups = folder / "backups"
        self.backups.mkdir()
        self.variables = {
            "TRIBUNAL_DATABASE": database, "TRIBUNAL_DATA": str(folder), "BACKUPS": str(self.backups), "KEY": key,
            "LEAKED": leaked, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip

    async def carry_out(self, section: str, *, stopped: bool = False, url: str = "") -> str:
        """Carry out the blocks of a section that are meant for this database; return what they print."""
        told = ""
        for block in SECTIONS[section]:
            mark = block.partition("\n")[0].removeprefix("# ") if block.startswith("# ") else ""
            if (
                any(kind in mark for kind in TOOLS if kind != self.kind)
                or ("stopped" in mark) is not stopped
            ):
                continue
            process = await asyncio.create_subprocess_exec(
                "bash", "-euo", "pipefail", "-c", block,
                env={**os.environ, **self.variables, "URL": url}, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output, _ = await process.communicate()
            assert process.returncode == 0, f"{section}:\n{block}\n{output.decode()}"
            told += output.decode()
        return told


def test_every_block_of_the_page_is_carried_out() -> None:
    assert list(SECTIONS) == [
        "The model is away",
        "The disk is full",
        "A key has leaked",
        "An upgrade",
        "A restore",
    ]
    assert all(SECTIONS.values())
    marks = {
        block.partition("\n")[0]
        for blocks in SECTIONS.values()
        for block in blocks
        if block.startswith("#")
    }
    assert marks <= {
        "# SQLite",
        "# PostgreSQL",
        "# SQLite, stopped",
        "# PostgreSQL, stopped",
        "# stopped",
    }


async def judged(url: str, key: str) -> int:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return (
            await client.post("/v1/judge?wait=60", json=GREETING, headers={"X-API-Key": key})
        ).status_code


@pytest.mark.long
async def test_every_command_does_what_the_page_says(database: str, tmp_path: Path) -> None:
    key, shop = await key_of(database, "admin"), await key_of(database, "judge")
    operator = Operator(database, tmp_path, key, shop.split("_")[1])
    if missing := [each for each in TOOLS[operator.kind] if shutil.which(each) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    async with started(database) as service:
        assert await judged(service.url, shop) == 200
        told = await operator.carry_out("The model is away", url=service.url)
        assert '"ready":true' in told
        assert 'tribunal_cases{status="queued"} 0.0' in told
        assert "No cases match these filters." in told
        told = await operator.carry_out("The disk is full", url=service.url)
        assert "nothing was erased" in told, "none is a year old"
        told = await operator.carry_out("A key has leaked", url=service.url)
        [new] = re.findall(r"^tribunal_\S+$", told, re.MULTILINE)
        assert "key.rotated" in told
        assert [await judged(service.url, each) for each in (shop, new)] == [401, 200]
        assert '"ready":true' in await operator.carry_out("An upgrade", url=service.url)
        assert await judged(service.url, new) == 200, "after the backup"
    await operator.carry_out("The disk is full", stopped=True)
    told = await operator.carry_out("A restore", stopped=True)
    assert re.search(r"\b(whole|intact|unbroken|entries)\b", told), told
    async with (
        started(database) as service,
        httpx.AsyncClient(base_url=service.url, timeout=60) as client,
    ):
        cases = (await client.get("/v1/cases", headers={"X-API-Key": key})).json()["cases"]
        assert len(cases) == 2, "one before the rotation, one after, none after the backup"
        assert [await judged(service.url, each) for each in (shop, new)] == [401, 200]
