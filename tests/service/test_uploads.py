"""`POST /v1/judge`: an image as a file of a form, what is refused of it, and clients that don't stay."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.court import PATIENCE, court_script
from tests.doubles import Fault, Reply, Request
from tests.openai_server import OpenAIServer
from tests.service.conftest import check_refusal, get_json, serving
from tests.service.test_service import ended
from tribunal.models.image import MAX_BYTES


def picture(form: str = "PNG") -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(held, form)
    return held.getvalue()


async def test_an_image_is_sent_as_a_file(database: str) -> None:
    async with OpenAIServer(court_script()) as server:
        async with serving(database, settings={"model": "openai:scripted"}) as client:
            form = {
                "text": "Good morning!",
                "graph": "baseline",
                "settings": '{"rounds": 2}',
                "post_id": "p-1",
            }
            form["earlier"] = '["How was the match?"]'
            wrong = await client.post(
                "/v1/judge?wait=30", data=form, files={"image": ("a.png", picture())}
            )
            # settings are read, and checked
            assert (wrong.status_code, "rounds" in wrong.text) == (
                400,
                True,
            )
            form["settings"] = '{"max_text": 100}'
            got = await client.post(
                "/v1/judge?wait=30", data=form, files={"image": ("a.png", picture())}
            )
            assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
            assert got.json()["shown"] == ["text", "image"]
            case = await get_json(client, f"/v1/cases/{got.headers['tribunal-case']}")
            assert case["post"]["image"].startswith("data:image/png;base64,")
            assert (case["post"]["post_id"], case["settings"]["max_text"]) == ("p-1", 100)
        assert server.requests[0].images
        assert "How was the match?" in server.requests[0].text


BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 100_000, 100_000)


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "image", "status", "says"),
    [
        ({}, b"\x89PNG\r\n\x1a\n", 415, "image: can't be read"),
        ({}, BOMB, 413, "image: 100000 × 100000 is over 50 million pixels"),
        ({}, picture() + b" " * MAX_BYTES, 413, "image: is over 20 MB"),
        ({}, b" " * (MAX_BYTES * 2), 413, "body: is over"),
        ({"text": "hi", "settings": "rounds=2"}, picture(), 400, "settings: is not JSON"),
        ({"image": "/etc/passwd"}, picture(), 400, "image: is there twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_form_that_is_refused(
    form: dict[str, str], image: bytes, status: int, says: str, sqlite: str
) -> None:
    async with serving(sqlite, graph="baseline") as client:
        got = await client.post("/v1/judge?wait=30", data=form, files={"image": ("a.png", image)})
        check_refusal(got, status, says)
        assert await get_json(client, "/v1/cases", "cases") == []


async def test_a_client_that_does_not_wait_may_go_away_at_once(database: str) -> None:
    """It hangs up before it has seen the 202, and the post is decided all the same. One that waits ends its trial."""
    answered, script = asyncio.Event(), court_script()

    async def slow(request: Request) -> Reply | Fault:
        await answered.wait()
        return script(request)

    async with (
        OpenAIServer(slow),
        serving(database, settings={"model": "openai:scripted"}, graph="baseline") as client,
    ):
        app = client.app  # type: ignore[attr-defined]
        for query in (b"", b"wait=30"):
            await gone_at_once(
                app, "/v1/judge", json.dumps({"text": "Good morning!"}).encode(), query=query
            )
        second, first = await get_json(client, "/v1/cases", "cases")
        assert (first["status"], second["status"]) == ("running", "cancelled")
        answered.set()
        async with asyncio.timeout(PATIENCE):
            case = await ended(client, f"/v1/cases/{first['id']}")
        assert (case["status"], case["record"]["outcome"]) == ("done", "verdict")


async def test_an_upload_that_ends_early_leaves_nothing(tmp_path: Path) -> None:
    async with serving(f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        app = client.app  # type: ignore[attr-defined]
        status = await gone_at_once(
            app, "/v1/batches", b'{"text": "Good', "application/x-ndjson", whole=False
        )
        assert status == 400
        assert await get_json(client, "/v1/batches", "batches") == []


async def gone_at_once(
    app: Any,
    path: str,
    body: bytes,
    kind: str = "application/json",
    *,
    query: bytes = b"",
    whole: bool = True,
) -> int:
    """The status of the answer that nobody reads."""
    coming = iter([{"type": "http.request", "body": body, "more_body": not whole}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(coming, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path,
        "raw_path": path.encode(), "query_string": query, "root_path": "", "scheme": "http",
        "headers": [(b"host", b"localhost"), (b"content-type", kind.encode())],
        "client": ("127.0.0.1", 1), "server": ("tribunal", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    return int(sent[0]["status"])
