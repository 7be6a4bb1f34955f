"""The scripted model server that the benchmarks talk to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from tests.doubles import Reply, Request

Script = Callable[[Request], Reply]


@contextlib.contextmanager
def server(latency: float, script: Script) -> Iterator[None]:
    """Yield a scripted model server in a process of its own, which `openai:` models are asked at from now on."""
    command = [
        sys.executable,
        "-m",
        "tests.doubles",
        "--latency",
        str(latency),
        "--script",
        f"{script.__module__}:{script.__name__}",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        os.environ["OPENAI_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
        yield
    finally:
        process.terminate()
        process.wait()
