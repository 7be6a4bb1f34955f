"""Searching a store: what is nearest, what is left out, and several at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.retrievers.perspectives.mine import LETTERS, TEXTS, Counting, write_rows
from tribunal.errors import BadInput, CallFailed
from tribunal.models.embeddings import Vectors
from tribunal.retrievers.indexes import text_index
from tribunal.retrievers.perspectives.perspective import EXAMPLES, Perspective, find_perspective
from tribunal.retrievers.perspectives.store import (
    PerspectiveStore,
    build_index,
    open_in_memory,
    open_store,
    search_all,
)
from tribunal.schema import Example


async def test_the_nearest_come_first_with_their_labels(built: PerspectiveStore) -> None:
    found = await built.search("river bakery gardens", k=5)
    assert len(found) == 5
    assert [each.similarity for each in found] == sorted(
        (each.similarity for each in found), reverse=True
    )
    if built.embedding == LETTERS.name:
        exact = LETTERS.vectors([*TEXTS, "river bakery gardens"])
        assert [each.similarity for each in found] == pytest.approx(
            sorted(exact[:-1] @ exact[-1])[::-1][:5], abs=1e-5
        )
    for each in found:
        hate = each.row % 3 == 0
        assert each == Example(
            text=TEXTS[each.row],
            label="hate" if hate else "not_hate",
            label_name="Rude" if hate else "Fine",
            similarity=each.similarity,
            row=each.row,
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "change", ["{}", "  {}\n", "{}!!", "«{}»…", "RIVER  Bakery window", "ｒｉｖｅｒ bakery window"]
)
async def test_texts_equal_to_the_query_are_left_out(built: PerspectiveStore, change: str) -> None:
    own = "river bakery window"
    found = await built.search(change.format(own), k=3)
    assert len(found) == 3
    assert own not in [each.text for each in found]


@pytest.mark.parametrize("embedding", ["tfidf", LETTERS.name])
async def test_many_copies_of_the_query_still_leave_k(
    mine: Perspective, tmp_path: Path, embedding: str
) -> None:
    write_rows(tmp_path, ["the same words"] * 100 + TEXTS[:20])
    await build_index(mine, tmp_path / "rows", embedding=embedding)
    opened = await open_store("mine")
    assert len(await opened.search("The same words.", k=3)) == 3
    assert len(await opened.search("The same words.", k=50)) == 20  # all there are
    assert len(await opened.search("other words", k=500)) == 120


async def test_a_blank_text_has_no_neighbours_and_k_is_at_least_one(
    built: PerspectiveStore,
) -> None:
    assert await built.search(" \u200b\n") == []
    with pytest.raises(BadInput, match="k: 0"):
        await built.search("x", k=0)


async def test_searching_leaves_the_event_loop_free(
    built: PerspectiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that takes long is waited for, and others, and the loop, go on meanwhile."""
    quick, together, loop_went_on = (
        text_index.search_vectors,
        threading.Barrier(4),
        threading.Event(),
    )

    def slow(index: Any, query: Vectors, count: int) -> tuple[Vectors, Any]:
        together.wait(30)
        assert loop_went_on.wait(30)
        return quick(index, query, count)

    monkeypatch.setattr(text_index, "search_vectors", slow)
    searches = asyncio.gather(*(built.search(text) for text in TEXTS[:3]))
    await asyncio.to_thread(together.wait, 30)  # three, side by side
    loop_went_on.set()
    assert [len(found) for found in await searches] == [3, 3, 3]


async def test_perspectives_are_searched_together_and_embed_the_text_once(
    mine: Perspective, tmp_path: Path
) -> None:
    await build_index(mine, tmp_path / "rows", embedding=LETTERS)
    built = await open_store("mine")

    class Broken:
        perspective = find_perspective(EXAMPLES[1])

        async def search(self, text: str, k: int = 3) -> list[Example]:
            raise CallFailed("down", kind="server")

    model = Counting()
    examples = await open_in_memory(find_perspective(EXAMPLES[0]), model)
    model.asked.clear()
    found = await search_all(
        [PerspectiveStore(built.perspective, model, built.index), examples, Broken()],
        "river bank",
        2,
    )
    assert list(found) == ["mine", EXAMPLES[0], EXAMPLES[1]]
    assert model.asked == ["river bank"]
    assert model.uses == {"passage", "query"}
    assert len(found["mine"]) == len(found[EXAMPLES[0]]) == 2  # type: ignore[arg-type]
    assert isinstance(found[EXAMPLES[1]], CallFailed)
    assert await search_all([built], "") == {"mine": []}
