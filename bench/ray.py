"""Runs on a Ray cluster: posts a second by workers, and what is left when workers, nodes and the driver are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from bench.machine import in_a_process, resident
from bench.scripts import court
from bench.table import table
from tests.doubles import ScriptedServer
from tribunal.terminal import say


def ray(quick: bool) -> None:
    """`tribunal batch --engine ray`: pace by workers, and a cluster of three nodes that is harmed on the way."""
    number = 200 if quick else 20_000
    say(f"### Ray: {number:,} posts, `baseline`, 200 ms a call, 256 in flight\n", lines=True)
    rows = []
    for engine, workers in (("embedded", 1), ("embedded", 2), ("ray", 1), ("ray", 2), ("ray", 4)):
        took = in_a_process(_paced_by, number, ("embedded", "ray").index(engine), workers)
        rows.append((engine, str(workers), f"{took['wall']:.1f} s", f"{number / took['wall']:.0f}"))
    table(("engine", "workers", "wall, start and end of Ray included", "posts a second"), rows)
    took = in_a_process(harmed, number, 0)
    say(f"#### Three nodes, {number:,} posts: a worker, a node and the driver killed\n", lines=True)
    table(
        ("posts", "in the output", "twice", "asked for", "memory of the driver at a tenth, at most"),
        [
            (
                f"{number:,}", f"{took['lines']:,}", str(took["twice"]), f"{took['served']:,}",
                f"{took['memory'][len(took['memory']) // 10]:.0f} MB, {max(took['memory']):.0f} MB",
            )
        ],
    )  # fmt: skip


def posts_file(folder: Path, number: int) -> Path:
    """Return posts as JSONL."""
    path = folder / "posts.jsonl"
    with path.open("w") as file:
        for place in range(number):
            file.write(json.dumps({"id": f"post-{place}", "text": f"word-{place}. " + "more words " * 10}) + "\n")
    return path


def started(posts: Path, out: Path | str, *more: str) -> subprocess.Popen[str]:
    """`tribunal batch` over posts, in a process and a group of its own."""
    command = [sys.executable, "-m", "tribunal", "batch", str(posts), "--out", str(out), "--graph", "baseline"]
    command += ["--model", "openai:scripted", "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def places(folder: Path) -> Counter[int]:
    """How often each post stands in the results of a run."""
    with (folder / "results.jsonl").open("rb") as results:
        return Counter(json.loads(line)["place"] for line in results)


def _paced_by(number: int, ray: int, workers: int) -> dict[str, Any]:
    engine = ("embedded", "ray")[int(ray)]
    with TemporaryDirectory() as folder, ScriptedServer(court, latency=0.2, keep=False) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        posts = posts_file(Path(folder), int(number))
        begun = time.perf_counter()
        run = started(
            posts,
            Path(folder) / "out.jsonl",
            "--engine",
            engine,
            "--workers",
            str(int(workers)),
            "--concurrency",
            "256",
        )
        run.communicate()
        return {"wall": time.perf_counter() - begun, "exit": run.returncode}


def harmed(number: int, most_calls: int) -> dict[str, Any]:
    """Run on three nodes, of which a worker, a node and then the driver are killed; return both commands' figures.

    Args:
        number: of posts.
        most_calls: what the run may make; 0 for as many as it takes.

    Returns:
        `lines` in the results, of which so many places stand there `twice`; the calls that the server has `served`;
        `exits` of the drivers and what they `said`; the `memory` of the driver, in MB, as it went.
    """
    number, most_calls = int(number), int(most_calls)
    limit = ("--run-max-calls", str(most_calls)) if most_calls else ()
    with TemporaryDirectory() as folder, ScriptedServer(court, latency=0.2, keep=False) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        out = Path(folder) / "out.jsonl"
        posts = posts_file(Path(folder), number)
        with three_nodes() as cluster:
            more = ("--engine", "ray", "--address", cluster.address, "--workers", "4", "--concurrency", "64", *limit)
            said, exits = [], []
            first = started(posts, out, *more)
            with _watched(first.pid) as memory:
                _until(lambda: server.served > number * 0.2, first)
                os.kill(next(pid for node in cluster.list_all_nodes() for pid in workers_of(node)), signal.SIGKILL)
                _until(lambda: server.served > number * 0.4, first)
                cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
                _until(lambda: server.served > number * 0.6, first)
            os.killpg(first.pid, signal.SIGKILL)
            said.append(first.communicate()[1])
            exits.append(first.returncode)
            again = started(posts, out, *more)
            said.append("\n".join(again.communicate()))
            exits.append(again.returncode)
        found = places(out.with_name("out.jsonl.run"))
        twice = sum(1 for times in found.values() if times > 1)
        return {
            "lines": sum(found.values()), "twice": twice, "served": server.served, "exits": exits, "said": said,
            "memory": memory,
        }  # fmt: skip


@contextlib.contextmanager
def three_nodes() -> Iterator[Any]:
    """Yield a cluster of three nodes of two processors each on this machine; the driver's is the first."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2)
        cluster.add_node(num_cpus=2)
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def workers_of(node: Any) -> list[int]:
    """Return the processes on a node of a cluster on this machine that decide posts."""
    raylet = node.all_processes["raylet"][0].process.pid
    children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    return [int(child) for child in children if b"ClusterWorker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _until(happened: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    while not happened():
        if run.poll() is not None:
            raise RuntimeError(f"the run has ended: {run.communicate()}")
        time.sleep(0.05)


@contextlib.contextmanager
def _watched(process: int) -> Iterator[list[float]]:
    """Yield the memory of a process, in MB, twice a second."""
    over, memory = Event(), list[float]()

    def look() -> None:
        while not over.wait(0.5):
            with contextlib.suppress(OSError):
                memory.append(resident(process))

    watching = Thread(target=look, daemon=True)
    watching.start()
    try:
        yield memory
    finally:
        over.set()
        watching.join()
