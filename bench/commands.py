"""Whole commands, as a user starts them: what they take beside the model calls."""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench.bound import bound
from bench.perspectives import korean_texts
from bench.scripts import court, panel
from bench.server import Script, server
from bench.table import table
from tribunal.terminal import say

_PATH = 6  # the model calls of PREDICT that wait for one another: a perspective, two rounds of two debaters, the judge
_TIMES = 5
_JUDGE = (sys.executable, "-m", "tribunal", "judge", "Good morning, everybody.")


def commands(quick: bool) -> None:
    """`judge` by the rehearsal model, and `eval` over KODOLI where it is at hand."""
    say("### Commands: whole, as a user starts them\n", lines=True)
    with TemporaryDirectory() as scratch:
        data = Path(scratch) / "posts.csv"
        what = _posts(data)
        times = 1 if quick else _TIMES
        alone = statistics.median(_took((sys.executable, "-c", "import langgraph.graph")) for _ in range(times))
        judged = statistics.median(_took(_JUDGE) for _ in range(times))
        table(("import langgraph.graph", "tribunal judge, rehearsal"), [(f"{alone:.2f} s", f"{judged:.2f} s")])
        rows = []
        for graph, script, number, latency, path in (
            ("arcade", court, 20, 0.0, 0),
            ("predict", panel, 20 if quick else 400, 1.0, _PATH),
        ):
            whole, asked, calls = _evaluated(data, graph, script, number, latency)
            least = bound((path * latency for _ in range(number)), 64)
            rows.append(
                (
                    graph, f"{number} of {what}", str(calls), f"{latency:g} s", f"{least:.0f} s", f"{asked:.2f} s",
                    f"{whole:.2f} s", f"{whole - asked:.2f} s",
                )
            )  # fmt: skip
    head = ("tribunal eval", "posts", "calls", "per call", "bound", "first call to last answer", "whole command")
    table((*head, "beside the calls"), rows)
    say("Each is a process of its own, 64 posts in flight, with labels, measures and intervals.\n", lines=True)


def _posts(file: Path) -> str:
    """Write a set of KODOLI's size, and say what it is."""
    texts, what = korean_texts(38_525)
    with file.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(("text", "label"))
        rows.writerows((text, "hate" if place % 3 == 0 else "not") for place, text in enumerate(texts))
    return what


def _evaluated(data: Path, graph: str, script: Script, number: int, latency: float) -> tuple[float, float, int]:
    """Return a run's seconds, those from its first request to its last answer as the server saw them, and its calls."""
    with server(latency, script), TemporaryDirectory() as out:
        command = [sys.executable, "-m", "tribunal", "eval", "--dataset", "table", "--data", str(data)]
        command += ["--graph", graph, "--samples", str(number), "--concurrency", "64", "--model", "openai:scripted"]
        whole = _took((*command, "--out", str(Path(out) / "run")))
        with urlopen(os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + "/scripted") as answer:  # noqa: S310 (loopback)
            told = json.load(answer)
    return whole, told["seconds"], told["served"]


def _took(command: tuple[str, ...]) -> float:
    """How long a command takes, in seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started
