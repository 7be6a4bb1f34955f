"""A perspective's labelled texts, searched by cosine for those nearest to a post.

PREDICT's PRE phase (section 3.1) shows each perspective the three texts of its own set that are nearest to the post.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tribunal.errors import BadInput, TribunalError
from tribunal.models.embeddings import Embedder, Vectors, plain
from tribunal.retrievers.perspectives.index import Index
from tribunal.retrievers.perspectives.manifest import Manifest, how_to_build_again, verify
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.retrievers.perspectives.searcher import SPARE, Searcher, example_of, words_of
from tribunal.schema import Example

if TYPE_CHECKING:
    from tribunal.retrievers.perspectives.langchain import PerspectiveRetriever


class Store:
    """One perspective's texts, searched by cosine. Safe to search from many tasks and threads at once."""

    def __init__(self, perspective: Perspective, model: Embedder, index: Index, folder: Path | None = None) -> None:
        self.perspective = perspective
        self.embedder = model
        self.folder = folder
        self._index = index

    @property
    def manifest(self) -> Manifest | None:
        """What the index was built from; None where it was made in memory."""
        return self._index.manifest

    def __len__(self) -> int:
        return int(self._index.vectors.ntotal)

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """The k texts nearest to this one, nearest first, without those that are equal to it.

        Equal means: the same but for letter case, white space, character width, and signs at the ends. So a set can be
        evaluated over an index of itself. Fewer than k come back where the set has fewer; none for a blank text.

        Raises:
            CallFailed: the embedding endpoint gave no vector.
            BadInput: its vectors are not of the index's length.
        """
        if not plain(text):
            return []
        vector = (await self.embedder.embed([text]))[0]
        return await self.nearest(vector, text, k)

    async def nearest(self, vector: Vectors, text: str, k: int = 3) -> list[Example]:
        """As `search`, for a text whose vector, (dimension,), is known."""
        if k < 1:
            raise BadInput(f"k: {k}: at least one example is asked for")
        if len(vector) != self._index.vectors.d:
            raise BadInput(
                f"perspective {self.perspective.name}: its index holds vectors of {self._index.vectors.d} numbers, and "
                f"{self.embedder.name} now gives {len(vector)}: {how_to_build_again(self.perspective.name)}"
            )
        # FAISS lets the interpreter go while it searches, and a query alone uses one core: searches run side by side.
        return await asyncio.to_thread(self._nearest, vector, words_of(text), k)

    def _nearest(self, vector: Vectors, leave_out: str, k: int) -> list[Example]:
        fetched = min(k + SPARE, len(self))
        while True:
            similarities, numbers = self._index.vectors.search(vector[np.newaxis], fetched)
            examples: list[Example] = []
            for similarity, number in zip(similarities[0].tolist(), numbers[0].tolist(), strict=True):
                found = self._index.text(number)
                if words_of(found.text) != leave_out:
                    examples.append(example_of(self.perspective, found, similarity, number))
                if len(examples) == k:
                    return examples
            if fetched == len(self):
                return examples
            fetched = min(fetched * 4, len(self))

    def verify(self) -> None:
        """Compare every file of the index with its hash in the manifest, whatever its size and times are.

        Raises:
            BadInput: one is missing or differs.
        """
        if self.folder and self.manifest:
            verify(self.folder, self.manifest)

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        """This store as a LangChain retriever."""
        from tribunal.retrievers.perspectives.langchain import PerspectiveRetriever

        return PerspectiveRetriever(searcher=self, k=k)


async def search_together(
    searchers: Sequence[Searcher], text: str, k: int = 3
) -> dict[str, list[Example] | TribunalError]:
    """Every perspective's k examples for one text, by its name, searched at the same time.

    Stores that share an embedding embed the text once. A perspective that fails has its error in place of examples, so
    that it doesn't sink the others.
    """
    models = {each.embedder.name: each.embedder for each in searchers if isinstance(each, Store)}
    blank = not plain(text)
    vectors = {name: asyncio.create_task(model.embed([text])) for name, model in models.items() if not blank}

    async def one(searcher: Searcher) -> list[Example] | TribunalError:
        try:
            if blank or not isinstance(searcher, Store):
                return [] if blank else await searcher.search(text, k)
            return await searcher.nearest((await vectors[searcher.embedder.name])[0], text, k)
        except TribunalError as error:
            return error

    try:
        found = await asyncio.gather(*map(one, searchers))
    finally:
        for task in vectors.values():
            task.cancel()
    return {searcher.perspective.name: each for searcher, each in zip(searchers, found, strict=True)}
