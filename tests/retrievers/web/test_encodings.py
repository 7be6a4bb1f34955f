"""From bytes to text, by the encoding that was declared or seems right."""

from __future__ import annotations

import pytest

from tribunal.retrievers.web.page_reader import decode_body


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
        ("안녕하세요".encode("cp949"), "MS949", "안녕하세요"),
        ("汉字鿠".encode("gb18030"), "gbk", "汉字鿠"),
        (b"abc", "iso-2022-kr", "abc"),
        (b"a\\u0041", "unicode_escape", "a\\u0041"),
        (b"abc", "idna", "abc"),
        (b"eJwDAAAAAAE=", "zlib", "eJwDAAAAAAE="),
        (b"a\xffb", "utf-8", "a\ufffdb"),
    ],
)
def test_charsets(body: bytes, charset: str | None, text: str) -> None:
    assert decode_body(body, charset) == text


def test_a_charset_that_nobody_declared_is_seen_from_the_bytes() -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20
    assert decode_body(text.encode("cp1251")) == text
