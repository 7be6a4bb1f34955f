"""A store as a LangChain retriever, and any vector store of LangChain's in its place."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from tests.retrievers.perspectives.mine import LETTERS, TEXTS
from tribunal.errors import BadInput
from tribunal.retrievers.perspectives.langchain import VectorStoreSearcher
from tribunal.retrievers.perspectives.perspective import Perspective
from tribunal.retrievers.perspectives.store import PerspectiveStore, search_all


@pytest.mark.long
async def test_the_store_is_a_langchain_retriever(built: PerspectiveStore) -> None:
    retriever = built.as_retriever(k=2)
    found = await retriever.ainvoke("river bakery gardens")
    assert [each.page_content for each in found] == [
        each.text for each in await built.search("river bakery gardens", k=2)
    ]
    assert set(found[0].metadata) == {"perspective", "label", "label_name", "similarity", "row"}
    assert retriever.invoke("river bakery gardens") == found  # within a running loop too


class LettersForLangChain(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(number) for number in row] for row in LETTERS.vectors(texts)]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def test_any_langchain_vector_store_can_stand_in(built: PerspectiveStore) -> None:
    vectors = InMemoryVectorStore(LettersForLangChain())
    names = ["hate", "Fine", "Fine"]  # by our name for a label, or the perspective's own
    await vectors.aadd_documents(
        [
            Document(text, metadata={"label": names[row % 3], "row": row})
            for row, text in enumerate(TEXTS)
        ]
    )
    other = VectorStoreSearcher(built.perspective, vectors)
    query = "river bakery window"
    ours, theirs = await built.search(query), await other.search(query)
    assert query not in [each.text for each in theirs]
    if built.embedding == LETTERS.name:  # the same vectors
        assert [each.similarity for each in theirs] == pytest.approx(
            [each.similarity for each in ours], abs=1e-5
        )
    assert {each.text: each.label_name for each in theirs}.items() <= {
        text: "Fine" if row % 3 else "Rude" for row, text in enumerate(TEXTS)
    }.items()
    assert len(await other.search(query, k=400)) == 299
    assert await other.search(" ") == []
    found = await search_all([built, other], query)
    assert len(found) == 1  # both are of one perspective
    assert len(await other.as_retriever(k=1).ainvoke(query)) == 1


async def test_a_document_without_a_label_is_said(mine: Perspective) -> None:
    vectors = InMemoryVectorStore(LettersForLangChain())
    await vectors.aadd_documents([Document("a text")])
    with pytest.raises(
        BadInput, match="a document's label is None; it may be 'hate', 'not_hate', 'Rude', 'Fine'"
    ):
        await VectorStoreSearcher(mine, vectors).search("text")
