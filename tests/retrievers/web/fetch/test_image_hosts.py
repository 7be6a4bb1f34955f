"""Test the hosts that an operator names for images: robots.txt isn't asked there, and every other rule holds."""

from __future__ import annotations

import pytest

from tests.retrievers.web.fetch.small_web import PNG, Web, ok, outcome, to
from tribunal.errors import BadInput
from tribunal.retrievers.web.fetch.fetcher import IMAGES
from tribunal.retrievers.web.fetch.target import is_named_host, parse_image_hosts
from tribunal.retrievers.web.library import WebReader

FORBIDS = ok("user-agent: *\ndisallow: /", "text/plain")
TAKEN = f"taken, {len(PNG)} bytes"


@pytest.mark.parametrize(
    ("named", "host", "is_named"),
    [
        ("cdn.example", "cdn.example", True),
        ("CDN.example., other.example", "cdn.example", True),
        ("cdn.example", "a.cdn.example", False),
        ("*.cdn.example", "a.b.cdn.example", True),
        ("*.cdn.example", "cdn.example", False),
        ("*.cdn.example", "evilcdn.example", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("", "cdn.example", False),
    ],
)
def test_which_hosts_are_named(named: str, host: str, is_named: bool) -> None:
    assert is_named_host(host, parse_image_hosts(named)) is is_named


@pytest.mark.parametrize(
    "entry", ["*", "*.com", "*.", "https://cdn.example", "cdn.example:443", "a/b", "*.10.0.0.1"]
)
async def test_what_names_no_host_is_refused(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIBUNAL_IMAGE_HOSTS", f"good.example,{entry}")
    with pytest.raises(BadInput, match="TRIBUNAL_IMAGE_HOSTS: ") as told:
        await WebReader.open()
    assert repr(entry) in str(told.value)


async def test_robots_is_not_asked_for_an_image_there_and_is_for_all_else(web: Web) -> None:
    web.site.answers |= {"/robots.txt": FORBIDS, "/a.png": ok(PNG, "image/png")}
    web.image_hosts = parse_image_hosts("img.test, *.cdn.test")
    fetcher = web.fetcher()
    for host in ("img.test", "a.cdn.test"):
        assert await outcome(fetcher.fetch(f"http://{host}/a.png", accept=IMAGES)) == TAKEN
    assert "/robots.txt" not in web.site.asked
    assert (
        await outcome(fetcher.fetch("http://other.test/a.png", accept=IMAGES)) == "refused: robots"
    )
    assert await outcome(fetcher.fetch("http://img.test/")) == "refused: robots", (
        "a page is no image"
    )


async def test_a_redirect_away_from_a_named_host_is_under_the_rules_of_the_next(web: Web) -> None:
    web.site.answers |= {
        "/robots.txt": FORBIDS,
        "/a.png": ok(PNG, "image/png"),
        "/there": to("http://other.test/a.png"),
        "/here": to("/a.png"),
        "/inside": to("http://10.0.0.1/a.png"),
    }
    web.tls_site.answers["/down"] = to("http://site.test/a.png")
    web.image_hosts = parse_image_hosts("img.test,site.test")
    fetcher = web.fetcher()
    results = {
        "http://img.test/there": "refused: robots",
        "http://img.test/here": TAKEN,
        "http://img.test/inside": "refused: address",
        "https://site.test/down": "refused: downgrade",
        "http://img.test:8080/a.png": "refused: port",
    }
    assert {url: await outcome(fetcher.fetch(url, accept=IMAGES)) for url in results} == results


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "169.254.169.254"])
async def test_a_named_host_at_a_private_address_is_refused(address: str, web: Web) -> None:
    web.names["img.test"] = [[address]]
    web.image_hosts = parse_image_hosts("img.test")
    fetcher = web.fetcher()
    assert (
        await outcome(fetcher.fetch("http://img.test/a.png", accept=IMAGES)) == "refused: address"
    )
    assert web.dialled == []
