"""Images by address, over HTTP: https alone but where the operator says otherwise, and a CDN of the operator's own."""

from __future__ import annotations

from pathlib import Path

from tests.doubles.web import SitePage
from tests.service.batched import ended, lines, sent, table
from tests.service.conftest import check_refusal, serving
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
            check_refusal(got, 400, "is not https; send its https address")
        made = await sent(client, lines({"text": "Good morning!", "image": address}))
        await ended(client, made.headers["location"])
        [row] = await table(client, made.json()["id"], "jsonl")
        assert (row["outcome"], "is not https" in row["explanation"]) == ("failure", True)
