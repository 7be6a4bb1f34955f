"""Pipes where a file is meant: whoever opens one waits for somebody else, and is noted and freed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def nobody_waits(folder: Path) -> Iterator[list[Path]]:
    """Free whoever waits at a pipe of a folder, and note the pipe."""
    pipes, waited_at, over = (
        [each for each in folder.rglob("*") if each.is_fifo()],
        list[Path](),
        threading.Event(),
    )

    def watch() -> None:
        while not over.wait(0.05):
            for pipe in pipes:
                with suppress(OSError):  # ENXIO: nobody reads it
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                    waited_at.append(pipe)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield waited_at
    finally:
        over.set()
        watcher.join()
