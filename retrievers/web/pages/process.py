"""What a reading process does: a page in, its text out. Imported there alone, with all that reading takes."""

from __future__ import annotations

from dataclasses import asdict

import lxml.html  # type: ignore[import-untyped]  # noqa: F401
import trafilatura  # noqa: F401

from tribunal.retrievers.web.pages.parsing import read
from tribunal.retrievers.web.pages.text import PageUnreadable
from tribunal.schema import JSON


def work(job: JSON, body: bytes) -> tuple[JSON, bytes]:
    """The text of a page, or why it has none."""
    try:
        return asdict(read(body, **job)), b""
    except PageUnreadable as error:
        return {"reason": error.reason, "why": str(error)}, b""
