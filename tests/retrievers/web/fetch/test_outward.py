"""Test what doesn't count as carrying the post outward."""

from __future__ import annotations

import base64
import os
from urllib.parse import quote

import pytest

from tests.retrievers.web.fetch.effort import calls
from tests.retrievers.web.fetch.outward_attacks import POST
from tribunal.retrievers.web.fetch.target import carries_text


@pytest.mark.parametrize(
    ("url", "post"),
    [
        ("http://site.test/who-moved-into-our-street", POST),
        ("http://site.test/?q=pack+up+and+go+back", POST),
        pytest.param("http://site.test/x?" + base64.b64encode(os.urandom(300)).decode(), POST, id="at random"),
        ("https://news.test/2024/a-long-headline-that-was-posted-as-a-link-by-its-reader", "See "
         "https://news.test/2024/a-long-headline-that-was-posted-as-a-link-by-its-reader !"),
        ("http://site.test/?q=short+post", "short post"),
        ("http://site.test/", ""),
    ],
)  # fmt: skip
def test_an_innocent_url(url: str, post: str) -> None:
    assert not carries_text(url, post)


def test_a_wide_script_says_more_in_fewer_letters() -> None:
    post = "어제 우리 동네에 새로 이사 온 사람들은 모두 자기 나라로 돌아가야 한다고 했다"
    assert carries_text(f"http://site.test/?q={quote(post[:35])}", post)
    assert not carries_text(f"http://site.test/?q={quote(post[:12])}", post)


def test_the_work_of_the_check_grows_with_post_and_url_and_no_faster() -> None:
    def work(posts: int, size: int) -> int:
        url = "http://site.test/?q=" + base64.b64encode(bytes(range(256)) * size).decode()
        return calls(lambda: carries_text(url, POST * posts))

    assert work(1200, 11) < 2.5 * work(600, 11)
    assert work(600, 11) < 2.5 * work(600, 5)
