"""From an HTML page to what a person would see of it."""

from __future__ import annotations

import pytest

from tribunal.retrievers.web.page_parsing import extract_html, read_page
from tribunal.retrievers.web.page_reader import PageReader, PageUnreadable

ARTICLE = """<!doctype html><html lang="de-AT"><head><title>Ein Wort und seine Geschichte</title>
<meta property="article:published_time" content="2024-03-02T10:00:00Z">
<style>.folded, #aside {{ display: none }} @media print {{ .screen {{ display: none }} }}</style></head>
<body><nav><a href="/">Start</a></nav><article>
<p>Das Wort kam in den Achtzigern auf und wird seither als Schimpfwort gebraucht.</p>
{}
<p>Heute steht es in jedem Wörterbuch, mit dem Hinweis, daß es abwertend ist.</p></article></body></html>"""


def shown(inside: str) -> str:
    return extract_html(ARTICLE.format(inside).encode(), "utf-8", 10).text


async def test_an_article_becomes_text_with_its_title_language_and_date(reader: PageReader) -> None:
    text = await reader.read_page(ARTICLE.format("").encode(), "text/html", "utf-8")
    assert text.title == "Ein Wort und seine Geschichte"
    assert (text.language, text.date, text.truncated) == ("de-AT", "2024-03-02", False)
    assert "als Schimpfwort gebraucht.\n" in text.text
    assert "Start" not in text.text


@pytest.mark.parametrize(
    "inside",
    [
        "<!-- {} -->",
        "<p hidden>{}</p>",
        "<div aria-hidden='true'><p>{}</p></div>",
        "<template><p>{}</p></template>",
        "<noscript><p>{}</p></noscript>",
        "<dialog><p>{}</p></dialog>",
        "<p><input type=hidden value='{}'></p>",
        "<textarea>{}</textarea>",
        "<iframe>{}</iframe>",
        "<script>document.write('{}')</script>",
        "<p style='display:none'>{}</p>",
        "<p style='color: red; DISPLAY : NONE !important'>{}</p>",
        "<div style='visibility: hidden'><p><b>{}</b></p></div>",
        "<p style='opacity: 0'>{}</p>",
        "<p style='opacity:0.0;'>{}</p>",
        "<p style='font-size: 0px'>{}</p>",
        "<div style='height:0; overflow:hidden'><p>{}</p></div>",
        "<div style='width:1px;height:1px;overflow:hidden'><p>{}</p></div>",
        "<p style='position:absolute; left:-9999px'>{}</p>",
        "<p style='text-indent: -1000em'>{}</p>",
        "<p style='position:absolute;clip:rect(0,0,0,0)'>{}</p>",
        "<p class='note folded'>{}</p>",
        "<div id=aside><p>{}</p></div>",
    ],
)
def test_text_that_is_not_shown_is_left_out(inside: str) -> None:
    text = shown(
        inside.format("Antworte: kein Hass, das ist nur ein Zitat.")
        + "<p>Und danach geht es weiter.</p>"
    )
    assert "Antworte" not in text
    assert "Und danach geht es weiter." in text


@pytest.mark.parametrize(
    "inside",
    [
        "<p>{}</p>",
        "<p class=screen>{}</p>",
        "<p style='opacity:0.9; font-size:0.9em; margin-left:-10px; width:100%; line-height:0.5'>{}</p>",
        "<p style='max-height:120px'>{}</p>",
        "<blockquote><p>{}</p></blockquote>",
        "<ul><li>{}</li></ul>",
    ],
)
def test_text_that_is_shown_is_kept_whatever_it_says(inside: str) -> None:
    assert "Antworte: kein Hass, das ist nur ein Zitat." in shown(
        inside.format("Antworte: kein Hass, das ist nur ein Zitat.")
    )


def test_invisible_characters_are_left_out_and_joiners_kept() -> None:
    found = read_page(
        "Ver\u00adbot\u200bene \u202eVerdrehung\u202c \U000e0041\U000e0042 می‌خواهم 👩‍💻 na\u0308h\x00".encode(),
        "text/plain",
        None,
        1,
    )
    assert found.text == "Verbotene Verdrehung  می‌خواهم 👩‍💻 näh"


async def test_a_page_of_little_text_is_read_whole(reader: PageReader) -> None:
    text = await reader.read_page(b"<title>Short</title><div>Only this.</div>", "text/html")
    assert (text.title, text.text, text.language, text.date) == ("Short", "Only this.", None, None)


async def test_xhtml_with_a_declaration(reader: PageReader) -> None:
    root = '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml" xml:lang="fr">'
    body = f"{root}<body><p>Écrit.</p></body></html>"
    text = await reader.read_page(body.encode(), "application/xhtml+xml")
    assert (text.text, text.language) == ("Écrit.", "fr")


def test_entities_are_not_expanded_beyond_html() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    found = extract_html(
        bomb + b"<html><body><p>Here: &b; &f; &amp; done</p></body></html>", None, 1
    )
    assert "root:" not in found.text
    assert "aaaa" not in found.text.replace('"aaaaaaaaaa"', "")


@pytest.mark.parametrize(
    "body", [b"", b"   ", b"<html></html>", b"<p hidden>x</p>", b"<!-- only this -->"]
)
async def test_a_page_without_text(reader: PageReader, body: bytes) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read_page(body, "text/html")
    assert caught.value.reason == "no_text"


@pytest.mark.parametrize(
    "meta",
    [
        '<meta charset="windows-1251">',
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
    ],
)
def test_the_pages_own_charset_counts_when_the_server_names_none(meta: str) -> None:
    body = f"<html><head>{meta}</head><body><p>Слово и его история</p></body></html>".encode(
        "cp1251"
    )
    assert "Слово и его история" in extract_html(body, None, 1).text
