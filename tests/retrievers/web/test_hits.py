"""Hits: one page in several spellings, and what is no page."""

from __future__ import annotations

import pytest

from tests.tables import table
from tribunal.retrievers.web.search.engine import normal_url


@pytest.mark.parametrize(
    ("url", "plain"),
    table(__file__, "spellings_of_one_page_become_one"),
)
def test_spellings_of_one_page_become_one(url: str, plain: str) -> None:
    assert normal_url(url) == plain
    assert normal_url(plain) == plain
