"""The machine that is measured on, and what a process takes of it."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def machine() -> str:
    """Return the machine's size, and how quick one of its cores is: the time of ten million additions in Python."""
    started = time.process_time()
    total = 0
    for number in range(10_000_000):
        total += number
    speed = time.process_time() - started
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, Python {platform.python_version()}, {platform.system()}; "
        f"ten million additions in a loop take {speed:.2f} s of processor time"
    )


def resident(process: int | str = "self") -> float:
    """Return the memory that a process has now, this one by itself, in MB."""
    with open(f"/proc/{process}/statm") as file:  # noqa: PTH123 (a file of the kernel's)
        return int(file.read().split()[1]) * resource.getpagesize() / 1024**2


def peak() -> float:
    """Return the most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(measure: Callable[..., dict[str, Any]], *given: float) -> dict[str, Any]:
    """Return what a function of a module gives for these numbers, in a process of its own, whose memory is its own."""
    code = f"import json; from {measure.__module__} import {measure.__name__} as measure; "
    code += f"print(json.dumps(measure(*{list(given)})))"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
