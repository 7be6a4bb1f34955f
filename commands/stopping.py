"""Ctrl-C and SIGTERM while a case is tried: it is stopped, and a line says what became of it and how to go on."""

from __future__ import annotations

import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from typer import Exit

from tribunal.terminal import say

Result = TypeVar("Result")
_BY_SIGNAL = 128  # a shell's status of a process that a signal ended is this and the signal's number


def expect_stop() -> None:
    """Say so if SIGTERM comes before the trial begins. Then nothing was asked of a model."""

    def stop(number: int, _: object) -> None:
        say(f"tribunal: stopped by {signal.Signals(number).name}: nothing was begun", aside=True)
        raise SystemExit(_BY_SIGNAL + number)

    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, stop)


def run_until_stopped(work: Coroutine[Any, Any, Result], *, database: str | None, review: bool) -> Result:
    """Run the trial of a case to its end, and return what it gives.

    Args:
        work: the trial.
        database: where its case waits if a person has to decide it.
        review: whether a person may have to.

    Raises:
        Exit: SIGINT or SIGTERM came first. A line was printed.
    """
    import asyncio

    return asyncio.run(_run(work, database, review))


async def _run(work: Coroutine[Any, Any, Result], database: str | None, review: bool) -> Result:
    import asyncio

    loop, came = asyncio.get_running_loop(), list[signal.Signals]()
    trial = asyncio.ensure_future(work)

    def stop(number: signal.Signals) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):  # a second one ends the process at once
            loop.remove_signal_handler(each)
        came.append(number)
        trial.cancel()

    for each in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # on Windows; in a thread
            loop.add_signal_handler(each, stop, each)
    try:
        return await trial
    except asyncio.CancelledError:
        if not came:
            raise
    left = await _what_is_left(database) if review else None
    say(f"tribunal: stopped by {came[0].name}: {left or 'nothing was kept; to judge the post, run the command again'}",
        aside=True)  # fmt: skip
    raise Exit(_BY_SIGNAL + came[0])


async def _what_is_left(database: str | None) -> str | None:
    """Return what became of this process's case, and the command that goes on with it; None where none is left."""
    from tribunal.cases.docket import docket_here
    from tribunal.cases.leases import list_cases_of_process

    try:
        rows = await list_cases_of_process((await docket_here(database)).store)
    except Exception as error:  # noqa: BLE001 (whatever it is, the process ends now, and says what it knows)
        return f"whether its case was kept is unknown ({type(error).__name__}); tribunal review list shows it"
    if not rows:
        return None
    case, status = rows[0]["id"], rows[0]["status"]
    if status == "running":
        return f"case {case} is kept as far as it came; tribunal review resume {case} goes on"
    return f"case {case} waits for a person; tribunal review decide {case} decides it"
