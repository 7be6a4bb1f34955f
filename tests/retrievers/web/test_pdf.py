"""From a PDF to its text."""

from __future__ import annotations

from io import BytesIO

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, TextStringObject

from tribunal.retrievers.web import page_parsing
from tribunal.retrievers.web.page_parsing import read_page
from tribunal.retrievers.web.page_reader import PageReader, PageUnreadable


def pdf(*texts: str, password: str | None = None, **about: str) -> bytes:
    """A PDF of one line a page."""
    writer = PdfWriter()
    for text in texts:
        page = writer.add_blank_page(width=300, height=300)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = content
    if about:
        writer.add_metadata({f"/{name}": value for name, value in about.items()})
    writer.root_object[NameObject("/Lang")] = TextStringObject("en-GB")
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    held = BytesIO()
    writer.write(held)
    return held.getvalue()


async def test_a_pdf_becomes_text(reader: PageReader) -> None:
    body = pdf(
        "A first page.", "A second page.", Title="On a word", CreationDate="D:20230405120000Z"
    )
    text = await reader.read_page(body, "application/pdf")
    assert text.text == "A first page.\n\nA second page."
    assert (text.title, text.date, text.language, text.truncated) == (
        "On a word",
        "2023-04-05",
        "en-GB",
        False,
    )


def test_only_so_many_pages_of_a_pdf_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_parsing, "MAX_PDF_PAGES", 2)
    found = read_page(pdf("one", "two", "three"), "application/pdf", None, 10)
    assert (found.text, found.truncated) == ("one\n\ntwo", True)


def test_a_pdf_gives_what_it_has_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 0.0, 0.5, 1.5])
    monkeypatch.setattr("tribunal.retrievers.web.page_parsing.time.monotonic", lambda: next(ticks))
    found = page_parsing.read_pdf(pdf("one", "two", "three"), None, 1.0)
    assert (found.text, found.truncated) == ("one\n\ntwo", True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"%PDF-1.7 and nothing more", "broken"),
        (b"", "broken"),
        pytest.param(pdf("secret", password="open"), "encrypted", id="encrypted"),
        (pdf(""), "no_text"),
    ],
)
async def test_a_pdf_that_cannot_be_read(reader: PageReader, body: bytes, reason: str) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read_page(body, "application/pdf")
    assert caught.value.reason == reason
