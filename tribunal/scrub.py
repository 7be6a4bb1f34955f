"""Keys struck out of whatever comes from outside: the one place that does it.

It is done at the door, before anything is cut off, kept, logged or shown. A text that was cut first would keep the part
of a key that no longer looks like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote_plus

from tribunal.text import shared_start, wellformed

Told = TypeVar("Told")

# A shorter key is a placeholder, such as `none` or `EMPTY`, and an ordinary word of answers.
SHORTEST = 8
_STRUCK = "[key]"
# What looks like a key. An answer may speak of a ring-bearer, so that a token after that word has a digit or is long.
_KEY_LIKE = re.compile(
    r"\b(?:sk-(?:(?:proj|ant|svcacct|admin|or)-[\w*-]{6,}|(?=[A-Za-z_-]*[\d*])[\w*-]{6,})|AIza[\w-]{10,}"
    r"|tribunal_[0-9a-f]{12}_[\w-]{8,}"  # the service's own
    r"|(?i:Bearer|api[-_]key[=:])\s*(?:(?=[A-Za-z_.*-]*\d)[\w.*-]{8,}|[\w.*-]{20,}))",
    re.ASCII,
)
_BEGINS_ONE = ("sk-", "aiza", "bearer", "api-key", "api_key", "tribunal_")
# A printable character other than the quotation mark and the backslash, as JSON may write it; and how one begins, since
# every answer in JSON has other escapes.
_ESCAPES = ("\\u00", "\\U00", "\\/")
_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u00(2[013-9a-f]|[3-46-7][0-9a-f]|5[0-9abdef])|(/))", re.IGNORECASE)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """The text, well formed, with every key struck out: known ones, half of one at least, and what looks like one.

    Args:
        text: whole, with nothing cut off yet.
        secrets: the known ones.
    """
    whole = wellformed(text)
    for secret in sorted(secrets, key=len, reverse=True):  # one key may begin like another
        if len(secret) >= SHORTEST:
            whole = _without(whole, secret)
            if (encoded := _encoded(secret)) != secret:
                whole = _without(whole, encoded)
    return _KEY_LIKE.sub(_STRUCK, whole) if any(map(whole.lower().__contains__, _BEGINS_ONE)) else whole


def scrubbed(told: Told, secrets: Iterable[str]) -> Told:
    """The same JSON with every text in it scrubbed, names among them."""
    held: Any = told
    if type(held) is str:
        held = scrub(held, secrets)
    elif isinstance(held, Mapping):
        held = {scrubbed(name, secrets): scrubbed(value, secrets) for name, value in held.items()}
    elif isinstance(held, list | tuple):
        held = [scrubbed(value, secrets) for value in held]
    return held  # type: ignore[no-any-return]


def scrubbed_body(raw: bytes, secrets: Iterable[str]) -> bytes:
    """The body of an answer as it came, with the known keys struck out; nothing else in it is changed."""
    body = raw.decode("latin-1")
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            body = _without(body, secret)
    return body.encode("latin-1")


def _without(text: str, secret: str) -> str:
    """The text without a key, and without half of it or more, as a text has it that somebody else has cut."""
    length = max(SHORTEST, (len(secret) + 1) // 2)
    if not any(map(text.__contains__, _ESCAPES)):
        return _without_piece(text, secret, length)
    plain = _ESCAPED.sub(_unescaped, text)
    struck = _without_piece(plain, secret, length)
    return text if struck == plain else struck


def _without_piece(text: str, secret: str, length: int) -> str:
    """Without the key, and without what begins as it does, or ends so, for at least this length. Such a piece begins or
    ends a word: two numbers may have much in common."""
    head, tail = secret[:length], secret[-length:]
    if head not in text and tail not in text:
        return text
    text = text.replace(secret, _STRUCK)
    kept, at = [], 0
    while (found := text.find(head, at)) != -1:
        end = found + length
        if not _in_word(text[found - 1 : found]):
            end += shared_start(text[end : end + len(secret)], secret[length:])
            kept += [text[at:found], _STRUCK]
            at = end
        else:
            kept.append(text[at : found + 1])
            at = found + 1
    text = "".join([*kept, text[at:]])
    kept, at = [], 0
    while (found := text.find(tail, at)) != -1:
        end = found + length
        if not _in_word(text[end : end + 1]):
            more = shared_start(text[max(at, found - len(secret)) : found][::-1], secret[:-length][::-1])
            kept += [text[at : found - more], _STRUCK]
            at = end
        else:
            kept.append(text[at : found + 1])
            at = found + 1
    return "".join([*kept, text[at:]])


_encoded = lru_cache(maxsize=64)(quote_plus)  # it takes longer than to look for a key


def _in_word(character: str) -> bool:
    return character.isalnum() and character.isascii()


def _unescaped(found: re.Match[str]) -> str:
    return found[1] + (found[3] or chr(int(found[2], 16)))
