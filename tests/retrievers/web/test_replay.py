"""An archived run, gone through again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.archived import Opened, a_page, a_run
from tribunal.errors import BadInput
from tribunal.retrievers.web.library import Replay

# --------------------------------------------------------------------------------------------------------------- replay


async def test_a_replay_gives_what_was_archived(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path, post_text="the post")

    found = await replay.search("q1", 5)
    assert ([hit.url[-1] for hit in found.hits], found.engine) == (["a", "b"], "searxng")
    assert found.failures[0].engine == "duckduckgo"
    assert len((await replay.search("q1", 1)).hits) == 1
    assert (await replay.search("q2", 5)).engine is None

    page = await replay.fetch("https://example.org/c")
    assert page == a_page(url="https://example.org/c")  # asked for by another name, and stored once
    assert (
        await replay.fetch("https://example.org/b") == "https://example.org/b: dns: has no address"
    )
    assert await replay.fetch("https://example.org/z") is None
    assert [url[-1] for url in await replay.urls_of_turn(1)] == ["c", "a", "b"]
    assert await replay.urls_of_turn(2) == []


async def test_replies_come_in_order_and_end(tmp_path: Path, opened: Opened) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path)
    assert [await replay.next_reply("read", "k") for _ in range(3)] == [{"n": 1}, {"n": 2}, None]
    assert await replay.next_reply("propose", "1") == {"queries": ["q1", "q2"]}
    assert await replay.next_reply("propose", "2") is None
    assert await replay.next_reply("read", "other") is None
    replay.rewind()
    assert await replay.next_reply("read", "k") == {"n": 1}


async def test_an_unknown_query_finds_nothing_and_is_named_once(
    tmp_path: Path, opened: Opened
) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    replay = await Replay.open(held.path, post_text="the post")
    for query in ("Q1", "q1", "q1 ", "Q1"):
        await replay.search(query, 5)
    found = await replay.search("Q1", 5)
    assert (found.hits, found.engine) == ((), "replay")
    assert replay.unknown_queries == ["Q1", "q1 "]


async def test_the_run_that_is_replayed_is_the_latest_in_which_a_model_was_asked(
    tmp_path: Path, opened: Opened
) -> None:
    held = await opened(tmp_path / "e.sqlite")
    await a_run(held)
    second = await a_run(held)
    await held.begin_run("p1", "the post", {})  # a replay, which asked no model
    other = await a_run(held, "p1", "another text of the same id")
    assert (await Replay.open(held.path, post_text="the post")).run.id == second
    assert (await Replay.open(held.path)).run.id == other
    assert (await held.run_to_replay("the post"), await held.run_to_replay()) == (second, other)
    with pytest.raises(BadInput, match="holds no run of this post"):
        await Replay.open(held.path, post_text="unheard of")
    with pytest.raises(BadInput, match="no such file"):
        await Replay.open(tmp_path / "none.sqlite", post_text="the post")
