"""LangChain's side: a searcher as a retriever, and any vector store as a searcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import Field

from tribunal.core.text import equality_key, normalize_text
from tribunal.errors import BadInput
from tribunal.retrievers.indexes.text_index import SPARE
from tribunal.retrievers.perspectives.perspective import Perspective, make_example
from tribunal.schema import Example


class PerspectiveRetriever(BaseRetriever):
    """A searcher as a LangChain retriever. A document's metadata: perspective, label, label_name, similarity, row."""

    searcher: Any
    k: int = Field(default=3, ge=1)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun | None = None
    ) -> list[Document]:
        name = self.searcher.perspective.name
        return [
            Document(
                id=f"{name}:{found.row}",
                page_content=found.text,
                metadata={"perspective": name, **found.model_dump(exclude={"text"})},
            )
            for found in await self.searcher.search(query, self.k)
        ]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        # In a thread with a loop of its own, since the caller's thread may have one that is running.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._aget_relevant_documents(query)).result()


class VectorStoreSearcher:
    """Any LangChain vector store in the place of a `PerspectiveStore`.

    Its documents hold a text and, in their metadata, `label`: hate or not_hate, or the perspective's own name for it.
    `similarity` turns the store's score into a cosine; the identity fits a store that scores by cosine, such as
    `InMemoryVectorStore`; for one that gives a distance, pass what undoes it.
    """

    def __init__(
        self,
        perspective: Perspective,
        vectors: VectorStore,
        *,
        similarity: Callable[[float], float] = float,
    ) -> None:
        """Make a searcher of a vector store."""
        self.perspective = perspective
        self._vectors = vectors
        self._similarity = similarity

    async def search(self, text: str, k: int = 3) -> list[Example]:
        """Return the k texts nearest to this one, as `PerspectiveStore.search` does."""
        if not normalize_text(text):
            return []
        fetched = k + SPARE
        leave_out = equality_key(text)
        while True:
            hits = await self._vectors.asimilarity_search_with_score(text, k=fetched)
            others = [
                (hit, score) for hit, score in hits if equality_key(hit.page_content) != leave_out
            ][:k]
            if len(others) == k or len(hits) < fetched:
                return [self._example_from_document(document, score) for document, score in others]
            fetched *= 4

    def as_retriever(self, k: int = 3) -> PerspectiveRetriever:
        """Return this searcher as a LangChain retriever."""
        return PerspectiveRetriever(searcher=self, k=k)

    def _example_from_document(self, document: Document, score: float) -> Example:
        names = self.perspective.labels
        labels: dict[Any, bool] = {
            "hate": True,
            "not_hate": False,
            names.hate: True,
            names.not_hate: False,
        }
        label = document.metadata.get("label")
        if label not in labels:
            raise BadInput(
                f"perspective {self.perspective.name}: a document's label is {label!r}; it may be "
                f"{', '.join(map(repr, labels))}"
            )
        similarity = self._similarity(score)
        number = int(document.metadata.get("row", -1))
        return make_example(
            self.perspective, document.page_content, labels[label], similarity, number
        )
