"""Reading pages in processes of their own.

Parsing what strangers wrote happens there: a process that hangs, runs out of memory or crashes is ended and replaced,
and the event loop never waits for it. Those processes get no environment, so no keys. Nothing in a page is executed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO, Any, cast

from pydantic import Field

from tribunal.retrievers.web.pages.parsing import READERS
from tribunal.retrievers.web.pages.text import PageUnreadable, Text
from tribunal.schema import Frozen


class ReadLimits(Frozen):
    """What reading one page may take."""

    seconds: float = Field(default=20.0, gt=0, description="Seconds of reading; a PDF gives what it has by then.")
    memory: int = Field(default=2 * 2**30, gt=0, description="Bytes of address space of a reading process.")
    start_seconds: float = Field(default=60.0, gt=0, description="Seconds for a reading process to start.")


class Reader:
    """Turns pages into text in processes that can be ended.

    Serves any number of readings at once, from any event loop; pages above `processes` wait. Processes are started when
    they are first needed (about a second each; `warm` does it ahead) and kept. They end with `close`, with the object,
    or with the program.
    """

    def __init__(self, processes: int = 2, limits: ReadLimits | None = None) -> None:
        self.limits = limits or ReadLimits()
        self._processes = processes
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="tribunal-reader")
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._closed = False
        self._end = weakref.finalize(self, _end_all, self._all)

    def warm(self) -> None:
        """Start the processes now, without waiting for them."""
        for _ in range(self._processes):
            self._threads.submit(self._warm)

    async def read(self, body: bytes, content_type: str, charset: str | None = None) -> Text:
        """The text of a page.

        Args:
            body: its bytes, decompressed.
            content_type: its media type, without parameters: HTML, XHTML, PDF or plain text.
            charset: as the server declared it; a byte order mark beats it.

        Raises:
            PageUnreadable: it has no text, isn't what it says it is, or took too long.
        """
        if content_type not in READERS:
            raise PageUnreadable("content_type", f"{content_type} has no text to read")
        job = {"content_type": content_type, "charset": charset, "seconds": self.limits.seconds}
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._threads, self._in_thread, job, body)
        if "reason" in answer:
            raise PageUnreadable(**answer)
        return Text(**answer)

    def close(self) -> None:
        """End the processes. A reading under way fails."""
        self._closed = True
        self._end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _warm(self) -> None:
        self._idle.append(self._start())

    def _take(self) -> _Process:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._drop(worker)
        return self._start()

    def _drop(self, worker: _Process) -> None:
        self._all.discard(worker)
        worker.end()

    def _start(self) -> _Process:
        worker = _Process(self.limits)
        self._all.add(worker)
        if self._closed:  # it was still starting when the others were ended
            self._drop(worker)
        return worker

    def _in_thread(self, job: dict[str, Any], body: bytes) -> dict[str, Any]:
        worker = self._take()
        try:
            answer = worker.exchange(job, body)
        except PageUnreadable:
            self._drop(worker)
            raise
        self._idle.append(worker)
        return answer


class _Process:
    """One reading process: a JSON line and a page in, a JSON line out."""

    def __init__(self, limits: ReadLimits) -> None:
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter, our own code)
            [sys.executable, "-c", f"from tribunal.retrievers.web.pages.process import serve; serve({limits.memory})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(sys.path)} | _needed_on_windows(),
        )
        self._jobs, self._answers = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        # Importing the parsers takes a second; a page's own time begins after that.
        self._answer(limits.start_seconds)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def exchange(self, job: dict[str, Any], body: bytes) -> dict[str, Any]:
        send = partial(self._send, json.dumps(job | {"bytes": len(body)}).encode() + b"\n", body)
        # A PDF stops by itself when its time is up, and hands over what it has; hence the second on top.
        answer: dict[str, Any] = json.loads(self._answer(job["seconds"] + 1, send))
        return answer

    def _send(self, header: bytes, body: bytes) -> None:
        self._jobs.write(header)
        self._jobs.write(body)
        self._jobs.flush()

    def _answer(self, seconds: float, send: Callable[[], None] = lambda: None) -> bytes:
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            send()
            line = self._answers.readline()
        except (BrokenPipeError, ValueError):  # it ended, or was closed, under our hands
            line = b""
        finally:
            timer.cancel()
            timer.join()
        if late.is_set():
            raise PageUnreadable("timeout", f"reading took longer than {seconds:g} s")
        if not line.endswith(b"\n"):
            raise PageUnreadable("crashed", "the page crashed its reader")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._jobs, self._answers):
            with suppress(BrokenPipeError):  # what was still to be sent has no reader any more
                pipe.close()


def _needed_on_windows() -> dict[str, str]:
    return {"SYSTEMROOT": os.environ["SYSTEMROOT"]} if sys.platform == "win32" else {}


def _end_all(workers: set[_Process]) -> None:
    while workers:
        workers.pop().end()
