"""Files that are whole or not there, and folders that one process at a time works in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """Write a file so that its readers see the old one or the new one, and so does a machine whose power failed.

    The bytes go into a file beside it, which takes its place at the end; on an error it is taken away again.

    Raises:
        OSError: it can't be written.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # without it a power cut may leave the new name over an empty file
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file of this content, as `whole` does. Half surrogate pairs in a text become `?`.

    Raises:
        OSError: it can't be written.
    """
    with whole(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


def _sync_folder(folder: Path) -> None:
    """The new name is on the disk too. Not every system can be asked for it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Taken(OSError):
    """Another process holds the lock."""


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that one process at a time works beside it; the lock goes with the process, however it ends.

    Raises:
        Taken: another process holds it.
        OSError: it can't be made.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout as error:
        raise Taken(f"{lock}: another process holds it") from error
    try:
        yield
    finally:
        held.release()
