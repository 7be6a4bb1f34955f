"""Test what an operator allows, and nothing beside it."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from tests.retrievers.web.fetch.small_web import Site, Web, outcome, to
from tribunal.retrievers.web.fetch import FetchLimits
from tribunal.retrievers.web.fetch.fetcher import Fetcher
from tribunal.retrievers.web.library import WebReader


def allowing(port: int, host: str = "127.0.0.1") -> Fetcher:
    return Fetcher(frozenset({f"{host}:{port}"}), FetchLimits(seconds=5))


async def test_an_allowed_place_is_reached_by_any_spelling_of_it_and_nothing_beside_it(
    web: Web,
) -> None:
    port = web.site.port
    fetcher = allowing(port)
    assert await outcome(fetcher.fetch(f"http://127.0.0.1:{port}/")) == "taken, 14 bytes"
    assert await outcome(fetcher.fetch(f"http://0x7f.1:{port}/")) == "taken, 14 bytes"
    assert await outcome(fetcher.fetch(f"http://localhost:{port}/")) == "refused: port"
    assert await outcome(fetcher.fetch(f"http://127.0.0.2:{port}/")) == "refused: port"
    assert await outcome(fetcher.fetch("http://127.0.0.1/")) == "refused: address"


async def test_an_allowed_name_lifts_both_rules_for_itself_alone(web: Web) -> None:
    port = web.site.port
    fetcher = allowing(port, "localhost")
    web.site.answers["/away"] = to(f"http://127.0.0.1:{port}/")
    assert await outcome(fetcher.fetch(f"http://localhost:{port}/")) == "taken, 14 bytes"
    assert await outcome(fetcher.fetch(f"http://localhost:{port}/away")) == "refused: port"


async def test_an_allowed_ipv6_place() -> None:
    site = Site()
    try:
        async with aclosing(site.listen("::1")) as listening:  # type: ignore[type-var]
            await anext(listening)
            page = await allowing(site.port, "[::1]").fetch(f"http://[0:0::1]:{site.port}/")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert (page.address, page.final_url) == ("::1", f"http://[::1]:{site.port}/")
    assert f"Host: [::1]:{site.port}".encode() in site.heads[0]


@pytest.mark.parametrize(
    ("named", "allowed"),
    [("", set()), ("LocalHost:8080, [::1]:80", {"localhost:8080", "[::1]:80"})],
)
async def test_the_operator_names_places_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, named: str, allowed: set[str]
) -> None:
    monkeypatch.setenv("TRIBUNAL_FETCH_ALLOW", named)
    web = await WebReader.open()
    await web.close()
    assert web.fetcher.allow == allowed
