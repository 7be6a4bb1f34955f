"""A replica on a real port of loopback, in this process: for clients that speak over a socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tests.doubles import ScriptedServer
from tribunal.schema import JSON
from tribunal.service.app import create_app
from tribunal.service.replica import keys
from tribunal.service.replica.options import ServiceOptions
from tribunal.service.serving import uvicorn_config
from tribunal.store.engine import Store, upgrade


@cache
def tables_made() -> bytes:
    """The file of a SQLite database with its tables made."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "service.sqlite"
        upgrade(f"sqlite:///{file}")
        return file.read_bytes()


def sqlite(folder: Path) -> str:
    """A SQLite database with its tables made."""
    folder.mkdir(exist_ok=True)
    file = folder / "service.sqlite"
    file.touch(mode=0o600)
    file.write_bytes(tables_made())
    return f"sqlite:///{file}"


@cache
def with_routes(tries: bool) -> FastAPI:
    """The application from which all others of this process have their routes.

    FastAPI works them out for each application anew, when the first request comes: for a fifth of a second.
    """
    return create_app(ServiceOptions(try_=tries))


def make_app(options: ServiceOptions) -> FastAPI:
    """The application of a replica."""
    app, first = create_app(options), with_routes(options.try_)
    app.router.routes[:] = first.router.routes
    app.dependency_overrides = first.dependency_overrides
    return app


@asynccontextmanager
async def listening(database: str, **options: object) -> AsyncIterator[str]:
    """Its address, such as http://127.0.0.1:41234."""
    chosen = ServiceOptions.model_validate(
        {"database": database, "graceful": 5.0, "desk_undo": 0.0, **options}
    )
    server = uvicorn.Server(uvicorn_config(partial(make_app, chosen), chosen))
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
    os.environ["OPENAI_BASE_URL"] = (
        f"{server.url}/v1"  # taken away again before the next test (conftest)
    )
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
