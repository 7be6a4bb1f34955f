"""LangChain's side: a searcher as a retriever, and any vector store as a searcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import Field

from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.labelled_texts import LabelledText
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.retrievers.perspectives.searcher import SPARE, example_of
from tribunal.retrievers.perspectives.words import plain, words_of
from tribunal.schema import Example


class PerspectiveRetriever(BaseRetriever):
    """A searcher as a LangChain retriever. A document's metadata: perspective, label, label_name, similarity, row."""

    searcher: Any
    k: int = Field(default=3, ge=1)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await self._documents(query)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        # In a thread with a loop of its own, since the caller's thread may have one that is running.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._documents(query)).result()

    async def _documents(self, query: str) -> list[Document]:
        name = self.searcher.perspective.name
        return [
            Document(
                id=f"{name}:{found.row}",
                page_content=found.text,
                metadata={"perspective": name, **found.model_dump(exclude={"text"})},
            )
            for found in await self.searcher.search(query, self.k)
        ]


class VectorStoreSearcher:
    """Any LangChain vector store in the place of a `Store`.

    Its documents hold a text and, in their metadata, `label`: hate or not_hate, or the perspective's own name for it.

    Args:
        perspective: whose texts these are.
        vectors: the store.
        similarity: turns the store's score into a cosine; the identity fits a store that scores by cosine, such as
            `InMemoryVectorStore`; for one that gives a distance, pass what undoes it.
    """

    def __init__(
        self, perspective: Perspective, vectors: VectorStore, *, similarity: Callable[[float], float] = float
    ) -> None:
        self.perspective = perspective
        self._vectors = vectors
        self._similarity = similarity

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """As `Store.search`."""
        if not plain(text):
            return []
        fetched, leave_out = k + SPARE, words_of(text)
        while True:
            hits = await self._vectors.asimilarity_search_with_score(text, k=fetched)
            kept = [(hit, score) for hit, score in hits if words_of(hit.page_content) != leave_out][:k]
            if len(kept) == k or len(hits) < fetched:
                return [self._example(document, score) for document, score in kept]
            fetched *= 4

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        """This searcher as a LangChain retriever."""
        return PerspectiveRetriever(searcher=self, k=k)

    def _example(self, document: Document, score: float) -> Example:
        labels: dict[Any, bool] = {
            "hate": True,
            "not_hate": False,
            self.perspective.labels.hate: True,
            self.perspective.labels.not_hate: False,
        }
        given = document.metadata.get("label")
        if given not in labels:
            raise BadInput(
                f"perspective {self.perspective.name}: a document's label is {given!r}; it may be "
                f"{', '.join(map(repr, labels))}"
            )
        found = LabelledText(document.page_content, labels[given])
        number = int(document.metadata.get("row", -1))
        return example_of(self.perspective, found, self._similarity(score), number)
