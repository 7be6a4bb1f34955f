"""The life of a reading process: a JSON line and a page in, a JSON line out."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from tribunal.retrievers.web.pages.parsing import read
from tribunal.retrievers.web.pages.text import PageUnreadable


def serve(memory: int) -> None:
    """Read pages until there are no more. An error that isn't foreseen ends it, and the next page gets a new one."""
    import lxml.html  # type: ignore[import-untyped]  # noqa: F401
    import trafilatura  # noqa: F401

    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    _limit_memory(memory)
    answers.write(b"{}\n")
    answers.flush()
    while header := jobs.readline():
        job = json.loads(header)
        body = jobs.read(job.pop("bytes"))
        _limit_time(job["seconds"])
        try:
            answer: dict[str, Any] = asdict(read(body, **job))
        except PageUnreadable as error:
            answer = {"reason": error.reason, "why": str(error)}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _limit_memory(memory: int) -> None:
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):  # some systems don't keep this limit; the one on time still holds
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _limit_time(seconds: float) -> None:
    """For a process whose program has gone, and with it the one that would have ended it."""
    if sys.platform != "win32":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds) + 2, hard))
