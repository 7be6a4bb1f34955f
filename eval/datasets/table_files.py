"""Find the files of a table, local or in an object store, and copy data sets and images from a store to this machine.

The address is the operator's own, so any host may be asked. The rows of a table come from a stranger: only an image
beneath the table's folder is fetched, in the same store.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from threading import Event
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from tribunal.core.text import wellformed
from tribunal.errors import BadInput
from tribunal.eval.datasets.locations import Location, Unreachable, fetch, is_url, parse_location
from tribunal.eval.datasets.stored_data import candidate_paths
from tribunal.models.image import MAX_BYTES
from tribunal.retrievers.indexes.table_rows import EXTRA, Cells, TableFile, read_rows
from tribunal.settings.environment import data_folder

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo


# What is read of a folder. A text file there may be anything.
KINDS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
# what `save_to_disk` writes beside its tables
_ABOUT_ARROW = (
    "state.json",
    "dataset_info.json",
    "dataset_dict.json",
)
_EMPTY_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_AT_A_TIME = 8  # files that are copied together
_CHUNK = 1_000  # images that are checked together
_LARGE = 100 * 1024 * 1024  # bytes, for which one waits


class TableFiles(NamedTuple):
    """Hold the files of a table, in the order in which their rows count.

    Attributes:
        shown: what was given, for errors.
        name: what a run calls it: the name of the file or folder, wherever it lies.
        files: at least one.
        folder: where image paths begin; of a table in a store, that of the copies.
        store: the folder in the store where image paths begin; None: it is on this machine.
    """

    shown: str
    name: str
    files: tuple[TableFile, ...]
    folder: Path
    store: Location | None = None

    @classmethod
    def from_file(cls, path: Path) -> TableFiles:
        """Return a table of one local file."""
        return cls(str(path), path.name, (TableFile(path),), path.parent)


def find_table_files(
    place: Location, copies: Path, tell: Callable[[str], None] = lambda line: None
) -> TableFiles:
    """Return the files of a table.

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
    given = place.local_path
    if given is not None and given.is_file():
        return TableFiles.from_file(given)
    if given is not None:
        if not given.is_dir():
            raise BadInput(f"data: {place}: no such file or folder")
        paths = sorted(_walk_tables(given), key=lambda path: path.parts)
        files = tuple(TableFile(given / path, "", _partition_cells(path.parts)) for path in paths)
    else:
        files = _copy_stored_tables(place, copies, tell)
    if not files:
        raise BadInput(
            f"data: {place}: there is no table in this folder; tables end in {', '.join(KINDS)} (or .gz after)"
        )
    if given is not None:
        return TableFiles(place.shown, given.resolve().name, files, given)
    alone = len(files) == 1 and not files[0].cells and files[0].shown == place.shown
    return TableFiles(
        place.shown, place.name, files, copies / "images", place.parent if alone else place
    )


def _walk_tables(folder: Path) -> Iterator[PurePath]:
    """Yield the tables of a folder, by their paths in it. Links to folders aren't followed, as they may loop."""

    def refuse(error: OSError) -> None:
        """Refuse a folder that can't be listed."""
        raise BadInput(f"data: {error.filename}: {error.strerror or error}") from error

    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [each for each in folders if not _is_hidden(each)]
        inside = PurePath(root).relative_to(folder)
        yield from (
            inside / name for name in names if _is_table(name) and (Path(root) / name).is_file()
        )


def _copy_stored_tables(
    place: Location, copies: Path, tell: Callable[[str], None]
) -> tuple[TableFile, ...]:
    """Copy the tables of a store to this machine, and return them in the order of their paths in it."""
    from pyarrow.fs import FileType

    found = _existing_file(place)
    if found.type == FileType.File:
        chosen: dict[tuple[str, ...], FileInfo] = {(): found}
    else:
        paths = {
            PurePosixPath(each.path.removeprefix(place.path).lstrip("/")).parts: each
            for each in place.files()
        }
        chosen = {
            parts: each
            for parts, each in sorted(paths.items())
            if parts and not any(map(_is_hidden, parts)) and _is_table(parts[-1])
        }
    _announce_copies(place, copies, list(chosen.values()), tell)
    places = [place.beneath(each.path) if parts else place for parts, each in chosen.items()]
    # Not by its own name, which may be any text.
    hashes = [
        hashlib.sha256(each.path.encode("utf-8", "replace")).hexdigest()[:24] for each in places
    ]
    to = [copies / f"{each}.table" for each in hashes]
    copied = copy_files(list(zip(places, chosen.values(), to, strict=True)))
    return tuple(
        TableFile(path, each.shown, _partition_cells(parts))
        for path, each, parts in zip(copied, places, chosen, strict=True)
    )


def _existing_file(place: Location) -> FileInfo:
    """Look a place of a store up; refuse one that isn't there."""
    from pyarrow.fs import FileType

    found = place.file_info()
    if found.type == FileType.NotFound:
        raise BadInput(f"data: {place}: no such file or folder, or no such bucket")
    return found


def _announce_copies(
    place: Location, copies: Path, files: Sequence[FileInfo], tell: Callable[[str], None]
) -> None:
    size = sum(each.size or 0 for each in files)
    if size > _LARGE:
        tell(f"copying {len(files):,} files, {size / 1024**2:,.0f} MB, from {place} to {copies}")


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_table(name: str) -> bool:
    file = TableFile(Path(name))
    if (
        _is_hidden(name)
        or name in _ABOUT_ARROW
        or (file.suffix == ".arrow" and name.startswith("cache-"))
    ):
        return False
    return file.suffix in KINDS and not (file.is_packed and file.suffix in (".parquet", ".arrow"))


def _partition_cells(parts: tuple[str, ...]) -> Cells:
    """Return the cells that the folders of a partitioned set give each row in them."""
    pairs = (part.partition("=") for part in parts[:-1])
    cells = {
        wellformed(unquote(name)): unquote(value)
        for name, equals, value in pairs
        if equals and name
    }
    return {
        name: None if value == _EMPTY_PARTITION else value
        for name, value in cells.items()
        if name != EXTRA
    }


def copy_files(wanted: Sequence[tuple[Location, FileInfo, Path]]) -> list[Path]:
    """Copy files of a store to these paths of this machine. An error or Ctrl-C ends the other copies."""
    given_up = Event()
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            return list(
                pool.map(lambda each: copy_file(each[0], each[1], each[2], given_up), wanted)
            )
        except BaseException:
            given_up.set()
            raise


def copy_file(place: Location, found: FileInfo, path: Path, given_up: Event) -> Path:
    """Copy a file of a store to this path, unless it is there with the same size and time, and return the path."""
    try:
        if (
            path.exists()
            and (held := path.stat()).st_size == found.size
            and held.st_mtime_ns == found.mtime_ns
        ):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        fetch(place, path, given_up.is_set)
        if found.mtime_ns is not None:
            os.utime(path, ns=(found.mtime_ns, found.mtime_ns))
    except Unreachable:
        raise
    except OSError as error:
        raise BadInput(
            f"data: {place}: can't be copied to {path.parent}: {error.strerror or error}; make room"
        ) from error
    return path


def remove_copies(copies: Path) -> None:
    """Remove what `find_table_files` copied, once nothing reads it any more."""
    with suppress(OSError):
        shutil.rmtree(copies)


def fetch_data(
    url: str, columns: Mapping[str, str], tell: Callable[[str], None] = lambda line: None
) -> Path:
    """Return the copy of a data set's file or folder; a path of this machine is returned as it is.

    Of a folder every file is copied, images too; of a table the images that its rows name. A copy lies in the data
    folder by its URL, and is used again where the store's file has its size and its time.

    Args:
        url: the file or folder.
        columns: which column of a table is what; that of the images is called `image` unless it is named.
        tell: is told before much is copied.

    Raises:
        BadInput: there is no such file or folder, the store can't be used, or there is no room.
    """
    if not is_url(url):
        return Path(url)
    place = parse_location(url)
    if place.local_path is not None:
        return place.local_path
    from pyarrow.fs import FileType

    copies = (
        data_folder()
        / "datasets"
        / hashlib.sha256(place.shown.encode("utf-8", "replace")).hexdigest()[:12]
    )
    found = _existing_file(place)
    if found.type == FileType.File:
        [table] = copy_files([(place, found, copies / _checked_parts(place.name)[-1])])
        file = TableFile(table)
        if file.suffix in KINDS:
            column = columns.get("image", "image")
            encoding = columns.get("encoding", "utf-8")
            rows = read_rows(file, f"data: {place}", encoding=encoding, strict=True, ragged=True)
            copy_images(place.parent, (row.optional_text(column) for row in rows), copies)
        return table
    files = list(place.files())
    _announce_copies(place, copies, files, tell)
    copy_files(
        [
            (
                place.beneath(each.path),
                each,
                copies.joinpath(*_checked_parts(each.path.removeprefix(place.path))),
            )
            for each in files
        ]
    )
    return copies


def copy_images(folder: Location, references: Iterable[str], copies: Path) -> None:
    """Copy the images that rows name, beneath the table's folder in its store; leave out what isn't there.

    Args:
        folder: where their paths begin.
        references: what the rows say.
        copies: where the copies' paths begin.

    Raises:
        BadInput: the store can't be used, or there is no room.
    """
    from pyarrow.fs import FileType

    given_up = Event()
    named = iter(references)

    def copy_image(reference: str) -> None:
        for parts in filter(_is_portable, candidate_paths(reference)):
            place = folder.beneath("/".join((folder.path, *parts)).lstrip("/"))
            found = place.file_info()
            if found.type == FileType.File and (found.size or 0) <= MAX_BYTES:
                copy_file(place, found, copies.joinpath(*parts), given_up)
                return

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        while chunk := list(islice(named, _CHUNK)):
            list(pool.map(copy_image, set(chunk)))


def _is_portable(parts: tuple[str, ...]) -> bool:
    """Return whether a path stays in its folder on every system."""
    return (
        bool(parts)
        and ".." not in parts
        and not any(set(part) & {":", "\\", "\0"} for part in parts)
    )


def _checked_parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not _is_portable(parts):
        raise BadInput(f"data: {path}: is no name that a file of this machine can have")
    return parts
