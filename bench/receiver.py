"""An endpoint for webhooks, in a process of its own: takes every message, and says on `/taken` how many there were."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tribunal.process.terminal import say


async def _serve() -> None:
    taken = 0

    async def take(request: web.Request) -> web.Response:
        nonlocal taken
        await request.read()
        taken += 1
        return web.Response()

    async def tell(request: web.Request) -> web.Response:
        return web.json_response(taken)

    app = web.Application(client_max_size=2**24)
    app.add_routes([web.post("/", take), web.get("/taken", tell)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    say(str(runner.addresses[0][1]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
