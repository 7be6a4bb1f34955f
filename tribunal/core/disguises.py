"""Undo the usual disguises of words by rules: look-alike letters, spaced letters, and digits in place of letters.

The rules know no dictionary, so the result is a reading aid and no finding.
"""

from __future__ import annotations

import re
import unicodedata

_LATIN = "A-Za-z\u00c0-\u024f"
# Cyrillic and Greek letters that look like a Latin one.
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһкАВЕКМНОРСТУХІЈЅαονρικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijsdhkABEKMHOPCTYXIJSaovpikABEZHIKMNOPTYX",
)
_LEET = str.maketrans("013457@$", "oieastas")
_FEWEST_LETTERS = 3  # of a word in which digits may stand for letters
_ORDINALS = "ªº"  # used as they are in Spanish and Portuguese

_WORD = re.compile(r"[^\W\d_]+")
_SPACED = re.compile(rf"(?<![\w])(?:[{_LATIN}]([ .*_-]))(?:[{_LATIN}]\1){{2,}}[{_LATIN}](?!\w)")
# A word with letters on both sides of one or two of these signs. Addresses and mentions are no words.
_DISGUISED = re.compile(r"(?<![\w@$./:-])[A-Za-z01345][A-Za-z013457@$]*(?![\w@/:-]|\.\w)")
_BETWEEN_LETTERS = re.compile(r"[A-Za-z][013457@$]{1,2}(?=[A-Za-z])")


def undo_disguises(text: str) -> str:
    """Return a text with its disguised words in plain letters; empty if no word is disguised."""
    plain = text if text.isascii() else _WORD.sub(_undo_word, "".join(map(_plain_letter, text)))
    plain = _SPACED.sub(lambda found: found[0].replace(found[1], ""), plain)
    plain = _DISGUISED.sub(_undo_digits, plain)
    return "" if plain == text else plain


def _plain_letter(character: str) -> str:
    """Return the Latin letter of a styled letter, such as a full-width or a mathematical letter."""
    if character.isascii() or character in _ORDINALS:
        return character
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 and plain.isascii() and plain.isalpha() else character


def _undo_word(found: re.Match[str]) -> str:
    """Return a word of mixed scripts in Latin letters, if every other letter of it looks like a Latin letter."""
    word = found[0]
    if not re.search(f"[{_LATIN}]", word):
        return word
    plain = word.translate(_LOOKALIKES)
    return plain if re.fullmatch(f"[{_LATIN}]+", plain) else word


def _undo_digits(found: re.Match[str]) -> str:
    """Return a word with letters in place of digits, if the digits are between its letters."""
    word = found[0]
    disguised = _BETWEEN_LETTERS.search(word) and sum(map(str.isalpha, word)) >= _FEWEST_LETTERS
    return word.translate(_LEET) if disguised else word
