"""A text in one spelling, and the words of it: what every rule reads."""

from __future__ import annotations

import re
import unicodedata

from tribunal.text import one_line, wellformed, without_hidden

LONGEST_QUOTE = 90  # characters
WORD = re.compile(r"\w+(?:'\w+)*")  # "don't" is one word

_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANK = re.compile(r"[^\S\n]+")
_QUOTATION_MARKS = str.maketrans(dict.fromkeys("‘’‚‛‹›ʼ", "'") | dict.fromkeys("“”„‟«»", '"'))


def plain(text: str) -> str:
    """The text in one spelling, on which every rule works.

    Unicode NFKC; no hidden or control characters; one kind of line break, blank, quotation mark and apostrophe.
    """
    text = unicodedata.normalize("NFKC", without_hidden(wellformed(text)))
    return _BLANK.sub(" ", _BREAK.sub("\n", text)).translate(_QUOTATION_MARKS)


def cut(words: str) -> str:
    """Words on one line, short enough to quote, without quotation marks of their own."""
    line = one_line(words.replace('"', "'").replace("“", "'").replace("”", "'"))
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1].rstrip() + "…"


def any_of(*patterns: str) -> re.Pattern[str]:
    """A pattern for whole words that match one of these, whatever the case of the letters."""
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b", re.IGNORECASE)
