"""Decide posts for a run that another process leads: `python -m tribunal.runner.worker`, or an actor of a cluster.

Its leader sends posts, and gets their results (`tribunal.process.workers`). Keys and passwords are those of its
environment. It ends when its leader does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tribunal.process.workers import read_message, take_standard_streams, write_message

if TYPE_CHECKING:
    from tribunal.runner.decider import PostDecider
    from tribunal.schema import JSON


def main() -> None:
    """Decide posts until standard input ends."""
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # it is the leader who is asked to stop, and says so
        signal.signal(each, signal.SIG_IGN)
    jobs, answers = take_standard_streams()
    from tribunal.process.loops import run_many

    def send(message: JSON, body: bytes) -> None:
        try:
            write_message(answers, message, body)
        except (
            OSError
        ):  # the leader is gone: whoever goes on with its run has this post decided again
            os._exit(1)

    async def serve_leader() -> None:
        """Run the leader's posts. If it is killed, nobody waits for the running posts."""
        if await serve_posts(lambda: asyncio.to_thread(read_message, jobs), send):
            os._exit(1)

    run_many(serve_leader())


async def serve_posts(
    receive: Callable[[], Awaitable[tuple[JSON, bytes] | None]],
    send: Callable[[JSON, bytes], None],
    where: str = "",
) -> int:
    """Decide the posts that come, concurrently.

    Args:
        receive: gives the next message: first the order of the run, then posts and rests; None after the last.
        send: takes each answer.
        where: text before the name of a wrong setting.

    Returns:
        How many posts are under way after the last message.
    """
    # of the environment the leader has warned already
    logging.getLogger("tribunal").setLevel(logging.ERROR)
    from tribunal.errors import BadInput
    from tribunal.models.registry import current_registry
    from tribunal.runner.decider import PostDecider
    from tribunal.runner.job import RunOrder
    from tribunal.settings.contents import keep_files_read

    decider: PostDecider | None = None
    under_way: set[asyncio.Task[None]] = set()
    with keep_files_read():
        while (received := await receive()) is not None:
            message, body = received
            if "order" in message:
                order = RunOrder.model_validate(message["order"])
                try:
                    decider = await PostDecider.open_for_order(
                        order,
                        lambda *rest: send({"rest": rest}, b""),
                        lambda *server: send({"server": server}, b""),
                    )
                except BadInput as error:
                    send({"bad_input": f"{where}{error}"}, b"")
                    break
                send({"ready": True}, b"")
            elif "rest" in message:
                (await current_registry()).rest_key_quietly(*message["rest"])
            elif decider is None:
                continue
            elif "answers" in message:
                decider.note_server_answer(message["answers"])
            elif "stop_waiting" in message:
                decider.stop_waiting()
            else:
                task = asyncio.ensure_future(_decide_post(decider, message, body, send))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
    return len(under_way)


async def _decide_post(
    decider: PostDecider, job: JSON, body: bytes, send: Callable[[JSON, bytes], None]
) -> None:
    """Decide a post, and send what came of it."""
    answer, line = await decider.answer_job(job, body)
    send({"number": job["number"], **answer}, line)


if __name__ == "__main__":
    main()
