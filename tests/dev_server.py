"""The real `langgraph dev` server, over the graphs of a project's folder, with no key and in strict msgpack mode."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables_of(dockerfile: Path) -> dict[str, str]:
    """The variables that a Dockerfile sets. Docker reads quotes in ENV as a shell does."""
    lines = [line for line in dockerfile.read_text().splitlines() if line.startswith("ENV ")]
    return dict(word.split("=", 1) for line in lines for word in shlex.split(line)[1:])


@contextmanager
def dev_server(
    project: Path,
    beside: Path,
    python: str = sys.executable,
    allow: str = "",
    keep: str = "",
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """The address of a server of a project's langgraph.json.

    Args:
        project: the folder that the file lies in.
        beside: a folder for its log and its data.
        python: the interpreter of the environment that it runs in.
        allow: what its operator allows clients to set, as TRIBUNAL_ALLOW.
        keep: whether it keeps its cases, as TRIBUNAL_KEEP.
        more: other variables of its environment.
    """
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment = {
        **kept,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_STRICT_MSGPACK": "true",
        "TRIBUNAL_DATA": str(beside / "data"),
        "TRIBUNAL_MODEL": "",
        "TRIBUNAL_ALLOW": allow,
        "TRIBUNAL_KEEP": keep,
        **more,
    }
    command = [
        python,
        "-m",
        "langgraph_cli",
        "dev",
        "--no-browser",
        "--no-reload",
        "--n-jobs-per-worker",
        "10",
    ]
    log = beside / "log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--host", "127.0.0.1"],
            cwd=project,
            env=environment,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(480):
            if process.poll() is not None:
                break
            try:
                if httpx.get(f"{address}/ok", timeout=5).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.25)
        else:
            pytest.fail(log.read_text()[-3000:])
        assert process.poll() is None, log.read_text()[-3000:]
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
