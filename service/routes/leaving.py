"""Clients that go away while they wait."""

from __future__ import annotations

import asyncio

from fastapi import Request

from tribunal.schema import Record
from tribunal.service.replica.judging import Opened


async def waited(request: Request, opened: Opened, seconds: float, *, only_here: bool) -> Record | None:
    """The record, or None if it takes longer.

    Args:
        request: whose client may go away.
        opened: the case.
        seconds: how long to wait.
        only_here: whether nobody but this client could have the outcome; then its trial ends when they go.

    Raises:
        BadInput: what was asked can't be judged.
    """
    outcome = asyncio.create_task(opened.outcome(seconds))
    left = asyncio.create_task(gone(request))
    try:
        await asyncio.wait([outcome, left], return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done() and only_here:
            await opened.abandon()
            await asyncio.wait([outcome])
            if outcome.cancelled():
                return None  # as its trial was; nobody reads the answer
        return await outcome
    finally:
        left.cancel()


async def gone(request: Request) -> None:
    """Returns when the client has gone away."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
