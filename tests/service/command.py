"""The real `tribunal serve`, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tribunal.core.text import parse_json

LISTENING = re.compile(r"listening on (http://[\w.\[\]:]+)")


class Service:
    """A running one. Attributes: `process`, `url`, `client`."""

    def __init__(self, process: asyncio.subprocess.Process, said: Path) -> None:
        self.process, self._said = process, said
        self._at_the_end: str | None = None
        self.killed = False
        self.url = ""
        self.client: httpx.AsyncClient

    def stderr(self) -> str:
        """What it has said so far."""
        return self._said.read_text() if self._at_the_end is None else self._at_the_end

    def ended(self) -> None:
        """Keep what it has said; its file goes."""
        self._at_the_end = self.stderr()

    def log(self) -> list[dict[str, Any]]:
        """The lines of its log: all that it writes, from the first one on."""
        return [parse_json(line) for line in self.stderr().splitlines()]

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.killed = self.killed or number == signal.SIGKILL
        self.process.send_signal(number)


@cache
def _compiled() -> tempfile.TemporaryDirectory[str]:
    """Where the processes of these tests share what they compile, where Python was told to leave nothing behind: to
    compile it all at each start takes ten seconds."""
    return tempfile.TemporaryDirectory()


@asynccontextmanager
async def started(database: str, *options: str, **environment: str) -> AsyncIterator[Service]:
    """One that listens. When the block ends it is told to stop, and ends well, unless it was killed."""
    shared = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": _compiled().name}
    compiled = shared if sys.dont_write_bytecode else {}
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TRIBUNAL_SERVE_"))
    }
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "stderr"
        with said.open("w") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "tribunal",
                    "serve",
                    "--port",
                    "0",
                    "--database",
                    database,
                    *options,
                ),
                env={
                    **kept,
                    **compiled,
                    "TRIBUNAL_MODEL": "",
                    "TRIBUNAL_DATA": folder,
                    **environment,
                },
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
            )
        service = Service(process, said)
        try:
            while not (found := LISTENING.search(service.stderr())):
                assert process.returncode is None, service.stderr()
                await asyncio.sleep(0.05)
            service.url = found[1]
            async with httpx.AsyncClient(base_url=service.url, timeout=60) as service.client:
                await service.client.get("/healthz")
                yield service
            if process.returncode is None:
                service.signal()
            assert await asyncio.wait_for(process.wait(), 60) == 0 or service.killed, (
                service.stderr()
            )
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            service.ended()
