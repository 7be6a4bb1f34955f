"""Bodies have an end: of answers and of errors, packed or not, for every wire; and memory stays small."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import repeat
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
from tribunal.models.providers.wire import TooLarge

MOST_MEMORY = 400 * 2**20


def head(status: str = "200 OK", kind: str = "application/json", packing: str = "") -> bytes:
    packed = f"content-encoding: {packing}\r\n" if packing else ""
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{packed}\r\n".encode()


@cache
def bomb(bits: int = zlib.MAX_WBITS | 16) -> bytes:
    """A megabyte that holds a gigabyte; a gzip file by default."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(1024)), packer.flush()])


def events(of: dict[str, Any] | None, named: str = "") -> Iterator[bytes]:
    """The same event for ever, or a comment that keeps the connection open."""
    event = (
        f"event: {named}\n".encode() * bool(named) + b"data: " + json.dumps(of).encode() + b"\n\n"
    )
    return repeat((event if of else b": ping\n\n") * 1000)


STREAM = "text/event-stream"
CHUNK = {
    "id": "x",
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "hmm "}}],
}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hmm "}}
PART = {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "hmm "}]}}]}
LINE = {"model": "x", "message": {"role": "assistant", "content": "hmm "}, "done": False}
ENDLESS: dict[str, tuple[bytes, Callable[[], Iterable[bytes]]]] = {
    "endless": (head(), lambda: repeat(b"a" * 2**20)),
    "endless stream": (head(kind=STREAM), lambda: repeat(b"a" * 2**20)),
    "endless pings": (head(kind=STREAM), lambda: events(None)),
    "endless chunks": (head(kind=STREAM), lambda: events(CHUNK)),
    "endless deltas": (head(kind=STREAM), lambda: events(DELTA, "content_block_delta")),
    "endless parts": (head(kind=STREAM), lambda: events(PART)),
    "endless lines": (
        head(kind="application/x-ndjson"), lambda: repeat((json.dumps(LINE).encode() + b"\n") * 1000),
    ),
    "endless error": (head("400 Bad Request"), lambda: repeat(b"a" * 2**20)),
    "endless server error": (head("500 Internal Server Error"), lambda: repeat(b"a" * 2**20)),
    "endless redirect": (head("302 Found"), lambda: repeat(b"a" * 2**20)),
    "bomb": (head(packing="gzip"), lambda: [bomb()]),
    "bomb of deflate": (head(packing="deflate"), lambda: [bomb(zlib.MAX_WBITS)]),
    "bomb of bare deflate": (head(packing="deflate"), lambda: [bomb(-zlib.MAX_WBITS)]),
    "bomb of members": (head(packing="gzip"), lambda: repeat(gzip.compress(bytes(2**20)), 1024)),
    "bomb in a stream": (head(kind=STREAM, packing="gzip"), lambda: [bomb()]),
    "bomb in an error": (head("400 Bad Request", packing="gzip"), lambda: [bomb()]),
}  # fmt: skip


@contextmanager
def serving(kind: str) -> Iterator[str]:
    """A server that answers every request so, in a thread."""
    begin, make = ENDLESS[kind]
    packed = list(make()) if kind.startswith("bomb") else None

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            try:
                self.request.recv(2**20)
                self.request.sendall(begin)
                for part in packed or make():
                    self.request.sendall(part)
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


# Not `getrusage`: its figure begins with the memory of the process that started this one.
MEASURED = """
import atexit, pathlib, tribunal
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print("\\n" + status.read_text().split("VmHWM:")[1].split()[0]))
"""
JUDGES = """
tribunal.main()
"""
LISTENS = """
import asyncio, sys
from tribunal.settings.context import context_from
from tribunal.graphs import graph

async def listen():
    context = context_from({"model": sys.argv[1], "attempts": 1})
    modes = ["messages", "values"]
    async for mode, given in graph("baseline").astream({"text": "a post"}, context=context, stream_mode=modes):
        last = given
    print(last)

asyncio.run(listen())
"""


def run(*command: str, script: str = JUDGES, **environment: str) -> tuple[str, int]:
    """Run a command, and return what it printed and the most memory that it took, in bytes."""
    variables = {**os.environ, "TRIBUNAL_DATA": str(Path.cwd()), **environment}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED + script, *command], cwd=PROJECT, env=variables, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    *said, memory = done.stdout.splitlines()
    return "\n".join(said) + done.stderr, int(memory) * 1024


WAYS = {"openai": QWEN, "anthropic": ANTHROPIC, "ollama": OLLAMA, "gemini": GEMINI}


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
# Events of the other wires are no news to one: each gets its own.
OTHERS = {"openai": "deltas parts lines", "anthropic": "chunks parts lines", "gemini": "chunks deltas lines",
          "ollama": "chunks deltas parts"}  # fmt: skip
# Read by the client that all wires share: for one wire in CI, and for the others among the slow tests.
SHARED = {"endless server error", "endless redirect", "endless error", "bomb of deflate", "bomb of bare deflate",
          "bomb of members", "bomb in an error", "endless pings"}  # fmt: skip


def cells(kinds: Iterable[str]) -> list[Any]:
    """Each wire with the bodies that it can be sent."""
    return [
        pytest.param(
            wire, kind, marks=[pytest.mark.slow] if wire != "openai" and kind in SHARED else []
        )
        for wire in WAYS
        for kind in kinds
        if kind.removeprefix("endless ") not in OTHERS[wire].split()
    ]


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(("wire", "kind"), cells(ENDLESS))
def test_no_body_takes_much_memory(wire: str, kind: str) -> None:
    way = WAYS[wire]
    with serving(kind) as url:
        key = {way.key: "sk-ant-zero-0123456789"} if way.key else {}
        judge = (
            "judge",
            "a post",
            "--graph",
            "baseline",
            "--model",
            way.model,
            "--set",
            "attempts=1",
        )
        said, memory = run(*judge, **{way.address: f"{url}{way.root}"}, **key)
    assert "Traceback" not in said
    assert "Usage:" not in said
    assert memory < MOST_MEMORY
    if kind in ("endless", "bomb", "bomb of deflate", "bomb of bare deflate", "bomb of members"):
        assert "16 MiB" in said


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(
    ("wire", "kind"),
    cells(kind for kind in ENDLESS if STREAM.encode() in ENDLESS[kind][0] or "lines" in kind),
)
def test_nor_does_a_stream_that_somebody_listens_to(wire: str, kind: str) -> None:
    way = WAYS[wire]
    with serving(kind) as url:
        key = {way.key: "sk-ant-zero-0123456789"} if way.key else {}
        said, memory = run(way.model, script=LISTENS, **{way.address: f"{url}{way.root}"}, **key)
    assert "Traceback" not in said
    assert memory < MOST_MEMORY
    if kind != "endless pings":  # two clients don't know a comment
        assert "longer than 16 MiB" in said or "more than 50,000 pieces" in said


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["endless", "endless pings", "bomb", "bomb in an error", "endless error"]
)
def test_the_doctor_s_questions_take_no_more(kind: str) -> None:
    with serving(kind) as url:
        said, memory = run(
            "doctor", "--model", "openai:x", OPENAI_BASE_URL=f"{url}/v1", OLLAMA_HOST=url
        )
    assert "Traceback" not in said
    assert "Usage:" not in said
    assert memory < MOST_MEMORY


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["endless", "bomb", "bomb of members", "bomb in an error", "endless error"]
)
@pytest.mark.parametrize("wire", ["openai", "google_genai", "ollama"])
def test_nor_do_embeddings(wire: str, kind: str, tmp_path: Path) -> None:
    posts = tmp_path / "decided.csv"
    posts.write_text("text,category\nplain words,No Hate\n")
    with serving(kind) as url:
        said, memory = run(
            "precedents", "build", "ours", "--from", str(posts), "--embedding", f"{wire}:x", "--out", str(tmp_path),
            OPENAI_BASE_URL=f"{url}/v1", OLLAMA_HOST=url, GOOGLE_GEMINI_BASE_URL=url, GOOGLE_API_KEY="key-0123456789",
        )  # fmt: skip
    assert "Traceback" not in said
    assert "Usage:" not in said
    assert memory < MOST_MEMORY
    if not kind.endswith("error"):
        assert "16 MiB" in said


@on_linux
@pytest.mark.long
@pytest.mark.parametrize(
    "kind", ["endless", "endless pings", "bomb", "bomb in an error", "endless error"]
)
def test_nor_does_a_search(kind: str) -> None:
    with serving(kind) as url:
        said, memory = run("judge", "a post", "--graph", "antihate", "--model", "rehearsal", "--web",
                           "--set", f"searxng_url={url}", "--set", "search=searxng")  # fmt: skip
    assert "Traceback" not in said
    assert "Usage:" not in said
    assert memory < MOST_MEMORY


class Response:
    """A response whose body comes in pieces."""

    def __init__(self, raw: bytes, status: int, packing: str, size: int) -> None:
        self.status_code, self.headers = status, {"content-encoding": packing} if packing else {}
        self._raw, self._size = raw, size

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._raw), self._size):
            yield self._raw[at : at + self._size]


def deflate(raw: bytes) -> bytes:
    """Bare, as some servers send it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(raw) + packer.flush()


def members(raw: bytes) -> bytes:
    """A gzip file of two members, with padding after them."""
    return gzip.compress(raw[: len(raw) // 2]) + gzip.compress(raw[len(raw) // 2 :]) + bytes(8)


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "deflate bare": deflate, "x-gzip": gzip.compress,
    "gzip members": members,
}  # fmt: skip


@given(
    st.binary(max_size=5000),
    st.sampled_from(sorted(PACK)),
    st.integers(1, 4000),
    st.sampled_from([200, 400]),
)
def test_any_body_of_any_packing_is_read_as_it_is(
    body: bytes, packing: str, size: int, status: int
) -> None:
    response: Any = Response(PACK[packing](body), status, packing.partition(" ")[0], size)
    assert asyncio.run(read_all(response)) == body


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("over", [-1, 0, 1, 10**6])
def test_where_a_body_ends(packing: str, over: int) -> None:
    answer: Any = Response(
        PACK[packing](bytes(LONGEST_ANSWER + over)), 200, packing.partition(" ")[0], 2**16
    )
    if over > 0:
        with pytest.raises(TooLarge):
            asyncio.run(read_all(answer))
    else:
        assert len(asyncio.run(read_all(answer))) == LONGEST_ANSWER + over
    error: Any = Response(
        PACK[packing](bytes(LONGEST_ERROR + over)), 400, packing.partition(" ")[0], 2**16
    )
    assert len(asyncio.run(read_all(error))) == LONGEST_ERROR + min(over, 0)


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip"])
def test_a_packing_that_nobody_asked_for(packing: str) -> None:
    response: Any = Response(b"x", 200, packing, 1)
    with pytest.raises(TooLarge):
        asyncio.run(read_all(response))


def test_a_packed_body_that_stops_short() -> None:
    response: Any = Response(gzip.compress(bytes(10**6))[:-20], 200, "gzip", 100)
    with pytest.raises(ConnectionError, match="stops short"):
        asyncio.run(read_all(response))


def test_a_small_answer_is_still_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.doubles import Fault
    from tests.models.classified import classify

    packed = gzip.compress(chat_completion('{"category": "Sexist", "explanation": "because"}'))
    record, _ = asyncio.run(classify(Fault(200, raw=packed, headers={"content-encoding": "gzip"})))
    assert came_of(record) == ("verdict", None, 1)
    assert record.category == GOOD["category"]
