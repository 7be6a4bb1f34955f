"""The benchmark: `python -m bench`. Prints figures and ratios, as Markdown; fails at nothing.

The model server is a scripted one on loopback, in a process of its own, so that what is measured is this project's
client: processor time per model call (of the whole process, graph included), wall time over the bound, memory.
"""

from __future__ import annotations

import argparse
import os

from bench.arcade import calls
from bench.coverage import coverage
from bench.desk_keys import desk_keys
from bench.images import image
from bench.machine import machine
from bench.memory import memory
from bench.perspectives import perspectives
from bench.runs import runs
from bench.service_cost import service_cost
from bench.workers import workers
from tribunal.process.terminal import say

_ALL = (calls, runs, workers, memory, image, perspectives, service_cost, desk_keys, coverage)
BENCHMARKS = {each.__name__: each for each in _ALL}


def main() -> None:
    """Run the benchmarks that the command line names, else all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", choices=BENCHMARKS, action="append", help="one benchmark; may be given again"
    )
    parser.add_argument("--quick", action="store_true", help="a few posts, to see that it runs")
    options = parser.parse_args()
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    say(f"Machine: {machine()}\n", lines=True)
    for name, benchmark in BENCHMARKS.items():
        if not options.only or name in options.only:
            benchmark(options.quick)


if __name__ == "__main__":
    main()
