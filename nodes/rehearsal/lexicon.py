"""The words that the rehearsal model knows, and the material of a prompt that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict

from tribunal.core.text import parse_toml
from tribunal.models.role import Question
from tribunal.prompts.policy import Policy
from tribunal.schema import CueType, Scheme, Task

Words = tuple[str, ...]


def _compile_words(words: Words) -> re.Pattern[str]:
    """Return a pattern for whole words that match one of these, whatever the case of the letters."""
    return re.compile(
        rf"(?:\b|(?<!\w))(?:{'|'.join(words)})(?:\b|(?!\w))", re.IGNORECASE | re.MULTILINE
    )


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


LEXICON = _Lexicon.model_validate(
    parse_toml(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))
)


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
    return next(
        (name for each in patterns for name in policy.protected_groups if _mentions(each, name)),
        None,
    )


def labels_of_cue(policy: Policy, key: str) -> tuple[str, str]:
    """Return the characteristic and the category of a cue on a group; the two fit where the policy says which do."""
    named = protected_name(policy, key)
    category = category_of_group(policy, "fine", key)
    fitting = next((kind.name for kind in policy.kinds if named in kind.groups), category)
    groups = (*(group for kind in policy.kinds if kind.name == category for group in kind.groups),)
    return named or (*groups, *policy.protected_groups)[0], fitting


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
        words = [
            word
            for word in key.casefold().split()
            if word not in ("people", "persons", "status", "and", "of")
        ]
        closest = [
            (place, group.categories)
            for group in LEXICON.groups.values()
            for place, pattern in enumerate(group.protected)
            if _mentions(pattern, key)
        ]
        own = (rf"\b{re.escape(word.removesuffix('s'))}" for word in (key.casefold(), *words))
        patterns = (*own, *min(closest, default=(0, ()))[1])
    named = (
        name for pattern in patterns for name, text in hateful.items() if _mentions(pattern, text)
    )
    return next(named, [*hateful][-1])


def _mentions(pattern: str, text: str) -> bool:
    return bool(re.search(pattern, text, re.IGNORECASE))


_OPEN = re.compile(r"^<<<(\S+) ([0-9a-f]{16})\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n?((?:  .*\n?)*)", re.MULTILINE)
_FIELD = re.compile(r"^  ([\w ,-]+): (.*)$", re.MULTILINE)
_SPEAKER = re.compile(r"^(?P<seat>[^\n]+), round (?P<round>\d+) \([^\n]*\):\s*\Z", re.MULTILINE)
_CUE = re.compile(r"([\w.:%+-]+)(?: \(([\w-]+)\))?")
_STANCE = re.compile(r"(press|withdraw|refute|concede)(?:es|s)?(?:, as before)?")

# The line that an entry begins with, and its fields by name.
MaterialEntry = tuple[str, dict[str, str]]


class CueStatement(NamedTuple):
    """A statement on one cue, as a speaker made it: the cue itself, or an argument about it."""

    cue_id: str
    type: str
    stance: str
    argument: str
    target_group: str
    claim: str
    characteristic: str
    category: str


def read_blocks(material: str) -> Iterator[tuple[str, str]]:
    """Yield each marked text in a material, after what stands before it. Marks inside a marked text belong to it."""
    at = 0
    while opened := _OPEN.search(material, at):
        close = f"\n{opened[1]} {opened[2]}>>>"
        end = material.find(close, opened.end() - 1)
        if end == -1:
            return
        yield material[at : opened.start()], material[opened.end() : end]
        at = end + len(close)


def marked_text(material: str) -> str:
    """Return the first marked text in a material, or nothing if there is none."""
    return next((text for _, text in read_blocks(material)), "")


def read_entries(material: str) -> list[MaterialEntry]:
    """Return the entries in the marked texts of a material, as `marks.entries` writes them."""
    return [entry for _, text in read_blocks(material) for entry in _split_entries(text)]


def _split_entries(text: str) -> list[MaterialEntry]:
    # Of several fields of one name the first counts.
    return [(head, dict(reversed(_FIELD.findall(body)))) for head, body in _ENTRY.findall(text)]


def evidence_ids(material: str, stance: str) -> list[str]:
    """Return the ids of the evidence in a material that takes this stance: supports, refutes or neutral."""
    return [
        head[1:].partition("]")[0]
        for head, _ in read_entries(material)
        if f"{head} ".partition("] ")[2].startswith(f"{stance} ")
    ]


def _read_statements(turn: str) -> dict[str, CueStatement]:
    """Return what a turn, as `cues.quote_turn` writes it, first says of each cue, by the cue's id."""
    statements: dict[str, CueStatement] = {}
    for head, fields in _split_entries(turn):
        cue = _CUE.fullmatch(head)
        if cue:
            stances = (
                (said[1], text)
                for name, text in fields.items()
                if (said := _STANCE.fullmatch(name))
            )
            stance, argument = next(stances, ("", ""))
            named = {
                name: fields.get(name, "")
                for name in ("target_group", "claim", "characteristic", "category")
            }
            statements.setdefault(
                cue[1], CueStatement(cue[1], cue[2] or "", stance, argument, **named)
            )
    return statements


def statements_in(question: Question, name: str) -> dict[str, CueStatement]:
    """Return what the turns in one part of a role's material say of each cue, by its id."""
    material = str(question.material.get(name, ""))
    return {
        cue_id: each
        for _, turn in read_blocks(material)
        for cue_id, each in _read_statements(turn).items()
    }


def read_transcript(question: Question) -> list[tuple[str, dict[str, CueStatement]]]:
    """Return the seat and the statements of each turn of a judge's transcript, round by round."""
    turns = []
    for before, turn in read_blocks(str(question.material.get("transcript", ""))):
        speaker = _SPEAKER.search(before)
        if speaker:
            turns.append(
                (int(speaker["round"]), speaker["seat"].strip().casefold(), _read_statements(turn))
            )
    return [(seat, statements) for _, seat, statements in sorted(turns, key=lambda turn: turn[0])]
