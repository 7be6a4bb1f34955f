"""Measure what watching costs: ARCADE with nobody listening, with a callback handler, and with LangSmith's client."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableConfig

from bench.arcade import run
from bench.machine import in_a_process
from bench.scripts import court
from bench.server import server
from bench.table import table
from tribunal.loops import run_many
from tribunal.terminal import say

LATENCY = 1.0  # seconds a call
IN_FLIGHT = 64
WATCHERS = ("nobody", "a callback handler", "LangSmith's client")


def tracing(quick: bool) -> None:
    """Print what a call costs by who watches it."""
    say(f"### Tracing: ARCADE, {IN_FLIGHT} in flight, {LATENCY:g} s a call\n", lines=True)
    rows = []
    for place, watcher in enumerate(WATCHERS):
        took = in_a_process(watched, IN_FLIGHT if quick else 3 * IN_FLIGHT, place)
        rows.append((watcher, f"{took['calls']:,}", f"{took['wall'] / took['bound']:.3f}", f"{took['cpu']:.2f} ms"))
    table(("who watches", "calls", "wall / bound", "CPU a call"), rows)
    say(
        "LangSmith's client sends to a server on this machine, which takes everything and reads none of it.\n",
        lines=True,
    )


class _Listener(AsyncCallbackHandler):
    """Hears every call, and does nothing about it."""


def watched(number: int, watcher: int) -> dict[str, Any]:
    """Return what so many posts take under a watcher, by its place in `WATCHERS`: seconds, and CPU in ms a call."""
    config: RunnableConfig | None = {"callbacks": [_Listener()]} if watcher == 1 else None
    with server(LATENCY, court), _langsmith() if watcher == 2 else contextlib.nullcontext():
        took = run_many(run(number, IN_FLIGHT, LATENCY, config=config))
    return {"calls": took.calls, "wall": took.wall, "bound": took.bound, "cpu": took.cpu_per_call}


class _Sink(BaseHTTPRequestHandler):
    """Takes what LangSmith's client sends."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer the question of what the server can do."""
        self._answer(b"{}")

    def do_POST(self) -> None:
        """Take a batch of runs."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def _langsmith() -> Iterator[None]:
    """Serve LangSmith's address on loopback, and switch its tracing on. Its share of the processor is counted too."""
    sink = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{sink.server_address[1]}"
    os.environ |= {"LANGSMITH_TRACING": "true", "LANGSMITH_ENDPOINT": address, "LANGSMITH_API_KEY": "lsv2_bench"}
    try:
        yield
    finally:
        sink.shutdown()
