"""A replica as a process: uvicorn, and what is said aloud when it starts."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from tribunal.cases.session import settle
from tribunal.environment import setting
from tribunal.rehearsed import REHEARSED
from tribunal.service.app import create_app
from tribunal.service.replica.options import ServiceOptions
from tribunal.terminal import say


class _Server(uvicorn.Server):
    """Says where it listens, once it does."""

    def __init__(self, config: uvicorn.Config, options: ServiceOptions) -> None:
        super().__init__(config)
        self._options = options

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        port = self.servers[0].sockets[0].getsockname()[1]
        house = self.config.app.state.house  # type: ignore[union-attr]
        say(f"tribunal: listening on http://{self._options.host}:{port}", aside=True)
        say(f"tribunal: database: {house.store.address}", aside=True)
        if not (self._options.settings.get("model") or setting("TRIBUNAL_MODEL")):
            say(f"tribunal: {REHEARSED}", aside=True)


def run(options: ServiceOptions) -> None:
    """Serve until the process is told to stop.

    Raises:
        BadInput: as `tribunal.service.replica.house.house`.
    """
    settle()
    config = uvicorn.Config(
        create_app(options), host=options.host, port=options.port, log_level="warning", access_log=False, lifespan="on"
    )
    asyncio.run(_Server(config, options).serve())
