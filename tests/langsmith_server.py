"""A LangSmith server on loopback: it takes the runs that LangSmith's own client sends, and nothing else."""

from __future__ import annotations

import email
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "lsv2_pt_the-langsmith-key-of-the-tests"


class TracedRun(dict[str, Any]):
    """A run as LangSmith holds it: what was posted, and what was patched since."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Return its metadata."""
        held: dict[str, Any] = (self.get("extra") or {}).get("metadata") or {}
        return held


class LangSmithServer:
    """What was traced, by run id; and every body that came, as it came."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[bytes] = []
        self._runs: dict[str, TracedRun] = {}
        self._lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a process traces here."""
        return {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": self.url,
            "LANGSMITH_API_KEY": KEY,
            "LANGSMITH_PROJECT": "tests",
        }

    def runs(self, kind: str | None = None) -> list[TracedRun]:
        """Return the runs of a kind (`llm`, `chain`, `tool`), or all."""
        with self._lock:
            return [
                run for run in self._runs.values() if kind is None or run.get("run_type") == kind
            ]

    def roots(self) -> list[TracedRun]:
        """Return the runs that have no parent."""
        # A run's order names its parents, also where only its end has come so far.
        own = [run for run in self.runs() if not run.get("parent_run_id")]
        return [run for run in own if "." not in (run.get("dotted_order") or "")]

    def wait_for_calls(self, number: int, seconds: float = 30) -> list[TracedRun]:
        """Return the model calls once so many have ended, and every root has; or those that came in so many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ended = [run for run in self.runs("llm") if run.get("end_time")]
            if len(ended) >= number and all(run.get("end_time") for run in self.roots()):
                break
            time.sleep(0.05)
        return self.runs("llm")

    def take(self, kind: str, body: bytes) -> None:
        """Take in the runs of a request."""
        with self._lock:
            self.bodies.append(body)
            for id, run in _parts(body, kind) if kind.startswith("multipart") else _batch(body):
                held = self._runs.setdefault(id, TracedRun())
                held.update({name: value for name, value in run.items() if value is not None})


def _batch(body: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    told = json.loads(body)
    for run in (*told.get("post", ()), *told.get("patch", ())):
        yield run["id"], run


def _parts(body: bytes, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    message = email.message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts: Any = message.get_payload()
    for part in parts:
        _, id, *field = str(part.get_param("name", header="Content-Disposition")).split(".")
        value = json.loads(part.get_payload(decode=True))
        yield id, {field[0]: value} if field else value


@contextmanager
def langsmith_server() -> Iterator[LangSmithServer]:
    """Run the server on a port of its own."""
    server = LangSmithServer()
    flags = {"zstd_compression_enabled": False}
    info = {
        "version": "0.12.0",
        "instance_flags": flags,
        "batch_ingest_config": {
            "use_multipart_endpoint": True,
            "scale_up_qsize_trigger": 1000,
            "scale_up_nthreads_limit": 16,
            "scale_down_nempty_trigger": 4,
            "size_limit": 100,
            "size_limit_bytes": 20_971_520,
        },
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(info if self.path.startswith("/info") else {})

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length")
            body = self._chunked() if length is None else self.rfile.read(int(length))
            if self.path.startswith("/runs"):  # a LangGraph server reports itself elsewhere
                server.take(self.headers["Content-Type"], body)
            self._answer({})

        def _chunked(self) -> bytes:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _answer(self, told: Any) -> None:
            body = json.dumps(told).encode()
            self.send_response(200 if self.command == "GET" else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()
