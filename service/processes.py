"""Several processes on one port: a parent that starts them, starts a dead one again, and passes on when to stop.

Each is a replica of its own on the same database. Between parent and child is a pipe: the child says on it that it
listens, the parent when to stop and when to hurry; and where the parent is gone, the child stops.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from contextlib import closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from tribunal.errors import BadInput
from tribunal.loops import run_many
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.seeing import COUNTED_IN
from tribunal.service.seeing.logs import log_to_stderr, logger
from tribunal.service.serving import Server, begin, bound, config_of, run_one, said_aloud
from tribunal.terminal import say
from tribunal.text import one_line

_LOG = logger("tribunal.service")
_SPAWN = get_context("spawn")
_AGAIN = 1.0  # seconds before a process that died is started again
_BAD_INPUT = 2  # as `tribunal.commands.errors` ends with it
_STOP, _HURRY = b"stop", b"hurry"


class _Child:
    """One process, as its parent sees it."""

    def __init__(self, options: ServiceOptions, listening: socket.socket) -> None:
        self.pipe, its = _SPAWN.Pipe()
        self.process: SpawnProcess = _SPAWN.Process(target=_serve, args=(options, listening, its), daemon=True)
        self.process.start()
        its.close()
        _LOG.info("a process begins", pid=self.process.pid)

    def tell(self, what: bytes) -> None:
        with suppress(OSError):  # it is gone
            self.pipe.send_bytes(what)


class _Parent:
    """Keeps so many processes alive until it is told to stop."""

    def __init__(self, options: ServiceOptions) -> None:
        self._options = options
        self._children: list[_Child] = []
        self._told = 0  # how many signals have come
        self._woken, self._wake = _SPAWN.Pipe(duplex=False)

    def signalled(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: the first stops, the second hurries."""
        self._told += 1
        self._wake.send_bytes(b".")

    def run(self) -> int:
        """Serve; gives the status to leave with."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self.signalled)
        options = self._options
        with closing(bound(options)) as listening:
            first = self._start(listening)
            # The others wait for it: what is wrong is said once, and a SQLite file's tables are made once.
            address = self._address_of(first)
            if address is None:
                first.process.join()
                return first.process.exitcode or 0
            self._children += [_Child(options, listening) for _ in range(options.workers - 1)]
            said_aloud(options, listening.getsockname()[1], address)
            self._watch(listening)
        self._end()
        return 0

    def _start(self, listening: socket.socket) -> _Child:
        self._children.append(_Child(self._options, listening))
        return self._children[-1]

    def _address_of(self, child: _Child) -> str | None:
        """The database that a process has opened, once it listens; None where it ended instead."""
        while True:
            found = wait([child.pipe, child.process.sentinel, self._woken])
            if self._told:
                child.tell(_STOP)
            if child.pipe in found:
                try:
                    return child.pipe.recv_bytes().decode()
                except EOFError:
                    return None
            if child.process.sentinel in found:
                return None

    def _watch(self, listening: socket.socket) -> None:
        while not self._told:
            wait([self._woken, *(child.process.sentinel for child in self._children)])
            for at, child in enumerate(self._children):
                if not self._told and not child.process.is_alive():
                    _LOG.error("a process died", pid=child.process.pid, status=child.process.exitcode)
                    if not self._woken.poll(_AGAIN):
                        self._children[at] = _Child(self._options, listening)

    def _end(self) -> None:
        """Have every process stop, and wait for them."""
        passed_on = 0
        while alive := [child for child in self._children if child.process.is_alive()]:
            if passed_on < self._told:
                for child in alive:
                    child.tell(_STOP if passed_on == 0 else _HURRY)
                passed_on += 1
                continue
            if self._woken in wait([self._woken, *(child.process.sentinel for child in alive)]):
                self._woken.recv_bytes()


def run(options: ServiceOptions) -> None:
    """Serve, by as many processes as are wanted, until this one is told to stop.

    Raises:
        BadInput: the port can't be had; and of a single process, as `tribunal.service.serving.run_one`.
    """
    if options.workers == 1:
        run_one(options)
    else:
        _run_many(options)


def _run_many(options: ServiceOptions) -> None:
    log_to_stderr(options.log_level, posts=options.log_posts, database=options.database)
    counted = tempfile.mkdtemp(prefix="tribunal-metrics-")
    os.environ[COUNTED_IN] = counted  # read by prometheus-client when it is first imported, in each of the processes
    try:
        status = _Parent(options).run()
    finally:
        shutil.rmtree(counted, ignore_errors=True)
    if status:
        raise SystemExit(status)


def _serve(options: ServiceOptions, listening: socket.socket, pipe: Connection) -> None:
    """What each process does."""
    begin(options)

    def ready(server: Server) -> None:
        pipe.send_bytes(server.house.store.address.encode())

    server = Server(config_of(options), ready, parent=True)
    threading.Thread(target=_obey, args=(server, pipe), daemon=True).start()
    try:
        run_many(server.serve([listening]))
    except BadInput as error:
        say(f"tribunal: error: {one_line(str(error))}", aside=True)
        raise SystemExit(_BAD_INPUT) from None


def _obey(server: Server, pipe: Connection) -> None:
    """Do what the parent says; where it is gone, stop."""
    with suppress(EOFError, OSError):
        while True:
            server.stop(hurry=pipe.recv_bytes() == _HURRY)
    server.stop()
