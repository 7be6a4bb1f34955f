"""Test what a URL names."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import table
from tribunal.errors import BadInput
from tribunal.retrievers.web.fetch import FetchRefused
from tribunal.retrievers.web.fetch.target import parse_allowed_places, parse_url


@pytest.mark.parametrize(
    ("url", "sent"),
    table(__file__, "a_url_is_spelt_in_one_way"),
)
def test_a_url_is_spelt_in_one_way(url: str, sent: str) -> None:
    assert parse_url(url).url == sent
    assert parse_url(sent).url == sent


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "scheme"),
        ("example.com/a", "scheme"),
        ("//example.com/", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http:///a", "url"),
        ("http://:80/", "url"),
        ("http://.example/", "url"),
        ("http://a..b/", "url"),
        ("http://-a.example/", "url"),
        ("http://exa mple.com/", "url"),
        ("http://example.com/a b", "url"),
        ("http://example.com/\x00", "url"),
        ("http://example.com\\@else.test/", "url"),
        ("http://exam%00ple.com/", "url"),
        ("http://exam%2fple.com/", "url"),
        ("http://exam%ffple.com/", "url"),
        ("http://user%40example.com/", "url"),
        ("http://example.com:65536/", "url"),
        ("http://example.com:http/", "url"),
        ("http://[::1/", "url"),
        ("http://[::1]x/", "url"),
        ("http://[1.2.3.4]/", "url"),
        ("http://[fe80::1%25lo]/", "url"),
        ("http://256.1.1.1/", "url"),
        ("http://1.1.1.256/", "url"),
        ("http://4294967296/", "url"),
        ("http://1.2.3.4.5/", "url"),
        ("http://example.1/", "url"),
        ("http://example.0x1/", "url"),
        ("http://09.1.1.1/", "url"),
        ("http://" + "a" * 64 + ".example/", "url"),
        ("http://" + "a." * 130 + "example/", "url"),
        ("http://a@example.com/", "credentials"),
        ("http://@example.com/", "credentials"),
        ("http://:@example.com/", "credentials"),
    ],
)
def test_what_is_no_url_of_ours(url: str, reason: str) -> None:
    with pytest.raises(FetchRefused) as caught:
        parse_url(url)
    assert caught.value.reason == reason
    assert str(caught.value).isprintable()


@given(st.text())
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    for url in (
        text,
        f"http://{text}",
        f"http://{text}/x",
        f"http://example.com/{text}",
        f"http://[{text}]/",
    ):
        try:
            target = parse_url(url)
        except FetchRefused:
            continue
        assert target.url.isascii()
        assert target.url.isprintable()
        assert " " not in target.url
        assert parse_url(target.url) == target


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "{:#x}", "{:#X}", "0{:o}"]))
def test_one_number_is_an_address(number: int, form: str) -> None:
    assert parse_url(f"http://{form.format(number)}/").address == IPv4Address(number)


def test_places() -> None:
    assert parse_allowed_places("") == frozenset()
    assert parse_allowed_places(" Example.com.:8080, 127.1:80 ,[::1]:443,") == {
        "example.com:8080",
        "127.0.0.1:80",
        "[::1]:443",
    }


@pytest.mark.parametrize(
    "value",
    ["example.com", "example.com:", ":80", "example.com:0", "example.com:70000", "http://example.com:80", "a@b:80",
     "::1:80", "[::1]", "*.example.com:80", "example.com:80/path", "example.com:８０"],
)  # fmt: skip
def test_what_is_no_place(value: str) -> None:
    with pytest.raises(BadInput, match="TRIBUNAL_FETCH_ALLOW"):
        parse_allowed_places(f"good.example:80,{value}")
