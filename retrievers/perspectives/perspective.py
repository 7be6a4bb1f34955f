"""Describe a perspective: a labelling criterion, and where its labelled texts come from (PREDICT, section 3.1).

A perspective is a TOML file. The paper's five and five small English examples are shipped in `specs/`; a user's own
lies in the data folder under `perspectives/`, or is given by its path. Its texts are either named (`[source]`: the
files of a published set, which the user has, as its authors publish them) or held in the file itself (`[texts]`: an
example that plays at once).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from pydantic import Field, ValidationError, model_validator

from tribunal.core.text import parse_toml, suggest_name
from tribunal.errors import BadInput
from tribunal.process.files import read_regular
from tribunal.retrievers.indexes.table_rows import (
    TableRow,
    drop_decimal_point,
    find_files,
    read_rows,
)
from tribunal.schema import Example, Frozen, Stance
from tribunal.settings.environment import data_folder

SHIPPED = Path(__file__).parent / "specs"
PAPER = ("k-haters", "k-mhas", "kold", "kodoli", "unsmile")
EXAMPLES = (
    "example-protected-groups",
    "example-dehumanisation",
    "example-harm",
    "example-stereotypes",
    "example-newsroom",
)


class LabelNames(Frozen):
    """The perspective's own names of the two labels (paper, Appendix D)."""

    hate: str = Field(default="Hate", min_length=1)
    not_hate: str = Field(default="Not Hate", min_length=1)


class LabelRule(Frozen):
    """Say how a row's label follows: from the values of one `column`, or from `any_of` several 0/1 columns.

    With `column`, a row is hate when its value is one of `hate`, and not hate when it is one of `not_hate`; of the two
    lists one may be left out, and then holds every other value. With `separator` (or where a cell holds a list) the
    cell has several values, and the row is hate when any of them is. Values compare as text, letter case aside.
    """

    column: str | None = Field(default=None, min_length=1)
    hate: tuple[str, ...] = ()
    not_hate: tuple[str, ...] = ()
    separator: str | None = Field(default=None, min_length=1)
    any_of: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if (self.column is None) == (not self.any_of):
            raise ValueError("give either `column` or `any_of`")
        if self.column is not None and not (self.hate or self.not_hate):
            raise ValueError(
                "`column` needs the values that are `hate`, those that are `not_hate`, or both"
            )
        if self.any_of and (self.hate or self.not_hate or self.separator):
            raise ValueError(
                "`hate`, `not_hate` and `separator` go with `column`, not with `any_of`"
            )
        both = {v.casefold() for v in self.hate} & {v.casefold() for v in self.not_hate}
        if both:
            raise ValueError(f"{sorted(both)[0]!r} is in both `hate` and `not_hate`")
        return self


class TextSource(Frozen):
    """The files of a labelled set, as its authors publish them.

    Each entry of `files` is a file name, or several that may stand for each other, the first that is there being read;
    a name may hold `*`. CSV, TSV (also .txt), JSONL, JSON (an array of objects) and Parquet go by the suffix.
    """

    files: tuple[str | tuple[str, ...], ...] = Field(min_length=1)
    text: str = Field(min_length=1)
    """the column of the text"""
    label: LabelRule
    obtain: str = Field(min_length=1)
    """where the set is obtained"""
    encoding: str = "utf-8"
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)


class OwnTexts(Frozen):
    """Labelled texts in the perspective's own file."""

    hate: tuple[str, ...] = Field(min_length=1)
    not_hate: tuple[str, ...] = Field(min_length=1)


class Perspective(Frozen):
    """One way of labelling: a criterion, its two labels, and its labelled texts."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """lower-case letters, digits, - and _"""
    title: str = ""
    language: str = Field(min_length=2)
    """of the texts, as a BCP 47 tag"""
    criterion: str = Field(min_length=1)
    labels: LabelNames = LabelNames()
    source: TextSource | None = None
    texts: OwnTexts | None = None

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if (self.source is None) == (self.texts is None):
            raise ValueError("a perspective has either a [source] or its own [texts]")
        return self

    def label_name(self, label: Stance) -> str:
        """Return the perspective's name of a label."""
        return self.labels.hate if label == "hate" else self.labels.not_hate


def load_perspective(path: Path) -> Perspective:
    """Return the perspective in a TOML file.

    Raises:
        BadInput: it can't be read, is not TOML, or a field is wrong: the file, the field, its value, what it may be.
    """
    try:
        return _load_file(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise BadInput(f"perspective {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadInput(f"perspective {path}: {_describe_field_error(error)}") from error
    except ValueError as error:
        raise BadInput(f"perspective {path}: not TOML: {error}") from error


@lru_cache(maxsize=256)
def _load_file(path: Path, stamp: int) -> Perspective:
    """Return the perspective in a file, which is read again when its time, the stamp, has changed."""
    return Perspective.model_validate(parse_toml(read_regular(path)))


def _describe_field_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "the file"
    if first["type"] == "missing":
        return f"{field}: is missing"
    if first["type"] == "extra_forbidden":
        return f"{field}: no such field"
    message = first["msg"].removeprefix("Value error, ")
    # A rule over several fields has their whole table as its input: the message names the fields better.
    if isinstance(first["input"], dict):
        return f"{field}: {message}"
    value = repr(first["input"])
    return f"{field}: {value if len(value) < 80 else value[:77] + '…'}: {message}"


def perspectives_folder() -> Path:
    """Return the folder of a user's own perspectives, and by default of the built indexes."""
    return data_folder() / "perspectives"


def list_spec_files() -> dict[str, Path]:
    """Return the file of every perspective by name; a user's own hides a shipped one of the same name."""
    return {
        path.stem: path
        for folder in (SHIPPED, perspectives_folder())
        for path in sorted(folder.glob("*.toml"))
    }


def is_path(name: str) -> bool:
    """Return whether this names a file or folder, and not a perspective."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def find_perspective(name: str) -> Perspective:
    """Return the perspective of this name, or in the TOML file at this path.

    Raises:
        BadInput: there is none (the names there are), or its file is wrong.
    """
    if is_path(name):
        return load_perspective(Path(name).expanduser())
    known = list_spec_files()
    path = known.get(name)
    if path is None:
        near = suggest_name(name, known)
        raise BadInput(
            f"perspective {name!r}: there is none of that name{near and f'; {near}'} "
            f"(there are {', '.join(known)}; or give the path of a TOML file)"
        )
    found = load_perspective(path)
    if found.name != name:
        raise BadInput(
            f"perspective {path}: name: {found.name!r}: a file is called after its perspective"
        )
    return found


class LabelledText(NamedTuple):
    """A text and its label; the text is blank where the file's was.

    Attributes:
        text: the text.
        hate: its label.
        categories: what kinds of hate the set says that it is: columns or values of its rule; none where it is no hate.
    """

    text: str
    hate: bool
    categories: tuple[str, ...] = ()


class Searcher(Protocol):
    """Anything that finds a perspective's texts near a post: a `PerspectiveStore`, or a `VectorStoreSearcher`."""

    @property
    def perspective(self) -> Perspective:
        """Return whose texts they are."""

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """Return the k texts nearest to this one, nearest first."""


def make_example(
    perspective: Perspective, text: str, hate: bool, similarity: float, number: int
) -> Example:
    """Return a text that was found, with its label in the perspective's own words; `number` is its row."""
    label: Stance = "hate" if hate else "not_hate"
    name = perspective.label_name(label)
    return Example(
        text=text, label=label, label_name=name, similarity=round(similarity, 6), row=number
    )


def find_source_files(perspective: Perspective, folder: Path) -> list[Path]:
    """Return the files of a perspective's set in a folder, in the order in which the perspective names them.

    Raises:
        BadInput: one is missing: its names, and where the set is obtained.
    """
    source = require_source(perspective)
    found: list[Path] = []
    for entry in source.files:
        names = (entry,) if isinstance(entry, str) else entry
        files = find_files(folder, names)
        if not files:
            raise BadInput(
                f"perspective {perspective.name}: no {' or '.join(names)} in {folder}; "
                f"the set is obtained from {source.obtain}"
            )
        found += files
    return found


def read_labelled_texts(perspective: Perspective, files: Iterable[Path]) -> Iterator[LabelledText]:
    """Yield the labelled text of every row of these files, blank ones included.

    Raises:
        BadInput: a column is missing (those present are named), a value is in neither label's list, or a file is not
            what its suffix says; with the file and the row.
    """
    source = require_source(perspective)
    owner = f"perspective {perspective.name}"
    for path in files:
        for row in read_rows(
            path,
            owner,
            encoding=source.encoding,
            delimiter=source.delimiter,
            remedy="set source.encoding",
        ):
            kinds = kinds_of_hate(row, source.label)
            yield LabelledText(row.text(source.text), bool(kinds), kinds)


def require_source(perspective: Perspective) -> TextSource:
    """Return the source of a perspective's texts; raise `BadInput` if its texts lie in its own file."""
    if perspective.source is None:
        raise BadInput(
            f"perspective {perspective.name}: its texts are in its own file; there is nothing to build"
        )
    return perspective.source


def kinds_of_hate(row: TableRow, rule: LabelRule) -> tuple[str, ...]:
    """Return the columns, or the values of the column, by which a row is hate; none where it is not.

    Raises:
        BadInput: it has no such column, or the value is in neither label's list; the message names the column, the
            value and both lists.
    """
    # All are looked at, so that a column that is missing or a value that is wrong is found whatever the others say.
    if rule.column is None:
        return tuple([column for column in rule.any_of if row.yes_or_no(column)])
    values = row.text_list(rule.column, rule.separator)
    labels = [_label_of_value(value, rule.hate, rule.not_hate) for value in values]
    if None in labels:
        raise row.error(
            f"{rule.column} = {values[labels.index(None)]!r} is neither among the values of hate "
            f"({', '.join(rule.hate)}) nor of not hate ({', '.join(rule.not_hate)})"
        )
    return tuple(dict.fromkeys(value for value, hate in zip(values, labels, strict=True) if hate))


@lru_cache(maxsize=1024)
def _label_of_value(value: str, hate: tuple[str, ...], not_hate: tuple[str, ...]) -> bool | None:
    """Return whether a value is hate; None where both lists are given and it is in neither."""
    folded = drop_decimal_point(value).casefold()
    if folded in {each.casefold() for each in hate}:
        return True
    if folded in {each.casefold() for each in not_hate}:
        return False
    return None if hate and not_hate else not hate
