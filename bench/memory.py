"""The memory of a run as it grows longer."""

from __future__ import annotations

from typing import Any

from bench.arcade import Measured, measure
from bench.machine import in_a_process
from bench.table import table
from tribunal.process.terminal import say


def memory(quick: bool) -> None:
    """Print the peak memory of runs of several sizes."""
    say("### Memory (64 in flight, a server that answers at once)\n", lines=True)
    rows = []
    for number in (100, 300) if quick else (1_000, 10_000):
        got = Measured(**in_a_process(measured, number, 64, 0.0))
        rows.append(
            (
                f"{number:,}",
                f"{got.peak:.0f} MB",
                f"{got.calls / got.wall:.0f}",
                f"{got.cpu_per_call:.2f} ms",
            )
        )
    table(("posts", "peak memory", "calls a second", "CPU a call"), rows)


def measured(number: int, in_flight: int, latency: float) -> dict[str, Any]:
    """`arcade.measure`, as plain data."""
    return vars(measure(number, in_flight, latency))
