"""What the court is shown beside the post, as every seat reads it: passages from the web, perspectives, a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tribunal.nodes.state import Court, opinions_of
from tribunal.prompts import quote, render
from tribunal.schema import Evidence, Opinion

_CITED = re.compile(r"\[([A-Z]\d+(?:, ?[A-Z]\d+)*)\]")


def exhibits(state: Court, *, opinions: bool = True) -> str:
    """The material that a case holds beside its post; empty where it holds none, so that no prompt changes.

    Args:
        state: `evidence`, `opinions` and `question` are read.
        opinions: whether what the perspectives said belongs to it; a debate that has them as its references leaves
            them out.
    """
    evidence, question = evidence_of(state), state.get("question")
    heard = opinions_of(state) if opinions else []
    if not (evidence or heard or question):
        return ""
    said = "\n".join(map(_opinion, heard))
    return render(
        "court/exhibits",
        {
            "evidence": quote("evidence", "\n".join(map(cited, evidence))) if evidence else "",
            "opinions": quote("opinions", said) if heard else "",
            "question": quote("question", question) if question else "",
        },
    )


def evidence_of(state: Court) -> list[Evidence]:
    """The passages that the case holds, in the order in which they were found."""
    return [Evidence.model_validate(each) for each in state.get("evidence", [])]


def cited(each: Evidence) -> str:
    """A passage as a prompt shows it: id, which way it speaks, title, address, and its words."""
    where = " · ".join(part for part in (one_line(each.title), each.url) if part)
    return f"[{each.id}] {each.stance} · {where}\n{each.passage}"


def _opinion(opinion: Opinion) -> str:
    stance = "hate" if opinion.stance == "hate" else "not hate"
    return f"{opinion.id}, {one_line(opinion.title)}: {opinion.label_name} ({stance}): {one_line(opinion.reason)}"


def one_line(text: str) -> str:
    return " ".join(text.replace('"', "'").split())[:300]


def citations(words: str) -> list[str]:
    """The ids that a text cites, such as [E1] or [E1, E2], each once."""
    return list(dict.fromkeys(each.strip() for found in _CITED.findall(words) for each in found.split(",")))


def cites_only(state: Court, words: Callable[[Any], Iterable[str]]) -> Callable[[Any], None]:
    """A check that an answer cites no passage that the case doesn't hold.

    Args:
        state: `evidence` is read.
        words: the texts of an answer that may cite.
    """
    held = [each["id"] for each in state.get("evidence", [])]

    def check(answer: Any) -> None:
        for text in words(answer):
            if unknown := next((each for each in citations(text) if each not in held), None):
                known = f"the passages are {', '.join(held)}" if held else "there are none to cite"
                raise ValueError(f"{unknown!r} is cited, and is no passage of this case; {known}")

    return check
