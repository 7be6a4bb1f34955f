"""A Ray cluster on this machine whose workers, nodes and driver are killed during a run."""

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
from typing import Any

from bench.scripts import court
from tests.doubles import ScriptedServer


def posts_file(folder: Path, number: int) -> Path:
    """Return posts as JSONL."""
    path = folder / "posts.jsonl"
    with path.open("w") as file:
        for place in range(number):
            file.write(
                json.dumps({"id": f"post-{place}", "text": f"word-{place}. " + "more words " * 10})
                + "\n"
            )
    return path


def started(posts: Path, out: Path | str, *more: str) -> subprocess.Popen[str]:
    """`tribunal batch` over posts, in a process and a group of its own."""
    command = [
        sys.executable,
        "-m",
        "tribunal",
        "batch",
        str(posts),
        "--out",
        str(out),
        "--graph",
        "baseline",
    ]
    command += ["--model", "openai:scripted", "--json", *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def places(folder: Path) -> Counter[int]:
    """How often each post stands in the results of a run."""
    with (folder / "results.jsonl").open("rb") as results:
        return Counter(json.loads(line)["place"] for line in results)


def harmed(number: int, most_calls: int) -> dict[str, Any]:
    """Run on three nodes, of which a worker, a node and then the driver are killed; return both commands' figures.

    Args:
        number: of posts.
        most_calls: what the run may make; 0 for as many as it takes.

    Returns:
        `lines` in the results, of which so many places stand there `twice`; the calls that the server has `served`;
        `exits` of the drivers and what they `said`.
    """
    limit = ("--run-max-calls", str(most_calls)) if most_calls else ()
    with TemporaryDirectory() as folder, ScriptedServer(court, latency=0.2, keep=False) as server:
        os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        out = Path(folder) / "out.jsonl"
        posts = posts_file(Path(folder), number)
        with three_nodes() as cluster:
            more = (
                "--engine",
                "ray",
                "--address",
                cluster.address,
                "--workers",
                "4",
                "--concurrency",
                "64",
                *limit,
            )
            said, exits = [], []
            first = started(posts, out, *more)
            _until(lambda: server.served > number * 0.2, first)
            os.kill(
                next(pid for node in cluster.list_all_nodes() for pid in workers_of(node)),
                signal.SIGKILL,
            )
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
            "lines": sum(found.values()),
            "twice": twice,
            "served": server.served,
            "exits": exits,
            "said": said,
        }


@contextlib.contextmanager
def three_nodes() -> Iterator[Any]:
    """Yield a cluster of three nodes of two processors each on this machine; the driver's is the first."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
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
    return [
        int(child)
        for child in children
        if b"ClusterWorker" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def _until(happened: Callable[[], bool], run: subprocess.Popen[str]) -> None:
    while not happened():
        if run.poll() is not None:
            raise RuntimeError(f"the run has ended: {run.communicate()}")
        time.sleep(0.05)
