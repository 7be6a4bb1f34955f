"""Images by address, over HTTP: https alone but where the operator says otherwise, and a CDN of the operator's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.court import court_script
from tests.doubles.web import Site, SitePage
from tests.nodes.test_intake import png
from tests.openai_server import OpenAIServer
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import serving
from tests.service.live import sqlite

FORBIDS = SitePage("user-agent: *\ndisallow: /", "text/plain")


async def test_a_client_s_image_is_taken_by_https_alone(tmp_path: Path) -> None:
    address = "http://img.example/a.png"
    part = {"type": "image_url", "image_url": {"url": address}}
    async with serving(sqlite(tmp_path), graph="baseline") as client:
        for path, body in {
            "/v1/judge?wait=60": {"text": "Good morning!", "image": address},
            "/v1/moderations": {"input": [part]},
        }.items():
            got = await client.post(path, json=body)
            assert (got.status_code, "is not https; send its https address" in got.text) == (400, True), got.text
        made = await sent(client, lines({"text": "Good morning!", "image": address}))
        await ended(client, made.headers["location"])
        [row] = await table(client, made.json()["id"], "jsonl")
        assert (row["outcome"], "is not https" in row["explanation"]) == ("failure", True)


@pytest.mark.parametrize("hosts", ["", "cdn.example,127.0.0.1"])
async def test_an_operator_s_own_images_need_no_robots_txt(
    hosts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"/robots.txt": FORBIDS, "/a.png": SitePage(png(), "image/png")}
    async with Site(pages) as site, OpenAIServer(court_script()):
        monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", site.host)
        monkeypatch.setenv("TRIBUNAL_IMAGE_HOSTS", hosts)
        asked = {"text": "Good morning!", "image": f"{site.url}/a.png"}
        async with serving(sqlite(tmp_path), graph="baseline", settings={"model": "openai:scripted"}) as client:
            got = await client.post("/v1/judge?wait=60", json=asked)
        if hosts:
            assert (got.status_code, got.json()["outcome"]) == (200, "verdict"), got.text
        else:
            assert (got.status_code, "robots" in got.text) == (400, True), got.text
        assert [each.path for each in site.log] == (["/a.png"] if hosts else ["/robots.txt"])
