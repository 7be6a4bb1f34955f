"""Several `tribunal serve` on one database, and a client that asks until it is answered."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from tests.service.command import Service, started
from tribunal.schema import JSON


class Fleet:
    """The replicas. Attributes: `kills`, how many processes were killed; `unavailable`, set when one answers 503."""

    def __init__(
        self, stack: AsyncExitStack, database: str, options: tuple[str, ...], told: dict[str, str]
    ) -> None:
        self._stack, self.database, self._options, self._told = stack, database, options, told
        self.replicas: list[Service] = []
        self.kills = 0
        self.unavailable = asyncio.Event()

    async def start(self) -> Service:
        """One more."""
        made = await self._stack.enter_async_context(
            started(self.database, *self._options, **self._told)
        )
        self.replicas.append(made)
        return made

    def kill(self, one: Service) -> None:
        """Kill one."""
        one.signal(signal.SIGKILL)
        self.kills += 1

    async def again(self, one: Service) -> None:
        """Start another in the place of one that was killed; till then clients try it in vain."""
        await one.process.wait()
        await self.start()
        self.replicas.remove(one)

    def client(self, chance: random.Random) -> httpx.AsyncClient:
        """Of one of them, whichever."""
        return chance.choice(self.replicas).client

    async def ask(
        self, chance: random.Random, method: str, path: str, **more: Any
    ) -> httpx.Response:
        """Ask one after another until one answers; what is to be done once has an `Idempotency-Key`."""
        while True:
            try:
                got = await self.client(chance).request(method, path, **more)
            except httpx.TransportError:
                await asyncio.sleep(0.2)
                continue
            if got.status_code not in (429, 503):
                return got
            assert got.json()["error"]["kind"] in ("unavailable", "busy"), got.text
            if got.status_code == 503:
                self.unavailable.set()
            await asyncio.sleep(min(float(got.headers["Retry-After"]), 0.5))

    async def decided(self, chance: random.Random, post: JSON, headers: JSON) -> tuple[str, JSON]:
        """A post's case and its record, however often one has to ask."""
        got = await self.ask(chance, "POST", "/v1/judge?wait=20", json=post, headers=headers)
        assert got.status_code in (200, 202), got.text
        if got.status_code == 200:
            return got.headers["Tribunal-Case"], got.json()
        while True:
            case = (await self.ask(chance, "GET", got.headers["Location"], headers=headers)).json()
            assert case["status"] in ("queued", "running", "done"), case
            if case["status"] == "done":
                return case["id"], case["record"]
            await asyncio.sleep(0.2)


@asynccontextmanager
async def fleet(database: str, number: int, *options: str, **told: str) -> AsyncIterator[Fleet]:
    """So many replicas that listen."""
    async with AsyncExitStack() as stack:
        made = Fleet(stack, database, options, told)
        await asyncio.gather(*(made.start() for _ in range(number)))
        yield made
