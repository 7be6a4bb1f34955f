"""Bodies have an end: of answers and of errors, packed or not, for every wire; and memory stays small."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import PROJECT
from tests.models.classified import GOOD, came_of, chat_completion
from tests.models.test_providers import ANTHROPIC, GEMINI, OLLAMA, QWEN
from tribunal.models.providers.connections import LONGEST_ANSWER, LONGEST_ERROR, read_all
from tribunal.models.providers.wire_errors import TooLarge

MOST_MEMORY = 400 * 2**20
HEADS = {
    "endless": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
    "endless stream": b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
    "endless error": b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n",
    "bomb": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\r\n",
    "bomb in an error": b"HTTP/1.1 400 Bad Request\r\ncontent-encoding: gzip\r\n\r\n",
}


def bomb() -> bytes:
    """A gzip file of a megabyte that holds a gigabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(1024)), packer.flush()])


@contextmanager
def serving(kind: str) -> Iterator[str]:
    """A server that answers every request so, in a thread."""
    packed = bomb() if "bomb" in kind else b""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            try:
                self.request.recv(2**20)
                self.request.sendall(HEADS[kind])
                if packed:
                    self.request.sendall(packed)
                    return
                while True:
                    self.request.sendall(b"a" * 2**20)
            except OSError:
                pass

    class Server(ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run(*command: str, **environment: str) -> tuple[str, int]:
    """Run a command, and return what it printed and the most memory that it took, in bytes."""
    variables = {**os.environ, "TRIBUNAL_DATA": str(Path.cwd()), **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "tribunal", *command], cwd=PROJECT, env=variables, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return said, used.ru_maxrss * 1024


WAYS = {"openai": QWEN, "anthropic": ANTHROPIC, "ollama": OLLAMA, "gemini": GEMINI}


@pytest.mark.long
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("wire", WAYS)
def test_no_body_takes_much_memory(wire: str, kind: str) -> None:
    way = WAYS[wire]
    with serving(kind) as url:
        key = {way.key: "sk-ant-zero-0123456789"} if way.key else {}
        judge = ("judge", "a post", "--graph", "baseline", "--model", way.model, "--attempts", "1")
        said, memory = run(*judge, **{way.address: f"{url}{way.root}"}, **key)
    assert "Traceback" not in said
    assert memory < MOST_MEMORY
    if kind in ("endless", "bomb"):
        assert "16 MiB" in said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["endless", "bomb", "endless error"])
def test_the_doctor_s_questions_take_no_more(kind: str) -> None:
    with serving(kind) as url:
        said, memory = run("doctor", "--model", "openai:x", OPENAI_BASE_URL=f"{url}/v1", OLLAMA_HOST=url)
    assert "Traceback" not in said
    assert memory < MOST_MEMORY


class Response:
    """A response whose body comes in pieces."""

    def __init__(self, raw: bytes, status: int, packing: str, size: int) -> None:
        self.status_code, self.headers = status, {"content-encoding": packing} if packing else {}
        self._raw, self._size = raw, size

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._raw), self._size):
            yield self._raw[at : at + self._size]


PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}


@given(st.binary(max_size=5000), st.sampled_from(sorted(PACK)), st.integers(1, 4000), st.sampled_from([200, 400]))
def test_any_body_of_any_packing_is_read_as_it_is(body: bytes, packing: str, size: int, status: int) -> None:
    response: Any = Response(PACK[packing](body), status, packing, size)
    assert asyncio.run(read_all(response)) == body


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("over", [-1, 0, 1, 10**6])
def test_where_a_body_ends(packing: str, over: int) -> None:
    answer: Any = Response(PACK[packing](bytes(LONGEST_ANSWER + over)), 200, packing, 2**16)
    if over > 0:
        with pytest.raises(TooLarge):
            asyncio.run(read_all(answer))
    else:
        assert len(asyncio.run(read_all(answer))) == LONGEST_ANSWER + over
    error: Any = Response(PACK[packing](bytes(LONGEST_ERROR + over)), 400, packing, 2**16)
    assert len(asyncio.run(read_all(error))) == LONGEST_ERROR + min(over, 0)


def test_a_packing_that_nobody_asked_for() -> None:
    response: Any = Response(b"x", 200, "br", 1)
    with pytest.raises(TooLarge):
        asyncio.run(read_all(response))


def test_a_small_answer_is_still_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.doubles import Fault
    from tests.models.classified import classify

    packed = gzip.compress(chat_completion('{"category": "Sexist", "explanation": "because"}'))
    record, _ = asyncio.run(classify(Fault(200, raw=packed, headers={"content-encoding": "gzip"})))
    assert came_of(record) == ("verdict", None, 1)
    assert record.category == GOOD["category"]
