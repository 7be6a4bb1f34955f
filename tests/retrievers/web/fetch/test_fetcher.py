"""Test what a fetch gives when nobody attacks."""

from __future__ import annotations

import pytest

from tests.retrievers.web.fetch.small_web import (
    ALSO_PUBLIC,
    PNG,
    PUBLIC,
    Web,
    failing,
    ok,
    outcome,
    to,
)
from tribunal.errors import TribunalError
from tribunal.retrievers.web.fetch import USER_AGENT, FetchError, FetchFailed
from tribunal.retrievers.web.fetch.fetcher import IMAGES


async def test_a_page_says_where_it_came_from(web: Web) -> None:
    web.site.answers |= {
        "/old": to("/new?q=1#part", 301),
        "/new?q=1": ok("Grüße", 'Text/HTML; Charset="UTF-8"'),
    }
    page = await web.fetcher().fetch("HTTP://Site.Test./old#top")
    assert page.url == "HTTP://Site.Test./old#top"
    assert page.final_url == "http://site.test/new?q=1"
    assert page.redirects == ("http://site.test/old",)
    assert (page.address, page.status, page.content_type, page.charset) == (
        PUBLIC,
        200,
        "text/html",
        "utf-8",
    )
    assert page.body.decode() == "Grüße"
    assert page.fetched_at.utcoffset() is not None


async def test_what_the_site_is_told(web: Web) -> None:
    await web.fetcher().fetch("http://site.test/")
    for head in web.site.heads:
        lines = head.decode().split("\r\n")
        assert "Host: site.test" in lines
        assert f"User-Agent: {USER_AGENT}" in lines
        assert "Accept-Encoding: gzip, deflate, br" in lines
        assert not [
            line for line in lines if line.startswith(("Authorization", "Referer", "Cookie"))
        ]


async def test_https_speaks_to_the_name_at_the_pinned_address(web: Web) -> None:
    page = await web.fetcher().fetch("https://site.test/")
    assert page.final_url == "https://site.test/"
    assert web.dialled == [(PUBLIC, 443)] * 2


async def test_a_second_address_is_tried_when_the_first_does_not_answer(web: Web) -> None:
    web.names["site.test"] = [["93.184.216.35", ALSO_PUBLIC]]
    page = await web.fetcher().fetch("http://site.test/")
    assert page.address == ALSO_PUBLIC


async def test_nobody_there_is_a_failure_of_the_page_and_not_of_its_robots(web: Web) -> None:
    web.names |= {"gone.test": [], "dead.test": [["93.184.216.35"]]}
    fetcher = web.fetcher()
    assert await outcome(fetcher.fetch("http://gone.test/")) == "failed: dns"
    assert await outcome(fetcher.fetch("http://dead.test/")) == "failed: connect"
    assert await outcome(fetcher.fetch("http://dead.test/2")) == "failed: connect"
    assert len(web.dialled) == 1, "a dead host is remembered for a minute"


@pytest.mark.parametrize("status", [201, 204, 206, 400, 403, 404, 429, 500, 503])
async def test_a_status_that_is_no_page(web: Web, status: int) -> None:
    web.site.answers["/"] = failing(status)
    with pytest.raises(FetchFailed) as caught:
        await web.fetcher().fetch("http://site.test/")
    assert (caught.value.reason, caught.value.status) == ("status", status)
    assert isinstance(caught.value, FetchError)
    assert isinstance(caught.value, TribunalError)


async def test_a_posts_image_is_taken_when_asked_for(web: Web) -> None:
    web.site.answers |= {"/a.png": ok(PNG, "image/png"), "/b.jpg": ok(PNG, "image/jpg")}
    fetcher = web.fetcher()
    assert (await fetcher.fetch("http://site.test/a.png", accept=IMAGES)).body == PNG
    assert (
        await fetcher.fetch("http://site.test/b.jpg", accept=IMAGES)
    ).content_type == "image/png"
