"""The benchmark: `python -m tribunal.eval.bench`. Prints figures and ratios, as Markdown; fails at nothing.

The model server is a scripted one on loopback, in a process of its own, so that what is measured is this project's
client: processor time per model call (of the whole process, graph included), wall time over the bound, memory.
"""

from __future__ import annotations

import argparse
import os

from tribunal.eval.bench.arcade import calls
from tribunal.eval.bench.cascade import cascade
from tribunal.eval.bench.commands import commands
from tribunal.eval.bench.counts import counts
from tribunal.eval.bench.coverage import coverage
from tribunal.eval.bench.first_look import first_look
from tribunal.eval.bench.fit import fit
from tribunal.eval.bench.images import image
from tribunal.eval.bench.machine import machine
from tribunal.eval.bench.memory import memory
from tribunal.eval.bench.mv_debate import views
from tribunal.eval.bench.neighbours import neighbours
from tribunal.eval.bench.perspectives import perspectives
from tribunal.eval.bench.ray import ray
from tribunal.eval.bench.research import research
from tribunal.eval.bench.runs import runs
from tribunal.eval.bench.service import service
from tribunal.eval.bench.switches import switches
from tribunal.eval.bench.tracing import tracing
from tribunal.eval.bench.view import view
from tribunal.eval.bench.workers import workers
from tribunal.terminal import say

_ALL = (
    calls,
    commands,
    counts,
    coverage,
    image,
    memory,
    neighbours,
    perspectives,
    ray,
    research,
    switches,
    tracing,
    runs,
    workers,
    service,
    view,
    views,
    fit,
    cascade,
    first_look,
)
BENCHMARKS = {each.__name__: each for each in _ALL}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tribunal.eval.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="one benchmark; may be given again")
    parser.add_argument("--quick", action="store_true", help="a few posts, to see that it runs")
    options = parser.parse_args()
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    say(f"Machine: {machine()}\n", lines=True)
    for name, benchmark in BENCHMARKS.items():
        if not options.only or name in options.only:
            benchmark(options.quick)


if __name__ == "__main__":
    main()
