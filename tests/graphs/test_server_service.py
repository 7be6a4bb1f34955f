"""The service within the real `langgraph dev` server: both answer, and neither answers for the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.conftest import get_json

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]
POST = {"text": "Immigrants: the weeds in our garden.", "graph": "arcade"}


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


async def test_a_post_is_judged_beside_studio(
    http: httpx.AsyncClient, client: Any, operator: Path
) -> None:
    got = await http.post("/v1/judge?wait=60", json=POST)
    assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
    assert got.headers["x-request-id"]
    case = await get_json(http, f"/v1/cases/{got.headers['tribunal-case']}")
    assert case["record"] == got.json()
    assert (operator / "data" / "service.sqlite").is_file()
    thread = await client.threads.create()
    done = await client.runs.wait(thread["thread_id"], "arcade", input={"text": POST["text"]})
    assert done["outcome"]["category"] == got.json()["category"]


async def test_what_waits_is_taken_up_there_too(http: httpx.AsyncClient) -> None:
    got = await http.post("/v1/judge", json=POST)
    assert got.status_code == 202
    while (case := await get_json(http, got.headers["location"]))["status"] != "done":
        await asyncio.sleep(0.05)
    assert case["record"]["outcome"] == "verdict"


async def test_its_own_routes_stay_that_server_s(http: httpx.AsyncClient) -> None:
    assert await get_json(http, "/ok", "ok") is True
    ready = await get_json(http, "/readyz")
    assert (ready["ready"], ready["trouble"]) == (True, None)
    described = await get_json(http, "/openapi.json", "paths")
    assert {"/v1/judge", "/v1/cases", "/threads", "/runs", "/assistants/search"} <= described.keys()
    assert "tribunal_posts" not in (await http.get("/metrics")).text
    assert (await http.get("/info")).is_success


async def test_each_has_its_own_shape_of_errors(http: httpx.AsyncClient) -> None:
    assert (await get_json(http, "/v1/cases/none", "error"))["kind"] == "not_found"
    assert (await http.request("DELETE", "/v1/judge")).status_code == 405
    assert (await http.post("/v1/judge", json={"colour": "red"})).json()["error"][
        "kind"
    ] == "bad_input"
    assert (await get_json(http, "/threads/none")).keys() == {"detail"}
    assert (await get_json(http, "/v1/none")).keys() == {"detail"}


async def test_a_key_in_an_address_stays_out_of_that_server_s_log(
    http: httpx.AsyncClient, operator: Path
) -> None:
    await http.get("/v1/cases/logged-here?key=tribunal_0123456789ab_of-nobody")
    log = (operator / "log").read_text()
    assert "/v1/cases/logged-here" in log
    assert "of-nobody" not in log
