"""Limits of what a client may send, how slowly, and by how many connections: one rule for every route.

uvicorn has none of these limits: its `timeout_keep_alive` ends with the first byte of a request, its
`limit_concurrency` counts idle connections as work and then refuses everybody, and it waits without end for a client
that never reads its answer. h11, and not httptools, since only that limits the head of a request. A proxy in front may
have limits of its own beside these, which docs/service.md promises without one.
"""

from __future__ import annotations

import asyncio
import json
import socket

import h11
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from tribunal.errors import Problem
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.routes.access import PEER

OPTIONS = "tribunal.options"  # in the state of the application: the operator's, for its connections
_SMALL_BODY = 1024**2  # bytes, for what is no post; and what a form has around a batch's file
_POST_PATHS = ("/v1/judge", "/try", "/v1/moderations", "/v1alpha1/comments:analyze")


class BodyLimits:
    """ASGI middleware that limits the bytes and the seconds of a body.

    A body over them is an `HTTPException` where the route reads it, so that the answer has the route's own shape.
    """

    def __init__(self, app: ASGIApp, options: ServiceOptions) -> None:
        """Set the limits of each path by the options."""
        self._app = app
        self._seconds = options.body_seconds
        self._by_path = dict.fromkeys(_POST_PATHS, (options.most_body, "most_body"))
        self._by_path["/v1/batches"] = options.batch_bytes + _SMALL_BODY, "batch_bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whose body is limited."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        max_bytes, limit = self._by_path.get(path, (_SMALL_BODY, "the most here"))
        deadline = asyncio.get_running_loop().time() + self._seconds
        announced = next(
            (value for name, value in scope["headers"] if name == b"content-length"), b"0"
        )
        size = 0
        is_whole = False

        async def receive_limited() -> Message:
            """Return the next piece; after the last one, what the server says of the client."""
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            check_size(int(announced) if announced.isdigit() else 0)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"body: took over {self._seconds:g} seconds (body_seconds)"
                ) from None
            size += len(message.get("body", b""))
            check_size(size)
            is_whole = not message.get("more_body", False)
            return message

        def check_size(size: int) -> None:
            if size > max_bytes:
                raise HTTPException(413, f"body: is over {max_bytes:,} bytes ({limit}); send less")

        await self._app(scope, receive_limited, send)


class LimitedConnection(H11Protocol):
    """One connection: uvicorn's, with the limits of the options that the application's state holds."""

    _head_timer: asyncio.TimerHandle | None = (
        None  # for the head of a request, or for its beginning
    )
    _has_begun = False  # whether the timer is for what has begun: a new connection, a head, the rest of a body
    _reader_timer: asyncio.TimerHandle | None = None  # for the client to take some of its answer
    _idle_since = 0.0
    _is_refused = False

    @property
    def options(self) -> ServiceOptions:
        """The operator's options."""
        options: ServiceOptions = self.app_state[OPTIONS]
        return options

    @property
    def idle(self) -> bool:
        """Return whether no request is being answered on it."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection; if that is one too many, end the one that has been idle longest."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # Else the kernel keeps a small piece of an answer back until the one before is acknowledged, for 40 ms.
            # asyncio sees to it only for sockets that were made with TCP as their protocol, and uvicorn's aren't.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The one at the other end itself: uvicorn has in `client` whom a proxy on this machine names.
        self.app_state = {
            **self.app_state,
            PEER: (transport.get_extra_info("peername") or ("",))[0],
        }
        self._idle_since = self.loop.time()
        self._wait_for_request(begun=True)
        if len(self.connections) > self.options.connections:
            others = [
                each
                for each in self.connections
                if isinstance(each, LimitedConnection) and each is not self
            ]
            idle = [each for each in others if each.idle and not each.transport.is_closing()]
            if idle:
                min(idle, key=lambda each: each._idle_since).transport.abort()
            else:
                limit = self.options.connections
                self._refuse(
                    Problem("unavailable", f"over {limit} connections at a time", retry_after=1)
                )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which is gone."""
        for timer in (self._head_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, unless the client was refused. The time for what has begun doesn't begin anew."""
        if self._is_refused:
            return
        super().data_received(data)
        begun = bool(self.conn.trailing_data[0]) or self.conn.their_state is not h11.IDLE
        if (
            self.idle
            and self.cycle is not None
            and begun is not self._has_begun
            and not self._is_refused
        ):
            self._wait_for_request(begun=begun)

    def handle_events(self) -> None:
        """Handle what has come."""
        super().handle_events()
        if not self.idle and self._head_timer is not None:
            self._head_timer.cancel()

    def on_response_complete(self) -> None:
        """End an answer. What still comes of the request's body is thrown away, and not for long."""
        self._idle_since = self.loop.time()
        self._wait_for_request(begun=self.conn.their_state not in (h11.DONE, h11.IDLE))
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client, which takes its answer more slowly than it is written."""
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on writing: the client has caught up."""
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request. uvicorn calls it."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(Problem("bad_input", "head: is too long, or no HTTP/1.1"))
        else:
            self.transport.abort()

    def _wait_for_request(self, *, begun: bool) -> None:
        """Wait `head_seconds` for the rest of what has begun; else `keep_alive` for the next request to begin."""
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._has_begun = begun
        if begun:
            self._head_timer = self.loop.call_later(
                self.options.head_seconds, self._give_up_on_head
            )
        else:
            self._head_timer = self.loop.call_later(
                self.options.keep_alive, self.timeout_keep_alive_handler
            )

    def _give_up_on_head(self) -> None:
        begun, _ = self.conn.trailing_data
        if (
            begun
            and self.conn.their_state is h11.IDLE
            and not (self._is_refused or self.transport.is_closing())
        ):
            self._refuse(
                Problem(
                    "timeout",
                    f"head: took over {self.options.head_seconds:g} seconds (head_seconds)",
                )
            )
        else:
            self.transport.abort()

    def _watch_reader(self, unread: int) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        self._reader_timer = self.loop.call_later(
            self.options.answer_seconds, self._check_reader, unread
        )

    def _check_reader(self, unread_before: int) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread < unread_before:
            self._watch_reader(unread)
        else:
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        body = json.dumps(problem.body()).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        all_headers = list({**headers, **problem.headers()}.items())
        head = h11.Response(
            status_code=problem.status, headers=all_headers, reason=STATUS_PHRASES[problem.status]
        )
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.transport.can_write_eof():
            self._is_refused = (
                True  # a connection that is closed while bytes come may lose the answer
            )
            self.transport.write_eof()
            self._wait_for_request(begun=True)
        else:
            self.transport.close()
