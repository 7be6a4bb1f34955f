"""What a perspective is: a labelling criterion, and where its labelled texts come from (PREDICT, section 3.1).

A perspective is a TOML file. The paper's five and five small English examples are shipped in `specs/`; a user's own
lies in the data folder under `perspectives/`, or is given by its path. Its texts are either named (`[source]`: the
files of a published set, which the user has) or held in the file itself (`[texts]`: an example that plays at once).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from tribunal.environment import data_folder
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.parsed import from_toml
from tribunal.schema import Frozen, Stance
from tribunal.text import meant

SHIPPED = Path(__file__).parent / "specs"
PAPER = ("k-haters", "k-mhas", "kold", "kodoli", "unsmile")
EXAMPLES = (
    "example-protected-groups",
    "example-dehumanisation",
    "example-harm",
    "example-stereotypes",
    "example-newsroom",
)


class Labels(Frozen):
    """What the two labels are called in the perspective's own words (paper, Appendix D)."""

    hate: str = Field(default="Hate", min_length=1)
    not_hate: str = Field(default="Not Hate", min_length=1)


class Rule(Frozen):
    """How a row's label follows: from the values of one `column`, or from `any_of` several 0/1 columns.

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
    def _one_way(self) -> Self:
        if (self.column is None) == (not self.any_of):
            raise ValueError("give either `column` or `any_of`")
        if self.column is not None and not (self.hate or self.not_hate):
            raise ValueError("`column` needs the values that are `hate`, those that are `not_hate`, or both")
        if self.any_of and (self.hate or self.not_hate or self.separator):
            raise ValueError("`hate`, `not_hate` and `separator` go with `column`, not with `any_of`")
        if both := {v.casefold() for v in self.hate} & {v.casefold() for v in self.not_hate}:
            raise ValueError(f"{sorted(both)[0]!r} is in both `hate` and `not_hate`")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        return self.any_of or (self.column or "",)


class Source(Frozen):
    """The files of a labelled set, as its authors publish them.

    Each entry of `files` is a file name, or several that may stand for each other, the first that is there being read;
    a name may hold `*`. CSV, TSV (also .txt), JSONL, JSON (an array of objects) and Parquet go by the suffix.
    """

    files: tuple[str | tuple[str, ...], ...] = Field(min_length=1)
    text: str = Field(min_length=1, description="the column of the text")
    label: Rule
    obtain: str = Field(min_length=1, description="where the set is obtained")
    encoding: str = "utf-8"
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)


class Texts(Frozen):
    """Labelled texts that lie in the perspective's own file."""

    hate: tuple[str, ...] = Field(min_length=1)
    not_hate: tuple[str, ...] = Field(min_length=1)


class Perspective(Frozen):
    """One way of labelling: a criterion, its two labels, and its labelled texts."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="lower-case letters, digits, - and _")
    title: str = ""
    language: str = Field(min_length=2, description="of the texts, as a BCP 47 tag")
    criterion: str = Field(min_length=1)
    labels: Labels = Labels()
    source: Source | None = None
    texts: Texts | None = None

    @model_validator(mode="after")
    def _one_home(self) -> Self:
        if (self.source is None) == (self.texts is None):
            raise ValueError("a perspective has either a [source] or its own [texts]")
        return self

    def label_name(self, label: Stance) -> str:
        return self.labels.hate if label == "hate" else self.labels.not_hate


def load(path: Path) -> Perspective:
    """The perspective in a TOML file.

    Raises:
        BadInput: it can't be read, is not TOML, or a field is wrong: the file, the field, its value, what it may be.
    """
    try:
        return _loaded(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise BadInput(f"perspective {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadInput(f"perspective {path}: {_line(error)}") from error
    except ValueError as error:
        raise BadInput(f"perspective {path}: not TOML: {error}") from error


@lru_cache(maxsize=256)
def _loaded(path: Path, stamp: int) -> Perspective:
    """A file is read again when its time, the stamp, has changed."""
    return Perspective.model_validate(from_toml(read_regular(path)))


def _line(error: ValidationError) -> str:
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


def user_folder() -> Path:
    """Where a user's own perspectives lie, and by default the built indexes."""
    return data_folder() / "perspectives"


def available() -> dict[str, Path]:
    """Every perspective that can be named, with its file; a user's own hides a shipped one of the same name."""
    return {path.stem: path for folder in (SHIPPED, user_folder()) for path in sorted(folder.glob("*.toml"))}


def spec_file(name: str) -> Path | None:
    """The file of the perspective of this name, if there is one."""
    files = (folder / f"{name}.toml" for folder in (user_folder(), SHIPPED))
    return next((file for file in files if file.is_file()), None)


def is_path(name: str) -> bool:
    """Whether this names a file or folder, and not a perspective."""
    return name.endswith(".toml") or "/" in name or "\\" in name


def find(name: str) -> Perspective:
    """The perspective of this name, or in the TOML file at this path.

    Raises:
        BadInput: there is none (the names there are), or its file is wrong.
    """
    if is_path(name):
        return load(Path(name).expanduser())
    path = spec_file(name)
    if path is None:
        held = available()
        near = meant(name, held)
        raise BadInput(
            f"perspective {name!r}: there is none of that name{near and f'; {near}'} "
            f"(there are {', '.join(held)}; or give the path of a TOML file)"
        )
    found = load(path)
    if found.name != name:
        raise BadInput(f"perspective {path}: name: {found.name!r}: a file is called after its perspective")
    return found
