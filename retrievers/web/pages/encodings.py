"""Character encodings: the ones that the web has (WHATWG), and a guess where none is declared."""

from __future__ import annotations

import codecs
from functools import cache

import webencodings  # type: ignore[import-untyped]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The standard reads all that is labelled `gbk` as the larger set. The other two are no encodings to read text by.
_OTHERWISE = {"gbk": "gb18030", "replacement": None, "x-user-defined": None}


def decode(body: bytes, charset: str | None = None) -> str:
    """Bytes to text: by a byte order mark, else the declared charset, else UTF-8, else by what the bytes look like.

    Never raises; bytes that don't fit become the replacement character.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body.decode(codec, errors="replace")
    declared = _codec(charset) if charset else None
    if declared:
        return body.decode(declared, errors="replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(body[:100_000]).best()
        return body.decode((best and _codec(best.encoding)) or "cp1252", errors="replace")


def _codec(label: str) -> str | None:
    """Python's codec for a label of the web, or for Python's own name of an encoding that the web has.

    `idna`, `unicode_escape` and their like are Python codecs too, and slow or strange: None.
    """
    if found := webencodings.lookup(label):
        return _of_the_web(found)
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):  # no such charset; a NUL in its name
        return None
    return name if name in _codecs() else None


def _of_the_web(encoding: webencodings.Encoding) -> str | None:
    return _OTHERWISE.get(encoding.name, encoding.codec_info.name)


@cache
def _codecs() -> frozenset[str | None]:
    return frozenset(_of_the_web(webencodings.lookup(name)) for name in set(webencodings.LABELS.values()))
