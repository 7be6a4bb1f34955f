"""Hits: one page in several spellings, and what is no page."""

from __future__ import annotations

import pytest

from tribunal.retrievers.web.search.engine import normal_url


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTPS://Example.ORG:443/Path/", "https://example.org/Path"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:8080/?", "http://example.org:8080/"),
        ("http://example.org:/a", "http://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?utm_source=x&b=2&UTM_medium=y&fbclid=z&a=1", "https://example.org/a?b=2&a=1"),
        ("https://example.org/?utm_source=x", "https://example.org/"),
        ("https://example.org/?q=utm_source", "https://example.org/?q=utm_source"),
        ("https://[2001:DB8::1]:443/", "https://[2001:db8::1]/"),
        ("  https://example.org/%ED%98%90  ", "https://example.org/%ED%98%90"),
        ("http://[broken", "http://[broken"),
        ("http://example.org:port/", "http://example.org:port/"),
        ("ftp://Example.org/", "ftp://Example.org/"),
        ("not a url", "not a url"),
        ("", ""),
    ],
)
def test_spellings_of_one_page_become_one(url: str, plain: str) -> None:
    assert normal_url(url) == plain
    assert normal_url(plain) == plain
