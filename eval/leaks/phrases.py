"""The phrases of a text: runs of five words, or of ten characters of a script that needs no blanks between words.

Measured on 4,391 English posts of H-VLI against our prompts: runs of four words met eight idioms ("a group of people"),
runs of five one ("and the use of a"), which the rule of two content words leaves out. Korean is written with and
without blanks, so its syllables count and its blanks don't: of the runs of ten syllables in UnSmile, 1 in 10,000 stands
in KODOLI too (of nine 4, of eight 14), as of runs of five Korean words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

LONGEST = {"word": 5, "character": 10}
# A post that is shorter than a phrase is a phrase as a whole, from this length on.
SHORTEST = {"word": 3, "character": 6}
_CONTENT = 2  # words of a phrase that aren't among these
_WORDS = """
a about all also an and any are as at be been but by can could did do does don't doesn't for from had has have he her
him his how i i'm if in into is isn't it it's its just me more most my no not of on one only or other our out she should
so some such than that the their them then there these they they're this those to up us was we were what when where
which who whom why will with would you you're your
"""
_FUNCTION_WORDS = frozenset(_WORDS.split())
# Hangul, Han, Kana, Thai, Lao, Burmese, Khmer. Single letters of Hangul (laughter, mostly) count for nothing.
_CHARACTER = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_LETTER = rf"(?:(?![{_CHARACTER}\u1100-\u11ff\u3131-\u318e])[^\W_])"
BREAK = "\0"  # no phrase goes over it
_TOKEN = re.compile(rf"{BREAK}|[{_CHARACTER}]|{_LETTER}+(?:'{_LETTER}+)*")
_IS_CHARACTER = re.compile(rf"[{_CHARACTER}]")


Tokens = tuple[str, ...]


class Run(NamedTuple):
    """Neighbouring words or characters of a text."""

    unit: str
    tokens: Tokens

    def phrases(self, length: int = 0) -> Iterator[tuple[int, Tokens]]:
        """Yield each phrase that says something, with its place; of the usual length, or of this one."""
        length = length or LONGEST[self.unit]
        for place in range(len(self.tokens) - length + 1):
            phrase = self.tokens[place : place + length]
            if self.unit == "character" or count_content(phrase) >= _CONTENT:
                yield place, phrase


def split_runs(text: str) -> list[Run]:
    """Return the runs of a text. Case, marks and the width of letters make no difference."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    units = groupby(_TOKEN.findall(plain), unit_of_token)
    return [Run(unit, tuple(tokens)) for unit, tokens in units if unit]


def unit_of_token(token: str) -> str:
    """Return whether a token is a word or a character; empty for what parts phrases."""
    return "" if token == BREAK else "character" if _IS_CHARACTER.match(token) else "word"


def count_content(tokens: Tokens) -> int:
    """Count the words that aren't function words, which are English."""
    return sum(token not in _FUNCTION_WORDS for token in tokens)


def short_phrase(text: str) -> Tokens:
    """Return a text as one phrase if it is shorter than the usual phrase and says something, else an empty one."""
    runs = split_runs(text)
    if len(runs) != 1 or not SHORTEST[runs[0].unit] <= len(runs[0].tokens) < LONGEST[runs[0].unit]:
        return ()
    return next((phrase for _, phrase in runs[0].phrases(len(runs[0].tokens))), ())


def join_tokens(tokens: Tokens) -> str:
    """Return words or characters as text."""
    return ("" if _IS_CHARACTER.match(tokens[0]) else " ").join(tokens)
