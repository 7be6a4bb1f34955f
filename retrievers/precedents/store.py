"""A store of precedents: cases that people decided, searched by cosine for those nearest to a post."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tribunal.errors import BadInput
from tribunal.models.embeddings import Embedder, Vectors
from tribunal.retrievers.perspectives.searcher import SPARE
from tribunal.retrievers.perspectives.vector_index import VectorIndex
from tribunal.retrievers.perspectives.words import plain
from tribunal.retrievers.precedents.decided import DecidedCase, words_key
from tribunal.retrievers.precedents.manifest import Manifest, damaged, verify

# Texts of the same script have blanks and a letter or two in common, which makes none a precedent of the other.
LEAST_SIMILARITY = 0.05


class Found(NamedTuple):
    """A decided case near a post, and how near: the cosine."""

    decided: DecidedCase
    similarity: float


class PrecedentStore:
    """A store, open. Safe to search from many tasks and threads at once.

    Attributes:
        folder: where it lies.
        manifest: what it was built from.
        embedder: what its vectors were made by; None where it holds no cases.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        embedder: Embedder | None,
        vectors: VectorIndex,
        case: Callable[[int], DecidedCase],
    ) -> None:
        self.folder, self.manifest, self.embedder = folder, manifest, embedder
        self._vectors, self._case = vectors, case

    def __len__(self) -> int:
        return self.manifest.rows

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def embedding(self) -> str:
        """The name of the embedding that its posts are compared by."""
        return self.manifest.embedding

    @property
    def fingerprint(self) -> str:
        """A hash of everything that a search here may show: the cases, and the vectors that they are found by."""
        held = json.dumps([self.embedding, [note.sha256 for note in self.manifest.files]])
        return hashlib.sha256(held.encode()).hexdigest()[:16]

    async def nearest(self, text: str, k: int = 3, *, post_id: str = "") -> list[Found]:
        """The k decided cases nearest to a post, nearest first. A post never sees itself.

        Left out are the cases of a post of this id, and those with the same words: the same but for letter case, white
        space, character width, and signs at the ends, as perspectives leave out equal texts. So are cases below
        `LEAST_SIMILARITY`. Fewer than k come back where there are fewer, none for a post without words.

        Raises:
            CallFailed: the embedding endpoint gave no vector.
            BadInput: its vectors are not of the index's length, or the store is damaged.
        """
        if k < 1:
            raise BadInput(f"precedents_k: {k}: at least one is asked for")
        if self.embedder is None or not len(self) or not plain(text):
            return []
        query = (await self.embedder.embed([text], "query"))[0]
        if len(query) != self._vectors.dimension:
            raise BadInput(
                f"precedents {self.name}: its store holds vectors of {self._vectors.dimension} numbers, and "
                f"{self.embedding} now gives {len(query)}; build it again with: tribunal precedents build {self.name} "
                f"--embedding {self.embedding} --replace"
            )
        return await asyncio.to_thread(self._nearest, query, words_key(text), post_id, k)

    def _nearest(self, query: Vectors, words: str, post_id: str, k: int) -> list[Found]:
        fetched = min(k + SPARE, len(self))
        while True:
            found: list[Found] = []
            for similarity, number in self._near(query, fetched):
                case = self.case(number)
                if (
                    similarity < LEAST_SIMILARITY
                    or case.words == words
                    or (post_id and post_id in (case.post_id, case.case))
                ):
                    continue
                found.append(Found(case, round(similarity, 6)))
                if len(found) == k:
                    return found
            if fetched == len(self):
                return found
            fetched = min(fetched * 4, len(self))

    def _near(self, query: Vectors, count: int) -> list[tuple[float, int]]:
        try:
            similarities, numbers = self._vectors.nearest(query, count)
        except ValueError as error:
            raise damaged(self.manifest, "holds numbers that can't be right") from error
        return list(zip(similarities.tolist(), numbers.tolist(), strict=True))

    def case(self, number: int) -> DecidedCase:
        """A case by its number. Reads a file: call it off the event loop.

        Raises:
            BadInput: the store is damaged.
        """
        try:
            if not 0 <= number < len(self):
                raise IndexError(number)
            return self._case(number)
        except (ValueError, IndexError, OSError) as error:
            raise damaged(self.manifest, "holds a case that can't be read") from error

    def verify(self) -> None:
        """Compare every file with its hash.

        Raises:
            BadInput: one is missing or differs.
        """
        verify(self.folder, self.manifest)
