"""Somebody's endpoint on loopback: it checks each message with the library's own `Webhook.verify`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from standardwebhooks import Webhook

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Message(NamedTuple):
    """A message that came, as it came."""

    id: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Keeps what comes, and answers as it is told to, one answer after another; the last one stays."""

    def __init__(self) -> None:
        self.url = ""
        self.came: list[Message] = []
        self.answers: list[int | Handler] = [200]
        self._news = asyncio.Condition()

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with self._news:
            self.came.append(
                Message(request.headers.get("webhook-id", ""), dict(request.headers), body)
            )
            self._news.notify_all()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=answer) if isinstance(answer, int) else await answer(request)

    async def wait(self, number: int) -> list[Message]:
        """What came, once it is so many."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: len(self.came) >= number), 30)
        return self.came

    def read(self, at: int, secret: str) -> dict[str, Any]:
        """A message that came, checked."""
        verified: dict[str, Any] = Webhook(secret).verify(self.came[at].body, self.came[at].headers)
        return verified


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """An endpoint that listens."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook?token=of-its-own"
    try:
        yield receiver
    finally:
        await runner.cleanup()
