"""Copy a data set from a store or a web address to this machine, and the images beside a table in a store.

The address is the operator's own word, so any host may be asked. What the table's rows say is a stranger's: of an image
only a path beneath the table's folder is fetched, in the same store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path, PurePosixPath
from threading import Event

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.eval.datasets.image_files import candidate_paths
from tribunal.eval.datasets.table_files import KINDS, LARGE, copy_file, copy_files
from tribunal.locations import Location, is_url, parse_location
from tribunal.models.image import MAX_BYTES
from tribunal.retrievers.indexes.table_rows import TableFile, read_rows

_AT_A_TIME, _CHUNK = 8, 1_000  # images that are fetched, and looked through together


def fetch_data(url: str, columns: Mapping[str, str], tell: Callable[[str], None] = lambda line: None) -> Path:
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

    copies = data_folder() / "datasets" / hashlib.sha256(place.shown.encode("utf-8", "replace")).hexdigest()[:12]
    found = place.file_info()
    if found.type == FileType.NotFound:
        raise BadInput(f"data: {place}: no such file or folder, or no such bucket")
    if found.type == FileType.File:
        [table] = copy_files([(place, found, copies / _checked_parts(place.name)[-1])])
        file = TableFile(table)
        if file.suffix in KINDS:
            column = columns.get("image", "image")
            encoding = columns.get("encoding", "utf-8")
            rows = read_rows(file, f"data: {place}", encoding=encoding, strict=True, ragged=True)
            copy_images(place.parent, (row.optional_text(column) for row in rows), copies)
        return table
    held = [(each, place.beneath(each.path)) for each in place.files()]
    size = sum(each.size or 0 for each, _ in held)
    if size > LARGE:
        tell(f"copying {len(held):,} files, {size / 1024**2:,.0f} MB, from {place} to {copies}")
    paths = (copies.joinpath(*_checked_parts(each.path.removeprefix(place.path))) for each, _ in held)
    copy_files([(at, each, path) for (each, at), path in zip(held, paths, strict=True)])
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

    given_up, named = Event(), iter(references)

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
    return bool(parts) and ".." not in parts and not any(set(part) & {":", "\\", "\0"} for part in parts)


def _checked_parts(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path.lstrip("/")).parts
    if not _is_portable(parts):
        raise BadInput(f"data: {path}: is no name that a file of this machine can have")
    return parts
