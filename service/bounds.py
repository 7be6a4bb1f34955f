"""How much a request may bring, and how long it may take over it: one rule for every route."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tribunal.service.replica.options import ServiceOptions

_LITTLE = 1024**2  # bytes, for what is no post; and what a form has around a batch's file
_POSTS = ("/v1/judge", "/v1/moderations", "/v1/signals/coop", "/v1alpha1/comments:analyze")


class Bounded:
    """ASGI middleware. A body that has too many bytes, or takes too many seconds, is an `HTTPException` where the route
    reads it, so that the answer has the route's own shape."""

    def __init__(self, app: ASGIApp, options: ServiceOptions) -> None:
        self._app, self._seconds = app, options.body_seconds
        self._most = dict.fromkeys(_POSTS, (options.most_body, "most_body"))
        self._most["/v1/batches"] = options.batch_bytes + _LITTLE, "batch_bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            receive = _Body(scope, receive, *self._most.get(path, (_LITTLE, "the most here")), self._seconds).receive
        await self._app(scope, receive, send)


class _Body:
    """The body of a request, as it comes."""

    def __init__(self, scope: Scope, receive: Receive, most: int, limit: str, seconds: float) -> None:
        self._receive, self._most, self._limit, self._seconds = receive, most, limit, seconds
        self._until = asyncio.get_running_loop().time() + seconds
        self._announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        self._read, self._whole = 0, False

    async def receive(self) -> Message:
        """The next piece; after the last, what the server says of the client.

        Raises:
            HTTPException: it is too large, or takes too long.
        """
        if self._whole:
            return await self._receive()
        self._hold(int(self._announced) if self._announced.isdigit() else 0)
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"body: took over {self._seconds:g} seconds (body_seconds)") from None
        self._read += len(message.get("body", b""))
        self._hold(self._read)
        self._whole = not message.get("more_body", False)
        return message

    def _hold(self, size: int) -> None:
        if size > self._most:
            raise HTTPException(413, f"body: is over {self._most:,} bytes ({self._limit}); send less")
