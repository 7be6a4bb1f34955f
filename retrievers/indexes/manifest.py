"""The manifest of an index: what the index was built from, and whether its files are still those that were built.

An index is a folder:

- `index-….faiss`: the vectors of its texts, of unit length (`text_index.py`).
- `rows-….bin`: its texts, and what belongs to each (`text_index.py`).
- `ngrams-….bin`: of the embedding `tfidf` alone, what it was fitted to be for these texts (`ngrams.py`).
- `manifest.json`: what was built from what, by which embedding, and the hash of each file. It is written last, by a
  rename, and names the other files by their hash: a reader sees the old index or the new one, never half of each.
- `verified.json`: sizes and times of the files when their hashes were last compared. Hashing 300 MB takes longer than
  an index may take to open, so opening compares hashes only when a size or time has changed; `verify` always does.
- `partial/`: a build under way (`text_index.py`).

An index may come from somebody else. Nothing in it is code, a manifest names files of its own folder alone, and what a
file says of its size is held against the manifest before it is read.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, ValidationError

from tribunal.core.text import make_visible, one_line, parse_json
from tribunal.errors import BadInput, NotAtHand
from tribunal.models.embeddings import TFIDF
from tribunal.process.files import hash_file, read_regular, write_whole
from tribunal.schema import JSON, Frozen
from tribunal.settings.validation import describe_validation_error

MANIFEST = "manifest.json"
VERIFIED = "verified.json"
MOST_DIMENSIONS = 65_536
_MOST_BYTES = 1024 * 1024  # of a manifest
_LEGACY_EMBEDDING = "hashing"  # the default of the first format, which no longer exists


class FileNote(Frozen):
    """A file of an index, by name, as built."""

    name: str
    bytes: int
    sha256: str


def note_file(path: Path) -> FileNote:
    """Return the note of a file as it is now."""
    return FileNote(name=path.name, bytes=path.stat().st_size, sha256=hash_file(path))


class IndexFile(FileNote):
    """A file of an index; its name leads to no other folder."""

    name: Annotated[
        str, Field(pattern=r"^(index-[0-9a-f]{12}\.faiss|(rows|ngrams)-[0-9a-f]{12}\.bin)$")
    ]


class IndexManifest(Frozen):
    """The description of an index. Each kind adds its sources.

    Attributes:
        kind: what errors call an index of this kind, before its name.
        noun: what they call the index itself.
        command: what builds it, before and after its name.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    command: ClassVar[tuple[str, str]]

    format: int
    embedding: str = Field(max_length=200)
    dimension: int = Field(ge=1, le=MOST_DIMENSIONS)
    """how many numbers a vector has"""
    rows: int = Field(ge=0)
    built: str = Field(max_length=120)
    """when, in UTC"""
    index_file: IndexFile
    rows_file: IndexFile
    ngrams_file: IndexFile | None = None
    """of `tfidf` alone"""

    @classmethod
    def build_command(cls, name: str, embedding: str = TFIDF, *, replace: bool = False) -> str:
        """Return the command that builds the index of this name."""
        option = "" if embedding in (TFIDF, _LEGACY_EMBEDDING) else f" --embedding {embedding}"
        before, after = cls.command
        return f"{before} {name}{after}{option}{' --replace' * replace}"

    @property
    def index_name(self) -> str:
        """Return the name of the index."""
        raise NotImplementedError

    @property
    def files(self) -> tuple[FileNote, ...]:
        """Return the notes of its files."""
        return (self.index_file, self.rows_file, *([self.ngrams_file] if self.ngrams_file else []))

    def damage_error(self, problem: str) -> BadInput:
        """Return the error for an index that can't be used as it is, with the command that builds it again."""
        command = self.build_command(self.index_name, self.embedding)
        return BadInput(
            f"{self.kind} {self.index_name}: its {self.noun} {problem}; build it again with: {command}"
        )

    @classmethod
    def read(cls, folder: Path, name: str | None = None, *, hint: str = "") -> Self:
        """Read the manifest in a folder. Errors name the index by its name, or its folder's.

        `hint` says how to get what the index is built from, for the error that says that there is none.

        Raises:
            BadInput: there is none, with the command that builds it; it is of another version, or it is damaged.
        """
        name = name or folder.name
        owner = f"{cls.kind} {name}"
        try:
            content = parse_json(read_regular(folder / MANIFEST, _MOST_BYTES))
            own = cls.model_fields["format"].default
            other = (
                isinstance(content, dict)
                and type(content.get("format")) is int
                and content["format"] != own
            )
            if not other or not isinstance(content.get("embedding"), str):
                return cls.model_validate(content)
        except FileNotFoundError as error:
            raise NotAtHand(
                f"{owner}: no {cls.noun} in {folder}; build it with: {cls.build_command(name)}{hint}"
            ) from error
        except OSError as error:
            raise BadInput(f"{owner}: {folder / MANIFEST}: {error.strerror or error}") from error
        except ValueError as error:
            why = (
                describe_validation_error(error)
                if isinstance(error, ValidationError)
                else "it is not JSON"
            )
            raise BadInput(
                f"{owner}: the manifest in {folder} is damaged ({why}); build it again with: "
                f"{cls.build_command(name, replace=True)}"
            ) from error
        embedding = make_visible(one_line(content["embedding"][:200]))
        raise BadInput(
            f"{owner}: the {cls.noun} in {folder} was built by another version (format {content['format']} by "
            f"{embedding}, where this one reads format {own}); delete the folder, or build it again with: "
            f"{cls.build_command(name, embedding, replace=True)}"
        )

    def write(self, folder: Path) -> None:
        """Put this index in the place of the one before it, whose files then go; raise OSError if it can't be."""
        write_whole(folder / MANIFEST, json.dumps(self.dump(), ensure_ascii=False, indent=2))
        self.note_verified(folder)
        current = {note.name for note in self.files}
        for old in (
            *folder.glob("index-*.*"),
            *folder.glob("rows-*.*"),
            *folder.glob("ngrams-*.bin"),
        ):
            if old.name not in current:
                with suppress(
                    OSError
                ):  # on Windows, one that a process still has open can only go the next time
                    old.unlink()

    def check_files(self, folder: Path, *, always_hash: bool = False) -> None:
        """Compare the files' sizes, and their hashes where a size or time has changed, or always.

        Raises:
            BadInput: one is missing or differs.
        """
        for note in self.files:
            path = folder / note.name
            if not path.is_file():
                raise self.damage_error(f"lacks {note.name}")
            size = path.stat().st_size
            if size != note.bytes:
                raise self.damage_error(
                    f"is truncated or changed: {note.name} has {size:,} bytes, not {note.bytes:,}"
                )
        try:
            verified = parse_json(read_regular(folder / VERIFIED))
        except (OSError, ValueError):
            verified = None
        if always_hash or verified != self._file_stamps(folder):
            for note in self.files:
                try:
                    same = hash_file(folder / note.name) == note.sha256
                except OSError as error:
                    raise self.damage_error(
                        f"has a file that can't be read: {note.name}"
                    ) from error
                if not same:
                    raise self.damage_error(
                        f"was changed since it was built: {note.name} has another hash"
                    )
            self.note_verified(folder)

    def note_verified(self, folder: Path) -> None:
        """Note the sizes and times that the files have, now that their hashes are known to be right."""
        # A folder that can't be written is hashed by every process that opens it: slower, and just as right.
        with suppress(OSError):
            write_whole(folder / VERIFIED, json.dumps(self._file_stamps(folder), indent=2))

    def _file_stamps(self, folder: Path) -> JSON:
        stats = {note.name: (folder / note.name).stat() for note in self.files}
        return {
            name: [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats.items()
        }
