"""What a perspective's neighbours are worth: how often the three texts nearest to a post have its own label."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from bench.table import table
from tribunal.errors import TribunalError
from tribunal.retrievers.perspectives.perspective import perspectives_folder
from tribunal.retrievers.perspectives.store import PerspectiveStore, open_index
from tribunal.terminal import say

_AT_ONCE = 8


def neighbours(quick: bool) -> None:
    """Look texts of each of the user's indexes up in it, leaving out themselves and their equals."""
    say(
        "### Neighbours: of the three nearest texts, how many share the query's label and its kind of hate\n",
        lines=True,
    )
    folders = sorted(path.parent for path in perspectives_folder().rglob("manifest.json"))
    if not folders:
        say(f"No index lies in {perspectives_folder()}; build one with: tribunal perspectives build NAME --data DIR\n")
        return
    rows = [asyncio.run(_row(folder, 100 if quick else 2_000)) for folder in folders]
    table(("index", "embedding", "texts", "queries", "same label", "same kind of hate"), rows)
    say("The kind counts where the query is hate, in sets that tell several apart.\n", lines=True)


async def _row(folder: Path, most: int) -> list[str]:
    name = str(folder.relative_to(perspectives_folder()))
    try:
        store = open_index(folder)
        numbers = sorted(random.Random(0).sample(range(len(store)), min(most, len(store))))
        labels, kinds = await shares(store, numbers)
    except TribunalError as error:
        return [name, str(error), "-", "-", "-", "-"]
    return [name, store.embedding, f"{len(store):,}", f"{len(numbers):,}", labels, kinds]


async def shares(store: PerspectiveStore, numbers: list[int]) -> tuple[str, str]:
    """Return, of the three texts nearest to each of these, the shares with its label and with one of its kinds of hate.

    The second share is among the texts that are hate.
    """
    turn = asyncio.Semaphore(_AT_ONCE)
    same_label: list[bool] = []
    same_kind: list[bool] = []
    every_kind: set[str] = set()

    async def look_up(number: int) -> None:
        query = store.index.row(number)
        every_kind.update(query.categories)
        async with turn:
            found = await store.search(query.text, 3)
        for near in (store.index.row(each.row) for each in found):
            same_label.append(near.hate == query.hate)
            if query.hate:
                same_kind.append(bool({*near.categories} & {*query.categories}))

    await asyncio.gather(*map(look_up, numbers))
    return _share(same_label), _share(same_kind) if len(every_kind) > 1 else "-"


def _share(held: list[bool]) -> str:
    return f"{sum(held) / len(held):.3f}" if held else "-"
