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
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([outcome, gone], return_when=asyncio.FIRST_COMPLETED)
        if not outcome.done() and only_here:
            await opened.abandon()
        return await outcome
    finally:
        gone.cancel()


async def _gone(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
