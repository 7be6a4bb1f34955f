"""Evidence from a LangChain retriever or tool: its results for the post become an exhibit of the court."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langgraph.errors import GraphBubbleUp

from tribunal.core.text import one_line, parse_json, scrub, wellformed
from tribunal.errors import BadInput
from tribunal.graphs.contracts import piece
from tribunal.nodes.state import Case
from tribunal.schema import JSON, Evidence, EvidenceStance

if TYPE_CHECKING:
    from tribunal.typed_names import EvidenceData

MOST_CHARACTERS = 4_000  # of one passage
_LETTER = re.compile(r"[A-Z]")
# By which names tools call what they found; the first that is there counts.
_LISTS = ("results", "organic", "organic_results", "documents", "artifacts")
_WORDS = ("passage", "page_content", "content", "text", "snippet", "body", "description")
_ADDRESSES = ("url", "link", "href", "source")
_TITLES = ("title", "name", "source")


class Lookup(Protocol):
    """A node that looks the post up."""

    async def __call__(self, state: Case) -> JSON:
        """Return the evidence."""


def evidence_from(
    source: Runnable[Any, Any],
    *,
    stance: EvidenceStance
    | str
    | Callable[[Document], EvidenceStance | str] = EvidenceStance.NEUTRAL,
    letter: str = "R",
    most: int = 5,
    seconds: float = 60,
) -> Lookup:
    """Return a piece that queries a LangChain retriever or tool with the post's words; its results are evidence.

        builder.add_node("glossary", evidence_from(store.as_retriever()))

    The passages stand before the court with their titles and web addresses, and are cited by ids: R1, R2. A source that
    fails or is late takes nothing from the case: the trial goes on without it, and a warning of the record says so.

    Args:
        source: is asked with the words of the post, as one text. It answers documents, texts, or mappings with a text
            under a usual name (`content`, `snippet`, `text`, …), one or a list; JSON of these will do.
        stance: which way the passages speak; or a function that tells it of each, as a document.
        letter: that of the ids. No two pieces of a graph may have the same, and E is that of the web.
        most: the maximum number of passages, from the first.
        seconds: how long the source is waited for.

    Raises:
        BadInput: the source can't be asked, or an argument is wrong.
    """
    if not isinstance(source, Runnable):
        raise BadInput(
            f"source: {type(source).__name__}: is no LangChain retriever or tool; give one of these"
        )
    if not _LETTER.fullmatch(letter) or letter == "E":
        raise BadInput(
            f"letter: {letter!r}: can't be that of the ids; give one capital letter other than E"
        )
    if most < 1:
        raise BadInput(f"most: {most}: leaves no passage; give 1 or more")
    if not callable(stance):
        stance = EvidenceStance.of(stance)
    name = getattr(source, "name", None) or type(source).__name__

    @piece(needs=["post"], writes=["evidence"], letter=letter)
    async def look_up(state: Case) -> JSON:
        """Ask the source for the words of the post."""
        words = state["post"]["text"].strip()
        if not words:
            return {"evidence": []}
        try:
            async with asyncio.timeout(seconds):
                found = [*_documents(await source.ainvoke(words))][:most]
        except GraphBubbleUp:  # no failure: a tool that asks a person
            raise
        except Exception as error:  # noqa: BLE001 (a stranger's code, whose errors may be of any kind)
            why = (
                ""
                if isinstance(error, TimeoutError)
                else f": {one_line(scrub(str(error), ()))[:200]}"
            )
            return {
                "evidence": [],
                "warnings": [f"{name} brought no evidence: {type(error).__name__}{why}"],
            }
        cut = sum(len(each.page_content) > MOST_CHARACTERS for each in found)
        warnings = (
            [f"{name}: {cut} passages were cut off after {MOST_CHARACTERS} characters"]
            if cut
            else []
        )
        ours = [
            _passage(f"{letter}{number}", each, stance)
            for number, each in enumerate(found, start=1)
        ]
        return {"evidence": ours, "warnings": warnings}

    return look_up


def _passage(id: str, found: Document, stance: Any) -> EvidenceData:
    told = found.metadata
    address = next((told[each] for each in _ADDRESSES if _is_web(told.get(each))), "")
    title = next(
        (told[each] for each in _TITLES if isinstance(told.get(each), str) and told[each].strip()),
        "",
    )
    speaks = EvidenceStance.of(stance(found)) if callable(stance) else stance
    return Evidence.of(
        id, found.page_content[:MOST_CHARACTERS], speaks, one_line(wellformed(title)), address
    )


def _is_web(address: Any) -> bool:
    return isinstance(address, str) and address.startswith(("http://", "https://"))


def _documents(answer: Any) -> Iterator[Document]:
    """Every passage in an answer, as a document with words."""
    if isinstance(answer, str) and answer.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):  # prose may begin with a bracket
            answer = parse_json(answer)
    if isinstance(answer, str):
        answer = Document(page_content=answer)
    if isinstance(answer, Document):
        if answer.page_content.strip():
            yield answer.model_copy(update={"page_content": wellformed(answer.page_content)})
    elif isinstance(answer, Mapping):
        words = next((answer[each] for each in _WORDS if isinstance(answer.get(each), str)), None)
        inside: list[Any] = next(
            (answer[each] for each in _LISTS if isinstance(answer.get(each), list)), []
        )
        yield from _documents(
            Document(page_content=words, metadata=dict(answer)) if words is not None else inside
        )
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from _documents(each)
    elif hasattr(answer, "content"):  # a message of a tool
        yield from _documents(answer.content)
