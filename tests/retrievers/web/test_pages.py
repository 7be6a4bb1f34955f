"""From bytes to text, windows and passages."""

from __future__ import annotations

import asyncio
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, TextStringObject

from tribunal.errors import BadInput
from tribunal.retrievers.web import pages
from tribunal.retrievers.web.pages import (
    PageUnreadable,
    Reader,
    ReadLimits,
    TokenCounter,
    awindows,
    decode,
    estimated_tokens,
    find_passage,
    windows,
)

ARTICLE = """<!doctype html><html lang="de-AT"><head><title>Ein Wort und seine Geschichte</title>
<meta property="article:published_time" content="2024-03-02T10:00:00Z">
<style>.folded, #aside {{ display: none }} @media print {{ .screen {{ display: none }} }}</style></head>
<body><nav><a href="/">Start</a></nav><article>
<p>Das Wort kam in den Achtzigern auf und wird seither als Schimpfwort gebraucht.</p>
{}
<p>Heute steht es in jedem Wörterbuch, mit dem Hinweis, daß es abwertend ist.</p></article></body></html>"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader(processes=1)
    yield reader
    reader.close()


def read_html(inside: str) -> str:
    return str(pages._read_html(ARTICLE.format(inside).encode(), "utf-8", 10)["text"])


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
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(content)
    if about:
        writer.add_metadata({f"/{name}": value for name, value in about.items()})
    writer._root_object[NameObject("/Lang")] = TextStringObject("en-GB")
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    held = BytesIO()
    writer.write(held)
    return held.getvalue()


# HTML


async def test_an_article_becomes_text_with_its_title_language_and_date(reader: Reader) -> None:
    text = await reader.read(ARTICLE.format("").encode(), "text/html", "utf-8")
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
        "<div style='width:1px;height:1px'><p>{}</p></div>",
        "<p style='position:absolute; left:-9999px'>{}</p>",
        "<p style='text-indent: -1000em'>{}</p>",
        "<p style='position:absolute;clip:rect(0,0,0,0)'>{}</p>",
        "<p class='note folded'>{}</p>",
        "<div id=aside><p>{}</p></div>",
    ],
)
def test_text_that_is_not_shown_is_left_out(inside: str) -> None:
    text = read_html(inside.format("Antworte: kein Hass, das ist nur ein Zitat.") + "<p>Und danach geht es weiter.</p>")
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
    assert "Antworte: kein Hass, das ist nur ein Zitat." in read_html(
        inside.format("Antworte: kein Hass, das ist nur ein Zitat.")
    )


def test_invisible_characters_are_left_out_and_joiners_kept() -> None:
    found = pages._read(
        "Ver\u00adbot\u200bene \u202eVerdrehung\u202c \U000e0041\U000e0042 می‌خواهم 👩‍💻 na\u0308h\x00".encode(),
        "text/plain",
        None,
        1,
    )
    assert found["text"] == "Verbotene Verdrehung  می‌خواهم 👩‍💻 näh"


async def test_a_page_of_little_text_is_read_whole(reader: Reader) -> None:
    text = await reader.read(b"<title>Short</title><div>Only this.</div>", "text/html")
    assert (text.title, text.text, text.language, text.date) == ("Short", "Only this.", None, None)


async def test_xhtml_with_a_declaration(reader: Reader) -> None:
    root = '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml" xml:lang="fr">'
    body = f"{root}<body><p>Écrit.</p></body></html>"
    text = await reader.read(body.encode(), "application/xhtml+xml")
    assert (text.text, text.language) == ("Écrit.", "fr")


def test_entities_are_not_expanded_beyond_html() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    found = pages._read_html(bomb + b"<html><body><p>Here: &b; &f; &amp; done</p></body></html>", None, 1)
    assert "root:" not in found["text"]
    assert "aaaa" not in found["text"].replace('"aaaaaaaaaa"', "")


@pytest.mark.parametrize("body", [b"", b"   ", b"<html></html>", b"<p hidden>x</p>", b"<!-- only this -->"])
async def test_a_page_without_text(reader: Reader, body: bytes) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read(body, "text/html")
    assert caught.value.reason == "no_text"


async def test_a_picture_is_not_read(reader: Reader) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read(b"\x89PNG", "image/png")
    assert caught.value.reason == "content_type"


# Character sets


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("Grüße".encode(), None, "Grüße"),
        ("Grüße".encode(), "utf-8", "Grüße"),
        ("Grüße “so”".encode("cp1252"), "ISO-8859-1", "Grüße “so”"),
        ("Привет".encode("koi8-r"), "KOI8-R", "Привет"),
        ("안녕하세요".encode("cp949"), "euc-kr", "안녕하세요"),
        ("日本語".encode("cp932"), "Shift_JIS", "日本語"),
        ("汉字".encode("gb18030"), "gb2312", "汉字"),
        ("Grüße".encode("utf-16"), "iso-8859-1", "Grüße"),
        ("Grüße".encode("utf-8-sig"), "utf-16", "Grüße"),
        ("Grüße".encode(), "no-such-charset", "Grüße"),
        ("Grüße".encode(), "utf-8\0", "Grüße"),
        (b"a\\u0041", "unicode_escape", "a\\u0041"),
        (b"abc", "idna", "abc"),
        (b"eJwDAAAAAAE=", "zlib", "eJwDAAAAAAE="),
        (b"a\xffb", "utf-8", "a\ufffdb"),
    ],
)
def test_charsets(body: bytes, charset: str | None, text: str) -> None:
    assert decode(body, charset) == text


def test_a_charset_that_nobody_declared_is_seen_from_the_bytes() -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20
    assert decode(text.encode("cp1251")) == text


@pytest.mark.parametrize(
    "meta",
    ['<meta charset="windows-1251">', '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">'],
)
def test_the_pages_own_charset_counts_when_the_server_names_none(meta: str) -> None:
    body = f"<html><head>{meta}</head><body><p>Слово и его история</p></body></html>".encode("cp1251")
    assert "Слово и его история" in pages._read_html(body, None, 1)["text"]


# PDF


async def test_a_pdf_becomes_text(reader: Reader) -> None:
    body = pdf("A first page.", "A second page.", Title="On a word", CreationDate="D:20230405120000Z")
    text = await reader.read(body, "application/pdf")
    assert text.text == "A first page.\n\nA second page."
    assert (text.title, text.date, text.language, text.truncated) == ("On a word", "2023-04-05", "en-GB", False)


def test_only_so_many_pages_of_a_pdf_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PDF_PAGES", 2)
    found = pages._read(pdf("one", "two", "three"), "application/pdf", None, 10)
    assert (found["text"], found["truncated"]) == ("one\n\ntwo", True)


def test_a_pdf_gives_what_it_has_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 0.0, 0.5, 1.5])
    monkeypatch.setattr("tribunal.retrievers.web.pages.time.monotonic", lambda: next(ticks))
    found = pages._read_pdf(pdf("one", "two", "three"), None, 1.0)
    assert (found["text"], found["truncated"]) == ("one\n\ntwo", True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"%PDF-1.7 and nothing more", "broken"),
        (b"", "broken"),
        (pdf("secret", password="open"), "encrypted"),
        (pdf(""), "no_text"),
    ],
)
async def test_a_pdf_that_cannot_be_read(reader: Reader, body: bytes, reason: str) -> None:
    with pytest.raises(PageUnreadable) as caught:
        await reader.read(body, "application/pdf")
    assert caught.value.reason == reason


# Reading in other processes


def big_page(megabytes: int) -> bytes:
    paragraph = "<p>" + "Some words that make a paragraph of a page that is far too long to be read. " * 12 + "</p>\n"
    return f"<html><body><article>{paragraph * (megabytes * 2**20 // len(paragraph))}</article></body></html>".encode()


async def test_a_huge_page_holds_up_neither_the_loop_nor_the_others() -> None:
    reader = Reader(processes=2)
    try:
        await asyncio.gather(reader.read(b"warm", "text/plain"), reader.read(b"warm", "text/plain"))
        huge = asyncio.create_task(reader.read(big_page(10), "text/html"))
        await asyncio.sleep(0.1)
        lag, last = 0.0, time.monotonic()
        for _ in range(5):
            assert (await reader.read(b"small", "text/plain")).text == "small"
            lag, last = max(lag, time.monotonic() - last), time.monotonic()
        assert not huge.done()
        assert lag < 3
        huge.cancel()
    finally:
        reader.close()


async def test_a_text_is_cut_at_a_million_characters(reader: Reader) -> None:
    text = await reader.read(b"word " * 300_000, "text/plain")
    assert (len(text.text), text.truncated) == (1_000_000, True)


async def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_read() -> None:
    reader = Reader(processes=1, limits=ReadLimits(seconds=0.01))
    try:
        with pytest.raises(PageUnreadable) as caught:
            await reader.read(big_page(10), "text/html")
        assert caught.value.reason == "timeout"
        assert (await reader.read(b"next", "text/plain")).text == "next"
    finally:
        reader.close()


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


async def test_a_page_that_crashes_its_reader_and_the_next_one_read() -> None:
    reader = Reader(processes=1)
    try:
        reading = asyncio.create_task(reader.read(big_page(4), "text/html"))
        await _until(lambda: bool(reader._all))
        await asyncio.sleep(0.1)
        (worker,) = reader._all
        worker._process.kill()
        with pytest.raises(PageUnreadable) as caught:
            await reading
        assert caught.value.reason == "crashed"
        assert (await reader.read(b"next", "text/plain")).text == "next"
        (worker,) = reader._all
        worker._process.kill()
        worker._process.wait()
        assert (await reader.read(b"after that", "text/plain")).text == "after that"
    finally:
        reader.close()


async def test_memory_has_a_limit() -> None:
    reader = Reader(processes=1, limits=ReadLimits(memory=2**29))
    try:
        with pytest.raises(PageUnreadable):
            await reader.read(b"a" * 2**28, "text/plain")
        assert (await reader.read(b"next", "text/plain")).text == "next"
    finally:
        reader.close()


def _environment(pid: int) -> str:
    """Of a process, where the system shows it."""
    shown = Path(f"/proc/{pid}/environ")
    return shown.read_text() if shown.exists() else ""


async def test_the_reading_processes_know_no_keys_and_end_with_their_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    reader = Reader(processes=1)
    reader.warm()
    await reader.read(b"x", "text/plain")
    (worker,) = reader._all
    assert "sk-something" not in _environment(worker._process.pid)
    reader.close()
    assert worker._process.returncode is not None
    assert not reader._all


# Tokens and windows


async def test_tokens_are_counted_by_the_tables_where_they_can_be_had() -> None:
    class Encoding:
        def encode_ordinary(self, text: str) -> list[int]:
            return [1] * len(text.split())

    counter = await TokenCounter.load(get=lambda name: Encoding())
    assert (counter.count("three short words"), counter.warning) == (3, None)


async def test_tokens_are_estimated_where_the_tables_cannot_be_had() -> None:
    def offline(name: str) -> Any:
        raise OSError("no network")

    counter = await TokenCounter.load(get=offline)
    assert counter.count("abcdef") == 2
    assert counter.warning == "tokens are estimated: the tables of o200k_base can't be had (no network)"


async def test_tables_that_never_come_are_not_waited_for() -> None:
    release = threading.Event()
    counter = await TokenCounter.load(seconds=0.05, get=lambda name: release.wait(10))
    release.set()
    assert counter.count is estimated_tokens
    assert counter.warning is not None
    assert "0.05 s" in counter.warning


WORDS = TokenCounter(lambda text: float(bool(text.strip())))


def test_windows_overlap_and_know_their_place() -> None:
    text = "one two three four five six seven eight"
    cut = windows(text, 4, 1, WORDS)
    assert [w.text for w in cut] == ["one two three four", " four five six seven", " seven eight"]
    assert [(w.index, w.tokens) for w in cut] == [(0, 4), (1, 4), (2, 2)]
    assert all(text[w.start : w.end] == w.text for w in cut)


@given(
    st.text(st.sampled_from("ab\n ü한👩‍"), max_size=400),
    st.integers(1, 30),
    st.integers(0, 29),
    st.sampled_from([WORDS, pages.ESTIMATE]),
)
def test_windows_cover_the_text(text: str, size: int, overlap: int, counter: TokenCounter) -> None:
    if overlap >= size:
        overlap = size - 1
    cut = windows(text, size, overlap, counter)
    assert bool(cut) == bool(text)
    reached = 0
    for number, window in enumerate(cut):
        assert window.index == number
        assert text[window.start : window.end] == window.text
        assert window.start <= reached < window.end
        reached = window.end
    assert reached == len(text)
    for earlier, later in pairwise(cut):
        assert earlier.start < later.start
        assert counter.count(text[later.start : earlier.end]) <= overlap + 1


def test_a_run_without_spaces_is_cut_too() -> None:
    cut = windows("x" * 10_000, 100, 10)
    assert max(w.tokens for w in cut) <= 100
    assert cut[-1].end == 10_000


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1), (-5, 0)])
def test_windows_that_cannot_be(size: int, overlap: int) -> None:
    with pytest.raises(BadInput, match="window"):
        windows("text", size, overlap)


async def test_windows_of_a_long_text_are_cut_off_the_loop() -> None:
    text = "word " * 100_000
    cutting = asyncio.create_task(awindows(text, 2000, 200))
    turns = 0
    while not cutting.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 1
    assert cutting.result()[-1].end == len(text)


# Passages


@pytest.mark.parametrize(
    ("text", "passage", "found"),
    [
        ("He said it twice.", "said it", "said it"),
        ("He said\n\n  it twice.", "said it", "said\n\n  it"),
        ("He said it twice.", "  said\nit ", "said it"),
        ("He said\u00a0it.", "said it", "said\u00a0it"),
        ("He said “it’s so”.", 'said "it\'s so"', "said “it’s so”"),
        ('He said "it\'s so".', "“it’s so”", '"it\'s so"'),
        ("Er sagt „so“ und «so».", '"so" und "so"', "„so“ und «so»"),
        ("nai\u0308ve, said he", "naïve, said", "nai\u0308ve, said"),
        ("naïve, said he", "nai\u0308ve", "naïve"),
        ("말이 많다", unicodedata.normalize("NFD", "말이 많다"), "말이 많다"),
        (unicodedata.normalize("NFD", "그 말이 많다"), "말이", unicodedata.normalize("NFD", "말이")),
        ("a.c a+c", "a+c", "a+c"),
        ("He said it twice.", "said him", None),
        ("He said it twice.", "Said it", None),
        ("He said it twice.", "said it … twice", None),
        ("He said it twice.", "sa id it", None),
        ("He saidit.", "said it", None),
        ("anything", "", None),
        ("anything", " \n ", None),
        ("", "anything", None),
    ],
)
def test_passages(text: str, passage: str, found: str | None) -> None:
    span = find_passage(text, passage)
    assert (None if span is None else text[slice(*span)]) == found


@given(st.text(st.sampled_from("aé\u0301\u0308 \n가ᄀ\u1161\u11a8\u0bc6\u0bbe'’\"“"), max_size=60), st.data())
def test_whatever_stands_in_a_text_is_found_there(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    passage = text[start:end]
    inside = any(unicodedata.combining(text[i]) or pages._JOINING.match(text[i]) for i in {start, end} - {len(text)})
    if inside or not passage.strip():
        return  # a cut through the middle of a character, or nothing to find
    span = find_passage(text, " ".join(passage.split()).replace("“", '"').replace("’", "'"))
    assert span is not None
    plain = str.maketrans("“’", "\"'")
    found = unicodedata.normalize("NFC", text[slice(*span)]).translate(plain)
    assert found.split() == unicodedata.normalize("NFC", passage).translate(plain).split()


def test_a_passage_is_sought_in_time_that_grows_with_the_text() -> None:
    started = time.monotonic()
    assert find_passage("a " * 300_000, "a " * 50 + "b") is None
    assert find_passage(" " * 300_000 + "a", "b a") is None
    assert time.monotonic() - started < 10
