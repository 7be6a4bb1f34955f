"""Media types: which are taken, and whether the first bytes bear out the one that was declared."""

from __future__ import annotations

import re

from tribunal.retrievers.web.fetch.errors import FetchRefused

PAGES = frozenset({"text/html", "application/xhtml+xml", "text/plain", "application/pdf"})
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", "application/x-elf"),
)


def declared_kind(content_type: str) -> tuple[str, str | None]:
    """The media type and the charset that a Content-Type names, in lower case."""
    named = _CHARSET.search(content_type)
    kind = content_type.partition(";")[0].strip().lower()
    return kind.replace("image/jpg", "image/jpeg"), named[1].lower() if named else None


def true_kind(declared: str, charset: str | None, body: bytes, accept: frozenset[str], url: str) -> str:
    """The type that the first bytes bear out.

    Raises:
        FetchRefused: they belong to another type, or to none that was declared.
    """
    head = body[:1024]
    seen = next((kind for signature, kind in _SIGNATURES if head.startswith(signature)), None)
    if seen is None and head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        seen = "image/webp"
    if seen is None and b"%PDF-" in head and (declared == "application/pdf" or head.startswith(b"%PDF-")):
        seen = "application/pdf"
    if declared in IMAGES and seen in IMAGES & accept:
        return seen  # one kind of picture called another is a slip, not an attack
    if declared in ("application/pdf", *IMAGES):
        fits = seen == declared
    else:
        wide = head.startswith((b"\xff\xfe", b"\xfe\xff")) or (charset or "").startswith(("utf-16", "utf-32"))
        fits = seen is None and (wide or b"\0" not in head)
    if not fits:
        raise FetchRefused("content_type", f"calls itself {declared} and is {seen or 'something else'}", url)
    return declared
