"""The server: asks the script, takes its time, and keeps what it was shown."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections import Counter
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any, Self

from tribunal.loops import BackgroundLoop
from tribunal.testing import openai
from tribunal.testing.connection import Connection
from tribunal.testing.replies import Events, Fault, Latency, Reply, Script, ScriptError, encoded
from tribunal.testing.request import JSON, Protocol, Request

OUT_OF_SCRIPT = 599
# The wire protocols, each a module with the names that `tribunal.testing.openai` has, which comes with the package.
WIRES: dict[Protocol, ModuleType] = {"openai": openai}


class InThread:
    """The plain `with` of a server that has `__aenter__` and `__aexit__`: on a loop in a thread of its own."""

    _background = BackgroundLoop("servers of tests")

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End serving."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Begin to serve, in the thread."""
        return self._background.submit(self.__aenter__()).result(10)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        log: (index, key, latency in seconds) of every chat request that got an answer; the key is its `[[key=…]]`.
        served: how many chat requests have arrived.
        in_flight, peak: chat requests under way now, and the most there ever were.
        errors: what went wrong in the script.
    """

    def __init__(
        self,
        script: Script,
        *,
        latency: Latency | float = 0.0,
        keep: bool = True,
        models: Sequence[str] = ("scripted",),
        port: int = 0,
    ) -> None:
        """Make a server that isn't listening yet.

        Args:
            script: what is answered to a request; may be async. A bare str or dict counts as a Reply's content.
            latency: how long answers take, in seconds from the request's arrival; faults have their own delay.
            keep: whether requests are kept; without, memory stays bounded but for the log's few bytes a request.
            models: the names that are listed as served.
            port: 0 for a free one.
        """
        self.script = script
        self.latency = latency if isinstance(latency, Latency) else Latency(latency)
        self.keep = keep
        self.models = tuple(models)
        self.port = port
        self.reset()
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None

    def reset(self) -> None:
        """Forget everything that was seen."""
        self.requests: list[Request] = []
        self.others: list[tuple[str, str, JSON]] = []
        self.log: list[tuple[int, str, float]] = []
        self.errors: list[BaseException] = []
        self.served = self.in_flight = self.peak = 0
        self.first = self.last = 0.0  # when the first chat request came, and when the last one was done
        self._nth: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}"

    def seen(self, index: int) -> str:
        """Everything in words that the model was shown in the request of this number, from 0; negative from the end."""
        return self.requests[index].text

    def stats(self) -> JSON:
        """Return what another process may know: counts, its CPU seconds, how long it was asked, and the log."""
        return {
            "served": self.served,
            "in_flight": self.in_flight,
            "peak": self.peak,
            "errors": [str(error) for error in self.errors],
            "cpu_seconds": time.process_time(),
            "seconds": self.last - self.first,
            "log": self.log,
        }

    async def __aenter__(self) -> Self:
        """Begin to serve, on the running loop."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self._serve, self._connections), "127.0.0.1", self.port, backlog=1024
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End serving, and raise `ScriptError` where the script went wrong."""
        if self._listener is not None:
            self._listener.close()
        tasks = [connection.task for connection in self._connections if connection.task]
        for connection in list(self._connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # clients on this loop see their connections end before it closes
        if self.errors and error is None:
            raise ScriptError(f"{len(self.errors)} requests went wrong, first: {self.errors[0]}") from self.errors[0]

    def _serve(self, connection: Connection, method: str, path: str, headers: dict[str, str], data: bytes) -> None:
        """Send what isn't chat at once; begin a task for what is."""
        arrived = time.monotonic()
        spoken = (name for name, wire in WIRES.items() if path.endswith(wire.ENDS))
        protocol = next(spoken, None) if method == "POST" else None
        try:
            body = json.loads(data) if data else {}
            if protocol is None:
                found = self._other(method, path, body)
                missing = {"error": f"{method} {path}: not served"}
                connection.send(404 if found is None else 200, encoded(found or missing))
                return
            asked = WIRES[protocol].read(body, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.errors.append(ScriptError(f"{method} {path}: not a request of this protocol: {error!r}"))
            connection.send(400, _encode_error(protocol or "openai", 400, f"scripted server: {error!r}"))
            return
        request = Request(
            **vars(asked), protocol=protocol, path=path, headers=headers, body=body, index=self.served, arrived=arrived
        )
        self.first = self.first or arrived
        self.served += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        if self.keep:
            self.requests.append(request)
        connection.task = asyncio.get_running_loop().create_task(self._answer(connection, request))
        connection.task.add_done_callback(lambda task: self._end_request(connection, task, request))

    def _end_request(self, connection: Connection, task: asyncio.Task[None], request: Request) -> None:
        self.in_flight -= 1
        request.finished = self.last = time.monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)
            request.status = OUT_OF_SCRIPT
            why = f"scripted server, request {request.index}: {type(error).__name__}: {error}"
            connection.send(OUT_OF_SCRIPT, _encode_error(request.protocol, OUT_OF_SCRIPT, why))
        connection.finish_request(close=request.headers.get("connection", "").lower() == "close")

    async def _answer(self, connection: Connection, request: Request) -> None:
        """Ask the script, wait, and write: one task a request, cancelled when the client goes."""
        answer = self.script(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Fault):
            await self._fault(connection, request, answer)
            return
        if not isinstance(answer, Reply):
            answer = Reply(answer)
        key = request.hints.get("key", "")
        request.latency = self.latency.seconds_for(key or str(request.index), self._nth[key]) + answer.delay
        self._nth[key] += 1
        self.log.append((request.index, key, request.latency))
        streams = WIRES[request.protocol].streams(request)
        body = b"" if streams else _write_reply(request, answer)
        if request.latency:
            await asyncio.sleep(request.arrived + request.latency - time.monotonic())
        if streams:
            said, end = _stream_reply(request, answer)
            await self._stream(connection, request, [*said, *end])
            connection.end()
        else:
            connection.send(200, body)
        request.status = 200

    async def _stream(self, connection: Connection, request: Request, events: list[bytes]) -> None:
        connection.begin({"content-type": WIRES[request.protocol].STREAM})
        for event in events:
            half = len(event) // 2  # an event may come in two parts, cut anywhere
            for part in (event[:half], event[half:]):
                connection.part(part)
                await asyncio.sleep(0)

    async def _fault(self, connection: Connection, request: Request, fault: Fault) -> None:
        request.latency = fault.delay
        if fault.delay:
            await asyncio.sleep(request.arrived + fault.delay - time.monotonic())
        in_stream = bool(fault.after) and WIRES[request.protocol].streams(request)
        if in_stream:
            said, _ = _stream_reply(request, Reply(fault.after))
            await self._stream(connection, request, said)
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop and in_stream:
            connection.drop(b"")
            return
        if fault.drop:
            connection.drop(_write_reply(request, Reply("scripted")) if fault.drop == "middle" else b"")
            return
        body = fault.raw
        if body is None and fault.body:
            body = encoded(fault.body)
        if body is None:
            body = _encode_error(request.protocol, fault.status, fault.message, fault.code)
        if in_stream:
            connection.part(WIRES[request.protocol].failed(json.loads(body)))
            connection.end()
        else:
            connection.send(fault.status, body, fault.headers)
        request.status = fault.status

    def _other(self, method: str, path: str, body: JSON) -> JSON | None:
        """Everything but chat; None for a path that isn't served."""
        if path == "/scripted":
            if method == "DELETE":
                self.reset()
            return self.stats()
        self.others.append((method, path, body))
        if path.endswith("/embeddings"):
            return openai.embeddings(body)
        if path.endswith("/api/tags"):
            return {"models": [{"name": name, "model": name, "size": 0, "digest": ""} for name in self.models]}
        if path.endswith("/v1beta/models"):
            return {"models": [{"name": f"models/{name}", "displayName": name} for name in self.models]}
        if path.endswith("/models"):
            common: dict[str, Any] = {"object": "model", "created": 0, "owned_by": "scripted", "type": "model"}
            return {"object": "list", "data": [{"id": name, **common} for name in self.models], "has_more": False}
        return None


def _write_reply(request: Request, reply: Reply) -> bytes:
    written: bytes = WIRES[request.protocol].write(request, reply, *_finish_and_tokens(request, reply))
    return written


def _stream_reply(request: Request, reply: Reply) -> Events:
    events: Events = WIRES[request.protocol].stream(request, reply, *_finish_and_tokens(request, reply))
    return events


def _finish_and_tokens(request: Request, reply: Reply) -> tuple[str, int, int]:
    """Return the finish reason in the protocol's word, and the tokens of prompt and answer."""
    prompt = reply.prompt_tokens if reply.prompt_tokens is not None else len(request.text) // 4 + 1
    completion = reply.completion_tokens if reply.completion_tokens is not None else len(reply.text) // 4 + 1
    return WIRES[request.protocol].FINISH.get(reply.finish_reason, reply.finish_reason), prompt, completion


def _encode_error(protocol: Protocol, status: int, message: str, code: str | None = None) -> bytes:
    """Return an error in the provider's own form."""
    return encoded(WIRES[protocol].error(status, message, code))
