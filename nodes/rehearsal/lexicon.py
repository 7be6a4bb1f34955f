"""The words that the rehearsal model knows, read from `lexicon.toml`, and what a policy makes of its groups."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from tribunal.prompts.policy import Policy
from tribunal.schema import CueType, Scheme, Task
from tribunal.text import parse_toml

Words = tuple[str, ...]


def _compile_words(words: Words) -> re.Pattern[str]:
    """Return a pattern for whole words that match one of these, whatever the case of the letters."""
    return re.compile(rf"(?:\b|(?<!\w))(?:{'|'.join(words)})(?:\b|(?!\w))", re.IGNORECASE | re.MULTILINE)


def _ignore_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


WordPattern = Annotated[re.Pattern[str], BeforeValidator(_compile_words)]
_AFTER_THE = r"(?=\s+(?:are|were|should|must|have|always|never|can't|don't|live|take|get|deserve)\b|\s*[.,!?;:]|\s*$)"


class _LexiconPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class LexiconGroup(_LexiconPart):
    """Words for a group of people, and patterns of how policies speak of it, the closest first.

    `mixed` marks words for several groups: a Christian who speaks of Hindus doesn't speak of themselves.
    """

    many: Words = ()
    one: Words = ()
    protected: Words = ()
    categories: Words = ()
    mixed: bool = False


class Sign(_LexiconPart):
    """Words that attack a group (type Direct) or imply an attack; `lexicon.toml` says what each field means."""

    name: str
    type: CueType
    words: WordPattern
    implies: str
    charge: str = ""
    harmless: str = ""
    gravity: int = 0
    strong: bool = True
    deniable: bool = False
    place: Literal["near", "after", "before", "linked"] = "near"
    alone: str | None = None
    near: WordPattern | None = None
    only: Words = ()


class ExcuseRule(_LexiconPart):
    """Words by which a post takes back what it says, and what a defence says of them."""

    words: WordPattern = re.compile(r"(?!)")
    plea: str = ""
    weak: bool = False


class _Hint(_LexiconPart):
    name: str
    words: WordPattern
    charge: str
    views: Words = ()
    beside: WordPattern | None = None
    unless: WordPattern | None = None


class _TaskHints(_LexiconPart):
    taken_back: WordPattern
    hints: tuple[_Hint, ...]


class _Lexicon(_LexiconPart):
    groups: dict[str, LexiconGroup]
    unnamed: LexiconGroup
    signs: tuple[Sign, ...]
    excuses: dict[str, ExcuseRule]
    agreement: ExcuseRule
    spoken_of: ExcuseRule
    context: dict[str, Annotated[re.Pattern[str], BeforeValidator(_ignore_case)]]
    tasks: dict[Task, _TaskHints]
    claims: dict[CueType, dict[str, str]]
    arguments: dict[str, str]
    letters: dict[str, dict[str, str]]


LEXICON = _Lexicon.model_validate(parse_toml(files(__package__).joinpath("lexicon.toml").read_text("utf-8")))


def argue(argument: str, **facts: str) -> str:
    """Return one of the lexicon's arguments, filled in."""
    return LEXICON.arguments[argument].format(**facts)


@lru_cache(maxsize=32)
def terms_of_groups(policy: Policy) -> tuple[re.Pattern[str], dict[str, tuple[str, bool]]]:
    """Return the words for groups, the policy's own among them, as one pattern and as a table: word → (key, is it one).

    A policy's name for a group is a word for people ("veterans") or for what they share ("social status").
    """
    table = {term: (key, False) for key, group in LEXICON.groups.items() for term in group.many}
    table |= {term: (key, True) for key, group in LEXICON.groups.items() for term in group.one}
    for name in policy.protected_groups:
        if "people" in name.casefold() or re.search(r"[^siu]s$", name.casefold()):
            table.setdefault(" ".join(name.casefold().split()), (name, False))
    words = [
        re.escape(term).replace(r"\ ", r"\s+") + (_AFTER_THE if term.startswith("the ") else r"\b")
        for term in sorted(table, key=len, reverse=True)
    ]
    return re.compile(r"\b(?:" + "|".join(words) + ")", re.IGNORECASE), table


@lru_cache(maxsize=1024)
def protected_name(policy: Policy, key: str) -> str | None:
    """Return the policy's name for a group of the lexicon, or None if the policy doesn't protect it."""
    if key in policy.protected_groups:
        return key
    patterns = LEXICON.groups.get(key, LEXICON.unnamed).protected
    return next((name for each in patterns for name in policy.protected_groups if _mentions(each, name)), None)


@lru_cache(maxsize=1024)
def category_of_group(policy: Policy, scheme: Scheme, key: str) -> str:
    """Return the hateful category whose name or meaning speaks of a group, or the last one if none does.

    Args:
        policy: the policy in force.
        scheme: which of its lists is asked for.
        key: a group of the lexicon, a protected group by its name in the policy, or any words for one.
    """
    hateful = {each.name: f"{each.name}: {each.meaning}" for each in policy.categories(scheme)[1:]}
    patterns = LEXICON.groups.get(key, LEXICON.unnamed).categories
    if key and key not in LEXICON.groups:
        # The name's own words first, then those of the lexicon's group that the name comes closest to.
        words = [word for word in key.casefold().split() if word not in ("people", "persons", "status", "and", "of")]
        closest = [
            (place, group.categories)
            for group in LEXICON.groups.values()
            for place, pattern in enumerate(group.protected)
            if _mentions(pattern, key)
        ]
        own = (rf"\b{re.escape(word.removesuffix('s'))}" for word in (key.casefold(), *words))
        patterns = (*own, *min(closest, default=(0, ()))[1])
    named = (name for pattern in patterns for name, text in hateful.items() if _mentions(pattern, text))
    return next(named, [*hateful][-1])


def _mentions(pattern: str, text: str) -> bool:
    return bool(re.search(pattern, text, re.IGNORECASE))
