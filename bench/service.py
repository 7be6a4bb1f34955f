"""A `tribunal serve` in a process of its own, and what sends posts to it and times them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import numpy as np

SETTINGS = {"model": "openai:scripted"}
_LISTENING = re.compile(r"listening on (http://[\w.:\[\]]+)")
Decide = Callable[[str], Awaitable[None]]
Decider = Callable[[], contextlib.AbstractAsyncContextManager[Decide]]


@dataclass(frozen=True)
class Replica:
    """A running `tribunal serve`: its address, its process's number, and its data folder."""

    url: str
    pid: int
    folder: Path


def by_graph(settings: Mapping[str, str] = MappingProxyType(SETTINGS)) -> Decider:
    """Return what opens a decider that runs the graph here, without the service."""
    from tribunal.docket.graph_run import run_graph
    from tribunal.docket.records import graph_input
    from tribunal.graphs import graph
    from tribunal.settings.context import context_from

    compiled = graph("arcade")

    @contextlib.asynccontextmanager
    async def alone() -> AsyncIterator[Decide]:
        context = context_from(dict(settings))

        async def decide(text: str) -> None:
            # With a config it is LangGraph that runs it, as in the service, whose cases have checkpoints.
            state = await run_graph(
                compiled, "arcade", await graph_input(text), None, None, context=context
            )
            if state["outcome"]["outcome"] != "verdict":
                raise RuntimeError(
                    f"the benchmark's court failed: {state['outcome']['explanation']}"
                )

        yield decide

    return alone


def over_http(url: str, in_flight: int) -> Decider:
    """Return what opens a decider that asks the service, by as many connections as are in flight."""

    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[Decide]:
        async with aiohttp.ClientSession(
            url, connector=aiohttp.TCPConnector(limit=in_flight)
        ) as client:

            async def decide(text: str) -> None:
                async with client.post("/v1/judge?wait=60", json={"text": text}) as answer:
                    if answer.status != 200:
                        raise RuntimeError(
                            f"the service answered {answer.status}: {await answer.text()}"
                        )
                    await answer.read()

            yield decide

    return served


async def p95(number: int, in_flight: int, decider: Decider, text: str) -> float:
    """Return the 95th percentile of the seconds that a post takes; the same post is sent again and again.

    The first `in_flight` posts are a warm-up and are not counted.
    """
    waiting = iter([text] * (in_flight + number))
    seconds: list[float] = []

    async with decider() as decide:
        await decide(text)

        async def seat() -> None:
            for post in waiting:
                began = time.perf_counter()
                await decide(post)
                seconds.append(time.perf_counter() - began)

        await asyncio.gather(*(seat() for _ in range(in_flight)))
    return float(np.percentile(seconds[in_flight:], 95))


@contextlib.contextmanager
def replica(
    database: str | None = None, graph: str = "arcade", **settings: str
) -> Iterator[Replica]:
    """Yield a `tribunal serve` of its own, which judges by a graph and takes 256 posts at a time.

    Without the address of a `database` it is the one that `TRIBUNAL_DATABASE` names, else a new SQLite file.
    """
    with tempfile.TemporaryDirectory() as folder:
        address = (
            database or os.environ.get("TRIBUNAL_DATABASE") or f"sqlite:///{folder}/service.sqlite"
        )
        environment = {**os.environ, "TRIBUNAL_DATABASE": address, "TRIBUNAL_DATA": folder}
        program = [sys.executable, "-m", "tribunal"]
        subprocess.run(
            [*program, "service", "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        command = [
            *program,
            "serve",
            "--port",
            "0",
            "--graph",
            graph,
            "--in-flight",
            "256",
            "--log-level",
            "warning",
        ]
        for name, value in {**SETTINGS, **settings}.items():
            command += ["--set", f"{name}={value}"]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := _LISTENING.search(line):
                    yield Replica(found[1], process.pid, Path(folder))
                    break
            else:
                raise RuntimeError("the service did not start")
        finally:
            process.terminate()
            process.wait()
