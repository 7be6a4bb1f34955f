"""Have child processes do jobs.

A `JobWorker` takes messages, and sends some: JSON and bytes, either way; a `WorkerProcess` by its pipes. The workers of
a run (`tribunal.runner.worker_pool`) have many posts under way in each; those of a
`tribunal.process.sandbox.SandboxPool` one job at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from tribunal.core.text import parse_json
from tribunal.errors import TribunalError

JSON = dict[str, Any]  # as `tribunal.schema` has it, whose import would slow the start of a process
_LONGEST_LINE = 2**20  # bytes of a message's JSON; what is longer goes beside it
_PATIENCE = 10.0  # seconds for a process to end by itself


class WorkerDied(TribunalError):
    """Say that the process ended in the middle of the work: it crashed, or its memory was spent."""


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
    """Reserve standard input and output for messages: all other prints go to standard error."""
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)  # noqa: TID251 (the null device)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return jobs, answers


class JobWorker:
    """Have another process do jobs, by messages. A subclass starts it, and carries them.

    Attributes:
        pending: the jobs under way, by number.
        ready: whether it has said that it can begin.
        ended: whether it has ended.
        on_message: takes the messages that answer no job.
    """

    def __init__(self) -> None:
        """Begin with no job."""
        self.pending: dict[int, asyncio.Future[tuple[JSON, bytes]]] = {}
        self.ready = self.ended = False
        self._numbers = itertools.count()
        self._started = asyncio.Event()
        self._ending = "it was not started"
        self.on_message: Callable[[JSON], None] = lambda message: None

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
        """Send a message; one that comes before the process is there reaches it all the same."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the process."""
        raise NotImplementedError

    def _receive(self, message: JSON, body: bytes) -> None:
        if "ready" in message:
            self.ready = True
            self._started.set()
        elif "number" not in message:
            self.on_message(message)
        elif not (job := self.pending.pop(message["number"])).done():
            job.set_result((message, body))

    def _note_end(self) -> None:
        """Fail the jobs under way: the process has ended."""
        self.ended = True
        self._started.set()
        for job in self.pending.values():
            if not job.done():
                job.set_exception(WorkerDied(self._ending))
        self.pending.clear()


class WorkerProcess(JobWorker):
    """Have a child process do jobs. It is started at once, on the running event loop."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], quiet: bool = False
    ) -> None:
        """Start the process.

        Args:
            command: what Python runs, as its command line has it; nothing secret.
            environment: of the process, beside the places that Python imports from.
            quiet: discard its standard error.
        """
        super().__init__()
        self._process: asyncio.subprocess.Process | None = None
        self._unsent: list[bytes] = []
        self._life = asyncio.ensure_future(self._run(command, environment, quiet))

    @property
    def pid(self) -> int:
        """Return the number of the process, or 0 before it is there."""
        return 0 if self._process is None else self._process.pid

    def send(self, message: JSON, body: bytes = b"") -> None:
        """Send a message; before the process is there, keep it until it is."""
        if self._process is None or self._process.stdin is None:
            self._unsent.append(_encode_message(message, body))
        elif not self._process.stdin.is_closing():
            self._process.stdin.write(_encode_message(message, body))

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

    async def _run(
        self, command: Sequence[str], environment: Mapping[str, str], quiet: bool
    ) -> None:
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
            self._note_end()


def _describe_ending(status: int) -> str:
    """Return how a process has ended, in words."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
