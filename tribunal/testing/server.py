"""The server: asks the script, waits, and records requests."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from contextlib import AbstractAsyncContextManager
from http.client import responses
from types import ModuleType, TracebackType
from typing import Any, Self

from tribunal.process.loops import BackgroundLoop
from tribunal.testing import messages as openai
from tribunal.testing.messages import (
    JSON,
    Events,
    Fault,
    Protocol,
    Reply,
    Request,
    Script,
    ScriptError,
    encoded,
)

OUT_OF_SCRIPT = 599
# The wire protocols, each a module with the names that `tribunal.testing.messages` has, which comes with the package.
WIRES: dict[Protocol, ModuleType] = {"openai": openai}
_LARGEST_HEAD = 2**16
# The method, the path, the headers and the body of a request.
HttpRequest = tuple[str, str, dict[str, str], bytes]


class InThread(AbstractAsyncContextManager[Any]):
    """The plain `with` of a server that has `__aenter__` and `__aexit__`: on a loop in a thread of its own."""

    _background = BackgroundLoop("servers of tests")

    def __enter__(self) -> Self:
        """Begin to serve, in the thread."""
        entered: Self = self._background.submit(self.__aenter__()).result(10)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End serving."""
        self._background.submit(self.__aexit__(kind, error, trace)).result(10)


class ScriptedServer(InThread):
    """A model server on 127.0.0.1 that answers by a script.

    Used with `async with` it runs on the loop it is in; with plain `with`, on a loop in a thread of its own. Leaving
    the block raises ScriptError if a script ran out or raised, unless `errors` was cleared or another exception is
    under way.

    Attributes:
        url: `http://127.0.0.1:PORT`. OpenAI's and other compatible clients take `{url}/v1`, the other three `{url}`.
        requests: every chat request so far, in order of arrival; stays empty with `keep=False`.
        others: the other requests, as (method, path, body): lists of models, embeddings.
        served: how many chat requests have arrived.
        in_flight, peak: chat requests under way now, and the most there ever were.
        errors: what went wrong in the script.
    """

    def __init__(
        self, script: Script, *, latency: float = 0.0, keep: bool = True, port: int = 0
    ) -> None:
        """Make a server that isn't listening yet.

        Args:
            script: what is answered to a request; may be async. A bare str or dict counts as a Reply's content.
            latency: how long answers take, in seconds from the request's arrival; faults have their own delay.
            keep: whether requests are kept; without, memory stays bounded.
            port: 0 for a free one.
        """
        self.script = script
        self.latency = latency
        self.keep = keep
        self.port = port
        self.reset()
        self._connections: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._listener: asyncio.Server | None = None

    def reset(self) -> None:
        """Forget everything that was seen."""
        self.requests: list[Request] = []
        self.others: list[tuple[str, str, JSON]] = []
        self.errors: list[BaseException] = []
        self.served = self.in_flight = self.peak = 0
        self.first = self.last = (
            0.0  # when the first chat request came, and when the last one was done
        )

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        """Begin to serve, on the running loop."""
        self._listener = await asyncio.start_server(
            self._serve_connection, "127.0.0.1", self.port, limit=_LARGEST_HEAD, backlog=1024
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End serving, and raise `ScriptError` where the script went wrong."""
        if self._listener is not None:
            self._listener.close()
        connections = dict(self._connections)
        for writer in connections.values():
            writer.transport.abort()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0.01)  # clients on this loop see their connections end before it closes
        if self.errors and error is None:
            raise ScriptError(
                f"{len(self.errors)} requests went wrong, first: {self.errors[0]}"
            ) from self.errors[0]

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one client, a request at a time, as long as it stays."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 (a coroutine runs in a task)
        self._connections[task] = writer
        try:
            while (asked := await _read_request(reader)) and not writer.is_closing():
                answering = asyncio.ensure_future(self.respond(writer, *asked))
                # ends where the client goes: none asks ahead
                leaving = asyncio.ensure_future(reader.read(1))
                try:
                    await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    answering.cancel()
                    leaving.cancel()
                    await asyncio.wait({answering, leaving})
                if asked[2].get("connection", "").lower() == "close":
                    break
        finally:
            del self._connections[task]
            writer.close()

    async def respond(
        self,
        writer: asyncio.StreamWriter,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes,
    ) -> None:
        """Answer one request; cancelled when the client goes."""
        arrived = time.monotonic()
        spoken = (name for name, wire in WIRES.items() if path.endswith(wire.ENDS))
        protocol = next(spoken, None) if method == "POST" else None
        try:
            body = json.loads(data) if data else {}
            if protocol is None:
                found = self.answer_other(method, path, body)
                missing = {"error": f"{method} {path}: not served"}
                send(writer, 404 if found is None else 200, encoded(found or missing))
                return
            asked = WIRES[protocol].read_request(body, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.errors.append(
                ScriptError(f"{method} {path}: not a request of this protocol: {error!r}")
            )
            send(
                writer, 400, _encode_error(protocol or "openai", 400, f"scripted server: {error!r}")
            )
            return
        request = Request(
            **vars(asked),
            protocol=protocol,
            path=path,
            headers=headers,
            body=body,
            index=self.served,
            arrived=arrived,
        )
        self.first = self.first or arrived
        self.served += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        if self.keep:
            self.requests.append(request)
        try:
            await self._play_script(writer, request)
        except Exception as error:  # noqa: BLE001 (a script may raise anything, a failed assertion too)
            self.errors.append(error)
            request.status = OUT_OF_SCRIPT
            why = f"scripted server, request {request.index}: {type(error).__name__}: {error}"
            send(writer, OUT_OF_SCRIPT, _encode_error(protocol, OUT_OF_SCRIPT, why))
        finally:
            self.in_flight -= 1
            request.finished = self.last = time.monotonic()

    async def _play_script(self, writer: asyncio.StreamWriter, request: Request) -> None:
        """Ask the script, wait, and write."""
        answer = self.script(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Fault):
            await self._fail(writer, request, answer)
            return
        if not isinstance(answer, Reply):
            answer = Reply(answer)
        request.latency = self.latency + answer.delay
        streams = WIRES[request.protocol].streams(request)
        body = b"" if streams else _write_reply(request, answer)
        if request.latency:
            await asyncio.sleep(request.arrived + request.latency - time.monotonic())
        if streams:
            said, end = _stream_reply(request, answer)
            await _stream_events(writer, request, [*said, *end])
            writer.write(_LAST_PART)
        else:
            send(writer, 200, body)
        request.status = 200

    async def _fail(self, writer: asyncio.StreamWriter, request: Request, fault: Fault) -> None:
        request.latency = fault.delay
        if fault.delay:
            await asyncio.sleep(request.arrived + fault.delay - time.monotonic())
        in_stream = bool(fault.after) and WIRES[request.protocol].streams(request)
        if in_stream:
            said, _ = _stream_reply(request, Reply(fault.after))
            await _stream_events(writer, request, said)
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop:
            if fault.drop == "middle" and not in_stream:
                body = _write_reply(request, Reply("scripted"))
                writer.write(_encode_head(200, {}, len(body)) + body[: len(body) // 2])
            writer.close()
            return
        body = (
            encoded(fault.body)
            if fault.body
            else _encode_error(request.protocol, fault.status, fault.message, fault.code)
        )
        if in_stream:
            writer.write(
                _encode_part(WIRES[request.protocol].failed(json.loads(body))) + _LAST_PART
            )
        else:
            send(writer, fault.status, body if fault.raw is None else fault.raw, fault.headers)
        request.status = fault.status

    def answer_other(self, method: str, path: str, body: JSON) -> JSON | None:
        """Return the answer to everything but chat, or None for a path that isn't served."""
        self.others.append((method, path, body))
        return openai.embeddings(body) if path.endswith("/embeddings") else None


# HTTP/1.1

_LAST_PART = b"0\r\n\r\n"


async def _read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Return the next request of a client, or None if it has gone."""
    try:
        first, *lines = (
            (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        )
        fields = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None
    method, target, _ = first.split(" ", 2)
    return method, target.partition("?")[0], headers, body


def send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    """Send a whole answer."""
    writer.write(_encode_head(status, headers or {}, len(body)) + body)


async def _stream_events(
    writer: asyncio.StreamWriter, request: Request, events: list[bytes]
) -> None:
    writer.write(_encode_head(200, {"content-type": WIRES[request.protocol].STREAM}, None))
    for event in events:
        half = len(event) // 2  # an event may come in two parts, cut anywhere
        for part in (event[:half], event[half:]):
            writer.write(_encode_part(part))
            await asyncio.sleep(0)


def _encode_part(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


def _encode_head(status: int, headers: dict[str, str], length: int | None) -> bytes:
    """Return the head of an answer; without a length its body comes in parts."""
    sent = {
        "content-type": "application/json",
        **{name.lower(): value for name, value in headers.items()},
    }
    sent |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"HTTP/1.1 {status} {responses.get(status, 'Scripted')}\r\n{lines}\r\n".encode("latin-1")


# Answers in the protocol of a request


def _write_reply(request: Request, reply: Reply) -> bytes:
    written: bytes = WIRES[request.protocol].write(
        request, reply, *_finish_and_tokens(request, reply)
    )
    return written


def _stream_reply(request: Request, reply: Reply) -> Events:
    events: Events = WIRES[request.protocol].stream(
        request, reply, *_finish_and_tokens(request, reply)
    )
    return events


def _finish_and_tokens(request: Request, reply: Reply) -> tuple[str, int, int]:
    """Return the finish reason in the protocol's word, and the tokens of prompt and answer."""
    prompt = reply.prompt_tokens if reply.prompt_tokens is not None else len(request.text) // 4 + 1
    completion = (
        reply.completion_tokens if reply.completion_tokens is not None else len(reply.text) // 4 + 1
    )
    return (
        WIRES[request.protocol].FINISH.get(reply.finish_reason, reply.finish_reason),
        prompt,
        completion,
    )


def _encode_error(protocol: Protocol, status: int, message: str, code: str | None = None) -> bytes:
    """Return an error in the provider's own form."""
    return encoded(WIRES[protocol].error(status, message, code))
