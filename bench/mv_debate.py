"""MV-Debate over its critical path."""

from __future__ import annotations

import asyncio
import time

from bench.arcade import posts
from bench.bound import bound
from bench.scripts import debaters
from bench.server import server
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

CALL = 1.0
ROUNDS = 3
# One round after another: the answers; their scores and the reflection, at the same time; the second answers; their
# scores. Then the Summary. With the reflection after the scores a round would take five.
PATH = 4 * ROUNDS + 1


def views(quick: bool) -> None:
    """Print the wall time of debates of views over their critical path."""
    say(f"### MV-Debate: {ROUNDS} rounds of four views, {CALL:g} s a model call\n", lines=True)
    rows = []
    for in_flight in (1, 16) if quick else (1, 16, 64):
        number = in_flight if quick or in_flight == 1 else 3 * in_flight
        with server(CALL, debaters):
            wall, cpu, calls = run_many(debates(number, in_flight))
        critical = bound([PATH * CALL] * number, in_flight)
        rows.append(
            (
                str(in_flight), str(number), str(calls), f"{wall:.2f} s", f"{critical:.0f} s", f"{wall / critical:.3f}",
                f"{1000 * cpu / calls:.2f} ms",
            )
        )  # fmt: skip
    table(("in flight", "posts", "calls", "wall", "critical path", "over it", "CPU a call"), rows)


async def debates(number: int, in_flight: int) -> tuple[float, float, int]:
    """Wall and processor seconds of so many posts through `mv_debate`, and how many calls they took."""
    from tribunal.cases.session import judge_post
    from tribunal.context import context_from

    context = context_from({"model": "openai:scripted", "rounds": ROUNDS})
    waiting, calls = posts(number), []

    async def seat() -> None:
        for text in waiting:
            record = await judge_post(text, graph="mv_debate", context=context)
            if record.rounds != ROUNDS:
                raise RuntimeError(f"the benchmark's debate failed: {record.fault} {record.explanation}")
            calls.append(len(record.calls))

    await judge_post("warming up", graph="mv_debate", context=context_from({"model": "openai:scripted", "rounds": 1}))
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(seat() for _ in range(in_flight)))
    return time.perf_counter() - wall, time.process_time() - cpu, sum(calls)
