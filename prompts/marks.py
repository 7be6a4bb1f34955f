"""Types for the words in a prompt: our own words are inserted as they are, all other words between marks.

A prompt takes `Ours`, numbers and `Material`, and nothing else; `PromptSet.render` sees to that. A plain `str` is a
stranger's until one of these functions has it:

    ours("In round {}:", 2)                            our own words, written out where they are used
    operator_words(policy.definition)                  words of a file that the operator named
    quote("query", query)                              one text between marks, on one line
    quote("post", post, lines=True)                    the same with its line breaks, for a block of its own
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
from typing import Any, NamedTuple, NoReturn

from tribunal.core.text import make_visible, one_line, without_hidden

_LONGEST_WORD = 80
_BETWEEN_MARKS = re.compile(r"<<<([\w+.:%-]+ [0-9a-f]{16})\n.*?\n\1>>>", re.DOTALL)
_MARK = re.compile(r"<<<\s?\w[\w+.:%-]* [0-9a-f]{8,}\b|\b[0-9a-f]{8,}>>>")
_DIGEST = re.compile(r"\b[0-9a-f]{16}\b")
_NO_WORD = re.compile(r"[^\w+.:%-]+")
_NO_NAME = re.compile(r"[^\w ,-]+")


class PromptError(ValueError):
    """A prompt and its material don't fit: a variable is missing or unknown, or foreign words have no marks."""


class Ours(str):
    """Words that a prompt may show without marks. Made by `ours` and `operator_words` only."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """Words as a prompt shows them, strangers' between marks. A template can put it in, and do nothing else with it.

    Made by `quote`, `listing`, `entries` and `together` only; `material_text` gives the text.
    """

    _text: str

    def __bool__(self) -> bool:
        """Return whether there are any words."""
        return bool(self._text)

    def __str__(self) -> NoReturn:
        """Refuse to be part of another text."""
        raise TypeError(
            "strangers' words stand by themselves, between their marks: write {{ name }}, with no filter and nothing "
            "joined to it"
        )

    def __repr__(self) -> str:
        """Return its length, and none of its words."""
        return f"<material of {len(self._text)} characters>"


class Entry(NamedTuple):
    """One of several things between the same marks: a line of ours, if any, and fields by name, each on its line."""

    head: Ours | None
    fields: Sequence[tuple[str, str]] = ()


def material_text(value: object) -> Any:
    """Return the text that a prompt shows of material; any other value as it is."""
    return value._text if isinstance(value, Material) else value


def without_material(prompt: str) -> str:
    """Return a prompt without the material between marks: only our own words."""
    return _BETWEEN_MARKS.sub(" ", prompt)


def find_mark(text: str) -> str:
    """Return the first mark of material in a text, or half of a mark; empty if there is none."""
    digest = _DIGEST.search(text)
    if digest and not digest[0].isdigit() and not digest[0].isalpha():
        return digest[0]
    mark = _MARK.search(text) if "<<<" in text or ">>>" in text else None
    return mark[0] if mark else ""


def ours(pattern: str, *values: str | float) -> Ours:
    """Return our own words, with values in the places of `{}`.

    Args:
        pattern: a literal, written out where this is called.
        values: numbers and words of ours as they are; any other text as one word (`short_word`).
    """
    words = (each if isinstance(each, Ours | int | float) else short_word(each) for each in values)
    return Ours(pattern.format(*words))


def short_word(text: str) -> Ours:
    """Return a name as one short word, such as E1 or perspective:kold: no blank, line break or bracket is left."""
    return _name_as_word(text) if len(text) <= _LONGEST_WORD else _as_word(text)


def _as_word(text: str) -> Ours:
    return Ours(_NO_WORD.sub("_", without_hidden(text))[:_LONGEST_WORD])


# a case has few names, and each prompt all of them
_name_as_word = lru_cache(maxsize=1024)(_as_word)


def operator_words(text: str) -> Ours:
    """Return words of a file that the operator named, such as a policy, as ours, hidden characters written out."""
    return Ours(make_visible(text))


def quote(kind: str, text: str, *, lines: bool = False) -> Material:
    """Put a stranger's words between marks that they can't forge.

    The marks carry a digest of the words themselves, so a text that holds its own closing mark can't be written; and
    should one ever be found, the digest is drawn again until it doesn't occur in the text. The same text always gets
    the same marks, so equal prompts stay equal. Characters that hide or reorder text are written out
    (`text.make_visible`).

    Args:
        kind: the kind of the material, in one word: post, cues, rebuttal, passage, …
        text: the words.
        lines: whether they keep their line breaks.
    """
    return _put_between_marks(kind, make_visible(text) if lines else _flatten_text(text))


def listing(kind: str, texts: Iterable[str]) -> Material:
    """Put several texts of one kind between marks, each on a line of its own."""
    return _put_between_marks(kind, "\n".join(f"- {_flatten_text(text)}" for text in texts))


def entries(kind: str, listed: Iterable[Entry]) -> Material:
    """Put several things between marks, each field on a line of its own after its name.

    Raises:
        PromptError: a head isn't of our own words.
    """
    return _put_between_marks(
        kind, "\n".join(line for each in listed for line in _iter_lines(each))
    )


def together(parts: Iterable[Ours | Material], between: str = "\n\n") -> Material:
    """Put our own words and material one after the other.

    Raises:
        PromptError: a part is neither.
    """
    return Material(between.join(_checked_text(part) for part in parts))


def _iter_lines(entry: Entry) -> Iterable[str]:
    if entry.head is not None:
        yield _checked_text(entry.head)
    margin = "" if entry.head is None else "  "
    for name, text in entry.fields:
        yield f"{margin}{_field_name(name)}: {_flatten_text(text)}"


@lru_cache(maxsize=1024)  # there are few, and each prompt has several
def _field_name(text: str) -> str:
    return _NO_NAME.sub("_", text)[:_LONGEST_WORD]


def _checked_text(part: object) -> str:
    if not isinstance(part, Ours | Material):
        raise PromptError(
            f"a text of {type(part).__name__} would have no marks in a prompt; mark it with `quote`"
        )
    text: str = material_text(part)
    return text


def _flatten_text(text: str) -> str:
    return one_line(make_visible(text))


def _put_between_marks(kind: str, words: str) -> Material:
    name = short_word(kind)
    mark = ""
    salt = 0
    while not mark or mark in words:
        mark = hashlib.sha256(f"{salt}:{words}".encode()).hexdigest()[:16]
        salt += 1
    return Material(f"<<<{name} {mark}\n{words}\n{name} {mark}>>>")
