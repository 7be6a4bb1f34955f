"""From the bytes of a page to what it says, by its media type. Runs in a reading process (`process`)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace

from tribunal.retrievers.web.pages.encodings import decode
from tribunal.retrievers.web.pages.html import read_html
from tribunal.retrievers.web.pages.pdf import read_pdf
from tribunal.retrievers.web.pages.text import MAX_CHARACTERS, PageUnreadable, Text
from tribunal.text import one_line, wellformed, without_hidden


def read(body: bytes, content_type: str, charset: str | None, seconds: float) -> Text:
    """What a page says.

    Raises:
        PageUnreadable: it has no text, or isn't what it says it is.
    """
    found = READERS[content_type](body, charset, seconds)
    text = _visible(found.text)
    if not text:
        raise PageUnreadable("no_text", "there is no text in it")
    return replace(
        found,
        title=one_line(_visible(found.title))[:500],
        text=text[:MAX_CHARACTERS],
        truncated=found.truncated or len(text) > MAX_CHARACTERS,
    )


def _read_plain(body: bytes, charset: str | None, seconds: float) -> Text:
    return Text("", decode(body, charset))


READERS: dict[str, Callable[[bytes, str | None, float], Text]] = {
    "text/html": read_html,
    "application/xhtml+xml": read_html,
    "text/plain": _read_plain,
    "application/pdf": read_pdf,
}


def _visible(text: str) -> str:
    # JSON would carry a lone surrogate on, and SQLite would choke on it.
    return wellformed(unicodedata.normalize("NFC", without_hidden(text, joiners=True))).strip()
