"""Ctrl-C and SIGTERM, of which a run makes something of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def heeding_signals(asked: Callable[[], None]) -> Iterator[None]:
    """Call `asked` at each SIGINT and SIGTERM meanwhile; afterwards they do again what they did before."""
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        for each in before:
            loop.add_signal_handler(each, asked)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows, or a thread that is not the main one
        yield
        return
    try:
        yield
    finally:
        for each, handler in before.items():
            loop.remove_signal_handler(each)
            if handler is not None:  # it was not set by Python
                signal.signal(each, handler)
