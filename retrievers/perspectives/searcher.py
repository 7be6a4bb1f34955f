"""What a searcher is: anything that finds a perspective's texts near a post."""

from __future__ import annotations

from typing import Protocol

from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.schema import Example, Stance

# How many hits beyond k are fetched at first, so that leaving out a few copies of the post needs no second search.
SPARE = 8


class Searcher(Protocol):
    """Anything that finds a perspective's texts near a post: a `Store`, or a `VectorStoreSearcher`."""

    @property
    def perspective(self) -> Perspective: ...

    async def search(self, text: str, k: int = 3) -> list[Example]: ...


def example_of(perspective: Perspective, found: LabelledText, similarity: float, number: int) -> Example:
    """A text that was found, with its label in the perspective's own words; `number` is its row."""
    label: Stance = "hate" if found.hate else "not_hate"
    return Example(
        text=found.text,
        label=label,
        label_name=perspective.label_name(label),
        similarity=round(similarity, 6),
        row=number,
    )
