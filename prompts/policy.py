"""The policy in force: what counts as hate speech, of whom, and in which categories. A TOML file.

The shipped `h-vli` follows the ARCADE paper (section 3.1, Appendix A and D.3); a moderator replaces it by a file of
their own without touching code. A policy for another `task` (sarcasm, misinformation) has a definition, exclusions and
two labels, and protects nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
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

from tribunal.contents import check, meet, read_from_file
from tribunal.context import Context, context_of
from tribunal.errors import BadInput
from tribunal.files import read_regular
from tribunal.language import tag_of
from tribunal.opened import opened
from tribunal.parsed import from_toml
from tribunal.schema import Scheme, Task
from tribunal.text import meant, one_line, visible

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

# What a policy says stands in prompts as ours, so nothing in it may hide.
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(visible)]
Passage = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(visible)]
Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^[^\s\"'{}<>|][^\r\n\"'{}<>|]*$", max_length=60),
    AfterValidator(visible),
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Category(_Part):
    """One label of a scheme. `hate` says whether it is hate speech: by default every one but the first of a scheme.

    `examples_for` are posts that belong to it, `examples_against` posts that look like it and don't; the judge is shown
    them.
    """

    name: Name
    meaning: Text
    hate: bool | None = None
    examples_for: tuple[Text, ...] = ()
    examples_against: tuple[Text, ...] = ()


class Translation(_Part):
    """What a policy says in another language; what isn't given stays as it is. `meanings` go by category name."""

    definition: Text | None = None
    exclusions: Text | None = None
    excuses: Passage | None = None
    together: Passage | None = None
    meanings: dict[Name, Text] = Field(default_factory=dict)


def _tag(given: str) -> str:
    tag = tag_of(given) if given != "en" else "en"
    if tag is None:
        raise ValueError(f"{given!r} is no language; give a tag such as en, ko or pt-BR")
    return tag


QUESTIONS: dict[Task, str] = {
    "hate": "is it hate speech?",
    "sarcasm": "is it sarcastic?",
    "misinformation": "is it misinformation?",
}
_LEAST = {"protected_groups": 1, "fine": 2}


class Policy(_Part):
    """A definition and the labels of both schemes; of hate speech, the groups it protects too.

    `definition` and `exclusions` are told to every seat. `excuses` (what makes a post harmless that looks like an
    attack) and `together` (what text and image may say only together) are told to those seats whose part needs them.
    """

    name: Name
    task: Task = "hate"
    language: Annotated[str, AfterValidator(_tag)] = "en"
    definition: Text
    exclusions: Text
    excuses: Passage = ""
    together: Passage = ""
    protected_groups: tuple[Name, ...] = Field(default=(), validate_default=True)
    fine: tuple[Category, ...] = Field(default=(), validate_default=True)
    binary: tuple[Category, ...] = Field(min_length=2, max_length=2)
    translations: dict[Annotated[str, AfterValidator(_tag)], Translation] = Field(default_factory=dict)
    sha: str = ""
    source: str = Field(default="", repr=False, exclude=True)  # the file's whole text

    def __hash__(self) -> int:
        return hash((self.sha, self.language))

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

    @field_validator("fine", "binary")
    @classmethod
    def _which_are_hate(cls, value: tuple[Category, ...], info: ValidationInfo) -> tuple[Category, ...]:
        of_hate = info.data.get("task") == "hate"
        if not of_hate and any(category.hate is not None for category in value):
            raise ValueError("only a policy on hate speech says which categories are hate; leave `hate` out")
        if value and value[0].hate:
            raise ValueError("the first category is that of posts with nothing against them, so it isn't hate")
        return tuple(
            category.model_copy(update={"hate": of_hate and number > 0}) if category.hate is None else category
            for number, category in enumerate(value)
        )

    @model_validator(mode="after")
    def _translations_fit(self) -> Policy:
        names = {category.name for category in (*self.fine, *self.binary)}
        for tag, translation in self.translations.items():
            if unknown := next((name for name in translation.meanings if name not in names), None):
                meant = near(unknown, names)
                raise ValueError(f"translations.{tag}.meanings: {unknown}: there is no such category{meant}")
        return self

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

    @property
    def kinds(self) -> tuple[Category, ...]:
        """The kinds of hate that a cue may be of, in either scheme."""
        return self.fine[1:]

    def hate(self, scheme: Scheme, label: int) -> bool | None:
        """Whether a label is hate speech; None where that isn't the task."""
        return self.categories(scheme)[label].hate if self.task == "hate" else None

    def examples(self, scheme: Scheme) -> str:
        """The examples for and against each category, one a line; empty where there are none."""
        return "\n".join(
            f"{words} {category.name}: {one_line(example)}"
            for category in self.categories(scheme)
            for words, given in (("is", category.examples_for), ("is not", category.examples_against))
            for example in given
        )


def near(word: str, known: Iterable[str]) -> str:
    """What was meant by a word that isn't known, as the end of a sentence; or all that is known."""
    known = list(known)
    way = meant(word, known) or f"there are {', '.join(known)}"
    return f"; {way}"


@lru_cache(maxsize=64)
def in_language(policy: Policy, tag: str | None) -> Policy:
    """The policy in a post's language, where it is translated into that; pt serves for pt-BR too."""
    own = {policy.language, policy.language.partition("-")[0]}
    if tag is None or tag in own:
        return policy
    found = next((each for each in (tag, tag.partition("-")[0]) if each in policy.translations), None)
    if found is None:
        return policy
    translation = policy.translations[found]
    told = {name: getattr(translation, name) for name in ("definition", "exclusions", "excuses", "together")}

    def meant(categories: tuple[Category, ...]) -> tuple[Category, ...]:
        meanings = translation.meanings
        return tuple(each.model_copy(update={"meaning": meanings.get(each.name, each.meaning)}) for each in categories)

    return policy.model_copy(
        update={
            **{name: words for name, words in told.items() if words is not None},
            "language": found,
            "fine": meant(policy.fine),
            "binary": meant(policy.binary),
        }
    )


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
    return opened(("policy", name), lambda: _policy(name))


def _policy(name: str) -> Policy:
    if name in shipped():
        return _read(name, None, 0)
    try:
        path = Path(name).expanduser()
        return _read(name, path, path.stat().st_mtime_ns)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, BadInput):
            raise
        reason = getattr(error, "strerror", None) or error
        near = meant(name, shipped())
        out = f"{near} Give" if near else "give"
        raise BadInput(f"policy: {name}: {reason}; {out} one of {', '.join(shipped())} or a TOML file") from error


def policy_in(text: str, called: str = "the kept text") -> Policy:
    """The policy that a text is, such as one that was kept with a case.

    Raises:
        BadInput: it is none.
    """
    return _parsed(called, text.encode("utf-8", "surrogatepass"))


async def policy_in_force(name: str) -> Policy:
    """`policy`, off the event loop, but for a shipped one that has been read before.

    Raises:
        BadInput: as `policy`.
    """
    if (text := _kept.get().get(name)) is not None:
        kept = policy_in(text, name)
        await asyncio.to_thread(read_from_file, "policy", kept.source)
        meet("policy", kept.sha, kept.source)
        return kept
    held = _shipped.get(name)
    if held is None:
        held = await asyncio.to_thread(policy, name)
        if name in shipped():
            _shipped[name] = held
    meet("policy", held.sha, held.source)
    return held


@contextmanager
def kept_policy(name: str, text: str | None) -> Iterator[None]:
    """While this is open, the policy of this name is this text, which the operator's file held once; None: as ever."""
    before = _kept.set({} if text is None else {name: text})
    try:
        yield
    finally:
        _kept.reset(before)


_kept: ContextVar[Mapping[str, str]] = ContextVar("kept policies", default=MappingProxyType({}))
_shipped: dict[str, Policy] = {}


async def policy_of(state: Mapping[str, Any], runtime: Runtime[Context] | None = None) -> Policy:
    """The policy of a case: the text that lies in it, so that a file that is edited or moved since changes nothing.

    Raises:
        BadInput: the text is no policy, or a client of this server may not set it. As `policy`, where no text is there.
    """
    name, text = context_of(state, runtime).policy, (state.get("context") or {}).get("policy")
    if text is None:
        return await policy_in_force(name)
    if not isinstance(text, str):
        raise BadInput(f"context.policy: {type(text).__name__}: is no text; give the whole text of a policy's file")
    await check("policy", name, text, lambda: policy_in_force(name))
    held = parsed(name, text)
    meet("policy", held.sha, held.source)
    return held


@lru_cache(maxsize=32)  # each call of a case asks for its policy
def parsed(name: str, text: str) -> Policy:
    """A policy from the whole text of its file, as a case keeps it; `name` is what to call it in an error.

    Raises:
        BadInput: the text is no policy.
    """
    return _parsed(name, text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=32)
def _read(name: str, path: Path | None, stamp: int) -> Policy:
    raw = files(__package__).joinpath(f"policies/{name}.toml").read_bytes() if path is None else read_regular(path)
    read = _parsed(name, raw)
    read_from_file("policy", read.source)
    return read


@lru_cache(maxsize=32)
def _parsed(name: str, raw: bytes) -> Policy:
    try:
        values = from_toml(raw)
    except ValueError as error:
        raise BadInput(f"policy: {name}: not a TOML file: {error}") from error
    if ours := next((key for key in ("sha", "source") if key in values), None):
        raise BadInput(f"policy: {name}: {ours}: is worked out from the file; leave it out")
    try:
        return Policy(**values, sha=hashlib.sha256(raw).hexdigest()[:16], source=raw.decode())
    except (ValidationError, TypeError) as error:
        if not isinstance(error, ValidationError):
            raise BadInput(f"policy: {name}: {error}") from error
        raise BadInput(f"policy: {name}: {_described(error)}; compare the shipped h-vli.toml") from error


def _described(error: ValidationError) -> str:
    """The first fault, a misspelt key before any other: it is why another one is missing."""
    faults = error.errors(include_url=False)
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = ".".join(str(part) for part in first["loc"]) or "policy"
    if first["type"] != "extra_forbidden":
        return f"{field}: {first['msg'].removeprefix('Value error, ')}"
    models: dict[str, type[_Part]] = {"fine": Category, "binary": Category, "translations": Translation}
    model = models.get(str(first["loc"][0]), Policy) if len(first["loc"]) > 1 else Policy
    known = [key for key in model.model_fields if key not in ("sha", "source")]
    return f"{field}: no such key{near(str(first['loc'][-1]), known)}"
