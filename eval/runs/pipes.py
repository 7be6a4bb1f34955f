"""What the processes of a run tell each other: a line of JSON, and beside it the bytes of a post or of its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from tribunal.parsed import from_json
from tribunal.schema import JSON

LONGEST = 2**20  # bytes of the line; what is longer goes beside it


def message(told: JSON, beside: bytes = b"") -> bytes:
    """A message as it is sent."""
    return json.dumps({**told, "size": len(beside)}).encode() + b"\n" + beside


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[JSON, bytes]]:
    """Every message until the other process closes the pipe, or ends in the middle of one."""
    while (line := await reader.readline()).endswith(b"\n"):
        told = from_json(line)
        try:
            yield told, await reader.readexactly(told.pop("size"))
        except asyncio.IncompleteReadError:
            return
