"""A replica as a process: uvicorn, what is said aloud when it starts, and how it stops.

The first SIGTERM or SIGINT: no new work, `/readyz` says 503, what is in flight ends within `graceful` seconds or goes
back to the queue, and meanwhile requests for cases are answered. The second: it goes back at once.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from tribunal.environment import setting
from tribunal.errors import BadInput
from tribunal.loops import run_many
from tribunal.rehearsed import REHEARSED
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.seeing.logs import log_to_stderr
from tribunal.terminal import say

if TYPE_CHECKING:
    from tribunal.service.replica.house import House

_LAST_ANSWERS = 3  # seconds for answers that are still being written when the work is over


class Server(uvicorn.Server):
    """Stops in the order that this module's words say."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[Server], None], *, parent: bool = False) -> None:
        """
        Args:
            config: uvicorn's.
            ready: is called once it listens.
            parent: whether another process tells it when to hurry, so that signals only ever begin the stop: one that
                is sent to both would count twice.
        """
        super().__init__(config)
        self._ready, self._parent = ready, parent
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def house(self) -> House:
        made: House = self.config.app.state.house  # type: ignore[union-attr]
        return made

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        with _one_line(self.config.app):
            await super().startup(sockets)
        if self.started:
            self._ready(self)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._parent and sig == signal.SIGINT:
            return  # the terminal sends it to both; the parent passes it on
        self.stop(hurry=self.should_exit and not self._parent)

    def stop(self, *, hurry: bool = False) -> None:
        """Begin to stop; may be called from a signal and from another thread."""
        self.should_exit = True
        if hurry and self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurried)

    def _hurried(self) -> None:
        self.force_exit = True
        if self.started:
            self.house.worker.hurry()

    async def main_loop(self) -> None:
        from sse_starlette.sse import AppStatus

        # Whoever listens to a trial hears its end, too.
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
        await super().main_loop()
        await self.house.drain()
        AppStatus.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        hurried, self.force_exit = self.force_exit, False  # uvicorn would leave out the end of the lifespan
        if hurried:
            self.config.timeout_graceful_shutdown = 0
        await super().shutdown(sockets)


@contextmanager
def _one_line(app: Any) -> Iterator[None]:
    """Have what the house refuses to start with raised as it is, where uvicorn would log it with its traceback."""

    def told(record: logging.LogRecord) -> bool:
        return app.state.refused is None

    log = logging.getLogger("uvicorn.error")
    log.addFilter(told)
    try:
        yield
    except SystemExit:
        if app.state.refused is not None:
            raise app.state.refused from None
        raise
    finally:
        log.removeFilter(told)


def bound(options: ServiceOptions) -> socket.socket:
    """A socket on the address and the port.

    Raises:
        BadInput: they can't be had.
    """
    made = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((options.host, options.port))
    except OSError as error:
        made.close()
        said = error.strerror or str(error)
        raise BadInput(f"port: {options.host}:{options.port}: {said}; give another --host or --port") from error
    return made


def config_of(options: ServiceOptions) -> uvicorn.Config:
    """uvicorn's settings for one process, and the application in them."""
    # Which the parent of several processes has no use for.
    from tribunal.service.app import create_app
    from tribunal.service.connections import bounded

    return uvicorn.Config(
        create_app(options),
        http=bounded(options),
        ws="none",
        host=options.host,
        port=options.port,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )


def begin(options: ServiceOptions) -> None:
    """What a process does before it serves."""
    log_to_stderr(options.log_level, posts=options.log_posts, database=options.database)


def said_aloud(options: ServiceOptions, port: int, database: str) -> None:
    """What whoever starts it wants to know."""
    many = f", by {options.workers} processes" if options.workers > 1 else ""
    host = f"[{options.host}]" if ":" in options.host else options.host
    say(f"tribunal: listening on http://{host}:{port}{many}", aside=True)
    say(f"tribunal: database: {database}", aside=True)
    if options.log_posts:
        say("tribunal: posts' words stand in the log", aside=True)
    if not (options.settings.get("model") or setting("TRIBUNAL_MODEL")):
        say(f"tribunal: {REHEARSED}", aside=True)


def run_one(options: ServiceOptions) -> None:
    """Serve by this process until it is told to stop.

    Raises:
        BadInput: the port can't be had, or as `tribunal.service.replica.house.house`.
    """
    begin(options)

    def ready(server: Server) -> None:
        said_aloud(options, server.servers[0].sockets[0].getsockname()[1], server.house.store.address)

    with closing(bound(options)) as listening:
        run_many(Server(config_of(options), ready).serve([listening]))
