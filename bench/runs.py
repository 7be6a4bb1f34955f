"""The engine of `tribunal eval`: a run of a data set's size over the bound, and a long one in little memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.arcade import posts
from bench.bound import bound
from bench.machine import in_a_process, resident
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.process.loops import run_many
from tribunal.process.terminal import say

HVLI_TEST = 1178  # posts


def runs(quick: bool) -> None:
    """Time a run of the size of H-VLI's test set through the engine of `tribunal eval`, and a long one."""
    say("### Runs: the engine of `tribunal eval`, ARCADE, 64 in flight\n", lines=True)
    rows = []
    for latency in (0.2,) if quick else (1.0, 0.2):
        took = in_a_process(long_run, HVLI_TEST if not quick else 200, latency)
        rows.append(
            (
                f"{latency:g} s", str(took["posts"]), str(took["calls"]), f"{took['wall']:.1f} s",
                f"{took['bound']:.1f} s", f"{took['wall'] / took['bound']:.3f}",
                f"{1000 * took['cpu'] / took['calls']:.2f} ms", f"{took['lag']}",
            )
        )  # fmt: skip
    head = (
        "per call",
        "posts",
        "calls",
        "wall",
        "bound",
        "wall / bound",
        "CPU a call",
        "results not yet in the file",
    )
    table(head, rows)
    say("The last column is the most that was ever missing when a post was done.\n", lines=True)
    number = 2_000 if quick else 100_000
    took = in_a_process(rehearsed_run, number)
    say(f"#### {number:,} posts, `baseline`, the rehearsal model\n", lines=True)
    memory = [f"{took['memory'][part]:.0f} MB" for part in ("10", "50", "100")]
    table(
        ("memory at a tenth", "at half", "at the end", "posts a second", "CPU a post"),
        [
            (
                *memory,
                f"{took['posts'] / took['wall']:.0f}",
                f"{1000 * took['cpu'] / took['posts']:.2f} ms",
            )
        ],
    )


def long_run(number: int, latency: float, in_flight: int = 64) -> dict[str, Any]:
    """So many posts through the engine on a scripted server. Times in seconds; `lag` in results."""
    from tribunal.runner.engine import decide_posts
    from tribunal.runner.job import RunJob, RunOptions
    from tribunal.runner.results import Sample
    from tribunal.runner.tally import RunTally
    from tribunal.settings.context import context_from

    samples = [Sample(id=str(place), text=text) for place, text in enumerate(posts(number))]
    context = context_from({"model": "openai:scripted"})
    lag = 0
    with server(latency, court), TemporaryDirectory() as folder:
        run_many(
            decide_posts(
                RunJob(
                    graph="arcade", context=context, samples=samples[:64], count=64, in_flight=64
                ),
                Path(folder),
            )
        )
        results = Path(folder) / "results.jsonl"
        warm = results.read_bytes().count(b"\n")
        results.unlink()
        assert warm == len(samples[:64])
        seen = {"size": 0, "lines": 0}

        def watch(tally: RunTally) -> None:
            nonlocal lag
            if tally.done % 50 == 0:
                with results.open("rb") as file:
                    file.seek(seen["size"])
                    fresh = file.read()
                seen["size"] += len(fresh)
                seen["lines"] += fresh.count(b"\n")
                lag = max(lag, tally.done - seen["lines"])

        job = RunJob(
            graph="arcade", context=context, samples=samples, count=number, in_flight=in_flight
        )
        cpu, wall = time.process_time(), time.perf_counter()
        tally = run_many(decide_posts(job, Path(folder), RunOptions(watch=watch)))
        took, spent = time.perf_counter() - wall, time.process_time() - cpu
        by_place = {}
        for line in results.read_bytes().splitlines():
            record = json.loads(line)
            by_place[record["place"]] = len(record["calls"])
    calls = [by_place[place] for place in range(number)]
    assert tally.done == number
    best = bound((count * latency for count in calls), in_flight)
    return {
        "posts": number,
        "calls": sum(calls),
        "wall": took,
        "bound": best,
        "cpu": spent,
        "lag": lag,
    }


def rehearsed_run(number: int) -> dict[str, Any]:
    """So many posts through the engine with the rehearsal model. Memory in MB, by how much of the run was done."""
    from tribunal.runner.engine import decide_posts
    from tribunal.runner.job import RunJob, RunOptions
    from tribunal.runner.results import Sample
    from tribunal.runner.tally import RunTally
    from tribunal.settings.context import context_from

    class Posts:
        """Made as they are asked for, as those of a file are."""

        def __iter__(self) -> Iterator[Sample]:
            return (Sample(id=str(place), text=text) for place, text in enumerate(posts(number)))

    memory: dict[str, float] = {}

    def watch(tally: RunTally) -> None:
        part = {number // 10: "10", number // 2: "50", number: "100"}.get(tally.done)
        if part:
            memory[part] = resident()

    job = RunJob(
        graph="baseline",
        context=context_from({"model": "rehearsal"}),
        samples=Posts(),
        count=number,
        in_flight=64,
    )
    with TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        run_many(decide_posts(job, Path(folder), RunOptions(watch=watch)))
        took, spent = time.perf_counter() - wall, time.process_time() - cpu
    return {"posts": number, "wall": took, "cpu": spent, "memory": memory}
