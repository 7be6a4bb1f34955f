"""The stores of precedents, by name or folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.models.embeddings import TFIDF, embedder
from tribunal.opened import opened
from tribunal.retrievers.perspectives.ngrams import NgramEmbedder, map_ngrams
from tribunal.retrievers.perspectives.perspective import is_path
from tribunal.retrievers.perspectives.vector_index import VectorIndex, map_vectors
from tribunal.retrievers.precedents.cases_file import open_cases, reader_of
from tribunal.retrievers.precedents.decided import DecidedCase
from tribunal.retrievers.precedents.manifest import NAME, Manifest, check, damaged, read_manifest, user_folder
from tribunal.retrievers.precedents.store import PrecedentStore
from tribunal.text import meant
from tribunal.trust import stored_settings


def names() -> list[str]:
    """The stores that are known by name. Reads files: call it off the event loop."""
    return sorted(path.parent.name for path in user_folder().glob("*/manifest.json"))


def folder_of(name: str) -> Path:
    """The folder of a store, whether there is one or not: the name's, or the path that was given.

    Raises:
        BadInput: the name can't be one.
    """
    if is_path(name):
        return Path(name).expanduser()
    if not re.match(NAME, name):
        raise BadInput(f"precedents: {name[:80]!r}: give a name of lower-case letters, digits, - and _, or a folder")
    return user_folder() / name


async def open_precedents(name: str) -> PrecedentStore:
    """The store of a name, or in a folder. Its files are mapped, not read; within `opened_once` it stays what it was.

    Raises:
        BadInput: there is none, its files are damaged, or its embedding can't be had.
    """
    return await asyncio.to_thread(opened, ("precedents", name), lambda: open_store(name))


def open_store(name: str) -> PrecedentStore:
    """As `open_precedents`, for whoever is off the event loop."""
    folder = folder_of(name)
    if not is_path(name) and not (folder / "manifest.json").exists():
        near = meant(name, held := names())
        there = f"there are {', '.join(held)}" if held else f"build it with: tribunal precedents build {name}"
        raise BadInput(f"precedents: {name!r}: there is no such store{near and f'; {near}'} ({there})")
    manifest = read_manifest(folder)
    files = mapped(folder, manifest)
    # A store may be somebody else's: what its manifest names runs no code that the operator hasn't allowed.
    with stored_settings():
        tfidf = manifest.embedding == TFIDF
        model = files.ngrams if tfidf else embedder(manifest.embedding) if manifest.rows else None
    if tfidf and model is None:
        raise damaged(manifest, "lacks what tfidf was fitted to be")
    return PrecedentStore(folder, manifest, model, files.vectors, files.case)


class StoreFiles(NamedTuple):
    """The files of a store, mapped: what finds the nearest, what looks a case up by its number, and what `tfidf` was
    fitted to be, where that is the embedding."""

    vectors: VectorIndex
    case: Callable[[int], DecidedCase]
    ngrams: NgramEmbedder | None


def mapped(folder: Path, manifest: Manifest) -> StoreFiles:
    """Map the files of a store.

    Raises:
        BadInput: a file is missing, was changed, or is none of ours.
    """
    # By the manifest's time too: a store that is built anew is opened anew.
    stamp = (folder / "manifest.json").stat().st_mtime_ns
    return _mapped(folder.resolve(), stamp, manifest.model_dump_json())


@lru_cache(maxsize=16)
def _mapped(folder: Path, stamp: int, written: str) -> StoreFiles:
    import pyarrow as pa

    manifest = Manifest.model_validate_json(written)
    check(folder, manifest)
    try:
        vectors = map_vectors(folder / manifest.index_file.name, manifest.rows, manifest.dimension)
        ngrams = map_ngrams(folder / note.name, manifest.dimension) if (note := manifest.ngrams_file) else None
        file = open_cases(folder / manifest.rows_file.name, manifest.rows)
    except (RuntimeError, OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise damaged(manifest, "can't be read") from error
    return StoreFiles(vectors, reader_of(file), ngrams)
