"""What a store of precedents is, what it was built from, and whether its files are still those that were built.

A store is a folder:

- `index-….faiss`: the vectors of the cases, by FAISS.
- `ngrams-….bin`: of the embedding `tfidf` alone, what it was fitted to be for these cases.
- `rows-….parquet`: the cases (`cases_file.py`).
- `manifest.json`: which embedding, how many cases, and the hash of each file; written last, by a rename.
- `verified.json`: sizes and times of the files when their hashes were last compared.

A store may come from somebody else. Nothing in it is code, a manifest names files of its own folder alone, and what a
file says of its size is held against the manifest before it is read.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from tribunal.context import describe
from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.models.embeddings import TFIDF
from tribunal.parsed import from_json
from tribunal.retrievers.perspectives.held_files import (
    MANIFEST,
    FileNote,
    check_files,
    find_other_format,
    note_verified,
    verify_files,
    write_json,
)
from tribunal.schema import Frozen

FORMAT: Literal[2] = 2
MOST_CASES = 1_000_000
MOST_NUMBERS = 65_536  # of a vector
_MOST_BYTES = 1024 * 1024  # of a manifest
NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Count = Annotated[int, Field(ge=0, le=MOST_CASES)]
_IndexFile = Annotated[str, Field(pattern=r"^index-[0-9a-f]{12}\.faiss$")]
_RowsFile = Annotated[str, Field(pattern=r"^rows-[0-9a-f]{12}\.parquet$")]
_NgramsFile = Annotated[str, Field(pattern=r"^ngrams-[0-9a-f]{12}\.bin$")]


class IndexNote(FileNote):
    """The index's file; its name leads nowhere else."""

    name: _IndexFile


class RowsNote(FileNote):
    """The cases' file; its name leads nowhere else."""

    name: _RowsFile


class NgramsNote(FileNote):
    """The file of what `tfidf` was fitted to be; its name leads nowhere else."""

    name: _NgramsFile


class SourceNote(Frozen):
    """What cases were taken from: `database`, `docket`, or a file by its name alone."""

    kind: Literal["database", "docket", "file"]
    name: str = Field(default="", max_length=255, description="of a file")
    cases: Count

    def __str__(self) -> str:
        return self.name or f"the {self.kind}"


class Manifest(Frozen):
    """What a store is, and what it was built from."""

    format: Literal[2] = FORMAT
    name: str = Field(pattern=NAME)
    embedding: str = Field(max_length=200)
    dimension: int = Field(ge=1, le=MOST_NUMBERS, description="how many numbers a vector has")
    rows: Count
    copies: Count = Field(description="cases with the words and the decision of a later one, which stands for them")
    left_out: Count = Field(description="decided cases without words, or without a category")
    decided: dict[Literal["accepted", "changed", "appealed"], Count]
    policies: dict[str, Count] = Field(max_length=10_000, description="cases by the hash of the policy")
    first: str = Field(max_length=120, description="when the oldest was decided; empty where there is none")
    last: str = Field(max_length=120)
    sources: tuple[SourceNote, ...] = Field(max_length=100)
    content_sha256: str = Field(max_length=64, description="of the cases, in their order")
    built: str = Field(max_length=120, description="when, in UTC")
    index_file: IndexNote
    rows_file: RowsNote
    ngrams_file: NgramsNote | None = Field(default=None, description="of `tfidf` alone")

    @property
    def files(self) -> tuple[FileNote, ...]:
        return (self.index_file, self.rows_file, *([self.ngrams_file] if self.ngrams_file else []))


def user_folder() -> Path:
    """Where the stores lie that are known by their names."""
    return data_folder() / "precedents"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the store in this folder.

    Raises:
        BadInput: there is none, with the command that builds it; it was made by another version, or it is damaged.
    """
    where = f"precedents {folder.name}"
    try:
        held = read_regular(folder / MANIFEST, _MOST_BYTES)
        if (other := find_other_format(held, FORMAT)) is None:
            return Manifest.model_validate(from_json(held))
    except FileNotFoundError as error:
        raise BadInput(
            f"{where}: no store in {folder}; build it with: tribunal precedents build {folder.name}"
        ) from error
    except OSError as error:
        raise BadInput(f"{where}: {folder / MANIFEST}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadInput(f"{where}: its manifest can't be used: {describe(error)}; {_again(folder.name)}") from error
    except ValueError as error:
        raise BadInput(f"{where}: its manifest is not JSON; {_again(folder.name)}") from error
    raise BadInput(f"{where}: was built by another version ({other.message}); {_again(folder.name, other.embedding)}")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put a store in the place of the one before it, whose files may then go.

    Raises:
        OSError: it can't be written.
    """
    write_json(folder / MANIFEST, manifest.dump())
    note_verified(folder, manifest.files)


def check(folder: Path, manifest: Manifest) -> None:
    """Compare sizes, and hashes where a size or time has changed.

    Raises:
        BadInput: a file is missing or differs.
    """
    check_files(folder, manifest.files, partial(damaged, manifest))


def verify(folder: Path, manifest: Manifest) -> None:
    """Compare every hash.

    Raises:
        BadInput: a file is missing or differs.
    """
    verify_files(folder, manifest.files, partial(damaged, manifest))


def damaged(manifest: Manifest, what: str) -> BadInput:
    """The error for a store that can't be used as it is, with the command that builds it anew."""
    return BadInput(f"precedents {manifest.name}: its store {what}; {_again(manifest.name)}")


def _again(name: str, embedding: str = TFIDF) -> str:
    option = "" if embedding == TFIDF else f" --embedding {embedding}"
    return f"build it again with: tribunal precedents build {name}{option} --replace"
