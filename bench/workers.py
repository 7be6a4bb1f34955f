"""`--workers`: a run by one process and by two, over the bound."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.arcade import posts
from bench.bound import bound
from bench.machine import in_a_process
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.process.loops import run_many
from tribunal.process.terminal import say

LATENCY = 0.2  # seconds a call
POSTS = 1_536  # 24 waves of 64, and six of 256: about 8,400 calls, each a few milliseconds of one processor


def workers(quick: bool) -> None:
    """Time a run of the engine of `tribunal eval` by one process and by two."""
    say(
        f"### Workers: ARCADE, {LATENCY:g} s a call, the model's server on the same machine\n",
        lines=True,
    )
    rows = []
    for in_flight in (64, 256):
        for number in (1, 2):
            took = in_a_process(paced, in_flight * 3 if quick else POSTS, in_flight, number)
            rows.append(
                (
                    str(in_flight), str(number), f"{took['posts']:,}", f"{took['calls']:,}", f"{took['begun']:.1f} s",
                    f"{took['wall']:.1f} s", f"{took['bound']:.1f} s", f"{took['wall'] / took['bound']:.3f}",
                    f"{took['posts'] / took['wall']:.0f}", f"{1000 * took['cpu'] / took['calls']:.2f} ms",
                )
            )  # fmt: skip
    head = (
        "in flight",
        "workers",
        "posts",
        "calls",
        "start",
        "wall",
        "bound",
        "wall / bound",
        "posts a second",
    )
    table((*head, "CPU a call"), rows)
    say(
        "The start is what passes until the first post is begun, and is not in the wall. CPU is that of all processes "
        "of the run, their start included.\n",
        lines=True,
    )


def paced(number: int, in_flight: int, processes: int) -> dict[str, Any]:
    """So many posts through the engine by so many processes. Times in seconds."""
    from tribunal.runner.engine import decide_posts
    from tribunal.runner.job import RunEngine, RunJob, RunOptions
    from tribunal.runner.results import Sample
    from tribunal.runner.tally import RunTally
    from tribunal.settings.context import context_from

    samples = [Sample(id=str(place), text=text) for place, text in enumerate(posts(number))]
    context = context_from({"model": "openai:scripted"})
    first: list[float] = []

    def watch(tally: RunTally) -> None:
        if tally.done and not first:
            first.append(time.perf_counter())

    with server(LATENCY, court), TemporaryDirectory() as folder:
        if (
            processes == 1
        ):  # what the first posts import is no part of the pace; other processes import it at their start
            warm = RunJob(
                graph="arcade", context=context, samples=samples[:8], count=8, in_flight=8
            )
            run_many(decide_posts(warm, Path(folder)))
            (Path(folder) / "results.jsonl").unlink()
        job = RunJob(
            graph="arcade", context=context, samples=samples, count=number, in_flight=in_flight
        )
        cpu, wall = _cpu(), time.perf_counter()
        tally = run_many(
            decide_posts(
                job, Path(folder), RunOptions(watch=watch, engine=RunEngine(workers=processes))
            )
        )
        ended, spent = time.perf_counter(), _cpu() - cpu
        results = [
            json.loads(line) for line in (Path(folder) / "results.jsonl").read_bytes().splitlines()
        ]
    assert tally.done == number
    begun = first[0] - results[0]["seconds"]
    calls = {result["place"]: len(result["calls"]) for result in results}
    best = bound((calls[place] * LATENCY for place in range(number)), in_flight)
    return {
        "posts": number, "calls": sum(calls.values()), "begun": begun - wall, "wall": ended - begun, "bound": best,
        "cpu": spent,
    }  # fmt: skip


def _cpu() -> float:
    """Return the processor time of this process and of those that it has begun and that have ended, in seconds."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
