"""The words of a text: what two texts that say the same have in common, however they are written."""

from __future__ import annotations

import re
import unicodedata

from tribunal.text import without_hidden

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def plain(text: str) -> str:
    """A text without what doesn't change its words: NFKC, case folded, no invisible marks, white space to one blank."""
    return " ".join(without_hidden(unicodedata.normalize("NFKC", text)).casefold().split())


def words_of(text: str) -> str:
    """What equal texts have in common: all but letter case, white space, character width and signs at the ends."""
    words = plain(text)
    return _EDGES.sub("", words) or words
