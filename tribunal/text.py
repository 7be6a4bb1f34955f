"""Foreign text made safe to store and to show. The one table of characters that nobody sees stands here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

# Spelling in Arabic and Indic scripts, and the look of emoji.
_JOINERS = {"\u200c", "\u200d", "\ufe0e", "\ufe0f"}
_KEYCAPS = set("0123456789#*©®")

# Controls that aren't white space, format characters, and what Unicode says may be ignored when it is shown
# (Default_Ignorable_Code_Point): the inside of a class of a regular expression.
_HIDDEN = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Line breaks of a kind that only some programs break a line at, and signs that reach over the characters after them.
_BREAKS, _SURROGATES = "\x0b\x0c\x85\u2028\u2029", "\ud800-\udfff"
_SIGNS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"

_GONE = re.compile(f"[{_HIDDEN}]")
_GONE_BUT_JOINERS = re.compile(f"(?![{''.join(sorted(_JOINERS))}])[{_HIDDEN}]")
# As a pattern, so that most posts never leave the regular expression.
_SUSPECT = re.compile(f"\r\n?|[{_HIDDEN}{_BREAKS}{_SIGNS}{_SURROGATES}]+")
_HARMFUL = re.compile(f"[{_HIDDEN}{_BREAKS}{_SIGNS}{_SURROGATES}]")
_MOST_HIDDEN = 32
_LONE = re.compile(r"[\ud800-\udfff]")


def near(word: str, known: Iterable[str]) -> list[str]:
    """The known word that is nearly this one; else the two that are most like it. Letter case doesn't count."""
    folded = {each.casefold(): each for each in known}
    wrong = word.casefold()
    found = get_close_matches(wrong, folded, n=1, cutoff=0.8) or get_close_matches(wrong, folded, n=2, cutoff=0.5)
    return [folded[each] for each in found]


def meant(word: str, known: Iterable[str]) -> str:
    """What an unknown word was meant as: `did you mean rounds?`; nothing where no known one is like it."""
    found = near(word, known)
    return f"did you mean {' or '.join(found)}?" if found else ""


def wellformed(text: str) -> str:
    """The text with every half of a surrogate pair, which nothing can store or send, as U+FFFD; whole pairs joined."""
    if text.isascii() or not _LONE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str) -> str:
    """The text with every run of white space, line breaks among it, as one blank."""
    return " ".join(text.split())


def shared_start(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    most = min(len(one), len(other))
    return next((place for place in range(most) if one[place] != other[place]), most)


def without_hidden(text: str, *, joiners: bool = False) -> str:
    """The text without the characters that nobody sees.

    Args:
        text: any.
        joiners: keep joiners and variation selectors, with which Persian, Indic scripts and emoji are written.
    """
    return (_GONE_BUT_JOINERS if joiners else _GONE).sub("", text)


def visible(text: str) -> str:
    """The text with every character that hides, reorders or breaks it written out, as in `[U+202E]`.

    Kept as they are: letters of every script, emoji, tabs and line breaks (all as `\\n`), and joiners and variation
    selectors where they do their work, which is after one letter or emoji that isn't ASCII.
    """
    return text if text.isascii() and text.isprintable() else _SUSPECT.sub(_written_out, text)


# What begins markup in Markdown, wherever it stands. At a line's start, numbers and dashes may still make lists.
_MARKUP = re.compile(r"[\\`*_\[\]<>&#|~$!]|:(?=/)")


def in_markdown(text: str) -> str:
    """Foreign text as it is put into Markdown, where it then loads nothing and is read as it was written."""
    return _MARKUP.sub(r"\\\g<0>", visible(text))


def escaped(written: str) -> str:
    """JSON with every such character as JSON escapes it. In JSON they stand only inside strings, so it stays equal."""
    return _HARMFUL.sub(_as_escapes, written)


def _as_escapes(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _written_out(found: re.Match[str]) -> str:
    run = found.group()
    if run[0] == "\r":
        return "\n"
    before = found.string[found.start() - 1] if found.start() else " "
    shown = [_one_written_out(*pair) for pair in zip((before + run)[:_MOST_HIDDEN], run, strict=False)]
    if len(run) > _MOST_HIDDEN:  # written out they are eight times as long, and a post may hold nothing else
        shown.append(f"[and {len(run) - _MOST_HIDDEN} more that can't be seen]")
    return "".join(shown)


def _one_written_out(before: str, character: str) -> str:
    if character in _JOINERS and _takes_joiner(before, character):
        return character
    if unicodedata.category(character) == "Cs":
        return "\ufffd"
    return f"[U+{ord(character):04X}]"


def _takes_joiner(before: str, character: str) -> bool:
    """Between Latin letters they only hide a word, and one after the other they can spell out another text."""
    if before in _KEYCAPS:
        return character in "\ufe0e\ufe0f"
    if before in "\ufe0e\ufe0f":
        return character == "\u200d"
    return ord(before) > 0x24F and before not in _JOINERS
