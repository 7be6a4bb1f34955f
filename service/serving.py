"""`tribunal serve` as processes: uvicorn runs one replica a process, and its supervisor watches several on one port.

The first SIGTERM or SIGINT drains a replica: it takes no new work, `/readyz` says 503, what is in flight ends within
`graceful` seconds or goes back to the queue, and meanwhile requests for cases are answered. Only then does uvicorn
stop. A second signal hands everything back at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from multiprocessing import parent_process
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors import Multiprocess

from tribunal.core.calls import REHEARSED
from tribunal.errors import BadInput
from tribunal.process.loops import leave_loaded_alone
from tribunal.service.limits import LimitedConnection
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.telemetry.metrics import SHARED_METRICS_FOLDER, START, log_to_stderr, logger
from tribunal.settings.environment import setting

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tribunal.service.replica.replica import Replica

_LOG = logger("tribunal.service")
_ANSWER_SECONDS = 3  # for answers that are still being written when the work is over
_START_SECONDS = 60.0  # in which a process has to listen
_HEALTHCHECK_SECONDS = 30  # in which a busy process has to answer its supervisor


def run(options: ServiceOptions, started: Callable[[str], object] | None = None) -> None:
    """Serve until this process is told to stop.

    Args:
        options: the operator's.
        started: is called with the service's address, once it listens there.

    Raises:
        BadInput: the port can't be had, or a replica can't start with these options.
    """
    log_to_stderr(options.log_level, posts=options.log_posts, database=options.database)
    for each in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # uvicorn sends itself the signal that stopped it once more at its end
        signal.signal(each, lambda *_: sys.exit(0))
    with closing(_bind_socket(options.host, options.port)) as listener:
        database = asyncio.run(_check_start(options))
        config = uvicorn_config(partial(_make_app, options), options)
        say_started = partial(_say_started, options, listener.getsockname()[1], database, started)
        if options.workers == 1:
            server = _Server(config)
            server.say_started = say_started
            server.run([listener])
            return
        # Several processes count in one folder, which the environment names to prometheus-client in each of them.
        with tempfile.TemporaryDirectory(
            prefix="tribunal-metrics-", ignore_cleanup_errors=True
        ) as folder:
            os.environ[SHARED_METRICS_FOLDER] = folder
            supervisor = _Supervisor(config, [listener])
            supervisor.say_started = say_started
            supervisor.run()
        if any((each.exitcode or 0) > 0 for each in supervisor.processes):
            raise SystemExit(1)


def _bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket on the host and the port; raise BadInput if they can't be had."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        problem = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"port: {host}:{port}: {problem}; give another --host or --port") from error
    return listener


async def _check_start(options: ServiceOptions) -> str:
    """Return the address of the database, once a replica could start on it: what is wrong is said once, in one line.

    Raises:
        BadInput: it could not.
    """
    from tribunal.docket.docket import migrate_old_docket
    from tribunal.service.replica.replica import check_options
    from tribunal.store.engine import Store
    from tribunal.store.table_versions import database_problems

    store = await Store.open(options.database)
    try:
        with database_problems(store.address, "what is kept there"):
            await check_options(options, store)
        await migrate_old_docket(store)  # before there are several processes
        return store.address
    finally:
        await store.close()


def uvicorn_config(make_app: Callable[[], FastAPI], options: ServiceOptions) -> uvicorn.Config:
    """Return uvicorn's settings for one process, in which `make_app` makes the application."""
    return uvicorn.Config(
        make_app,
        factory=True,
        workers=options.workers,
        http=LimitedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_keep_alive=options.keep_alive,
        timeout_graceful_shutdown=_ANSWER_SECONDS,
        timeout_worker_healthcheck=_HEALTHCHECK_SECONDS,
    )


def _make_app(options: ServiceOptions) -> FastAPI:
    """Return the application of a process of its own, which logs to standard error and drains on a signal."""
    from tribunal.service.app import create_app

    log_to_stderr(options.log_level, posts=options.log_posts, database=options.database)
    supervisor = parent_process()
    if supervisor:
        _LOG.info("worker process started", pid=os.getpid())
        threading.Thread(target=_stop_after, args=(supervisor.join,), daemon=True).start()
    app = create_app(options)
    leave_loaded_alone()
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Any]:
        async with inner(app) as state:
            with _draining_on_signal(app.state.replica, supervised=supervisor is not None):
                yield state

    app.router.lifespan_context = lifespan
    return app


def _stop_after(wait_for_supervisor: Callable[[], None]) -> None:
    """Stop this process once its supervisor is gone."""
    wait_for_supervisor()
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _draining_on_signal(replica: Replica, *, supervised: bool) -> Iterator[None]:
    """Drain the replica at the first signal, and pass the signal on to uvicorn when that is done.

    Args:
        replica: what is drained.
        supervised: a supervisor sends SIGTERM to begin the stop and SIGINT to hurry it. A terminal sends SIGINT to all
            processes, so the supervisor's SIGTERM may come second and then means nothing new.
    """
    from sse_starlette.sse import AppStatus

    loop = asyncio.get_running_loop()
    begun: list[asyncio.Task[None]] = []

    async def drain(number: int, frame: FrameType | None) -> None:
        await replica.drain()
        AppStatus.should_exit = True  # those who listen to a trial hear its end first
        stop_uvicorn = uvicorn_handlers[signal.Signals(number)]
        assert callable(stop_uvicorn)  # noqa: S101 (uvicorn has set it)
        stop_uvicorn(number, frame)

    def handle(number: int, frame: FrameType | None) -> None:
        if not begun:
            begun.append(loop.create_task(drain(number, frame)))
        elif number == signal.SIGINT or not supervised:
            replica.worker.hurry()

    def receive(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(handle, number, frame)

    uvicorn_handlers = {
        each: signal.signal(each, receive) for each in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for each, handler in uvicorn_handlers.items():
            signal.signal(each, handler)


class _Server(uvicorn.Server):
    """uvicorn's server of one process, which says where it listens."""

    say_started: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.say_started()


class _Supervisor(Multiprocess):
    """uvicorn's supervisor: says where its processes listen, notes one that died, and passes on a second signal."""

    say_started: Callable[[], None]

    def init_processes(self) -> None:
        super().init_processes()
        if self.processes[0].wait_until_ready(_START_SECONDS, self.should_exit):
            self.say_started()

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for process in before:
            if process not in self.processes:
                _LOG.error("worker process died", pid=process.pid, status=process.exitcode)
                mark_process_dead(process.pid)  # type: ignore[no-untyped-call]

    def join_all(self) -> None:
        while alive := [each.pid for each in self.processes if each.process.is_alive()]:
            if self.signal_queue:
                self.signal_queue.clear()
                for pid in filter(None, alive):
                    os.kill(pid, signal.SIGINT)
            time.sleep(0.1)
        super().join_all()


def _say_started(
    options: ServiceOptions, port: int, database: str, started: Callable[[str], object] | None
) -> None:
    """Log where the service listens and what it works on, at every log level."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{port}"
    log = logger(START)
    log.info(f"listening on {address}", processes=options.workers, database=database)
    if options.log_posts:
        log.warning("the log holds the words of posts")
    if not (options.settings.get("model") or setting("TRIBUNAL_MODEL")):
        log.warning(REHEARSED)
    if started:
        started(address)
