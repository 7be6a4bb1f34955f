"""What a perspective's index is, what it was built from, and whether its files are still those that were built.

An index is a folder:

- `index-….faiss`: the vectors of the texts, normalised (`vector_index.py`).
- `ngrams-….bin`: of the embedding `tfidf` alone, what it was fitted to be for these texts (`ngrams.py`).
- `rows-….parquet`: the texts, their labels and categories (`texts_file.py`).
- `manifest.json`: what was built from what, by which embedding, and the hash of each file. It is written last, by a
  rename, and names the other files by their hash: a reader sees the old index or the new one, never half of each.
- `verified.json`: sizes and times of the files when their hashes were last compared (`held_files.py`).
- `partial/`: a build under way (`building.py`). A killed build goes on from the last batch in it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.models.embeddings import TFIDF
from tribunal.retrievers.perspectives.held_files import (
    MANIFEST,
    FileNote,
    check_files,
    find_other_format,
    note_verified,
    verify_files,
    write_json,
)
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.schema import Frozen

FORMAT: Literal[3] = 3
# An embedding that is no more: format 1 had it for its default.
_GONE = "hashing"


class Manifest(Frozen):
    """What an index is, and what it was built from."""

    format: Literal[3] = FORMAT
    perspective: Perspective
    spec_sha256: str = Field(description="of the perspective, criterion and label names included, as canonical JSON")
    sources: tuple[FileNote, ...]
    source_sha256: str = Field(description="of the hashes of the source files, in their order")
    embedding: str
    dimension: int = Field(ge=1, description="how many numbers a vector has")
    rows: int
    hate: int
    not_hate: int
    skipped: int = Field(description="rows without a text")
    built: str = Field(description="when, in UTC")
    index_file: FileNote
    rows_file: FileNote
    ngrams_file: FileNote | None = Field(default=None, description="of `tfidf` alone")

    @property
    def files(self) -> tuple[FileNote, ...]:
        return (self.index_file, self.rows_file, *([self.ngrams_file] if self.ngrams_file else []))


def read_manifest(folder: Path, perspective: Perspective | None = None) -> Manifest:
    """The manifest of the index in this folder.

    Raises:
        BadInput: there is none, with the command that builds it; it was made by another version, or it is damaged.
    """
    name = perspective.name if perspective else folder.name
    try:
        held = read_regular(folder / MANIFEST)
        if (other := find_other_format(held, FORMAT)) is None:
            return Manifest.model_validate_json(held)
    except FileNotFoundError as error:
        where = f"; the set is obtained from {perspective.source.obtain}" if perspective and perspective.source else ""
        raise BadInput(f"perspective {name}: no index in {folder}; {how_to_build(name)}{where}") from error
    except OSError as error:
        raise BadInput(f"perspective {name}: {folder / 'manifest.json'}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the whole file"
        raise BadInput(
            f"perspective {name}: the manifest in {folder} is damaged ({field}: {first['msg']}); "
            f"{how_to_build_again(name, replace=True)}"
        ) from error
    raise BadInput(
        f"perspective {name}: the index in {folder} was built by another version ({other.message}); delete the "
        f"folder, or {how_to_build_again(name, other.embedding, replace=True)}"
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put an index in the place of the one before it, whose files may then go.

    Raises:
        OSError: it can't be written.
    """
    write_json(folder / MANIFEST, manifest.dump())
    note_verified(folder, manifest.files)


def check(folder: Path, manifest: Manifest) -> None:
    """Compare the files of an index with its manifest: their sizes, and their hashes where a size or time has changed.

    Raises:
        BadInput: one is missing or differs.
    """
    check_files(folder, manifest.files, partial(damaged, manifest))


def verify(folder: Path, manifest: Manifest) -> None:
    """Compare every file of an index with its hash, whatever its size and times are.

    Raises:
        BadInput: one is missing or differs.
    """
    verify_files(folder, manifest.files, partial(damaged, manifest))


def damaged(manifest: Manifest, what: str) -> BadInput:
    """The error for an index that can't be used as it is, with the command that builds it anew."""
    name = manifest.perspective.name
    return BadInput(f"perspective {name}: its index {what}; {how_to_build_again(name, manifest.embedding)}")


def how_to_build(name: str, embedding: str = TFIDF) -> str:
    """The command that builds an index, for an error."""
    return f"build it with: {_command(name, embedding)}"


def how_to_build_again(name: str, embedding: str = TFIDF, *, replace: bool = False) -> str:
    """The same, where there is one already; `replace` where that is another, which isn't overwritten unasked."""
    return f"build it again with: {_command(name, embedding)}{' --replace' if replace else ''}"


def _command(name: str, embedding: str) -> str:
    option = "" if embedding in (TFIDF, _GONE) else f" --embedding {embedding}"
    return f"tribunal perspectives build {name} --data DIR{option}"
