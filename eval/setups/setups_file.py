"""The file of `tribunal compare`: which setups are compared, and what a reviewer's time is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from tribunal.context import describe_validation_error
from tribunal.errors import BadInput
from tribunal.files import read_text
from tribunal.schema import Frozen
from tribunal.text import parse_toml

MOST_SETUPS = 12
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$")]


class Setup(Frozen):
    """A graph with its settings."""

    graph: str
    says: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)


class WantedPromise(Frozen):
    """Hold what `tribunal fit` would be asked to promise of accepted verdicts, as the file states it."""

    agreement: float = Field(default=0.95, gt=0, lt=1)
    level: float = Field(default=0.9, gt=0, lt=1)
    missed_hate: float | None = Field(default=None, gt=0, lt=1)
    false_alarms: float | None = Field(default=None, gt=0, lt=1)


class SetupsFile(Frozen):
    """The setups by name, the settings that all share, and what a reviewer's time and a wanted promise are.

    `promise`: with it, each setup is told the hours that reviewers spend where only verdicts are accepted for which the
    promise is shown. `seconds_per_case`: what a reviewer takes for a case.
    """

    setups: dict[Name, Setup] = Field(min_length=2, max_length=MOST_SETUPS)
    settings: dict[str, Any] = Field(default_factory=dict)
    promise: WantedPromise | None = None
    seconds_per_case: float = Field(default=30.0, gt=0, le=86_400)


def read_setups(path: Path) -> SetupsFile:
    """Read a file of setups.

    Raises:
        BadInput: it can't be read, is no TOML, or lacks or misnames something.
    """
    try:
        return SetupsFile.model_validate(parse_toml(read_text(path)))
    except ValidationError as error:
        raise BadInput(f"setups: {path}: {describe_validation_error(error)}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"setups: {path}: can't be read: {error}; give a TOML file (docs/decided_cases.md)") from error
