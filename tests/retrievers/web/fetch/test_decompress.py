"""Packed pages, in every packing that is taken."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli  # type: ignore[import-untyped]
import pytest

from tests.retrievers.web.fetch.small_web import Web, ok


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(b"a page" * 200_000)),
        (
            "x-gzip",
            gzip.compress(b"a page" * 100_000) + gzip.compress(b"a page" * 100_000) + b"\0" * 8,
        ),
        ("deflate", zlib.compress(b"a page" * 200_000)),
        ("deflate", zlib.compress(b"a page" * 200_000)[2:-4]),
        ("br", brotli.compress(b"a page" * 200_000)),
        ("identity", b"a page" * 200_000),
    ],
    # gzip packs the time, which differs by process
    ids=[
        "gzip",
        "two gzips",
        "zlib",
        "bare deflate",
        "br",
        "identity",
    ],
)
async def test_packed_pages_come_out_whole(web: Web, coding: str, packed: bytes) -> None:
    async def in_bits(writer: asyncio.StreamWriter) -> None:
        answer = ok(packed, "text/plain", f"Content-Encoding: {coding}")
        for at in (*range(0, 200), 200):
            writer.write(answer[at : at + 1] if at < 200 else answer[200:])
            await writer.drain()

    web.site.answers["/"] = in_bits
    page = await web.fetcher().fetch("http://site.test/")
    assert page.body == b"a page" * 200_000
