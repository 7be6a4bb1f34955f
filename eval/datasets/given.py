"""A table as it is given: one file, or a folder of them, on this machine or in an object store."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from pathlib import Path, PurePath, PurePosixPath
from threading import Event
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from tribunal.errors import BadInput
from tribunal.locations import Location, Unreachable, fetch
from tribunal.retrievers.perspectives.rows import EXTRA, Cells, TableFile
from tribunal.text import wellformed

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

# What is read of a folder. A text file there may be anything.
KINDS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
_EMPTY_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_AT_A_TIME = 8  # files that are copied
_LARGE = 100 * 1024 * 1024  # bytes, for which one waits


class Tables(NamedTuple):
    """The files of a table, in the order in which their rows count.

    Attributes:
        shown: what was given, for errors.
        name: what a run calls it: the name of the file or folder, wherever it lies.
        files: at least one.
        folder: where image paths begin; None: in a store, of which no image is read.
    """

    shown: str
    name: str
    files: tuple[TableFile, ...]
    folder: Path | None

    @classmethod
    def of_file(cls, path: Path) -> Tables:
        """One file of this machine."""
        return cls(str(path), path.name, (TableFile(path),), path.parent)


def tables_of(place: Location, copies: Path, tell: Callable[[str], None] = lambda line: None) -> Tables:
    """The files of a table.

    Of a folder they are those of `KINDS`, packed by gzip or not, in its folders too, sorted by their path. A file or
    folder whose name begins with `.` or `_` is passed over. A folder called `NAME=VALUE` gives the rows beneath it
    that cell. What lies in a store is copied once, file by file.

    Args:
        place: the file or folder.
        copies: the folder for copies of what lies in a store. One that is there already is used if the store's file
            has its size and its time.
        tell: is told before much is copied.

    Raises:
        BadInput: there is no such file or folder, the folder has no table, or there is no room for the copies.
    """
    if place.here is not None:
        return _of_this_machine(place.here, place.shown)
    from pyarrow.fs import FileType

    found = place.found()
    if found.type == FileType.NotFound:
        raise BadInput(f"data: {place}: no such file or folder, or no such bucket")
    alone = found.type == FileType.File
    chosen = [found] if alone else sorted(_of_kinds(place), key=lambda each: PurePosixPath(each.path).parts)
    if not chosen:
        raise _no_table(place.shown)
    size = sum(each.size or 0 for each in chosen)
    if size > _LARGE:
        tell(f"copying {len(chosen):,} files, {size / 1024**2:,.0f} MB, from {place} to {copies}")
    places = [place if alone else place.beneath(each.path) for each in chosen]
    files = tuple(
        TableFile(path, each.shown, {} if alone else _partitions(_beneath(each, place)))
        for path, each in zip(_all_copied(places, chosen, copies), places, strict=True)
    )
    return Tables(place.shown, place.name, files, None)


def _of_this_machine(given: Path, shown: str) -> Tables:
    if given.is_file():
        return Tables.of_file(given)
    if not given.is_dir():
        raise BadInput(f"data: {shown}: no such file or folder")
    names = sorted(_walked(given), key=lambda path: path.parts)
    files = tuple(TableFile(given / name, "", _partitions(PurePosixPath(name.as_posix()))) for name in names)
    if not files:
        raise _no_table(shown)
    return Tables(str(given), given.resolve().name, files, given)


def _walked(folder: Path) -> Iterator[PurePath]:
    """The tables of a folder, by their paths in it. Links to folders aren't followed: one may lead round."""
    for root, folders, names in os.walk(folder, onerror=_unlisted):
        folders[:] = [each for each in folders if not _hidden(each)]
        inside = PurePath(root).relative_to(folder)
        yield from (inside / name for name in names if _is_table(name) and (Path(root) / name).is_file())


def _unlisted(error: OSError) -> None:
    raise BadInput(f"data: {error.filename}: {error.strerror or error}") from error


def _of_kinds(folder: Location) -> Iterable[FileInfo]:
    for each in folder.files():
        parts = _beneath(folder.beneath(each.path), folder).parts
        if parts and not any(map(_hidden, parts)) and _is_table(parts[-1]):
            yield each


def _beneath(place: Location, folder: Location) -> PurePosixPath:
    return PurePosixPath(place.path.removeprefix(folder.path).lstrip("/"))


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_table(name: str) -> bool:
    file = TableFile(Path(name))
    return not _hidden(name) and file.suffix in KINDS and not (file.packed and file.suffix == ".parquet")


def _partitions(path: PurePosixPath) -> Cells:
    """What the folders of a partitioned set say of each row in them."""
    pairs = (part.partition("=") for part in path.parts[:-1])
    cells = {wellformed(unquote(name)): unquote(value) for name, equals, value in pairs if equals and name}
    return {name: None if value == _EMPTY_PARTITION else value for name, value in cells.items() if name != EXTRA}


def _all_copied(places: Iterable[Location], found: Iterable[FileInfo], copies: Path) -> list[Path]:
    """Files of a store, on this machine. One that can't be had, or Ctrl-C, ends the copying of the others."""
    given_up = Event()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            return list(pool.map(_copied, places, found, repeat(copies), repeat(given_up)))
        except BaseException:
            given_up.set()
            raise


def _copied(place: Location, found: FileInfo, copies: Path, given_up: Event) -> Path:
    """A file of a store, on this machine."""
    # Not by its own name, which may be any text.
    path = copies / f"{hashlib.sha256(place.path.encode('utf-8', 'replace')).hexdigest()[:24]}.table"
    try:
        if path.exists() and (held := path.stat()).st_size == found.size and held.st_mtime_ns == found.mtime_ns:
            return path
        copies.mkdir(parents=True, exist_ok=True)
        fetch(place, path, given_up.is_set)
        if found.mtime_ns is not None:
            os.utime(path, ns=(found.mtime_ns, found.mtime_ns))
    except Unreachable:
        raise
    except OSError as error:
        raise BadInput(f"data: {place}: can't be copied to {copies}: {error.strerror or error}; make room") from error
    return path


def remove_copies(copies: Path) -> None:
    """Remove what `tables_of` has copied, once nothing reads it any more."""
    with suppress(OSError):
        shutil.rmtree(copies)


def _no_table(shown: str) -> BadInput:
    return BadInput(f"data: {shown}: there is no table in this folder; tables end in {', '.join(KINDS)} (or .gz after)")
