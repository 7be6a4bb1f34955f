"""The language a post is written in: as it was given, or as it can be told from the words.

Detected by py3langid (a fork of langid.py, Lui and Baldwin 2012); names by Babel. Both are imported at first use.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Any

from tribunal.errors import BadInput

# Held against 4,391 English texts of H-VLI and 808 Korean comments: at this confidence no English text was taken for
# another language, and 70 % of them were told; of the Korean ones one was taken for another, and 99 % were told.
SURE = 0.8
LETTERS = 6  # fewer than these tell nothing
READ = 2_000  # characters from the beginning; more of them make it no surer

_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_NO_WORDS = re.compile(r"https?://\S+|www\.\S+|[@#]\w+")
_once = threading.Lock()
_NONE = ("und", "mul", "zxx", "mis")  # tags that say: undetermined, several, none at all, not coded


def tag_of(given: str) -> str | None:
    """A language as a tag, such as en, ko or pt-BR; None where the tag says that the language isn't known.

    Args:
        given: a tag, or the language's English name.

    Raises:
        BadInput: it is neither.
    """
    words = given.strip()
    names = _names()
    if _TAG.fullmatch(words):
        first, *more = re.split("[-_]", words)
        first = _aliases().get(first.casefold(), first)
        if first.casefold() in _NONE:
            return None
        if first.casefold() in names:
            return "-".join((first.casefold(), *(part.upper() if len(part) == 2 else part for part in more)))
    by_name = {name.casefold(): tag for tag, name in reversed(names.items())}
    if words.casefold() in by_name:
        return by_name[words.casefold()].replace("_", "-")
    raise BadInput(f"language: {given[:80]!r}: is no language; give a tag such as en, ko or pt-BR, or leave it out")


@lru_cache(maxsize=256)
def name_of(tag: str) -> str:
    """The English name of a tag's language: Korean."""
    if tag == "en":
        return "English"  # ours; it costs no import
    names = _names()
    return names.get(tag.replace("-", "_")) or names.get(tag.partition("-")[0], tag)


def detected(text: str) -> str | None:
    """The language of a text, where it can be told; at its first call this reads a model, which takes half a second."""
    words = _NO_WORDS.sub(" ", text[:READ])
    if sum(map(str.isalpha, words)) < LETTERS:
        return None
    with _once:  # or two threads would read the model
        identifier = _identifier()
    tag, confidence = identifier.classify(words)
    return tag if confidence >= SURE and tag not in _NONE else None


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    from babel import Locale

    return dict(Locale.parse("en").languages)


@lru_cache(maxsize=1)
def _aliases() -> dict[str, str]:
    """Three letters and old codes, as the tag that is used: kor is ko."""
    from babel.core import get_global

    return dict(get_global("language_aliases"))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
