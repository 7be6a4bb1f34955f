"""HTTP/1.1 straight off asyncio's transport: quick, and able to break off in the middle of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.client import responses

MAX_HEAD = 65_536


class Connection(asyncio.Protocol):
    """One client's connection, kept alive, one request at a time."""

    transport: asyncio.Transport

    def __init__(
        self, serve: Callable[[Connection, str, str, dict[str, str], bytes], None], open_ones: set[Connection]
    ) -> None:
        """Prepare a connection.

        Args:
            serve: is given each request, as method, path, headers and body, and sends the answer, or begins a `task`
                that does.
            open_ones: holds the connection for as long as it is open.
        """
        self._serve, self._open_ones = serve, open_ones
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str], int, int] | None = None
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = transport  # type: ignore[assignment]
        self._open_ones.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the request under way."""
        self._open_ones.discard(self)
        if self.task:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._buffer += data
        if self.task is None:
            self._take()

    def finish_request(self, *, close: bool) -> None:
        """Close the connection, or take it on to its next request."""
        self.task = None
        if close:
            self.transport.close()
        elif self._buffer:
            self._take()

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send an answer."""
        self.transport.write(_head(status, len(body), headers or {}) + body)

    def begin(self, headers: dict[str, str]) -> None:
        """Begin an answer that is sent in parts, as a chunked body."""
        self.transport.write(_head(200, None, headers))

    def part(self, part: bytes) -> None:
        """Send one part of it."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(part), part))

    def end(self) -> None:
        """End it."""
        self.transport.write(b"0\r\n\r\n")

    def drop(self, body: bytes) -> None:
        """Close; with a body, after the half of it."""
        if body:
            self.transport.write(_head(200, len(body), {}) + body[: len(body) // 2])
        self.transport.close()

    def _take(self) -> None:
        """Begin on the next request, if all of it is here."""
        if self._head is None and not self._read_head():
            return
        method, path, headers, start, end = self._head or ("", "", {}, 0, 0)
        if len(self._buffer) < end:
            return
        data = bytes(self._buffer[start:end])
        del self._buffer[:end]
        self._head = None
        self._serve(self, method, path, headers, data)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self.transport.abort()
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if "transfer-encoding" in headers:
            self.send(411, b'{"error":"this server needs a Content-Length"}')
            self.transport.close()
            return False
        length = int(headers.get("content-length", 0))
        self._head = method, target.partition("?")[0], headers, end + 4, end + 4 + length
        return True


def _head(status: int, length: int | None, headers: dict[str, str]) -> bytes:
    phrase = responses.get(status, "Scripted")
    sent = {"content-type": "application/json", **{name.lower(): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return f"HTTP/1.1 {status} {phrase}\r\n{lines}{framing}\r\n\r\n".encode("latin-1")
