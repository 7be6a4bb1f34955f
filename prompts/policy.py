"""The policy in force: what counts as hate speech, of whom, and in which categories. A TOML file.

The shipped `h-vli` follows the ARCADE paper (section 3.1, Appendix A and D.3); a moderator replaces it by a file of
their own without touching code. A policy for another `task` (sarcasm, misinformation) has a definition, exclusions and
two labels, and protects nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from tribunal.errors import BadInput
from tribunal.schema import Scheme, Task

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[
    str, StringConstraints(strip_whitespace=True, pattern=r"^[^\s\"'{}<>|][^\r\n\"'{}<>|]*$", max_length=60)
]


class Category(BaseModel):
    """One label of a scheme. The first one of a scheme, label 0, is the only one that isn't hateful."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    meaning: Text


QUESTIONS: dict[Task, str] = {
    "hate": "is it hate speech?",
    "sarcasm": "is it sarcastic?",
    "misinformation": "is it misinformation?",
}
_LEAST = {"protected_groups": 1, "fine": 2}


class Policy(BaseModel):
    """A definition and the labels of both schemes; of hate speech, the groups it protects too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    task: Task = "hate"
    definition: Text
    exclusions: Text
    protected_groups: tuple[Name, ...] = Field(default=(), validate_default=True)
    fine: tuple[Category, ...] = Field(default=(), validate_default=True)
    binary: tuple[Category, ...] = Field(min_length=2, max_length=2)
    sha: str = ""

    @field_validator("protected_groups", "fine")
    @classmethod
    def _of_hate_alone(cls, value: tuple[object, ...], info: ValidationInfo) -> tuple[object, ...]:
        least = _LEAST[info.field_name or ""]
        if info.data.get("task") != "hate" and value:
            raise ValueError("only a policy on hate speech has these; leave them out")
        if info.data.get("task") == "hate" and len(value) < least:
            raise PydanticKnownError(
                "too_short", {"field_type": "Tuple", "min_length": least, "actual_length": len(value)}
            )
        return value

    @model_validator(mode="after")
    def _names_differ(self) -> Policy:
        for field, names in (
            ("protected_groups", [group.casefold() for group in self.protected_groups]),
            ("fine", [category.name.casefold() for category in self.fine]),
            ("binary", [category.name.casefold() for category in self.binary]),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice:
                raise ValueError(f"{field} names {twice!r} twice")
        return self

    def categories(self, scheme: Scheme) -> tuple[Category, ...]:
        """The labels of a scheme, in the order of their numbers."""
        return self.fine if scheme == "fine" and self.fine else self.binary

    def label(self, scheme: Scheme, category: str) -> int:
        """The number of a category.

        Raises:
            KeyError: the scheme has no such category.
        """
        for number, known in enumerate(self.categories(scheme)):
            if known.name == category:
                return number
        raise KeyError(category)


@lru_cache(maxsize=1)
def shipped() -> list[str]:
    """The names of the policies that come with the project."""
    folder = files(__package__).joinpath("policies")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def policy(name: str) -> Policy:
    """The policy of this name, or in the TOML file of this path. Read again when the file has changed.

    Raises:
        BadInput: there is none, or it is not a policy; the message names the file and the field.
    """
    if name in shipped():
        return _read(name, None, 0)
    path = Path(name).expanduser()
    try:
        return _read(name, path, path.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"policy: {name}: {reason}; give one of {', '.join(shipped())} or a TOML file") from error


async def policy_in_force(name: str) -> Policy:
    """`policy`, off the event loop, but for a shipped one that has been read before.

    Raises:
        BadInput: as `policy`.
    """
    held = _shipped.get(name)
    if held is None:
        held = await asyncio.to_thread(policy, name)
        if name in shipped():
            _shipped[name] = held
    return held


_shipped: dict[str, Policy] = {}


@lru_cache(maxsize=32)
def _read(name: str, path: Path | None, stamp: int) -> Policy:
    raw = files(__package__).joinpath(f"policies/{name}.toml").read_bytes() if path is None else path.read_bytes()
    try:
        values = tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"policy: {name}: not a TOML file: {error}") from error
    if "sha" in values:
        raise BadInput(f"policy: {name}: sha: is worked out from the file; leave it out")
    try:
        return Policy(**values, sha=hashlib.sha256(raw).hexdigest()[:16])
    except (ValidationError, TypeError) as error:
        if not isinstance(error, ValidationError):
            raise BadInput(f"policy: {name}: {error}") from error
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "policy"
        raise BadInput(f"policy: {name}: {field}: {first['msg']}; compare the shipped h-vli.toml") from error
