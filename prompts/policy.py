"""The policy in force: the definition of hate speech, the protected groups, and the categories. A TOML file.

The shipped `h-vli` follows the ARCADE paper (section 3.1, Appendix A and D.3); a moderator replaces it by a file of
their own without touching code. A policy for another `task` (sarcasm, misinformation) has a definition, exclusions and
two labels, and protects nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from tribunal.core.language import parse_language
from tribunal.core.text import parse_toml, wellformed
from tribunal.errors import BadInput
from tribunal.prompts.policy_parts import (
    Category,
    Clause,
    ExampleGroup,
    Name,
    Passage,
    PolicyPart,
    Text,
    Translation,
    example_pool,
    groups_as_toml,
    replace_definition,
    suggest_known,
    with_groups,
)
from tribunal.schema import Scheme, Task
from tribunal.settings.contents import NamedTexts, note_own_text, remember_text
from tribunal.settings.context import Context, context_of

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


def _parse_tag(given: str) -> str:
    # The languages of the shipped policies are known without Babel's list, which takes long to load.
    tag = given if given in ("en", "de", "ko") else parse_language(given)
    if tag is None:
        raise ValueError(f"{given!r} is no language; give a tag such as en, ko or pt-BR")
    return tag


QUESTIONS: dict[Task, str] = {
    "hate": "is it hate speech?",
    "sarcasm": "is it sarcastic?",
    "misinformation": "is it misinformation?",
}


class Policy(PolicyPart):
    """A definition and the labels of both schemes; of hate speech, the groups it protects too.

    `definition` and `exclusions` are shown to every seat. `expression` (in which ways it is said, openly or not),
    `excuses` (what makes a post harmless that looks like an attack) and `together` (what text and image may say only
    together) are shown to the seats that need them. A policy may leave these three out.

    `clauses` number its rules, where it does. Then every category of hate has one.
    """

    name: Name
    task: Task = "hate"
    language: Annotated[str, AfterValidator(_parse_tag)] = "en"
    definition: Text
    exclusions: Text
    expression: Passage = ""
    excuses: Passage = ""
    together: Passage = ""
    pool: dict[Name, ExampleGroup] = Field(default_factory=dict)
    protected_groups: tuple[Name, ...] = Field(default=(), validate_default=True)
    fine: tuple[Category, ...] = Field(default=(), validate_default=True)
    binary: tuple[Category, ...] = Field(min_length=2, max_length=2)
    clauses: tuple[Clause, ...] = Field(default=(), validate_default=True)
    translations: dict[Annotated[str, AfterValidator(_parse_tag)], Translation] = Field(
        default_factory=dict
    )
    sha: str = ""
    source: str = Field(default="", repr=False, exclude=True)  # the file's whole text

    def __hash__(self) -> int:
        """Return the hash of its words and language."""
        return hash((self.sha, self.language))

    @field_validator("protected_groups", "fine")
    @classmethod
    def _check_hate_only(
        cls, value: tuple[object, ...], info: ValidationInfo
    ) -> tuple[object, ...]:
        least = 2 if info.field_name == "fine" else 1
        if info.data.get("task") != "hate" and value:
            raise ValueError("only a policy on hate speech has these; leave them out")
        if info.data.get("task") == "hate" and len(value) < least:
            size = {"field_type": "Tuple", "min_length": least, "actual_length": len(value)}
            raise PydanticKnownError("too_short", size)
        return value

    @field_validator("fine", "binary")
    @classmethod
    def _mark_hate(cls, value: tuple[Category, ...], info: ValidationInfo) -> tuple[Category, ...]:
        of_hate = info.data.get("task") == "hate"
        if not of_hate and any(category.hate is not None for category in value):
            raise ValueError(
                "only a policy on hate speech says which categories are hate; leave `hate` out"
            )
        if value and value[0].hate:
            raise ValueError(
                "the first category is that of posts with nothing against them, so it isn't hate"
            )
        return tuple(
            category.model_copy(update={"hate": of_hate and number > 0})
            if category.hate is None
            else category
            for number, category in enumerate(value)
        )

    @field_validator("fine", "binary")
    @classmethod
    def _take_groups(
        cls, value: tuple[Category, ...], info: ValidationInfo
    ) -> tuple[Category, ...]:
        pool = {**example_pool(), **info.data.get("pool", {})}
        return tuple(with_groups(each, each.name, pool) for each in value)

    @field_validator("clauses")
    @classmethod
    def _check_clauses(cls, value: tuple[Clause, ...], info: ValidationInfo) -> tuple[Clause, ...]:
        if not value or "binary" not in info.data:
            return value
        fine = info.data.get("fine", ())
        binary = info.data["binary"]
        known = list(dict.fromkeys(each.name for each in (*fine[1:], *binary[1:])))
        ids = [each.id.casefold() for each in value]
        for clause in value:
            if ids.count(clause.id.casefold()) > 1:
                raise ValueError(
                    f"{clause.id}: there are two clauses of this id; give each its own"
                )
            if clause.category not in known:
                meant = suggest_known(clause.category, known)
                raise ValueError(
                    f"{clause.id}: category: {clause.category}: no category that a post can break{meant}"
                )
        held = {each.category for each in value}
        wanted = [each.name for each in fine[1:] if each.hate] or [binary[1].name]
        lacking = next((name for name in wanted if name not in held), None)
        if lacking:
            raise ValueError(f"no clause is of the category {lacking}; number its rule too")
        pool = {**example_pool(), **info.data.get("pool", {})}
        return tuple(with_groups(each, each.id, pool) for each in value)

    @model_validator(mode="after")
    def _check_names(self) -> Policy:
        labels = {
            "fine": [each.name for each in self.fine],
            "binary": [each.name for each in self.binary],
        }
        for field, names in {"protected_groups": self.protected_groups, **labels}.items():
            folded = [name.casefold() for name in names]
            twice = next((name for name in folded if folded.count(name) > 1), None)
            if twice:
                raise ValueError(f"{field} names {twice!r} twice")
        for each in self.fine:
            unknown = next(
                (group for group in each.groups if group not in self.protected_groups), None
            )
            if unknown:
                meant = suggest_known(unknown, self.protected_groups)
                raise ValueError(f"{each.name}: groups: {unknown!r}: is no protected group{meant}")
        known = {*labels["fine"], *labels["binary"]}
        for tag, translation in self.translations.items():
            for field in ("meanings", "names", "reasons"):
                for unknown in getattr(translation, field).keys() - known:
                    meant = suggest_known(unknown, known)
                    raise ValueError(
                        f"translations.{tag}.{field}: {unknown}: there is no such category{meant}"
                    )
            for each in (*self.fine, *self.binary):
                translated = translation.reasons.get(each.name)
                if each.reasons and translated is not None and len(translated) != len(each.reasons):
                    told = f"translations.{tag}.reasons: {each.name}: give one for each of its own: {len(each.reasons)}"
                    raise ValueError(told)
            ids = [each.id for each in self.clauses]
            for unknown in translation.clauses.keys() - set(ids):
                meant = suggest_known(unknown, ids) if ids else "; this policy numbers none"
                raise ValueError(
                    f"translations.{tag}.clauses: {unknown}: there is no such clause{meant}"
                )
        return self

    def categories(self, scheme: Scheme) -> tuple[Category, ...]:
        """Return the labels of a scheme, in the order of their numbers."""
        return self.fine if scheme == "fine" and self.fine else self.binary

    def reasons_for(self, category: Category) -> tuple[str, ...]:
        """Return what may be given as why a category was chosen: its reasons, else its clauses, else its meaning."""
        return (
            category.reasons
            or tuple(each.rule for each in self.clauses if each.category == category.name)
            or (category.meaning,)
        )

    def label(self, scheme: Scheme, category: str) -> int:
        """Return the number of a category.

        Raises:
            KeyError: the scheme has no such category.
        """
        for number, known in enumerate(self.categories(scheme)):
            if known.name == category:
                return number
        raise KeyError(category)

    @property
    def kinds(self) -> tuple[Category, ...]:
        """Return the kinds of hate that a cue may be of, in either scheme."""
        return self.fine[1:]

    def is_hate(self, scheme: Scheme, label: int) -> bool | None:
        """Return whether a label is hate speech; None where that isn't the task."""
        return self.categories(scheme)[label].hate if self.task == "hate" else None

    def examples(self, scheme: Scheme) -> str:
        """Return the examples for and against each category, one a line; empty where there are none."""
        return "\n".join(
            line for each in self.categories(scheme) for line in each.list_examples(each.name)
        )

    def find_clause(self, id: str) -> Clause | None:
        """Return the clause of this id, or None."""
        return next((each for each in self.clauses if each.id == id), None)

    def exceptions_of(self, clause: Clause) -> str:
        """Return the exceptions of a clause: its own, or those of the whole policy if it has none."""
        return clause.exceptions or "\n\n".join(filter(None, (self.exclusions, self.excuses)))

    def without_clauses(self) -> Policy:
        """Return the policy for seats that aren't asked for clauses."""
        return _drop_clauses(self) if self.clauses else self


@lru_cache(maxsize=64)
def _drop_clauses(policy: Policy) -> Policy:
    return policy.model_copy(update={"clauses": ()})


@lru_cache(maxsize=64)
def translate_policy(policy: Policy, tag: str | None) -> Policy:
    """Return the policy in a post's language, where it is translated into that; pt serves for pt-BR too."""
    if tag is None or tag in (policy.language, policy.language.partition("-")[0]):
        return policy
    found = next(
        (each for each in (tag, tag.partition("-")[0]) if each in policy.translations), None
    )
    if found is None:
        return policy
    translation = policy.translations[found]

    def translate(categories: tuple[Category, ...]) -> tuple[Category, ...]:
        meanings = translation.meanings
        reasons = translation.reasons
        return tuple(
            each.with_examples_in(found).model_copy(
                update={
                    "meaning": meanings.get(each.name, each.meaning),
                    "reasons": reasons.get(each.name, each.reasons) if each.reasons else (),
                }
            )
            for each in categories
        )

    def translate_clause(clause: Clause) -> Clause:
        said = translation.clauses.get(clause.id)
        clause = clause.with_examples_in(found)
        return (
            clause if said is None else clause.model_copy(update=said.model_dump(exclude_none=True))
        )

    texts = translation.model_dump(
        exclude={"meanings", "names", "reasons", "clauses"}, exclude_none=True
    )
    labels = {"fine": translate(policy.fine), "binary": translate(policy.binary)}
    clauses = tuple(map(translate_clause, policy.clauses))
    return policy.model_copy(update={**texts, **labels, "clauses": clauses, "language": found})


def list_shipped_policies() -> list[str]:
    """Return the names of the policies that come with the project."""
    return POLICY_TEXTS.shipped_names


def load_policy(name: str, definition: str | None = None) -> Policy:
    """Return the policy of this name, or in the TOML file of this path. Blocks: call it off the event loop.

    Args:
        name: the setting `policy`.
        definition: the setting `policy_definition`.

    Raises:
        BadInput: there is none, or it is not a policy; the message names the file and the field.
    """
    return redefine_policy(parse_policy(POLICY_TEXTS.read(name), name), definition)


async def policy_in_force(name: str, definition: str | None = None) -> Policy:
    """Load a policy in its current version, off the event loop.

    Args:
        name: the setting `policy`.
        definition: the setting `policy_definition`.

    Raises:
        BadInput: as `load_policy`.
    """
    text = _stored_policies.get().get(name)
    if text is None:
        text = await POLICY_TEXTS.load(name, afresh=True)
    else:
        await asyncio.to_thread(note_own_text, "policy", text)
    return _met_policy(text, name, definition)


@contextmanager
def use_stored_policy(name: str, text: str | None) -> Iterator[None]:
    """Take this text for the policy of this name while the context is open; None changes nothing.

    The operator's file held the text once.
    """
    token = _stored_policies.set({} if text is None else {name: text})
    try:
        yield
    finally:
        _stored_policies.reset(token)


_stored_policies: ContextVar[Mapping[str, str]] = ContextVar(
    "stored policies", default=MappingProxyType({})
)


async def policy_of(state: Mapping[str, Any], runtime: Runtime[Context] | None = None) -> Policy:
    """Return the policy of a case: the text stored in it, so that a later edit of the file changes nothing.

    Raises:
        BadInput: the text is no policy, or a client of this server may not set it. As `load_policy`, where no text is
            there.
    """
    context = context_of(state, runtime)
    if (state.get("context") or {}).get("policy") is None:
        return await policy_in_force(context.policy, context.policy_definition)
    text = await POLICY_TEXTS.text_of_case(state, context.policy)
    return _met_policy(text, context.policy, context.policy_definition)


def _met_policy(text: str, name: str, definition: str | None) -> Policy:
    policy = redefine_policy(parse_policy(text, name), definition)
    remember_text("policy", policy.sha, policy.source)
    return policy


@lru_cache(maxsize=64)  # each call of a case asks for its policy
def parse_policy(text: str, name: str = "the kept text") -> Policy:
    """Return the policy that is the whole text of a file, as a case keeps it; errors call it by `name`.

    Raises:
        BadInput: the text is no policy.
    """
    try:
        values = parse_toml(text)
    except ValueError as error:
        raise BadInput(f"policy: {name}: not a TOML file: {error}") from error
    derived = next((key for key in _DERIVED if key in values), None)
    if derived:
        raise BadInput(f"policy: {name}: {derived}: is worked out from the file; leave it out")
    try:
        policy = Policy.model_validate({**values, "source": text})
    except ValidationError as error:
        raise BadInput(
            f"policy: {name}: {_describe_fault(error)}; compare the shipped h-vli.toml"
        ) from error
    named = {
        name
        for each in (*policy.fine, *policy.binary, *policy.clauses)
        for name in each.examples_from
    }
    taken = named - policy.pool.keys()
    if taken:  # they become part of the text, and so of its hash
        return parse_policy(f"{text}\n{groups_as_toml(taken, policy.translations)}", name)
    return policy.model_copy(
        update={"sha": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]}
    )


@lru_cache(maxsize=64)
def redefine_policy(policy: Policy, definition: str | None) -> Policy:
    """Return the policy with another definition, as if its file had it: its text and hash are others.

    Args:
        policy: as its file has it.
        definition: the setting `policy_definition`; None leaves the policy as it is.

    Raises:
        BadInput: the text of the policy doesn't show where its definition is.
    """
    words = wellformed(definition or "").strip()
    if not words or words == policy.definition:
        return policy
    return parse_policy(replace_definition(policy.source, words, policy.name), policy.name)


_DERIVED = ("sha", "source")


def _describe_fault(error: ValidationError) -> str:
    """Return the first fault, a misspelt key before any other: it is why another one is missing."""
    faults = error.errors(include_url=False)
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = ".".join(str(part) for part in first["loc"]) or "policy"
    if first["type"] != "extra_forbidden":
        return f"{field}: {first['msg'].removeprefix('Value error, ')}"
    models: dict[str, type[PolicyPart]] = {
        "fine": Category, "binary": Category, "clauses": Clause, "translations": Translation,
    }  # fmt: skip
    model = models.get(str(first["loc"][0]), Policy) if len(first["loc"]) > 1 else Policy
    known = [key for key in model.model_fields if key not in _DERIVED]
    return f"{field}: no such key{suggest_known(str(first['loc'][-1]), known)}"


class _PolicyTexts(NamedTexts):
    """The texts that the setting `policy` names, each with the groups of examples that it takes from the pool."""

    def read_place(self, name: str) -> str:
        """Return the current text of this name, checked, with its examples in it."""
        return parse_policy(super().read_place(name), name).source


POLICY_TEXTS = _PolicyTexts(
    "policy",
    "TOML",
    parse_policy,
    "give one of {names} or a TOML file",
    "tribunal.prompts:policies",
)
