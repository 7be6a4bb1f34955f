"""Files that are read without danger, that are whole or not there, and folders that one process at a time works in."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO
from uuid import uuid4

MOST_BYTES = 16 * 1024 * 1024
_LFS, _LARGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1023  # by the specification of Git LFS
# A pipe or a device may keep whoever opens it waiting, or begin to do something. Windows has neither.
_WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)


def check_regular(path: Path) -> os.stat_result:
    """Return what the system says of a regular file; its links are followed.

    Raises:
        OSError: there is none, or it is a folder, a pipe, a socket, a device, or a file that the system makes up when
            it is read (`/proc`), some of which never end. They are never opened.
    """
    found = path.stat()
    _refuse_others(found, path)
    return found


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file: how every file is read that a setting or a post names.

    Raises:
        OSError: as `check_regular`; or it can't be read, or is larger than `most` bytes.
        ValueError: the path can't be one.
    """
    check_regular(path)
    with open(path, "rb", opener=lambda name, _: os.open(name, _WITHOUT_WAITING)) as file:
        found = os.fstat(file.fileno())
        _refuse_others(found, path)  # it may have been put in the place of the one before
        raw = file.read(most + 1) if found.st_size <= most else b""
        if found.st_size > most or len(raw) > most:  # the second: it grew
            raise OSError(errno.EFBIG, f"is over {most // 1024**2} MB", str(path))
        return raw


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is the small one that Git leaves in place of one that `git lfs pull` hasn't fetched."""
    try:
        if path.stat().st_size > _LARGEST_POINTER:
            return False
        with path.open("rb") as file:
            return file.read(len(_LFS)) == _LFS
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False


def _refuse_others(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode) or found.st_dev in _made_up():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))


@lru_cache(maxsize=1)
def _made_up() -> set[int]:
    """Return the file systems that hold no files."""
    found = set()
    for place in ("/proc", "/sys"):
        with suppress(OSError):
            found.add(Path(place).stat().st_dev)
    # Where nothing is mounted there, it is an ordinary folder.
    return found - {Path("/").stat().st_dev}


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
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
    with suppress(OSError):  # the new name is on the disk too; not every system can be asked for it
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file of this content, as `write_atomically` does. Half surrogate pairs in a text become `?`.

    Raises:
        OSError: it can't be written.
    """
    with write_atomically(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


class LockHeld(OSError):
    """Another process holds the lock."""


@contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that one process at a time works beside it; the lock goes with the process, however it ends.

    SQLite's own lock on an empty file does this on every system.

    Raises:
        LockHeld: another process holds it.
        OSError: it can't be made.
    """
    connection = sqlite3.connect(lock, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LockHeld(f"{lock}: another process holds it") from error
            raise OSError(f"{lock}: {error}") from error
        yield
    finally:
        connection.close()
