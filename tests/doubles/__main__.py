"""The scripted server as a process of its own: `python -m tests.doubles --script MODULE:NAME`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import signal
from collections.abc import Sequence

from tests.doubles import Script, ScriptedServer, ScriptError
from tribunal.process.loops import run_many
from tribunal.process.terminal import say, say_json


async def _serve(server: ScriptedServer) -> None:
    over = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, over.set)
    async with server:
        say_json({"port": server.port, "url": server.url})
        await over.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; the one line on standard output is `{"port": …, "url": …}`.

    `GET /scripted` gives the counts, its CPU seconds and how long it was asked; `DELETE` forgets them.
    Returns 0, or 1 (with the first error on standard error) if the script failed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.doubles", description="A scripted model server on loopback."
    )
    parser.add_argument("--script", required=True, metavar="MODULE:NAME", help="what answers")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds an answer takes")
    parser.add_argument("--keep", action="store_true", help="keep every request in memory")
    given = parser.parse_args(arguments)
    module, _, name = given.script.partition(":")
    script: Script = getattr(importlib.import_module(module), name)
    try:
        run_many(
            _serve(ScriptedServer(script, latency=given.latency, keep=given.keep, port=given.port))
        )
    except ScriptError as error:
        say(str(error), lines=True, aside=True)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
