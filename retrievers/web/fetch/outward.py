"""What a URL may not carry to a site: the post's own text."""

from __future__ import annotations

import re
import unicodedata
from base64 import b32decode, urlsafe_b64decode
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

_RUN = 40
_WIDE_RUN = 20
_LINK = re.compile(r"https?://\S+")


def carries(url: str, secret_text: str) -> bool:
    """Whether a URL holds a long verbatim run of a text: 40 letters and digits on end, spacing and case aside (20 where
    the text is mostly in a wide script, Hangul or Han, in which a letter says more).

    Looked for in the host, path and query, as they stand and after undoing percent, plus, base64, base64url, base32 and
    hexadecimal, two layers deep. Links inside the text don't count: following them tells their owner nothing new.
    """
    pieces = [_letters(piece) for piece in _LINK.split(secret_text)]
    letters = "".join(pieces)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in letters)
    run = _WIDE_RUN if wide * 2 > len(letters) else _RUN
    if all(len(piece) < run for piece in pieces):
        return False
    grams: set[str] = set()
    for reading in _readings(url):
        grams.update(reading[i : i + run] for i in range(len(reading) - run + 1))
    return bool(grams) and any(piece[i : i + run] in grams for piece in pieces for i in range(len(piece) - run + 1))


def _letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def _readings(url: str) -> Iterator[str]:
    """Every way to read a URL as text, brought to letters and digits."""
    parts = urlsplit(url)
    values = "".join(value for _, value in parse_qsl(parts.query, keep_blank_values=True))
    texts = {url, values, parts.hostname or ""}
    for _ in range(2):
        for text in list(texts):
            plain = unquote(text.replace("+", " "))
            texts |= {unquote(text), plain, unquote(plain)}
        for text in list(texts):
            texts |= set(_unpacked(text))
    for text in texts:
        yield _letters(text)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}")
_BASE32 = re.compile(r"[A-Za-z2-7]{32,}")
_HEX = re.compile(r"[0-9A-Fa-f]{40,}")


def _unpacked(text: str) -> Iterator[str]:
    """What the runs in a text decode to. An encoder may have begun anywhere in a run, so each alignment is tried."""
    joined = text.replace(".", "")  # labels of a host are cut every 63 characters
    for run in _BASE64.findall(joined):
        plain = run.replace("+", "-").replace("/", "_")
        yield from (_decoded(urlsafe_b64decode, plain[at:], 4) for at in range(4))
    for run in _BASE32.findall(joined):
        yield from (_decoded(b32decode, run[at:].upper(), 8) for at in range(8))
    for run in _HEX.findall(joined):
        yield from (_decoded(bytes.fromhex, run[at:], 2) for at in range(2))


def _decoded(decode: Callable[[str], bytes], run: str, block: int) -> str:
    try:
        return decode(run[: len(run) // block * block]).decode("utf-8", errors="ignore")
    except ValueError:
        return ""
