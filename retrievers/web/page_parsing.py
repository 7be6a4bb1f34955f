"""Read a page's visible text from its bytes, by its media type.

Runs in a reading process.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, replace
from io import BytesIO

import lxml.etree  # type: ignore[import-untyped]
import lxml.html  # type: ignore[import-untyped]
import trafilatura
from lxml.html import HtmlElement

from tribunal.core.text import one_line, wellformed, without_hidden
from tribunal.plugins import install_command
from tribunal.retrievers.web.hidden_text import StylesTooCostly, remove_hidden_text
from tribunal.retrievers.web.page_reader import (
    MAX_CHARACTERS,
    PageText,
    PageUnreadable,
    decode_body,
    language_tag,
)
from tribunal.schema import JSON


def extract_html(body: bytes, charset: str | None, seconds: float) -> PageText:
    """Return what an HTML page says; of a charset that the server didn't declare, the page's own counts.

    Raises:
        PageUnreadable: there is nothing in it, or its style sheets are too large.
    """
    text = decode_body(body, charset or _meta_charset(body))
    parser = lxml.html.HTMLParser(
        encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError as error:
        raise PageUnreadable("no_text", f"there is no page in it ({error})") from error
    try:
        remove_hidden_text(tree)
    except StylesTooCostly as error:
        raise PageUnreadable("timeout", "its style sheets are too large to apply") from error
    # The quick way for big pages: the thorough one tries several extractors, and each costs a second a megabyte.
    document = trafilatura.bare_extraction(
        tree,
        fast=len(text) > 1_000_000,
        favor_recall=True,
        include_comments=False,
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    return PageText(
        title=getattr(document, "title", None) or tree.findtext(".//title") or "",
        text=getattr(document, "text", None) or trafilatura.html2txt(tree),
        language=_declared_language(tree),
        date=getattr(document, "date", None),
    )


_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)


def _meta_charset(body: bytes) -> str | None:
    found = _META_CHARSET.search(body[:4096])
    # A page that could be read this far is no UTF-16, whatever it claims.
    return (
        None
        if found is None or found[1].lower().startswith(b"utf-16")
        else found[1].decode("ascii")
    )


def _declared_language(tree: HtmlElement) -> str | None:
    for value in (
        tree.get("lang"),
        tree.get("xml:lang"),
        tree.xpath("string(//meta[translate(@http-equiv,'CL','cl')='content-language']/@content)"),
        tree.xpath("string(//meta[@property='og:locale']/@content)"),
    ):
        tag = language_tag(value or "")
        if tag:
            return tag
    return None


MAX_PDF_PAGES = 200


def read_pdf(body: bytes, charset: str | None, seconds: float) -> PageText:
    """Return a PDF's text, as far as the time allows.

    Raises:
        PageUnreadable: it is broken, or asks for a password, or pypdf is not installed.
    """
    try:
        import pypdf
        from pypdf.errors import FileNotDecryptedError, PyPdfError
    except ModuleNotFoundError as error:
        why = f"a PDF is read by pypdf; install it with: {install_command('web')}"
        raise PageUnreadable("content_type", why) from error

    until = time.monotonic() + seconds
    texts: list[str] = []
    try:
        reader = pypdf.PdfReader(BytesIO(body))
        pages = len(reader.pages)
        for page in reader.pages[:MAX_PDF_PAGES]:
            if time.monotonic() > until or sum(map(len, texts)) > MAX_CHARACTERS:
                break
            texts.append(page.extract_text())
        about = reader.metadata
        title = str((about.title if about else None) or "")
        created = about.creation_date if about else None
        language = reader.root_object.get("/Lang")
    except FileNotDecryptedError as error:
        raise PageUnreadable("encrypted", "the PDF asks for a password") from error
    except PyPdfError as error:
        raise PageUnreadable("broken", f"not a readable PDF: {error}") from error
    return PageText(
        title=title,
        text="\n\n".join(texts),
        language=language_tag(str(language or "")),
        date=created.date().isoformat() if created else None,
        truncated=len(texts) < pages,
    )


def read_page(body: bytes, content_type: str, charset: str | None, seconds: float) -> PageText:
    """Return a page's text; raise `PageUnreadable` if it has none, or another format."""
    found = READERS[content_type](body, charset, seconds)
    text = _visible_text(found.text)
    if not text:
        raise PageUnreadable("no_text", "there is no text in it")
    return replace(
        found,
        title=one_line(_visible_text(found.title))[:500],
        text=text[:MAX_CHARACTERS],
        truncated=found.truncated or len(text) > MAX_CHARACTERS,
    )


READERS: dict[str, Callable[[bytes, str | None, float], PageText]] = {
    "text/html": extract_html,
    "application/xhtml+xml": extract_html,
    "text/plain": lambda body, charset, seconds: PageText("", decode_body(body, charset)),
    "application/pdf": read_pdf,
}


def _visible_text(text: str) -> str:
    # JSON would carry a lone surrogate on, and SQLite would choke on it.
    return wellformed(unicodedata.normalize("NFC", without_hidden(text, joiners=True))).strip()


def run_reading_job(job: JSON, body: bytes) -> tuple[JSON, bytes]:
    """Return the text of a page, or why it has none."""
    try:
        return asdict(read_page(body, **job)), b""
    except PageUnreadable as error:
        return {"reason": error.reason, "why": str(error)}, b""
