"""Whose words stand in a prompt, told apart by type: ours stand bare, everybody else's between marks.

A prompt takes `Ours`, numbers and `Material`, and nothing else; `PromptSet.render` sees to that. A plain `str` is a
stranger's until one of these functions has it:

    ours("In round {}:", 2)                            our own words, written out where they are used
    operators(policy.definition)                       words of a file that the operator named
    quote("query", query)                              one text between marks, on one line
    quote("post", post, lines=True)                    the same with its line breaks, where it stands there alone
    listing("tried", queries)                          several texts between marks, each on a line after "- "
    entries("cues", [Entry(head, [("claim", …)])])     several things between marks: each field on a line, by name
    together([ours("He said:"), quote(…)])             parts of both kinds, one after the other

So no text can end its marks, begin a line with a name that isn't its own, or pass for one of our own lines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tribunal.text import one_line, visible, without_hidden

_LONGEST_WORD = 80
_NO_WORD, _NO_NAME = re.compile(r"[^\w+.:%-]+"), re.compile(r"[^\w ,-]+")


class PromptError(ValueError):
    """A prompt and what it is filled with don't fit: a variable too few or too many, or a stranger's words bare."""


class Ours(str):
    """Words that may stand in a prompt as they are. Made by `ours` and `operators` alone."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """Words as a prompt shows them, strangers' between marks. A template can put it in, and do nothing else with it.

    Made by `quote`, `listing`, `entries` and `together` alone; `shown` gives the text.
    """

    _text: str

    def __bool__(self) -> bool:
        return bool(self._text)

    def __str__(self) -> NoReturn:
        raise TypeError(
            "strangers' words stand by themselves, between their marks: write {{ name }}, with no filter and nothing "
            "joined to it"
        )

    def __repr__(self) -> str:
        return f"<material of {len(self._text)} characters>"


class Entry(NamedTuple):
    """One of several things between the same marks: a line of ours, if any, and fields by name, each on its line."""

    head: Ours | None
    fields: Sequence[tuple[str, str]] = ()


def shown(material: Material) -> str:
    """The text that a prompt shows."""
    return material._text


def ours(pattern: str, *values: str | float) -> Ours:
    """Our own words, with values in the places of `{}`.

    Args:
        pattern: a literal, written out where this is called.
        values: numbers and words of ours as they are; any other text as one word (`word`).
    """
    return Ours(pattern.format(*(each if isinstance(each, Ours | int | float) else word(each) for each in values)))


def word(text: str) -> Ours:
    """A name as one short word, such as E1 or perspective:kold: no blank, line break or bracket is left in it."""
    return _short_word(text) if len(text) <= _LONGEST_WORD else _as_word(text)


def _as_word(text: str) -> Ours:
    return Ours(_NO_WORD.sub("_", without_hidden(text))[:_LONGEST_WORD])


_short_word = lru_cache(maxsize=1024)(_as_word)  # a case has few names, and each prompt all of them


def operators(text: str) -> Ours:
    """Words of a file that the operator named, such as a policy: told as ours, with hidden characters written out."""
    return Ours(visible(text))


def quote(kind: str, text: str, *, lines: bool = False) -> Material:
    """A stranger's words between marks that they can't forge.

    The marks carry a digest of the words themselves, so a text that holds its own closing mark can't be written; and
    should one ever be found, the digest is drawn again until it doesn't occur in the text. The same text always gets
    the same marks, so equal prompts stay equal. Characters that hide or reorder text are written out (`text.visible`).

    Args:
        kind: what it is, in one word: post, cues, rebuttal, passage, …
        text: the words.
        lines: whether they keep their line breaks.
    """
    return _marked(kind, visible(text) if lines else _on_one_line(text))


def listing(kind: str, texts: Iterable[str]) -> Material:
    """Several texts of one kind between marks, each on a line of its own."""
    return _marked(kind, "\n".join(f"- {_on_one_line(text)}" for text in texts))


def entries(kind: str, listed: Iterable[Entry]) -> Material:
    """Several things between marks, each field on a line of its own after its name.

    Raises:
        PromptError: a head isn't of our own words.
    """
    return _marked(kind, "\n".join(line for each in listed for line in _lines_of(each)))


def together(parts: Iterable[Ours | Material], between: str = "\n\n") -> Material:
    """Our own words and material, one after the other.

    Raises:
        PromptError: a part is neither.
    """
    return Material(between.join(_text_of(part) for part in parts))


def _lines_of(entry: Entry) -> Iterable[str]:
    if entry.head is not None:
        yield _text_of(entry.head)
    margin = "" if entry.head is None else "  "
    for name, text in entry.fields:
        yield f"{margin}{_name(name)}: {_on_one_line(text)}"


@lru_cache(maxsize=1024)  # there are few, and each prompt has several
def _name(text: str) -> str:
    return _NO_NAME.sub("_", text)[:_LONGEST_WORD]


def _text_of(part: object) -> str:
    if isinstance(part, Material):
        return shown(part)
    if not isinstance(part, Ours):
        raise PromptError(f"a text of {type(part).__name__} would stand bare in a prompt; mark it with `quote`")
    return part


def _on_one_line(text: str) -> str:
    return one_line(visible(text))


def _marked(kind: str, words: str) -> Material:
    name, mark, salt = word(kind), "", 0
    while not mark or mark in words:
        mark = hashlib.sha256(f"{salt}:{words}".encode()).hexdigest()[:16]
        salt += 1
    return Material(f"<<<{name} {mark}\n{words}\n{name} {mark}>>>")
