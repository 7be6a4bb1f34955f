"""Test when robots.txt is asked, and what its rules mean (RFC 9309)."""

from __future__ import annotations

import asyncio

import pytest

from tests.retrievers.web.fetch.effort import calls
from tests.retrievers.web.fetch.small_web import Web, ok, outcome, to
from tests.tables import table
from tribunal.retrievers.web.fetch.robots import RobotsRules


async def test_robots_is_asked_once_a_site_and_of_every_site_on_the_way(web: Web) -> None:
    web.site.answers |= {"/1": ok(), "/2": to("https://site.test/3"), "/3": ok()}
    web.tls_site.answers["/robots.txt"] = ok("user-agent: tribunal\ndisallow: /3", "text/plain")
    fetcher = web.fetcher()
    await asyncio.gather(fetcher.fetch("http://site.test/1"), fetcher.fetch("http://site.test/"))
    assert web.site.asked.count("/robots.txt") == 1
    assert await outcome(fetcher.fetch("http://site.test/2")) == "refused: robots"
    assert web.tls_site.asked == ["/robots.txt"]


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    table(__file__, "robots_rules"),
)
async def test_robots_rules(web: Web, rules: str, path: str, allowed: bool) -> None:
    web.site.answers["/robots.txt"] = ok(rules, "text/plain")
    found = await web.outcome(f"http://site.test{path}")
    assert (found == "refused: robots") is not allowed


async def test_hostile_wildcards_take_no_time(web: Web) -> None:
    web.site.answers["/robots.txt"] = ok(
        "User-agent: *\nDisallow: /" + "*a" * 5000 + "$\n", "text/plain"
    )
    assert await web.outcome("http://site.test/" + "a" * 3000 + "b") == "failed: status"


def test_the_work_of_a_rule_grows_with_its_length_and_no_faster() -> None:
    def work(wildcards: int) -> int:
        rules = RobotsRules("User-agent: *\nDisallow: /" + "*a" * wildcards + "$\n")
        return calls(lambda: rules.allows_path("/" + "a" * 3000 + "b"))

    assert work(2000) < 2.5 * work(1000)
