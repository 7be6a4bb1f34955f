"""A perspective's labelled texts, searched by cosine for those nearest to a post.

PREDICT's PRE phase (section 3.1) shows each perspective the three texts of its own set that are nearest to the post.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tribunal.errors import BadInput, TribunalError
from tribunal.models.embeddings import Embedder, Vectors
from tribunal.retrievers.perspectives.index import Index
from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.manifest import Manifest, damaged, how_to_build_again, verify
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.retrievers.perspectives.searcher import SPARE, Searcher, example_of
from tribunal.retrievers.perspectives.words import plain, words_of
from tribunal.schema import Example

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tribunal.retrievers.perspectives.langchain import PerspectiveRetriever


class Store:
    """One perspective's texts, searched by cosine. Safe to search from many tasks and threads at once.

    Args:
        perspective: whose texts they are.
        model: what the vectors of its index were made by.
        index: the texts, and their vectors.
        folder: where the index lies; None where it was made in memory.
    """

    def __init__(self, perspective: Perspective, model: Embedder, index: Index, folder: Path | None = None) -> None:
        self.perspective = perspective
        self.embedder = model
        self.folder = folder
        self._index = index

    @property
    def manifest(self) -> Manifest | None:
        """What the index was built from; None where it was made in memory."""
        return self._index.manifest

    @property
    def embedding(self) -> str:
        """The name of the embedding that its texts are compared by."""
        return self.embedder.name

    @property
    def fingerprint(self) -> str:
        """A hash of everything that a search here may show: the texts, their labels and vectors, and the criterion."""
        files = [note.sha256 for note in self.manifest.files] if self.manifest else []
        held = json.dumps([self.perspective.dump(), self.embedding, files], sort_keys=True)
        return hashlib.sha256(held.encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self._index.vectors)

    def row(self, number: int) -> LabelledText:
        """The text of a number, which is `Example.row`, with its label. Reads a file: call it off the event loop."""
        return self._index.text(number)

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
        return await self.nearest((await self.embedder.embed([text], "query"))[0], text, k)

    async def nearest(self, query: Vectors, text: str, k: int = 3) -> list[Example]:
        """Search as `search` does, for a text whose vector, (dimension,), is known."""
        if k < 1:
            raise BadInput(f"k: {k}: at least one example is asked for")
        if len(query) != self._index.vectors.dimension:
            raise BadInput(
                f"perspective {self.perspective.name}: its index holds vectors of {self._index.vectors.dimension} "
                f"numbers, and {self.embedding} now gives {len(query)}: "
                f"{how_to_build_again(self.perspective.name, self.embedding)}"
            )
        return await asyncio.to_thread(self._nearest, query, words_of(text), k)

    def _nearest(self, query: Vectors, leave_out: str, k: int) -> list[Example]:
        fetched = min(k + SPARE, len(self))
        while True:
            similarities, numbers = self._near(query, fetched)
            examples: list[Example] = []
            for similarity, number in zip(similarities.tolist(), numbers.tolist(), strict=True):
                found = self.row(number)
                if words_of(found.text) != leave_out:
                    examples.append(example_of(self.perspective, found, similarity, number))
                if len(examples) == k:
                    return examples
            if fetched == len(self):
                return examples
            fetched = min(fetched * 4, len(self))

    def _near(self, query: Vectors, count: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
        try:
            return self._index.vectors.nearest(query, count)
        except ValueError as error:
            if self.manifest is None:
                raise
            raise damaged(self.manifest, "holds numbers that can't be right") from error

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

    Stores that share an embedder embed the text once. A perspective that fails has its error in place of examples, so
    that it doesn't sink the others.
    """
    models = {id(each.embedder): each.embedder for each in searchers if isinstance(each, Store)}
    blank = not plain(text)
    vectors = {key: asyncio.create_task(model.embed([text], "query")) for key, model in models.items() if not blank}

    async def one(searcher: Searcher) -> list[Example] | TribunalError:
        try:
            if blank or not isinstance(searcher, Store):
                return [] if blank else await searcher.search(text, k)
            return await searcher.nearest((await vectors[id(searcher.embedder)])[0], text, k)
        except TribunalError as error:
            return error

    try:
        found = await asyncio.gather(*map(one, searchers))
    finally:
        for task in vectors.values():
            task.cancel()
    return {searcher.perspective.name: each for searcher, each in zip(searchers, found, strict=True)}
