"""A LangChain retriever of one's own; a vector store's, or one over the network, plugs in the same way."""

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class Decisions(BaseRetriever):
    """Earlier decisions of the house."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if "weeds" not in query.casefold():
            return []
        words = "Decided in May: people were compared to weeds, and the post was taken down."
        return [Document(page_content=words, metadata={"title": "Decision 12"})]
