"""A run in a process of its own, for tests that end it badly:

    python -m tests.eval.runs.worker FOLDER POSTS IN_FLIGHT

With `--again`, each line on standard input starts the run once more, in a child that has everything imported already;
its process id is told, and then how it ended.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from tribunal.graphs import graph
from tribunal.runner.engine import decide_posts
from tribunal.runner.job import RunJob
from tribunal.runner.results import Gold, Sample
from tribunal.settings.context import context_from


def posts(number: int) -> list[Sample]:
    """Posts `word-0`, `word-1`, …, of which every second is positive."""
    return [
        Sample(
            id=f"post-{place}",
            text=f"word-{place}.",
            gold=Gold(label=place % 2, scheme="binary", positive=bool(place % 2), name="gold"),
            fields={"difficulty": "Easy"},
        )
        for place in range(number)
    ]


def job(number: int, in_flight: int, **settings: object) -> RunJob:
    context = context_from(
        {"model": "openai:scripted", "scheme": "binary", "attempts": 1, **settings}
    )
    return RunJob(
        graph="baseline", context=context, samples=posts(number), count=number, in_flight=in_flight
    )


def again(folder: Path, number: int, in_flight: int) -> None:
    graph("baseline")  # what is imported here, no child has to import
    import langchain_openai  # noqa: F401
    from langchain.chat_models import init_chat_model  # noqa: F401

    for _ in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(decide_posts(job(number, in_flight), folder))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def main() -> None:
    folder, number, in_flight = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if sys.argv[4:] == ["--again"]:
        again(folder, number, in_flight)
        return
    if len(sys.argv) > 4:
        sys.dont_write_bytecode = True  # a module compiled here would be cut off, and kept
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
    tally = asyncio.run(decide_posts(job(number, in_flight), folder))
    sys.stdout.write(f"{tally.done} {tally.stopped}\n")


if __name__ == "__main__":
    main()
