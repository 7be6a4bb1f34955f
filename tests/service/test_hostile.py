"""Hostile requests over a real socket: each is answered clearly, no model is asked, and the service goes on."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.court import court_script
from tests.doubles import ScriptedServer
from tests.service.conftest import check_refusal, get_json, serving
from tests.service.live import cases_at, deciding, key_of, listening, sqlite
from tribunal.service.routes import access

# Every route that takes a body, with a request that it would take.
BODIES = {
    "/v1/judge": {"text": "hi"},
    "/v1/batches": {"text": "hi"},
    "/v1/cases/case-1/claim": {"reviewer": "hi"},
    "/v1/cases/case-1/decision": {"action": "ask", "question": "hi"},
    "/v1/cases/case-1/appeal": {"appellant": "hi", "reason": "hi"},
    "/v1/cases/case-1/reopen": {"reason": "hi"},
    "/v1/appeals/appeal-1/claim": {"reviewer": "hi"},
    "/v1/appeals/appeal-1/decision": {"action": "retry", "note": "hi"},
    "/v1/second-opinions/opinion-1/claim": {"reviewer": "hi"},
    "/v1/second-opinions/opinion-1/opinion": {"category": "NotHate", "note": "hi"},
    "/v1/second-opinions/opinion-1/settle": {"reopen": "hi"},
    "/v1/webhooks": {"url": "hi"},
    "/v1alpha1/comments:analyze": {
        "comment": {"text": "hi"},
        "requestedAttributes": {"HATE_SPEECH": {}},
    },
    "/v1/moderations": {"input": "hi"},
}
BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 100_000, 100_000)
JSON = "application/json"


def some(path: str) -> str:
    """A route's path with ids in it, as `BODIES` has it."""
    return re.sub(r"\{(\w+)_id\}", r"\1-1", path)


def shaped(path: str, status: int, body: bytes) -> bool:
    """Whether an error has the shape that clients of this path read."""
    error = json.loads(body)["error"]
    if path.startswith("/v1alpha1/"):
        return bool(error["code"] == status and error["message"] and error["status"].isupper())
    if path == "/v1/moderations" or path.startswith("/v1/models"):
        return bool(set(error) == {"message", "type", "param", "code"} and error["message"])
    return bool(set(error) == {"kind", "message"} and error["message"])


@asynccontextmanager
async def attacked(folder: Path, **options: object) -> AsyncIterator[str]:
    """A replica to attack. After it, nothing was asked of a model, nothing taken in, and it decides on a post."""
    async with (
        ScriptedServer(court_script(implicit=False)) as server,
        deciding(server, sqlite(folder), **options) as url,
    ):
        yield url
        assert server.requests == []
        assert await cases_at(url) == []
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            assert (await client.get("/healthz")).status_code == 200
            got = await client.post("/v1/judge?wait=60", json={"text": "Good morning!"})
            assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text


@pytest.mark.long
def test_every_route_with_a_body_stands_here(
    app_document: dict[str, dict[str, dict[str, object]]],
) -> None:
    paths = app_document["paths"]
    operations = [(path, each) for path, methods in paths.items() for each in methods.values()]
    taking = {path for path, operation in operations if "requestBody" in operation}  # type: ignore[operator]
    assert {some(path) for path in taking} == set(BODIES)


@pytest.mark.long
async def test_bodies_that_no_route_takes(tmp_path: Path) -> None:
    hostile: dict[str, tuple[str, Callable[[bytes], bytes], set[int]]] = {
        "10 MB": (JSON, lambda body: body.replace(b"hi", b"a" * 10_000_000), {400, 413, 415}),
        "deep": (JSON, lambda body: b"[" * 100_000, {400, 415}),
        "deep and closed": (
            JSON,
            lambda body: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
            {400, 415},
        ),
        "a number of 10,000 digits": (JSON, lambda body: b"1" * 10_000, {400, 415}),
        "another type": ("application/xml", lambda body: body, {415}),
        "no type": ("", lambda body: body, {415}),
        "a type that is none": ("\xff;;=", lambda body: body, {415}),
        "another charset": (
            f"{JSON}; charset=latin-1",
            lambda body: body.replace(b"hi", b"\xe9"),
            {400, 415},
        ),
        "no object": (JSON, lambda body: b"[1]", {400, 415}),
        "nothing": (JSON, lambda body: b"", {400, 415}),
        "a form without end": (
            "multipart/form-data; boundary=a",
            lambda body: b"--a\r\n" * 10_000,
            {400, 415},
        ),
    }
    async with attacked(tmp_path) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        for path, body in BODIES.items():
            for name, (kind, made, statuses) in hostile.items():
                headers = [(b"Content-Type", kind.encode("latin-1"))] if kind else []
                got = await client.post(
                    path, content=made(json.dumps(body).encode()), headers=headers
                )
                assert got.status_code in statuses, (path, name, got.text[:300])
                assert shaped(path, got.status_code, got.content), (path, name, got.text[:300])
                assert got.headers["content-type"] == JSON


async def raw(url: str, *pieces: bytes) -> tuple[int, bytes]:
    """Send these bytes, and take what comes until the service hangs up: the status, 0 without an answer, and a body."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    for piece in pieces:
        writer.write(piece)
    got = await reader.read()
    writer.close()
    head, _, body = got.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def head(path: str, *lines: str, kind: str = JSON, method: str = "POST") -> bytes:
    lines = (
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {kind}",
        *lines,
        "",
        "",
    )
    return "\r\n".join(lines).encode()


async def test_slow_clients_are_told_so(tmp_path: Path) -> None:
    async with attacked(tmp_path, body_seconds=0.5, head_seconds=0.5) as url:
        form, table = "multipart/form-data; boundary=a", "text/csv"
        taken = {"/v1/judge": (JSON, form), "/v1/batches": (form, table)}
        wanted = [(path, kind) for path in BODIES for kind in (JSON, form, table)]
        slow = [
            raw(url, head(path, "Content-Length: 99", kind=kind), b"--a") for path, kind in wanted
        ]
        for (path, kind), (status, body) in zip(wanted, await asyncio.gather(*slow), strict=True):
            assert status == (408 if kind in taken.get(path, (JSON,)) else 415), (path, kind, body)
            assert shaped(path, status, body), (path, body)
        for path in ("/v1/judge", "/v1/moderations"):
            # a head without its end
            status, body = await raw(url, head(path, "Content-Length: 99")[:-2])
            assert (status, json.loads(body)["error"]["kind"]) == (408, "timeout")
        assert await raw(url) == (0, b"")  # nothing is said to who says nothing


@pytest.mark.long
async def test_a_head_or_a_body_without_end(tmp_path: Path) -> None:
    async with attacked(tmp_path, head_seconds=0.5, most_body=200_000, batch_bytes=1000) as url:
        flood = "\r\n".join(f"X-{number}: {'a' * 100}" for number in range(20_000))
        status, body = await raw(url, head("/v1/judge", flood))
        assert (status, shaped("/v1/judge", status, body)) == (400, True)
        status, body = await raw(url, b"hello\r\n\r\n")
        assert (status, shaped("/v1/judge", status, body)) == (400, True)
        piece = b"186a0\r\n" + b" " * 100_000 + b"\r\n"
        for path in BODIES:
            kind = "text/csv" if path == "/v1/batches" else JSON
            status, body = await asyncio.wait_for(
                endless(url, head(path, "Transfer-Encoding: chunked", kind=kind), piece), 60
            )
            assert (status, shaped(path, status, body)) == (413, True), (path, body)
        status, body = await asyncio.wait_for(
            endless(url, head("/healthz", "Transfer-Encoding: chunked", method="GET"), piece), 60
        )
        assert status == 200  # which reads no body, and yet hangs up


async def endless(url: str, begun: bytes, piece: bytes) -> tuple[int, bytes]:
    """Send a piece again and again, until the service hangs up; gives its answer."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)

    async def pour() -> None:
        writer.write(begun)
        try:
            while True:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass

    pouring = asyncio.create_task(pour())
    got = b""
    try:
        while more := await reader.read(65_536):
            got += more
    except ConnectionError:
        pass
    await pouring
    writer.close()
    answer, _, body = got.partition(b"\r\n\r\n")
    return int(answer.split()[1]), body


async def test_an_image_bomb_is_refused(tmp_path: Path) -> None:
    bomb = f"data:image/png;base64,{base64.b64encode(BOMB).decode()}"
    asked = {
        "/v1/judge?wait=30": {"image": bomb},
        "/v1/moderations": {"input": [{"type": "image_url", "image_url": {"url": bomb}}]},
    }
    async with attacked(tmp_path) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        for path, body in asked.items():
            got = await client.post(path, json=body)
            check_refusal(got, 400, "million pixels")
            assert shaped(path.partition("?")[0], got.status_code, got.content)


def memory() -> int:
    """Bytes that this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_thousand_idle_connections(tmp_path: Path) -> None:
    async with attacked(tmp_path, connections=500, head_seconds=600) as url:
        parts = urlsplit(url)
        idle: list[socket.socket] = []
        try:
            before = memory()
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                for number in range(1000):
                    idle.append(socket.create_connection((parts.hostname, parts.port)))
                    if number % 2:
                        idle[-1].send(b"POST /v1/judge HTTP/1.1\r\n")
                    if number % 250 == 249:
                        assert (await client.get("/healthz")).status_code == 200
            assert (memory() - before) / 1000 < 50_000  # bytes for each
            open_still = 0
            for each in idle:
                each.setblocking(False)
                try:
                    each.recv(1)
                except BlockingIOError:
                    open_still += 1
                except ConnectionError:
                    pass
            assert 400 <= open_still <= 500  # the oldest were hung up on
        finally:
            for each in idle:
                each.close()


@pytest.mark.long
async def test_a_client_that_never_reads_is_hung_up_on(tmp_path: Path) -> None:
    async with attacked(tmp_path, connections=1, answer_seconds=1.0) as url:
        parts = urlsplit(url)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((parts.hostname, parts.port))
            deaf.sendall(head("/openapi.json", method="GET") * 200)  # some 20 MB of answers
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                while (got := await client.get("/healthz")).status_code == 200:
                    await asyncio.sleep(0.01)
                assert (got.status_code, got.headers["retry-after"]) == (503, "1")
                assert shaped("/healthz", 503, got.content)
                while got.status_code == 503:
                    await asyncio.sleep(0.05)
                    got = await client.get("/healthz")


@pytest.mark.long
async def test_a_key_over_its_rate_is_refused_before_any_work(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    key = await key_of(database, "judge", "review", "audit", "admin", per_minute=0)
    async with (
        listening(database) as url,
        httpx.AsyncClient(base_url=url, timeout=60, headers={"X-API-Key": key}) as client,
    ):
        paths = await get_json(client, "/openapi.json", "paths")
        for path, methods in paths.items():
            for method, about in methods.items():
                if "security" in about:
                    got = await client.request(method, path, content=b"no JSON")
                    assert (got.status_code, int(got.headers["retry-after"]) > 0) == (429, True), (
                        path,
                        got.text,
                    )
                    assert shaped(path, 429, got.content)


async def test_a_fault_of_ours_has_the_shape_of_the_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(access, "find_caller", broken)
    async with serving(sqlite(tmp_path)) as client:
        for path, body in BODIES.items():
            got = await client.post(path, json=body)
            assert (got.status_code, shaped(path, 500, got.content), "secret" in got.text) == (
                500,
                True,
                False,
            )
            assert got.headers["x-request-id"] in got.text
