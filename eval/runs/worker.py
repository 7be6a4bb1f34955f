"""Decide posts for a run that another process leads: `python -m tribunal.eval.runs.worker`.

Its leader sends posts, and gets their results (`tribunal.workers`). Keys and passwords are those of its environment. It
ends when its leader does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, BinaryIO

from tribunal.workers import read_message, take_standard_streams, write_message

if TYPE_CHECKING:
    from tribunal.eval.runs.decider import PostDecider
    from tribunal.schema import JSON


def main() -> None:
    """Decide posts until standard input ends."""
    for each in (signal.SIGINT, signal.SIGTERM):  # it is the leader who is asked to stop, and says so
        signal.signal(each, signal.SIG_IGN)
    jobs, answers = take_standard_streams()
    logging.getLogger("tribunal").setLevel(logging.ERROR)  # of the environment the leader has warned already
    from tribunal.contents import keep_files_read
    from tribunal.loops import run_many

    with keep_files_read():
        run_many(_serve_posts(jobs, answers))


async def _serve_posts(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Decide the posts that come, concurrently."""
    from tribunal.errors import BadInput
    from tribunal.eval.runs.decider import PostDecider
    from tribunal.eval.runs.job import RunOrder
    from tribunal.models.registry import current_registry

    def announce_rest(*rest: str | float) -> None:
        """Tell the leader of a rest that a server asked for."""
        write_message(answers, {"rest": rest})

    decider: PostDecider | None = None
    under_way: set[asyncio.Task[None]] = set()
    while (received := await asyncio.to_thread(read_message, jobs)) is not None:
        message, body = received
        if "order" in message:
            try:
                decider = await PostDecider.open_for_order(RunOrder.model_validate(message["order"]), announce_rest)
            except BadInput as error:
                write_message(answers, {"bad_input": str(error)})
                return
            write_message(answers, {"ready": True})
        elif "rest" in message:
            (await current_registry()).rest_key_quietly(*message["rest"])
        elif decider is not None:
            task = asyncio.ensure_future(_decide_post(decider, message, body, answers))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
    if under_way:  # the leader was killed, and nobody waits for these
        os._exit(1)


async def _decide_post(decider: PostDecider, job: JSON, body: bytes, answers: BinaryIO) -> None:
    """Decide a post, and send what came of it."""
    answer, line = await decider.answer_job(job, body)
    write_message(answers, {"number": job["number"], **answer}, line)


if __name__ == "__main__":
    main()
