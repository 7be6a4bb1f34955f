"""Foreign bytes: decoders run in a process of their own, and unpacking is bounded."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
import weakref
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any

from tribunal.errors import TribunalError
from tribunal.process.loops import BackgroundLoop
from tribunal.process.workers import (
    JSON,
    WorkerDied,
    WorkerProcess,
    read_message,
    take_standard_streams,
    write_message,
)

STEP = 2**18  # bytes of a step, unpacked


class InflateDecoder:
    """gzip, of several members too, zlib, and the bare deflate that some servers send under the same name."""

    def __init__(self) -> None:
        """Begin before the first byte."""
        self._head = b""
        self._inner: Any = None  # what `zlib.decompressobj` makes has no public name

    @property
    def complete(self) -> bool:
        """Return whether the end has come."""
        return not self._head and (self._inner is None or self._inner.eof)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield these bytes unpacked; raise `zlib.error` if they can't be."""
        data = self._head + data
        self._head = b""
        full = False  # a full step may leave output inside when no input is left
        while data or full:
            if self._inner is None or self._inner.eof:
                if len(data) < 2:
                    self._head = data
                    return
                if self._inner is not None and data[:2] != b"\x1f\x8b":
                    return  # padding after the last gzip member
                self._inner = zlib.decompressobj(47 if _zlib_or_gzip(data) else -15)
            piece = self._inner.decompress(data, STEP)
            yield piece
            data = self._inner.unconsumed_tail or self._inner.unused_data
            full = len(piece) == STEP and not self._inner.eof


def _zlib_or_gzip(data: bytes) -> bool:
    return data[:2] == b"\x1f\x8b" or (
        data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
    )


class WorkerLate(TribunalError):
    """Say that the work took longer than it may, and that its process was ended."""


class SandboxPool:
    """Processes that do one kind of work on what strangers wrote, each of which can be ended.

    A process that hangs, runs out of memory or crashes is ended and replaced, and no event loop waits for it. It gets
    no environment, so no keys. Web pages are read this way (`retrievers.web.page_parsing`), and images decoded
    (`models.image`).

    Serves any number of callers at once, from any thread or event loop; a caller waits for a free process.
    Processes are started when they are first needed (`warm_up` does it ahead) and kept. They end with `close`, with
    the object, or with the program.
    """

    def __init__(
        self,
        work: str,
        *,
        processes: int = 2,
        memory: int,
        start_seconds: float = 60.0,
        max_weight: int | None = None,
    ) -> None:
        """Make a pool; no process is started yet.

        Args:
            work: the place of a function as `module:name`, which takes and returns JSON and bytes.
            processes: how many there are at most.
            memory: the bytes of address space of each.
            start_seconds: how long one may take to start.
            max_weight: the largest sum of the weights that are worked on at once; None: they aren't counted.
        """
        self._command = (
            "-c",
            f"from tribunal.process.sandbox import serve_jobs; serve_jobs({work!r}, {memory})",
        )
        self._start_seconds = start_seconds
        self._number = processes
        self._max_weight = max_weight
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._slots = asyncio.Semaphore(processes)
        self._weight = 0
        self._lighter = asyncio.Condition()
        self._loop = BackgroundLoop("tribunal sandbox")
        self._closed = False
        weakref.finalize(self, _kill_all, self._all)

    def warm_up(self) -> None:
        """Start the processes that aren't there yet, without waiting for them."""
        for _ in range(self._number - len(self._all)):
            self._loop.submit(self._start_ahead())

    async def ask(
        self, job: JSON, body: bytes, *, seconds: float, weight: int = 0
    ) -> tuple[JSON, bytes]:
        """Return the result of a job.

        Args:
            job: the description of the job; JSON.
            body: the bytes to work on.
            seconds: how long it may take, once it has begun.
            weight: how much of `max_weight` it takes.

        Raises:
            WorkerLate: it took longer.
            WorkerDied: its process ended, or the pool was closed.
        """
        return await asyncio.wrap_future(
            self._loop.submit(self._do_job(job, body, seconds, weight))
        )

    def close(self) -> None:
        """End the processes. Work under way fails."""
        self._closed = True
        self._loop.submit(self._end_processes()).result()

    async def _do_job(
        self, job: JSON, body: bytes, seconds: float, weight: int
    ) -> tuple[JSON, bytes]:
        async with self._reserved_weight(weight), self._slots:
            worker = await self._take_process()
            try:
                async with asyncio.timeout(seconds):
                    answer, content = await worker.ask({"job": job, "seconds": seconds}, body)
            except TimeoutError:
                raise WorkerLate(f"took longer than {seconds:g} s") from None
            except WorkerDied:
                raise WorkerDied("its process ended") from None
            else:
                self._idle.append(worker)
                return answer["answer"], content
            finally:
                if worker not in self._idle:
                    self._drop_process(worker)

    async def _take_process(self) -> WorkerProcess:
        while self._idle:
            worker = self._idle.pop()
            if not worker.ended:
                return worker
            self._drop_process(worker)
        return await self._start_process()

    async def _start_ahead(self) -> None:
        async with self._slots:
            if len(self._all) < self._number:
                with suppress(WorkerLate, WorkerDied):  # whoever asks for work is told
                    self._idle.append(await self._start_process())

    async def _start_process(self) -> WorkerProcess:
        if self._closed:
            raise WorkerDied("the pool is closed")
        environment = {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" else {}
        worker = WorkerProcess(self._command, environment=environment, quiet=True)
        self._all.add(worker)
        try:
            async with asyncio.timeout(self._start_seconds):
                await worker.wait_until_ready()
        except TimeoutError:
            raise WorkerLate(f"took longer than {self._start_seconds:g} s") from None
        finally:
            if not worker.ready:
                self._drop_process(worker)
        return worker

    def _drop_process(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        worker.kill()

    async def _end_processes(self) -> None:
        workers = [*self._all]
        self._idle.clear()
        _kill_all(self._all)
        await asyncio.gather(*(worker.close() for worker in workers))

    @asynccontextmanager
    async def _reserved_weight(self, weight: int) -> AsyncIterator[None]:
        """Wait for this much capacity; a job above the total capacity runs without any other job."""
        most = self._max_weight
        async with self._lighter:
            await self._lighter.wait_for(
                lambda: most is None or not self._weight or self._weight + weight <= most
            )
            self._weight += weight
        try:
            yield
        finally:
            async with self._lighter:
                self._weight -= weight
                self._lighter.notify_all()


def _kill_all(workers: set[WorkerProcess]) -> None:
    while workers:
        workers.pop().kill()


def serve_jobs(work: str, memory: int) -> None:
    """Do jobs in a process of a `SandboxPool`, one after another, until no more come.

    An unforeseen error ends the process, and a new one is started.

    Args:
        work: the place of a function, as `module:name`.
        memory: the bytes of address space that it may take.
    """
    module, _, name = work.partition(":")
    do: Callable[[JSON, bytes], tuple[JSON, bytes]] = getattr(import_module(module), name)
    jobs, answers = take_standard_streams()
    if sys.platform != "win32":
        import resource

        with suppress(
            OSError, ValueError
        ):  # some systems don't keep this limit; the one on time still holds
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with suppress(BrokenPipeError):  # nobody waits for the answer: the parent is gone
        write_message(answers, {"ready": True})
        while (message := read_message(jobs)) is not None:
            order, body = message
            _limit_time(order["seconds"])
            answer, content = do(order["job"], body)
            write_message(answers, {"number": order["number"], "answer": answer}, content)
        return
    # what is left in the pipe's buffer would be written once more, and complained about
    os._exit(1)


def _limit_time(seconds: float) -> None:
    """Limit the processor's time, for a process whose parent has gone, and with it what would have ended it."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(
                resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 2, hard)
            )
