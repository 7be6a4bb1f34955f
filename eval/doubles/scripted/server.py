"""The server: asks the script, takes its time, and keeps what it was shown."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tribunal.eval.doubles.in_thread import InThread
from tribunal.eval.doubles.scripted import wire
from tribunal.eval.doubles.scripted.embeddings import embeddings
from tribunal.eval.doubles.scripted.http import Connection
from tribunal.eval.doubles.scripted.replies import Fault, Latency, Reply, Script, ScriptError, encoded
from tribunal.eval.doubles.scripted.request import JSON, Request

OUT_OF_SCRIPT = 599


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
        """A server that isn't listening yet.

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
        self._held: list[BaseException] = []

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
        return f"http://127.0.0.1:{self.port}"

    def seen(self, index: int) -> str:
        """Everything in words that the model was shown in the request of this number, from 0; negative from the end."""
        return self.requests[index].text

    def stats(self) -> JSON:
        """What another process may know: counts, the server's own CPU seconds, how long it was asked, and the log."""
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
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self._serve, self._connections), "127.0.0.1", self.port, backlog=1024
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = [connection.task for connection in self._connections if connection.task]
        for connection in list(self._connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # clients on this loop see their connections end before it closes
        self._complain(error)

    def _over(self) -> None:
        self._held, self.errors = self.errors, []  # the block that is left tells of them, and not the thread

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.errors = self._held
        self._complain(error)

    def _complain(self, error: BaseException | None) -> None:
        if self.errors and error is None:
            raise ScriptError(f"{len(self.errors)} requests went wrong, first: {self.errors[0]}") from self.errors[0]

    def _serve(self, connection: Connection, method: str, path: str, headers: dict[str, str], data: bytes) -> None:
        """Send what isn't chat at once; begin a task for what is."""
        arrived = time.monotonic()
        protocol = wire.protocol_of(path) if method == "POST" else None
        try:
            body = json.loads(data) if data else {}
            if protocol is None:
                found = self._other(method, path, body)
                missing = {"error": f"{method} {path}: not served"}
                connection.send(404 if found is None else 200, encoded(found or missing))
                return
            asked = wire.WIRES[protocol].read(body, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.errors.append(ScriptError(f"{method} {path}: not a request of this protocol: {error!r}"))
            connection.send(400, wire.error(protocol or "openai", 400, f"scripted server: {error!r}"))
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
        connection.task.add_done_callback(lambda task: self._done(connection, task, request))

    def _done(self, connection: Connection, task: asyncio.Task[None], request: Request) -> None:
        self.in_flight -= 1
        request.finished = self.last = time.monotonic()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)
            request.status = OUT_OF_SCRIPT
            why = f"scripted server, request {request.index}: {type(error).__name__}: {error}"
            connection.send(OUT_OF_SCRIPT, wire.error(request.protocol, OUT_OF_SCRIPT, why))
        connection.done(close=request.headers.get("connection", "").lower() == "close")

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
        request.latency = self.latency.of(key or str(request.index), self._nth[key]) + answer.delay
        self._nth[key] += 1
        self.log.append((request.index, key, request.latency))
        streams = wire.WIRES[request.protocol].streams(request)
        body = b"" if streams else wire.answer(request, answer)
        if request.latency:
            await asyncio.sleep(request.arrived + request.latency - time.monotonic())
        if streams:
            said, end = wire.stream(request, answer)
            await self._stream(connection, request, [*said, *end])
            connection.end()
        else:
            connection.send(200, body)
        request.status = 200

    async def _stream(self, connection: Connection, request: Request, events: list[bytes]) -> None:
        connection.begin({"content-type": wire.WIRES[request.protocol].STREAM})
        for event in events:
            half = len(event) // 2  # an event may come in two parts, cut anywhere
            for part in (event[:half], event[half:]):
                connection.part(part)
                await asyncio.sleep(0)

    async def _fault(self, connection: Connection, request: Request, fault: Fault) -> None:
        request.latency = fault.delay
        if fault.delay:
            await asyncio.sleep(request.arrived + fault.delay - time.monotonic())
        in_stream = bool(fault.after) and wire.WIRES[request.protocol].streams(request)
        if in_stream:
            said, _ = wire.stream(request, Reply(fault.after))
            await self._stream(connection, request, said)
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop and in_stream:
            connection.drop(b"")
            return
        if fault.drop:
            connection.drop(wire.answer(request, Reply("scripted")) if fault.drop == "middle" else b"")
            return
        body = fault.raw
        if body is None and fault.body:
            body = encoded(fault.body)
        if body is None:
            body = wire.error(request.protocol, fault.status, fault.message, fault.code)
        if in_stream:
            connection.part(wire.WIRES[request.protocol].failed(json.loads(body)))
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
            return embeddings(body)
        if path.endswith("/api/tags"):
            return {"models": [{"name": name, "model": name, "size": 0, "digest": ""} for name in self.models]}
        if path.endswith("/v1beta/models"):
            return {"models": [{"name": f"models/{name}", "displayName": name} for name in self.models]}
        if path.endswith("/models"):
            common: dict[str, Any] = {"object": "model", "created": 0, "owned_by": "scripted", "type": "model"}
            return {"object": "list", "data": [{"id": name, **common} for name in self.models], "has_more": False}
        return None
