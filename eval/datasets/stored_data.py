"""Find the image that a row of a table names, whatever system wrote its path.

A reference may be a path of Windows or Unix, relative or absolute, a `file://` address, or percent-encoded; letter case
and Unicode normalisation may differ from the file's. Whatever it is, no file outside the table's folder is found.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

_FOREIGN = re.compile(r"[:\\]")  # with which a name leads out of its folder on Windows


def candidate_paths(reference: str) -> list[tuple[str, ...]]:
    r"""Return the paths beneath a folder that a reference may mean, the likeliest first, each as its parts.

    An absolute path was written on another machine or for another folder, so it means any of its ends: `C:\data\a.png`
    is `data/a.png` or `a.png`. A path that leads out of its folder (`../a.png`) means none.
    """
    paths: list[tuple[str, ...]] = []
    for written in _as_paths(reference.strip().strip("\"'")):
        path = posixpath.normpath(written)
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        if parts[:1] == ("..",) or (os.name == "nt" and _FOREIGN.search("".join(parts))):
            continue
        ends = range(max(1, len(parts))) if path.startswith("/") else (0,)
        paths += (parts[start:] for start in ends)
    return list(dict.fromkeys(paths))


def _as_paths(reference: str) -> Iterator[str]:
    """Yield a reference as a path of Unix, in each way that it can be read."""
    path = reference.partition(":")[2] if reference[:5].casefold() == "file:" else reference
    for text in (path, unquote(path)):
        yield text
        yield ntpath.splitdrive(text)[1].replace("\\", "/")


class ImageFinder:
    """Finds the images of one folder. The names in its folders are listed once, where they are needed."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder where image paths begin."""
        self._folder = folder
        self._listings: dict[Path, dict[str, list[str]]] = {}

    def find_file(self, reference: str) -> Path | None:
        """Return the file that a reference names; None if there is none, or several that differ in letter case."""
        paths = map(self._match, candidate_paths(reference))
        return next((path for path in paths if path is not None), None)

    def _match(self, parts: tuple[str, ...]) -> Path | None:
        path = self._folder
        for part in parts:
            if _exists(path / part):
                path /= part
                continue
            names = self._list_names(path).get(_name_key(part), [])
            if len(names) != 1:
                return None
            path /= names[0]
        return path if path.is_file() else None

    def _list_names(self, folder: Path) -> dict[str, list[str]]:
        if folder not in self._listings:
            names: dict[str, list[str]] = {}
            with suppress(OSError, ValueError):
                for entry in folder.iterdir():
                    names.setdefault(_name_key(entry.name), []).append(entry.name)
            self._listings[folder] = names
        return self._listings[folder]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _name_key(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
