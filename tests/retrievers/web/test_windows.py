"""Tokens, and the windows that are cut by them."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tribunal.errors import BadInput
from tribunal.models.completion import ESTIMATE, TokenCounter, estimate_tokens
from tribunal.retrievers.web.page_reader import cut_windows, cut_windows_in_thread


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
    assert (
        counter.warning
        == "tokens are estimated: the tables of o200k_base can't be had (no network)"
    )


async def test_tables_that_never_come_are_not_waited_for() -> None:
    release = threading.Event()
    counter = await TokenCounter.load(seconds=0.05, get=lambda name: release.wait(10))
    release.set()
    assert counter.count is estimate_tokens
    assert counter.warning is not None
    assert "0.05 s" in counter.warning


WORDS = TokenCounter(lambda text: float(bool(text.strip())))


def test_windows_overlap_and_know_their_place() -> None:
    text = "one two three four five six seven eight"
    cut = cut_windows(text, 4, 1, WORDS)
    assert [w.text for w in cut] == ["one two three four", " four five six seven", " seven eight"]
    assert [(w.index, w.tokens) for w in cut] == [(0, 4), (1, 4), (2, 2)]
    assert all(text[w.start : w.end] == w.text for w in cut)


@given(
    st.text(st.sampled_from("ab\n ü한👩‍"), max_size=400),
    st.integers(1, 30),
    st.integers(0, 29),
    st.sampled_from([WORDS, ESTIMATE]),
)
def test_windows_cover_the_text(text: str, size: int, overlap: int, counter: TokenCounter) -> None:
    if overlap >= size:
        overlap = size - 1
    cut = cut_windows(text, size, overlap, counter)
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
    cut = cut_windows("x" * 10_000, 100, 10)
    assert max(w.tokens for w in cut) <= 100
    assert cut[-1].end == 10_000


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1), (-5, 0)])
def test_windows_that_cannot_be(size: int, overlap: int) -> None:
    with pytest.raises(BadInput, match="window"):
        cut_windows("text", size, overlap)


async def test_windows_of_a_long_text_are_cut_off_the_loop() -> None:
    text = "word " * 100_000
    cutting = asyncio.create_task(cut_windows_in_thread(text, 2000, 200))
    turns = 0
    while not cutting.done():
        await asyncio.sleep(0.005)
        turns += 1
    assert turns > 1
    assert cutting.result()[-1].end == len(text)
