"""Packed answers: bombs, and what is not what it says it is."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]

from tests.retrievers.web.fetch.attack import Attacks
from tests.retrievers.web.fetch.small_web import Web, ok
from tribunal.retrievers.web.fetch import FetchLimits

ATTACKS = Attacks()
LIMITS = FetchLimits()


def bomb(name: str, pack: Callable[[bytes], bytes]) -> None:
    async def run(web: Web) -> str:
        packed = pack(b"\0" * 2**26)
        assert len(packed) < 2**17
        web.site.answers["/"] = ok(packed, "text/html", f"Content-Encoding: {name}")
        return await web.outcome("http://site.test/", body_bytes=2**20)

    ATTACKS.add(
        f"A {name} bomb: 64 MiB in under 128 KiB",
        "refused: too_large",
        f"Unpacked a small step at a time, and no further than the limit ({LIMITS.body_bytes >> 20} MiB)",
    )(run)


bomb("gzip", gzip.compress)
bomb("deflate", zlib.compress)
bomb("br", lambda data: bytes(brotli.compress(data, quality=5)))


@ATTACKS.add(
    "A bomb inside a bomb (`gzip, gzip`)",
    "refused: encoding",
    "One layer of packing is taken, two are not",
)
async def nested(web: Web) -> str:
    web.site.answers["/"] = ok(
        gzip.compress(gzip.compress(b"x")), "text/html", "Content-Encoding: gzip, gzip"
    )
    return await web.outcome("http://site.test/")


@ATTACKS.add(
    "Packing that was not asked for (zstd)",
    "refused: encoding",
    "gzip, deflate and brotli are unpacked",
)
async def unasked(web: Web) -> str:
    web.site.answers["/"] = ok(b"\x28\xb5\x2f\xfd", "text/html", "Content-Encoding: zstd")
    return await web.outcome("http://site.test/")


@ATTACKS.add("gzip that stops short", "failed: truncated", "Half a page is no evidence")
async def short_gzip(web: Web) -> str:
    web.site.answers["/"] = ok(
        gzip.compress(os.urandom(5000))[:-100], "text/html", "Content-Encoding: gzip"
    )
    return await web.outcome("http://site.test/")


@ATTACKS.add("Something else called gzip", "failed: encoding", "Nothing of it is taken")
async def no_gzip(web: Web) -> str:
    web.site.answers["/"] = ok(
        b"\xff\xff\xff\xff not packed", "text/html", "Content-Encoding: gzip"
    )
    return await web.outcome("http://site.test/")
