"""Have child processes do jobs.

A `WorkerProcess` exchanges messages with its parent: a line of JSON and some bytes, either way. The workers of a run
(`tribunal.eval.runs.worker_pool`) have many posts under way in each; those of a `SandboxPool` one job at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import signal
import sys
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any, BinaryIO

from tribunal.errors import TribunalError
from tribunal.loops import BackgroundLoop
from tribunal.text import parse_json

JSON = dict[str, Any]  # as `tribunal.schema` has it, whose import would slow the start of a process
_LONGEST_LINE = 2**20  # bytes of a message's JSON; what is longer goes beside it
_PATIENCE = 10.0  # seconds for a process to end by itself


class WorkerLate(TribunalError):
    """Say that the work took longer than it may, and that its process was ended."""


class WorkerDied(TribunalError):
    """Say that the process ended in the middle of the work: it crashed, or its memory was spent."""


# ------------------------------------------------------------------------------------------------------- messages


def _encode_message(message: JSON, body: bytes) -> bytes:
    """Return a message as it is sent: a line of JSON, and its bytes."""
    return json.dumps({**message, "size": len(body)}).encode() + b"\n" + body


def write_message(stream: BinaryIO, message: JSON, body: bytes = b"") -> None:
    """Write a message, and see that it goes out."""
    stream.write(_encode_message(message, body))
    stream.flush()


def read_message(stream: BinaryIO) -> tuple[JSON, bytes] | None:
    """Read the next message. Return None if the other process has closed the stream, or ended within a message."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = parse_json(line)
    body = stream.read(size := message.pop("size"))
    return (message, body) if len(body) == size else None


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for messages alone: what anybody else prints goes to standard error."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return jobs, answers


# ------------------------------------------------------------------------------------------------- one child process


class WorkerProcess:
    """Have a child process do jobs. It is started at once, on the running event loop.

    Attributes:
        pending: the jobs under way, by number.
        ready: whether it has said that it can begin.
        ended: whether it has ended.
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], quiet: bool = False) -> None:
        """Start the process.

        Args:
            command: what Python runs, as its command line has it; nothing secret.
            environment: of the process, beside the places that Python imports from.
            quiet: throw away what it writes to standard error.
        """
        self.pending: dict[int, asyncio.Future[tuple[JSON, bytes]]] = {}
        self.ready = self.ended = False
        self._numbers = itertools.count()
        self._started = asyncio.Event()
        self._ending = "it was not started"
        self._process: asyncio.subprocess.Process | None = None
        self._unsent: list[bytes] = []
        self._life = asyncio.ensure_future(self._run(command, environment, quiet))

    @property
    def pid(self) -> int:
        """Return the number of the process, or 0 before it is there."""
        return 0 if self._process is None else self._process.pid

    async def wait_until_ready(self) -> None:
        """Wait until it can begin.

        Raises:
            WorkerDied: it ended first.
        """
        await self._started.wait()
        if not self.ready:
            raise WorkerDied(self._ending)

    async def ask(self, job: JSON, body: bytes = b"") -> tuple[JSON, bytes]:
        """Have it do a job, and return its answer.

        Raises:
            WorkerDied: the process ended first; how.
        """
        if self.ended:
            raise WorkerDied(self._ending)
        number = next(self._numbers)
        future: asyncio.Future[tuple[JSON, bytes]] = asyncio.get_running_loop().create_future()
        self.pending[number] = future
        self.send({**job, "number": number}, body)
        return await future

    def send(self, message: JSON, body: bytes = b"") -> None:
        """Send a message; before the process is there, keep it until it is."""
        if self._process is None or self._process.stdin is None:
            self._unsent.append(_encode_message(message, body))
        elif not self._process.stdin.is_closing():
            self._process.stdin.write(_encode_message(message, body))

    def on_message(self, message: JSON, body: bytes) -> None:
        """Take a message that answers no job."""

    def kill(self) -> None:
        """End the process at once."""
        if self._process is None:
            self._life.cancel()
        else:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """End the process: at once if jobs are under way, else by closing its input."""
        if self._process is None or self._process.stdin is None or self.pending:
            self.kill()
        else:
            self._process.stdin.close()
        done, _ = await asyncio.wait([self._life], timeout=_PATIENCE)
        if not done:
            self.kill()
            await asyncio.wait([self._life])

    async def _run(self, command: Sequence[str], environment: Mapping[str, str], quiet: bool) -> None:
        """Run the process until it ends, and hand out its messages."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the working folder is not searched for modules, unless this program searches it too
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL if quiet else None,
                env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                limit=_LONGEST_LINE,
                start_new_session=True,  # Ctrl-C is for its parent
            )
            self._process = process
            if process.stdin is None or process.stdout is None:
                raise OSError("it has no pipes")
            process.stdin.writelines(self._unsent)
            with suppress(asyncio.IncompleteReadError):  # it ended within a message
                while (line := await process.stdout.readline()).endswith(b"\n"):
                    message = parse_json(line)
                    self._receive(message, await process.stdout.readexactly(message.pop("size")))
            self._ending = _describe_ending(await process.wait())
        except OSError as error:
            self._ending = f"it could not be started: {error}"
        finally:
            self.ended = True
            if self._process is not None and self._process.returncode is None:
                self.kill()
                await self._process.wait()
            self._started.set()
            for job in self.pending.values():
                if not job.done():
                    job.set_exception(WorkerDied(self._ending))
            self.pending.clear()

    def _receive(self, message: JSON, body: bytes) -> None:
        if "ready" in message:
            self.ready = True
            self._started.set()
        elif "number" not in message:
            self.on_message(message, body)
        elif not (job := self.pending.pop(message["number"])).done():
            job.set_result((message, body))


def _describe_ending(status: int) -> str:
    """Return how a process has ended, in words."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"


# ------------------------------------------------------------------------------------------------------- the sandbox


class SandboxPool:
    """Processes that do one kind of work on what strangers wrote, each of which can be ended.

    A process that hangs, runs out of memory or crashes is ended and replaced, and no event loop waits for it. It gets
    no environment, so no keys. Web pages are read this way (`retrievers.web.page_parsing`), and images decoded
    (`models.image`).

    Serves any number of callers at once, from any thread or event loop; those above the number of processes wait.
    Processes are started when they are first needed (`warm_up` does it ahead) and kept. They end with `close`, with
    the object, or with the program.
    """

    def __init__(
        self, work: str, *, processes: int = 2, memory: int, start_seconds: float = 60.0, max_weight: int | None = None
    ) -> None:
        """Make a pool; no process is started yet.

        Args:
            work: the place of a function as `module:name`, which takes and returns JSON and bytes.
            processes: how many there are at most.
            memory: the bytes of address space of each.
            start_seconds: how long one may take to start.
            max_weight: the largest sum of the weights that are worked on at once; None: they aren't counted.
        """
        self._command = ("-c", f"from tribunal.workers import serve_jobs; serve_jobs({work!r}, {memory})")
        self._start_seconds, self._number, self._max_weight = start_seconds, processes, max_weight
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._slots = asyncio.Semaphore(processes)
        self._weight, self._lighter = 0, asyncio.Condition()
        self._loop = BackgroundLoop("tribunal sandbox")
        self._closed = False
        weakref.finalize(self, _kill_all, self._all)

    def warm_up(self) -> None:
        """Start the processes that aren't there yet, without waiting for them."""
        for _ in range(self._number - len(self._all)):
            self._loop.submit(self._start_ahead())

    async def ask(self, job: JSON, body: bytes, *, seconds: float, weight: int = 0) -> tuple[JSON, bytes]:
        """Return what the work gives for a job.

        Args:
            job: what is to be done; JSON.
            body: what it is to be done to.
            seconds: how long it may take, once it has begun.
            weight: how much of `max_weight` it takes.

        Raises:
            WorkerLate: it took longer.
            WorkerDied: its process ended, or the pool was closed.
        """
        return await asyncio.wrap_future(self._submit(job, body, seconds, weight))

    def ask_and_wait(self, job: JSON, body: bytes, *, seconds: float, weight: int = 0) -> tuple[JSON, bytes]:
        """Do the same for a caller without an event loop; arguments and errors are those of `ask`."""
        return self._submit(job, body, seconds, weight).result()

    def close(self) -> None:
        """End the processes. Work under way fails."""
        self._closed = True
        self._loop.submit(self._end_processes()).result()

    def _submit(self, job: JSON, body: bytes, seconds: float, weight: int) -> Future[tuple[JSON, bytes]]:
        return self._loop.submit(self._do_job(job, body, seconds, weight))

    async def _do_job(self, job: JSON, body: bytes, seconds: float, weight: int) -> tuple[JSON, bytes]:
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
        """Wait until so much more may be worked on; a job that is heavier than all together may be goes alone."""
        most = self._max_weight
        async with self._lighter:
            await self._lighter.wait_for(lambda: most is None or not self._weight or self._weight + weight <= most)
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

        with suppress(OSError, ValueError):  # some systems don't keep this limit; the one on time still holds
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    write_message(answers, {"ready": True})
    while (message := read_message(jobs)) is not None:
        order, body = message
        _limit_time(order["seconds"])
        answer, content = do(order["job"], body)
        write_message(answers, {"number": order["number"], "answer": answer}, content)


def _limit_time(seconds: float) -> None:
    """Limit the processor's time, for a process whose parent has gone, and with it what would have ended it."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 2, hard))
