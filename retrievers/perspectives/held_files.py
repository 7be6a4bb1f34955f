"""The files that an index is made of, and whether they are still those that were built.

A manifest names each by its hash. `verified.json` keeps their sizes and times of when their hashes were last compared:
hashing 300 MB takes longer than an index may take to open, so opening compares hashes only when a size or time has
changed; `verify` always does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.files import read_regular, write_whole
from tribunal.parsed import from_json
from tribunal.retrievers.perspectives.rows import file_hash
from tribunal.schema import JSON, Frozen
from tribunal.text import one_line, visible

MANIFEST, VERIFIED = "manifest.json", "verified.json"
# Makes the error for an index that can't be used as it is, from what is wrong with it.
Damage = Callable[[str], BadInput]


class FileNote(Frozen):
    """A file, by name alone, as it was when the index was built."""

    name: str
    bytes: int
    sha256: str


class OtherFormat(NamedTuple):
    """Return what a manifest of another version says of itself, and the embedding that it names."""

    message: str
    embedding: str


def find_other_format(manifest: bytes, own: int) -> OtherFormat | None:
    """Return what a manifest of another format than our own says of itself; None where this is no such one."""
    try:
        written = from_json(manifest)
        found, embedding = written["format"], written["embedding"]
    except (ValueError, KeyError, TypeError):
        return None
    if type(found) is not int or found == own or not isinstance(embedding, str):
        return None
    embedding = visible(one_line(embedding[:200]))
    return OtherFormat(f"format {found} by {embedding}, where this one reads format {own}", embedding)


def note_of(path: Path) -> FileNote:
    """A file as it is now."""
    return FileNote(name=path.name, bytes=path.stat().st_size, sha256=file_hash(path))


def settled(folder: Path, path: Path) -> FileNote:
    """Move a finished file to its place, under a name that carries its hash."""
    note = note_of(path)
    note = note.model_copy(update={"name": f"{path.stem}-{note.sha256[:12]}{path.suffix}"})
    with path.open("rb+") as file:
        os.fsync(file.fileno())  # the manifest must not reach the disk before the files that it names
    path.replace(folder / note.name)
    return note


def remove_others(folder: Path, kept: Sequence[FileNote]) -> None:
    """Remove the files of the index that lay there before."""
    names = {note.name for note in kept}
    for old in (*folder.glob("index-*.*"), *folder.glob("rows-*.parquet"), *folder.glob("ngrams-*.bin")):
        if old.name not in names:
            with suppress(OSError):  # on Windows, one that a process still has open can only go the next time
                old.unlink()


def check_files(folder: Path, notes: Sequence[FileNote], damaged: Damage) -> None:
    """Compare files with their notes: their sizes, and their hashes where a size or time has changed.

    Raises:
        BadInput: one is missing or differs.
    """
    for note in notes:
        path = folder / note.name
        if not path.is_file():
            raise damaged(f"lacks {note.name}")
        if (size := path.stat().st_size) != note.bytes:
            raise damaged(f"is truncated or changed: {note.name} has {size:,} bytes, not {note.bytes:,}")
    try:
        seen = from_json(read_regular(folder / VERIFIED))
    except (OSError, ValueError):
        seen = None
    if seen != _stamps(folder, notes):
        verify_files(folder, notes, damaged)


def verify_files(folder: Path, notes: Sequence[FileNote], damaged: Damage) -> None:
    """Compare every file with its hash, whatever its size and times are.

    Raises:
        BadInput: one is missing or differs.
    """
    for note in notes:
        try:
            same = file_hash(folder / note.name) == note.sha256
        except OSError as error:
            raise damaged(f"lacks {note.name}") from error
        if not same:
            raise damaged(f"was changed since it was built: {note.name} has another hash")
    note_verified(folder, notes)


def note_verified(folder: Path, notes: Sequence[FileNote]) -> None:
    """Note the sizes and times that the files have, now that their hashes are known to be right."""
    try:
        write_json(folder / VERIFIED, _stamps(folder, notes))
    except OSError:
        # A folder that can't be written is hashed by every process that opens it: slower, and just as right.
        return


def _stamps(folder: Path, notes: Sequence[FileNote]) -> JSON:
    stats = {note.name: (folder / note.name).stat() for note in notes}
    return {name: [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats.items()}


def write_json(path: Path, content: JSON) -> None:
    """Write a small JSON file whole.

    Raises:
        OSError: it can't be written.
    """
    write_whole(path, json.dumps(content, ensure_ascii=False, indent=2))
