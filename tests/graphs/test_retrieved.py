"""LangChain's retrievers and tools as evidence: what each answers, as the court is shown it over the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

import tribunal
from tribunal.errors import BadInput
from tribunal.nodes.exhibits import show_exhibits
from tribunal.pieces import Evidence, EvidenceStance, evidence_from
from tribunal.prompts.sets import shipped_prompts
from tribunal.testing import ScriptedModel, check_piece

POST = {"text": "the weeds"}
IN_THE_GLOSSARY = Document(
    page_content="“Weeds” is an old image.",
    metadata={"title": "Glossary\nof images", "source": "https://example.org/w"},
)

GRAPH = """
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import END, START, StateGraph

from tribunal.pieces import Case, Context, PostInput, Ruling, checked, court_judge, deep_trial, evidence_from, receive

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
store.add_documents([Document(page_content="Weeds are an old image.", metadata={"title": "Glossary"})])
builder = StateGraph(Case, context_schema=Context, input_schema=PostInput, output_schema=Ruling)
builder.add_node("receive", receive)
builder.add_node("glossary", evidence_from(store.as_retriever(), letter="G"))
builder.add_node("deep_dive", deep_trial)
builder.add_node("judge", court_judge)
builder.add_edge(START, "receive")
builder.add_edge("receive", "glossary")
builder.add_edge("glossary", "deep_dive")
builder.add_edge("deep_dive", "judge")
builder.add_edge("judge", END)
graph = checked(builder).compile(name="glossary")
"""


def test_the_court_reads_and_cites_what_a_retriever_finds(scripted_model: ScriptedModel) -> None:
    Path("glossary.py").write_text(GRAPH)
    scripted_model.answer(
        "judge", {"category": "Religious", "explanation": "The image is old [G1], and more [G9]."}
    )
    record = tribunal.judge("the weeds", graph="glossary.py:graph", rounds=1)
    shown = "[G1] neutral on whether the post is hateful\n  title: Glossary\n  passage:"
    assert all(
        shown in scripted_model.told(part)[0] for part in ("investigation", "defence", "judge")
    )
    for told in (scripted_model.told(part)[0] for part in ("investigation", "defence", "judge")):
        assert "Passages from sources that this court was given, by id." in told
        assert "as in [G1]" in told
        assert "from the web" not in told
    assert record.explanation == "The image is old [G1], and more."
    assert [(each.id, each.stance, each.passage) for each in record.evidence] == [
        ("G1", EvidenceStance.NEUTRAL, "Weeds are an old image.")
    ]


def test_what_was_read_on_the_web_is_told_apart_from_what_a_source_gave() -> None:
    given = Evidence.of("G1", "Weeds are an old image.", "neutral", "Glossary")
    read = Evidence.of("E1", "A page.", "neutral", "Page", "https://example.org/")
    read["page_id"] = "p1"
    for held, told in (
        (
            [given, read],
            "by id: those whose id begins with E are from pages of the web, and the others from sources",
        ),
        ([read], "Passages from the web, by id."),
        ([given], "Passages from sources that this court was given, by id."),
    ):
        beside = show_exhibits({"evidence": held})
        assert beside is not None
        assert told in shipped_prompts().render(beside.prompt, beside.material)


class Glossary(BaseRetriever):
    """A retriever that isn't asynchronous, as most aren't."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        assert query == "the weeds"
        return [IN_THE_GLOSSARY]


def store() -> Any:
    made = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    made.add_documents([IN_THE_GLOSSARY])
    return made.as_retriever()


def tool(answer: Any) -> Any:
    """A tool that answers this to everything."""

    async def search(query: str) -> Any:
        """Search."""
        return answer

    return StructuredTool.from_function(coroutine=search, name="search", description="Searches.")


ROW = {
    "title": "Glossary of images",
    "link": "https://example.org/w",
    "snippet": "“Weeds” is an old image.",
}


@pytest.mark.parametrize(
    ("source", "title", "url"),
    [
        (Glossary(), "Glossary of images", "https://example.org/w"),
        (store(), "Glossary of images", "https://example.org/w"),
        (RunnableLambda(lambda words: [IN_THE_GLOSSARY]), "Glossary of images", "https://example.org/w"),
        (create_retriever_tool(Glossary(), "glossary", "A glossary."), "", ""),
        (tool("“Weeds” is an old image."), "", ""),
        (tool([ROW]), "Glossary of images", "https://example.org/w"),
        (tool(json.dumps([ROW])), "Glossary of images", "https://example.org/w"),
        (tool({"query": "weeds", "results": [{"url": "https://example.org/w", "content": ROW["snippet"]}]}), "",
         "https://example.org/w"),
        (tool([{"type": "text", "text": "“Weeds” is an old image."}]), "", ""),
        (tool({"text": "“Weeds” is an old image.", "url": "javascript:alert(1)", "title": 7}), "", ""),
    ],
)  # fmt: skip
def test_what_a_source_answers_is_evidence(source: Any, title: str, url: str) -> None:
    [written] = check_piece(evidence_from(source), POST)
    [found] = written["evidence"]
    assert (found["id"], found["passage"], found["stance"]) == (
        "R1",
        "“Weeds” is an old image.",
        "neutral",
    )
    assert (found["title"], found["url"]) == (title, url)
    assert not written["warnings"]


@pytest.mark.parametrize("answer", ["", " ", [], None, {}, {"results": []}, [""], "[]"])
def test_nothing_found_is_no_evidence(answer: Any) -> None:
    assert check_piece(evidence_from(tool(answer)), POST) == [{"evidence": [], "warnings": []}]


def test_a_source_isn_t_asked_without_words(tmp_path: Path) -> None:
    from PIL import Image

    Image.effect_noise((32, 32), 90).save(tmp_path / "post.png")
    assert check_piece(evidence_from(Glossary()), {"image": str(tmp_path / "post.png")}) == [
        {"evidence": []}
    ]


def test_so_many_passages_of_so_many_characters_with_a_stance_each() -> None:
    answer = ["[" + "x" * 5000, *(f"word {n}" for n in range(8))]

    def speaks(found: Document) -> str:
        return "refutes" if "word" in found.page_content else "supports"

    [written] = check_piece(evidence_from(tool(answer), most=3, stance=speaks, letter="G"), POST)
    assert [(each["id"], each["stance"], len(each["passage"])) for each in written["evidence"]] == [
        ("G1", "supports", 4000), ("G2", "refutes", 6), ("G3", "refutes", 6),
    ]  # fmt: skip
    assert written["warnings"] == ["search: 1 passages were cut off after 4000 characters"]


def test_a_source_that_fails_takes_nothing_from_the_case() -> None:
    async def late(query: str) -> str:
        """Search."""
        await asyncio.Event().wait()
        return ""

    async def broken(query: str) -> str:
        """Search."""
        raise OSError("no such\nindex, key sk-abcdef0123456789")

    found = []
    for function, seconds in ((late, 0.01), (broken, 30)):
        source = StructuredTool.from_function(
            coroutine=function, name="search", description="Searches."
        )
        [written] = check_piece(evidence_from(source, seconds=seconds), POST)
        assert written["evidence"] == []
        found += written["warnings"]
    assert found == [
        "search brought no evidence: TimeoutError",
        "search brought no evidence: OSError: no such index, key [key]",
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((lambda words: []), "source: function: is no LangChain retriever or tool"),
        ({"letter": "E"}, "letter: 'E': can't be that of the ids"),
        ({"letter": "re"}, "letter: 're'"),
        ({"stance": "for"}, "stance: 'for': is none; give supports, refutes, neutral"),
        ({"most": 0}, "most: 0: leaves no passage"),
    ],
)
def test_what_can_t_be_is_said_when_the_graph_is_built(given: Any, says: str) -> None:
    source, settings = (Glossary(), given) if isinstance(given, dict) else (given, {})
    with pytest.raises(BadInput, match=says):
        evidence_from(source, **settings)
