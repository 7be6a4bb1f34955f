"""The parts of a policy: its categories, its numbered clauses, both in another language, and the pool of examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    TypeAdapter,
)

from tribunal.core.text import make_visible, one_line, parse_toml, suggest_name
from tribunal.errors import BadInput

# What a policy says stands in prompts as ours, so nothing in it may hide.
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(make_visible)
]
Passage = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(make_visible)]
Name = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, pattern=r"^[^\s\"'{}<>|][^\r\n\"'{}<>|]*$", max_length=60
    ),
    AfterValidator(make_visible),
]
ClauseId = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, pattern=r"^[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*$", max_length=20
    ),
]
Severity = Literal["low", "medium", "high", "critical"]


class PolicyPart(BaseModel):
    """The base of a policy and its parts: frozen, and strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ExampleHolder(PolicyPart):
    """A part with examples.

    `examples_for` are posts that belong to it, `examples_against` posts that look like it and don't. `examples_from`
    names groups of the pool (`examples.toml`), which hold some of both.
    """

    examples_for: tuple[Text, ...] = ()
    examples_against: tuple[Text, ...] = ()
    examples_from: tuple[Name, ...] = ()

    # those of `examples_from`; its policy fills them in
    _groups: tuple[ExampleGroup, ...] = PrivateAttr(())

    def list_examples(self, name: str) -> list[str]:
        """Return its examples, each as a line that says whether it belongs to `name`, and of which kind it is.

        The two posts of a pair are adjacent, and pairs precede the rest of their group.
        """
        lines = [f"is {name}: {one_line(text)}" for text in self.examples_for]
        lines += [f"is not {name}: {one_line(text)}" for text in self.examples_against]
        for group in self._groups:
            belonging = {
                kind: f"is {name} ({kind}): {text}" for kind, text in group.belonging.items()
            }
            contrasting = {
                kind: f"is not {name} ({kind}): {text}" for kind, text in group.contrasting.items()
            }
            pairs = [kind for kind in belonging if kind in contrasting]
            lines += [
                line for kind in pairs for line in (belonging.pop(kind), contrasting.pop(kind))
            ]
            lines += [*belonging.values(), *contrasting.values()]
        return lines

    def with_examples_in(self, tag: str) -> Self:
        """Return the part with the examples of its groups in another language, where they are there."""
        translated = self.model_copy()
        translated._groups = tuple(each.translations.get(tag, each) for each in self._groups)
        return translated


Holder = TypeVar("Holder", bound=ExampleHolder)


def with_groups(part: Holder, called: str, pool: Mapping[str, ExampleGroup]) -> Holder:
    """Return a part with the groups of examples that it names; faults call it by `called`.

    Raises:
        ValueError: the pool lacks one.
    """
    unknown = next((name for name in part.examples_from if name not in pool), None)
    if unknown:
        raise ValueError(
            f"{called}: examples_from: {unknown!r}: there is no such group{suggest_known(unknown, pool)}"
        )
    filled = part.model_copy()
    filled._groups = tuple(pool[name] for name in part.examples_from)
    return filled


class Category(ExampleHolder):
    """One label of a scheme. `hate` says whether it is hate speech: by default every one but the first of a scheme.

    `reasons` are what people at the desk choose from when they decide for it; no model is told them. `groups` are the
    protected groups that it is about: a cue on another group contradicts itself.
    """

    name: Name
    meaning: Text
    hate: bool | None = None
    groups: tuple[Name, ...] = ()
    reasons: tuple[Text, ...] = ()


class Clause(ExampleHolder):
    """One numbered rule of a policy, of one category. Cues, verdicts and decisions cite it by `id`.

    Where `exceptions` is empty, those of the whole policy hold. `severity` and `action` (what is done with a post that
    breaks it) are for people and exports; no model is told them.
    """

    id: ClauseId
    category: Name
    rule: Text
    exceptions: Passage = ""
    severity: Severity | None = None
    action: Name | None = None


class ClauseTranslation(PolicyPart):
    """A clause in another language; what isn't given stays as it is."""

    rule: Text | None = None
    exceptions: Passage | None = None


class Translation(PolicyPart):
    """The policy's texts in another language; a text that isn't given stays untranslated.

    `meanings`, `names` (what people of the language call a category, in letters) and `reasons` (as many as they
    translate) go by category name, `clauses` by clause id.
    """

    definition: Text | None = None
    exclusions: Text | None = None
    expression: Passage | None = None
    excuses: Passage | None = None
    together: Passage | None = None
    meanings: dict[Name, Text] = Field(default_factory=dict)
    names: dict[Name, Text] = Field(default_factory=dict)
    reasons: dict[Name, tuple[Text, ...]] = Field(default_factory=dict)
    clauses: dict[ClauseId, ClauseTranslation] = Field(default_factory=dict)


def suggest_known(word: str, known: Iterable[str]) -> str:
    """Return the known word that was probably meant, as the end of a sentence; or all known words."""
    known = list(known)
    return f"; {suggest_name(word, known) or 'there are ' + ', '.join(known)}"


# The pool of example posts that policies take theirs from: `examples.toml`


class ExampleGroup(BaseModel):
    """Contrasting posts by their kind, such as slur or quoted.

    Attributes:
        belonging: posts that belong to the category that names the group.
        contrasting: posts that look like it and don't. One of a kind that `belonging` has, too, is its pair.
        translations: such posts in other languages, by tag.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    belonging: Mapping[str, str] = Field(alias="for", min_length=1)
    contrasting: Mapping[str, str] = Field(alias="against", min_length=1)
    translations: Mapping[str, ExampleGroup] = Field(default_factory=dict)


@lru_cache(maxsize=1)
def example_pool() -> Mapping[str, ExampleGroup]:
    """Return the groups of the pool by name."""
    text = files("tribunal.prompts").joinpath("examples.toml").read_text("utf-8")
    return TypeAdapter(dict[str, ExampleGroup]).validate_python(parse_toml(text))


def groups_as_toml(names: Iterable[str], tags: Iterable[str]) -> str:
    """Return groups of the pool as a policy holds them, so that its text says all that is told of it.

    Args:
        names: of the groups.
        tags: the languages that the policy is translated into.
    """
    lines: list[str] = []
    for name in sorted(names):
        group = example_pool()[name]
        in_language = {
            f".translations.{tag}": each for tag, each in group.translations.items() if tag in tags
        }
        for at, each in {"": group, **in_language}.items():
            for side, posts in (("for", each.belonging), ("against", each.contrasting)):
                lines.append(f"\n[pool.{name}{at}.{side}]")
                # A string of JSON is one of TOML, too.
                lines += [
                    f"{kind} = {json.dumps(post, ensure_ascii=False)}"
                    for kind, post in posts.items()
                ]
    return "\n".join(lines) + "\n"


_DEFINITION = re.compile(
    r"""^[ \t]*(?:definition|"definition"|'definition')[ \t]*=[ \t]*""", re.MULTILINE
)


def replace_definition(text: str, definition: str, name: str) -> str:
    """Return the text of a policy's file with another definition.

    Args:
        text: of the file.
        definition: the new words.
        name: of the policy, for errors.

    Raises:
        BadInput: no line of the text begins with `definition =`.
    """
    # A string of JSON is one of TOML, too, but for a character that JSON leaves as it is.
    written = json.dumps(definition, ensure_ascii=False).replace("\x7f", "\\u007f")
    values = parse_toml(text)
    for key in _DEFINITION.finditer(text):
        before = text[: key.end()]
        after = text[key.end() :]
        for end in (each.start() for each in re.finditer(r"\n|\Z", after)):
            with suppress(ValueError):  # a text of several lines ends later
                parse_toml(f"definition = {after[:end]}")
                edited = f"{before}{written}{after[end:]}"
                if parse_toml(edited) == {**values, "definition": definition}:
                    return edited
                break
    raise BadInput(
        f"policy_definition: no line of the policy {name} begins with `definition =`; write its definition so, or "
        "leave this out"
    )
