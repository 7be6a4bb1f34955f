"""Files that are read without danger and are whole or not there, folders with one writer, and trusted `.env` files.

This is the one door to files: no other module opens one by itself (tests/test_doors.py). It opens regular files alone,
waits for none, and holds no more of one in memory than a bound. Its errors are `OSError` and `ValueError`, of which
UnicodeDecodeError is one. Whoever knows what the file is for makes a line of them.

A `.env` file lies in the working folder, which may be anybody's. What names a place in it counts once the operator has
said so, as with direnv. A changed file is asked about again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from io import BufferedReader, BufferedWriter, FileIO
from pathlib import Path
from typing import IO, AnyStr, TypeVar
from uuid import uuid4

from platformdirs import user_data_dir

from tribunal.core.text import parse_json
from tribunal.errors import BadInput

MOST_BYTES = 16 * 1024 * 1024
MOST_LINE = 64 * 1024 * 1024  # bytes of one line of a file whose size isn't bounded
# by the specification of Git LFS
_LFS = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1023
# A pipe or a device may keep whoever opens it waiting, or begin to do something. Windows has neither.
_WITHOUT_WAITING = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
)

Opened = TypeVar("Opened", BufferedReader, FileIO)


def check_regular(path: Path) -> os.stat_result:
    """Return the status of a regular file; its links are followed.

    Raises:
        OSError: there is none, or it is a folder, a pipe, a socket, a device, or a file that the system makes up when
            it is read (`/proc`), some of which never end. They are never opened.
    """
    found = path.stat()
    _refuse_others(found, path)
    return found


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file to read its bytes, for files that may be too large for memory.

    Raises:
        OSError: as `check_regular`; or it can't be read.
        ValueError: the path can't be one.
    """
    check_regular(path)
    file = open(path, "rb", opener=lambda name, _: os.open(name, os.O_RDONLY | _WITHOUT_WAITING))  # noqa: SIM115
    return _refuse_replaced(file, path)


def open_to_append(path: Path) -> FileIO:
    """Open a regular file, or make it, to read it and to write at its end. `write` says how many bytes were taken.

    Raises:
        OSError: as `open_regular`; or it can't be written.
    """
    with suppress(FileNotFoundError):
        check_regular(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _WITHOUT_WAITING
    file = open(path, "a+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o644))  # noqa: SIM115
    return _refuse_replaced(file, path)


def create_file(path: Path) -> BufferedWriter:
    """Create a file to write its bytes; raise `OSError` if it can't be, or anything of that name is there."""
    return path.open("xb")


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file: how every file is read that a setting or a post names.

    Raises:
        OSError: as `open_regular`; or it is larger than `most` bytes.
        ValueError: the path can't be one.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        raw = file.read(most + 1) if size <= most else b""
        if size > most or len(raw) > most:  # the second: it grew
            raise OSError(errno.EFBIG, f"is over {most // 1024**2} MB", str(path))
        return raw


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a regular file in UTF-8.

    Raises:
        OSError: as `read_regular`.
        ValueError: it isn't UTF-8, or the path can't be one.
    """
    return read_regular(path, most).decode("utf-8")


def bounded_lines(file: IO[AnyStr], most: int = MOST_LINE) -> Iterator[AnyStr]:
    """Yield the lines of an open file from its current position, each with its end; memory holds one line.

    Raises:
        OSError: the file can't be read, or a line is over `most` bytes, or characters of a text.
    """
    while line := file.readline(most + 1):
        if len(line) > most:
            raise OSError(errno.EFBIG, f"a line is over {most // 1024**2} MB")
        yield line


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a regular file, read in pieces; raise `OSError` as `open_regular`."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_file(path: Path) -> None:
    """Write a library's file to the disk; raise `OSError` if that fails."""
    with open_to_append(path) as file:
        os.fsync(file.fileno())


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file is the small one that Git leaves in place of one that `git lfs pull` hasn't fetched."""
    try:
        if path.stat().st_size > _LARGEST_POINTER:
            return False
        with open_regular(path) as file:
            return file.read(len(_LFS)) == _LFS
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False


def _refuse_replaced(file: Opened, path: Path) -> Opened:
    """Return an open file; raise `OSError` if something else was put in the place of the regular one."""
    try:
        _refuse_others(os.fstat(file.fileno()), path)
    except BaseException:
        file.close()
        raise
    return file


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
        OSError: it can't be written, or something else than a regular file has its name.
    """
    with suppress(FileNotFoundError):
        check_regular(path)  # a device such as /dev/null would be replaced by a file
    draft = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            # without it a power cut may leave the new name over an empty file
            os.fsync(file.fileno())
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


def put_in_place(source: Path, path: Path) -> None:
    """Put a finished file in the place of another one, whole or not at all; from another file system by a copy.

    Raises:
        OSError: it can't be put there, or something else than a regular file has its name.
    """
    with suppress(FileNotFoundError):
        check_regular(path)
    try:
        source.replace(path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with open_regular(source) as file, write_atomically(path) as into:
            shutil.copyfileobj(file, into)
        source.unlink()


class LockHeld(OSError):
    """Another process holds the lock."""


@contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that only one process at a time works here; the lock is released when the process ends.

    SQLite's own lock on an empty file does this on every system.

    Raises:
        LockHeld: another process holds it.
        OSError: it can't be made, or is something else than a lock of ours.
    """
    with suppress(FileNotFoundError):
        check_regular(lock)
    with ExitStack() as stack:
        try:
            connection = sqlite3.connect(
                lock, timeout=0, isolation_level=None, check_same_thread=False
            )
            stack.callback(connection.close)
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LockHeld(f"{lock}: another process holds it") from error
            raise OSError(f"{lock}: can't be locked: {error}; delete it") from error
        yield


TRUST_DOTENV = "TRIBUNAL_TRUST_DOTENV"  # said in the environment of a container or of CI
_LIST = "trusted.json"
_YES = ("1", "yes", "true")
_NO = ("", "0", "no", "false")


def operators_folder() -> Path:
    """Return the data folder of the environment, which no `.env` file moves."""
    named = os.environ.get("TRIBUNAL_DATA")
    return Path(named).expanduser() if named else Path(user_data_dir("tribunal", appauthor=False))


def answer_for(file: Path, raw: bytes) -> bool | None:
    """Return whether the operator trusts a `.env` file of this content, or None if that was never asked.

    Raises:
        BadInput: TRIBUNAL_TRUST_DOTENV is neither yes nor no.
    """
    said = os.environ.get(TRUST_DOTENV, "").strip().lower()
    if said in _YES:
        return True
    if said not in _NO:
        raise BadInput(
            f"{TRUST_DOTENV}: {said[:40]!r}: is neither yes nor no; give 1 where every .env may be trusted"
        )
    digest, _, answer = _read_answers().get(str(file.resolve()), "").partition(" ")
    return answer == "yes" if digest == _hash(raw) else None


def remember_answer(file: Path, raw: bytes, *, trusted: bool) -> None:
    """Keep the operator's answer about a `.env` file of this content.

    Raises:
        OSError: it can't be written.
    """
    _write_answers(
        _read_answers() | {str(file.resolve()): f"{_hash(raw)} {'yes' if trusted else 'no'}"}
    )


def forget_answer(file: Path) -> bool:
    """Forget the answer about a file, and return whether there was one.

    Raises:
        OSError: it can't be written.
    """
    answers = _read_answers()
    was_there = answers.pop(str(file.resolve()), None) is not None
    if was_there:
        _write_answers(answers)
    return was_there


def _read_answers() -> dict[str, str]:
    """Return the answers by file. A list that is missing or damaged holds none: the operator is asked again."""
    with suppress(OSError, ValueError):
        held = parse_json(read_regular(operators_folder() / _LIST, 2**20))
        if isinstance(held, dict):
            return {file: answer for file, answer in held.items() if isinstance(answer, str)}
    return {}


def _write_answers(answers: dict[str, str]) -> None:
    folder = operators_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / _LIST, json.dumps(answers, indent=1))


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
