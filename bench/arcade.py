"""ARCADE on the scripted court: wall time over the bound, and processor time per call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.bound import bound
from bench.machine import peak
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.process.loops import run_many
from tribunal.process.terminal import say

TRACKS = ("deep", "fast", "none", "deep")
IN_FLIGHT = (1, 16, 64, 256)
LATENCIES = (0.2, 1.0)


def calls(quick: bool) -> None:
    """Print the wall time over the bound and the processor time per call."""
    say("### ARCADE: wall time over the bound, and processor time per call\n", lines=True)
    rows = []
    for latency in LATENCIES:
        for in_flight in IN_FLIGHT if not quick else (1, 16):
            # As many as make both latencies run about as long: in a short run the first wave alone decides.
            number = (
                in_flight if quick else max(round(3 / latency) * min(in_flight, 64), in_flight, 4)
            )
            got = measure(number, in_flight, latency)
            rows.append(
                (
                    f"{latency:g} s", str(in_flight), str(got.posts), str(got.calls), f"{got.wall:.2f} s",
                    f"{got.bound:.2f} s", f"{got.wall / got.bound:.3f}", f"{got.cpu_per_call:.2f} ms",
                )
            )  # fmt: skip
    table(
        ("per call", "in flight", "posts", "calls", "wall", "bound", "wall / bound", "CPU a call"),
        rows,
    )


@dataclass
class Measured:
    """What a run took. Times in seconds, memory in MB."""

    posts: int
    calls: int
    wall: float
    bound: float
    cpu: float
    peak: float

    @property
    def cpu_per_call(self) -> float:
        """Milliseconds."""
        return 1000 * self.cpu / max(self.calls, 1)


async def run(
    number: int,
    in_flight: int,
    latency: float,
    image: str | None = None,
) -> Measured:
    """Send so many posts through `arcade`, at most `in_flight` at once, in order."""
    from tribunal.docket.session import judge_post
    from tribunal.settings.context import context_from

    context = context_from({"model": "openai:scripted"})
    waiting = posts(number)
    calls: list[int] = [0] * number
    places = iter(range(number))

    async def seat() -> None:
        for text in waiting:
            place = next(places)
            record = await judge_post(text, image, graph="arcade", context=context)
            if record.outcome != "verdict":
                raise RuntimeError(
                    f"the benchmark's court failed: {record.fault} {record.explanation}"
                )
            calls[place] = len(record.calls)

    await judge_post("[[track=deep]] warming up", image, graph="arcade", context=context)
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(seat() for _ in range(in_flight)))
    took, spent = time.perf_counter() - wall, time.process_time() - cpu
    best = bound((count * latency for count in calls), in_flight)
    return Measured(number, sum(calls), took, best, spent, peak())


def measure(number: int, in_flight: int, latency: float, image: str | None = None) -> Measured:
    """`run` on a server of its own."""
    with server(latency, court):
        return run_many(run(number, in_flight, latency, image))


def posts(number: int) -> Iterator[str]:
    """Yield posts of the usual length: half take the deep dive, a quarter the fast track, a quarter is dismissed."""
    for place in range(number):
        track = TRACKS[place % len(TRACKS)]
        yield (
            f"[[track={track}]] post {place}: "
            + "some words that a person might have written about their day " * 3
        )
