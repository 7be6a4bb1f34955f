"""A process that decides posts for a run, which another one leads: `python -m tribunal.eval.runs.worker`.

It is told on standard input what to decide, and tells on standard output what came of it (`tribunal.eval.runs.pipes`).
Keys and passwords are those of its environment. It ends when nobody is left to tell it anything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from tribunal.eval.runs.deciding import Decider
    from tribunal.schema import JSON


def main() -> None:
    """Decide posts until standard input ends."""
    for each in (signal.SIGINT, signal.SIGTERM):  # it is the leader who is asked to stop, and says so
        signal.signal(each, signal.SIG_IGN)
    orders, told = _pipes()
    logging.getLogger("tribunal").setLevel(logging.ERROR)  # of the environment the leader has warned already
    from tribunal.loops import run_many
    from tribunal.opened import opened_once

    with opened_once():
        run_many(_work(orders, told))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output, for nobody else: what a graph prints goes to standard error."""
    orders, told = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return orders, told


async def _work(orders: BinaryIO, told: BinaryIO) -> None:
    from tribunal.errors import BadInput
    from tribunal.eval.runs.deciding import Decider, Order
    from tribunal.eval.runs.pipes import LONGEST, message, messages
    from tribunal.graphs import graph
    from tribunal.models.door import door_here

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), orders)
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, told)
    decider: Decider | None = None
    under_way: set[asyncio.Task[None]] = set()

    def tell(said: JSON, beside: bytes = b"") -> None:
        out.write(message(said, beside))

    async for said, beside in messages(reader):
        if "order" in said:
            try:
                order = Order.model_validate(said["order"])
                decider = Decider.of(order)
                await decider.check()
                graph(order.graph)
            except BadInput as error:
                tell({"bad_input": str(error)})
                return
            (await door_here()).on_rest = lambda *rest: tell({"rest": rest})
            tell({"ready": True})
        elif "rest" in said:
            (await door_here()).rest_elsewhere(*said["rest"])
        elif decider is not None:
            task = asyncio.ensure_future(_decide(decider, said, beside, tell))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    if under_way:  # the leader was killed, and nobody waits for these
        os._exit(1)


async def _decide(decider: Decider, said: JSON, beside: bytes, tell: Callable[..., None]) -> None:
    """Decide a post, and tell what came of it."""
    from tribunal.errors import BadInput
    from tribunal.eval.datasets.sample import Sample
    from tribunal.eval.runs.deciding import Stopped
    from tribunal.parsed import from_json

    number, sample = said["post"], Sample.model_validate(from_json(beside))
    try:
        _, line = await decider.decide(said["place"], said["repeat"], sample, said["max_tokens"])
    except BadInput as error:
        tell({"post": number, "bad_input": str(error)})
    except Stopped as stopped:
        tell({"post": number, "stopped": str(stopped)})
    except Exception:  # noqa: BLE001 (its leader ends by it, as a run of one process does)
        tell({"post": number, "broke": traceback.format_exc()})
    else:
        tell({"post": number, "unkept": decider.unkept, "slowed": decider.slowed}, line)


if __name__ == "__main__":
    main()
