"""The language of a post: as it was given, or detected from its words.

A script that one language alone is written in tells it. For the rest fastText's small model is asked (Joulin et al.
2016), which lies in `language_model`. Names are Babel's. Both are imported at first use.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from tribunal.errors import BadInput

# Held against 4,391 English texts of H-VLI and 809 Korean comments: at this confidence 74 % of the English ones were
# told, and 8 were taken for another language; 99 % of the Korean ones were told, and the one taken for Japanese is so.
SURE = 0.8
# Bytes of letters: fewer tell nothing. So many are 12 Latin letters, 6 Cyrillic or Arabic ones, or 4 Chinese ones.
LETTERS = 12
READ = 2_000  # characters from the beginning; more of them make it no surer

SENTENCE = 20  # letters from which one sentence of a text may show that it is in another language than the rest
# What fastText's model calls a language otherwise, and languages that it takes for each other.
_FASTTEXT_TAGS = {"nb": "no", "nn": "no", "fil": "tl", "sr": "sh", "hr": "sh", "bs": "sh"}
_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")

_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
# Addresses, mentions, hashtags, and what data sets put in their place, such as <user>.
_NO_WORDS = re.compile(r"https?://\S+|www\.\S+|[@#]\w+|@?<\w+>")
# Scripts of one language, and how small a part of the letters is enough: Japanese has Chinese characters too.
_SCRIPTS = (
    ("ko", re.compile("[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]"), 0.5),
    ("ja", re.compile("[\u3041-\u309f\u30a1-\u30ff]"), 0.2),
)
_MODEL = "language_model/lid.176.ftz"
MODEL_SHA256 = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
_once = threading.Lock()
_NONE = ("und", "mul", "zxx", "mis")  # tags that say: undetermined, several, none at all, not coded


def parse_language(given: str) -> str | None:
    """Return a language as a tag, such as en, ko or pt-BR; None if the tag says that it isn't known.

    Args:
        given: a tag, or the language's English name.

    Raises:
        BadInput: it is neither.
    """
    words = given.strip()
    names = _language_names()
    if _TAG.fullmatch(words):
        first, *more = re.split("[-_]", words)
        first = _language_aliases().get(first.casefold(), first)
        if first.casefold() in _NONE:
            return None
        if first.casefold() in names:
            return "-".join(
                (first.casefold(), *(part.upper() if len(part) == 2 else part for part in more))
            )
    by_name = {name.casefold(): tag for tag, name in reversed(names.items())}
    if words.casefold() in by_name:
        return by_name[words.casefold()].replace("_", "-")
    raise BadInput(
        f"language: {given[:80]!r}: is no language; give a tag such as en, ko or pt-BR, or leave it out"
    )


@lru_cache(maxsize=256)
def language_name(tag: str) -> str:
    """Return the English name of a tag's language: Korean."""
    if tag == "en":
        return "English"  # ours; it costs no import
    names = _language_names()
    return names.get(tag.replace("-", "_")) or names.get(tag.partition("-")[0], tag)


async def language_of_post(
    given: str | None, text: str
) -> tuple[str | None, Literal["given", "detected"] | None]:
    """Return the language of a post as a tag, and how it is known; None twice if it isn't.

    Args:
        given: the language that was sent with the post, a tag or a name; detected from its words if empty.
        text: its words.

    Raises:
        BadInput: the given value is no language.
    """
    if given and given.strip():
        await _load_off_loop(_language_names)
        tag = parse_language(given)
        return (tag, "given") if tag else (None, None)
    if not _clean_letters(text):
        return None, None
    await _load_off_loop(_load_detector)
    guess = _guess_language(text)
    if guess not in (None, "en"):
        # they are half as long in reading, and English posts need none
        await _load_off_loop(_language_names)
    return (guess, "detected") if _is_known(guess) else (None, None)


def detect_language(text: str) -> str | None:
    """Return the language of a text, if it can be detected; the first call reads a model of one megabyte."""
    guess = _guess_language(text)
    return guess if _is_known(guess) else None


def is_in_language(text: str, tag: str) -> bool | None:
    """Return whether a text is in a language; None if that can't be detected, as for a few short words.

    A sentence of it that is surely in another language decides too: so a title in one language can't hide a text in
    another.
    """
    wanted = _FASTTEXT_TAGS.get(tag.partition("-")[0], tag.partition("-")[0])
    guesses = [detect_language(each) for each in (text, *_sentences(text))]
    known = [each.partition("-")[0] for each in guesses if each is not None]
    if any(_FASTTEXT_TAGS.get(each, each) != wanted for each in known):
        return False
    return True if guesses[0] is not None else None


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text that are long enough to detect their language."""
    return [each for each in _END.split(text) if sum(map(str.isalpha, each)) >= SENTENCE]


def _guess_language(text: str) -> str | None:
    words = _clean_letters(text)
    letters = sum(map(str.isalpha, words))
    if not letters:
        return None
    for tag, script, enough in _SCRIPTS:
        if len(script.findall(words)) >= enough * letters:
            return tag
    labels, _ = _load_detector().predict(words, 1, SURE, on_unicode_error="ignore")
    return str(labels[0]).removeprefix("__label__") if labels else None


def _is_known(tag: str | None) -> bool:
    """Return whether a tag has a name; the model has some that are its own."""
    return tag == "en" or (tag is not None and tag not in _NONE and tag in _language_names())


async def _load_off_loop(load: Any) -> None:
    """Load the data of language detection, a function under `lru_cache`, off the event loop and once."""

    def load_once() -> None:
        with _once:  # or two threads would
            load()

    if not load.cache_info().currsize:
        await asyncio.to_thread(load_once)


def _clean_letters(text: str) -> str:
    """Return a text's words on one line, in small letters; empty if they are too few to tell anything."""
    words = " ".join(_NO_WORDS.sub(" ", text[:READ]).lower().split())
    return (
        words
        if len("".join(filter(str.isalpha, words)).encode("utf-8", "ignore")) >= LETTERS
        else ""
    )


@lru_cache(maxsize=1)
def _language_names() -> dict[str, str]:
    from babel import Locale

    return dict(Locale.parse("en").languages)


@lru_cache(maxsize=1)
def _language_aliases() -> dict[str, str]:
    """Return three letters and old codes, as the tag that is used: kor is ko."""
    from babel.core import get_global

    return dict(get_global("language_aliases"))


@lru_cache(maxsize=1)
def _load_detector() -> Any:
    """Return fastText's model, which is read only as it was published; its class has no public name.

    Raises:
        BadInput: the file is another.
    """
    import fasttext

    content = files(__package__).joinpath(_MODEL).read_bytes()
    if hashlib.sha256(content).hexdigest() != MODEL_SHA256:
        raise BadInput(f"{_MODEL}: its SHA-256 is not {MODEL_SHA256}; install tribunal-court again")
    return fasttext.load_model(str(files(__package__).joinpath(_MODEL)))
