"""A replica on a real port of loopback, in this process: for clients that speak over a socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from tests.doubles import ScriptedServer
from tribunal.schema import JSON
from tribunal.service.app import create_app
from tribunal.service.replica import keys
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.serving import uvicorn_config
from tribunal.store.engine import Store, upgrade


def sqlite(folder: Path) -> str:
    """A SQLite database with its tables made."""
    address = f"sqlite:///{folder / 'service.sqlite'}"
    upgrade(address)
    return address


@asynccontextmanager
async def listening(database: str, **options: object) -> AsyncIterator[str]:
    """Its address, such as http://127.0.0.1:41234."""
    chosen = ServiceOptions.model_validate({"database": database, "graceful": 5.0, "desk_undo": 0.0, **options})
    server = uvicorn.Server(uvicorn_config(partial(create_app, chosen), chosen))
    with socket.create_server(("127.0.0.1", 0)) as door:
        serving = asyncio.create_task(server.serve(sockets=[door]))
        try:
            while not server.started:
                assert not serving.done(), "it ended before it had begun"
                await asyncio.sleep(0.01)
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def deciding(server: ScriptedServer, database: str, **options: Any) -> AsyncIterator[str]:
    """The address of a replica whose court a scripted server plays."""
    os.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"  # taken away again before the next test (conftest)
    settings = {"model": "openai:scripted", **options.pop("settings", {})}
    async with listening(database, settings=settings, **{"graph": "arcade", **options}) as url:
        yield url


async def key_of(database: str, *scopes: str, **limits: Any) -> str:
    """A key, made as `tribunal service keys add` makes one."""
    store = await Store.open(database)
    try:
        return await keys.add_key(store, "a", scopes, keys.KeyLimits(**limits))
    finally:
        await store.close()


async def cases_at(url: str, key: str = "") -> list[JSON]:
    """Every case of a replica, the newest first."""
    async with httpx.AsyncClient(timeout=60) as client:
        got = await client.get(f"{url}/v1/cases", headers={"X-API-Key": key} if key else {})
        listed: list[JSON] = got.json()["cases"]
        return listed
