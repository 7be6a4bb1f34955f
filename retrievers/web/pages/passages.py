"""Finding a passage that a model quoted in the text that it was shown."""

from __future__ import annotations

import re
import unicodedata

_QUOTES = {quote: f"[{group}]" for group in ("'‘’‚‛′`´ʼ＇", '"“”„‟″«»＂') for quote in group}


def find_passage(text: str, passage: str) -> tuple[int, int] | None:
    """Where a passage stands in a text, verbatim, as (start, end) in characters; None when it doesn't.

    Only runs of white space, the composition of characters (Unicode NFC) and the shape of quotation marks may differ.
    """
    words = unicodedata.normalize("NFC", passage).split()
    if not words:
        return None
    pattern = r"\s+".join("".join(_QUOTES.get(c) or re.escape(c) for c in word) for word in words)
    if unicodedata.is_normalized("NFC", text):
        found = re.search(pattern, text)
        return found.span() if found else None
    composed, spans = _composed(text)
    found = re.search(pattern, composed)
    return (spans[found.start()][0], spans[found.end() - 1][1]) if found else None


# The characters that aren't combining marks and still join what stands before them under NFC.
_JOINING = re.compile(
    "[\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dcf\u0ddf\u0fb5\u0fb7\u102e\u1160-\u11ff"
    "\u1b35\U00011127\U0001133e\U00011357\U000114b0\U000114ba\U000114bd\U000115af\U00011930]"
)


def _composed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text in NFC, and for each of its characters the span that it came from."""
    starts = [i for i, c in enumerate(text) if i == 0 or not (unicodedata.combining(c) or _JOINING.match(c))]
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = unicodedata.normalize("NFC", text[start:end])
        pieces.append(piece)
        same = piece == text[start:end]
        spans += [(i, i + 1) for i in range(start, end)] if same else [(start, end)] * len(piece)
    return "".join(pieces), spans
