"""The service under load: what it adds to the graph alone, how much it takes in, and whether its memory is flat.

`tribunal serve` is a process of its own here, and so is the model server. It keeps its cases in a new SQLite file, or
in the PostgreSQL database that `TRIBUNAL_DATABASE` names.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import numpy as np

from bench.arcade import posts
from bench.machine import resident
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

IN_FLIGHT = (1, 16, 64, 256)
LATENCY = 0.2
SETTINGS = {"model": "openai:scripted"}
_LISTENING = re.compile(r"listening on (http://\S+)")
_PERCENTILES = (50, 95, 99)
Decide = Callable[[str], Awaitable[None]]
Decider = Callable[[], contextlib.AbstractAsyncContextManager[Decide]]


@dataclass(frozen=True)
class Replica:
    """A running `tribunal serve`: its address, its process's number, and its data folder."""

    url: str
    pid: int
    folder: Path


def service(quick: bool) -> None:
    """Print what the service adds to a graph, and how many requests it takes in."""
    _added(quick)
    _measure_intake(quick)


def _added(quick: bool) -> None:
    say(f"### The service over the graph alone (arcade, {LATENCY:g} s per model call)\n", lines=True)
    rows = []
    for in_flight in IN_FLIGHT[:2] if quick else IN_FLIGHT:
        number = in_flight if quick else max(16 * in_flight, 32)
        with server(LATENCY, court):
            alone = run_many(timed(number, in_flight, by_graph()))
            with replica() as at:
                served = run_many(timed(number, in_flight, over_http(at.url, in_flight)))
        ratio = f"{served[1] / alone[1]:.3f}"
        ms = [f"{1000 * each:.0f}" for each in (*alone, *served)]
        added = [f"{1000 * (more - less):.0f}" for more, less in zip(served, alone, strict=True)]
        rows.append((str(in_flight), str(number), " / ".join(ms[:3]), " / ".join(ms[3:]), " / ".join(added), ratio))
    head = ("in flight", "posts", "graph alone, ms (p50 / p95 / p99)", "service, ms", "added, ms", "p95 / p95 alone")
    table(head, rows)


def _measure_intake(quick: bool) -> None:
    say("### Dismissed posts (64 in flight), answered by the cache, and the service's memory\n", lines=True)
    number = 200 if quick else 20_000
    rows = []
    with tempfile.TemporaryDirectory() as folder, server(0.0, court), replica(cache=f"{folder}/cache.sqlite") as at:
        run_many(timed(64, 64, over_http(at.url, 64), "[[track=none]] Good morning!"))
        done = 0
        for share in (0.1, 0.5, 1.0):
            more = round(number * share) - done
            began = time.perf_counter()
            run_many(timed(more, 64, over_http(at.url, 64), "[[track=none]] Good morning!"))
            done += more
            a_second = more / (time.perf_counter() - began)
            rows.append((f"{done:,}", f"{a_second:.0f}", f"{resident(at.pid):.0f} MB"))
    table(("requests so far", "requests a second", "memory"), rows)


def by_graph(settings: Mapping[str, str] = MappingProxyType(SETTINGS)) -> Decider:
    """Return what opens a decider that runs the graph here, without the service."""
    from tribunal.cases.graph_run import run_graph
    from tribunal.cases.records import graph_input
    from tribunal.context import context_from
    from tribunal.graphs import graph

    compiled = graph("arcade")

    @contextlib.asynccontextmanager
    async def alone() -> AsyncIterator[Decide]:
        context = context_from(dict(settings))

        async def decide(text: str) -> None:
            # With a config it is LangGraph that runs it, as in the service, whose cases have checkpoints.
            state = await run_graph(compiled, "arcade", await graph_input(text), None, None, context=context)
            if state["outcome"]["outcome"] != "verdict":
                raise RuntimeError(f"the benchmark's court failed: {state['outcome']['explanation']}")

        yield decide

    return alone


def over_http(url: str, in_flight: int) -> Decider:
    """Return what opens a decider that asks the service, by as many connections as are in flight."""

    @contextlib.asynccontextmanager
    async def served() -> AsyncIterator[Decide]:
        async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=in_flight)) as client:

            async def decide(text: str) -> None:
                async with client.post("/v1/judge?wait=60", json={"text": text}) as answer:
                    if answer.status != 200:
                        raise RuntimeError(f"the service answered {answer.status}: {await answer.text()}")
                    await answer.read()

            yield decide

    return served


async def timed(
    number: int,
    in_flight: int,
    decider: Decider,
    same: str | None = None,
) -> Sequence[float]:
    """Return the seconds that a post took: the median, the 95th and the 99th percentile.

    As many posts as are in flight go ahead, to warm up: whoever measures a service that began a moment ago measures how
    it begins.
    """
    waiting = iter([same] * (in_flight + number)) if same else posts(in_flight + number)
    took: list[float] = []

    async with decider() as decide:
        await decide(same or "[[track=deep]] warming up")

        async def seat() -> None:
            for text in waiting:
                began = time.perf_counter()
                await decide(text)
                took.append(time.perf_counter() - began)

        await asyncio.gather(*(seat() for _ in range(in_flight)))
    return [float(each) for each in np.percentile(took[in_flight:], _PERCENTILES)]


@contextlib.contextmanager
def replica(database: str | None = None, graph: str = "arcade", **settings: str) -> Iterator[Replica]:
    """Yield a `tribunal serve` of its own, which judges by a graph and takes 256 posts at a time.

    Without the address of a `database` it is the one that `TRIBUNAL_DATABASE` names, else a new SQLite file.
    """
    with tempfile.TemporaryDirectory() as folder:
        address = database or os.environ.get("TRIBUNAL_DATABASE") or f"sqlite:///{folder}/service.sqlite"
        environment = {**os.environ, "TRIBUNAL_DATABASE": address, "TRIBUNAL_DATA": folder}
        program = [sys.executable, "-m", "tribunal"]
        subprocess.run([*program, "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL)
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
