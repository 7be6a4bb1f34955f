"""The parts of the research agent: queries, addresses, hits, passages, and the verdict on the evidence."""

from __future__ import annotations

import re

from tribunal.models.role import Question
from tribunal.nodes.rehearsal.material import evidence_ids, marked_text, read_entries
from tribunal.nodes.rehearsal.reading import reading_of_question
from tribunal.schema import JSON

_KEYWORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE = re.compile(r"[^.!?\n]{15,300}[.!?]?")
_SUPPORTS = re.compile(
    r"\b(?:slurs?|derogatory|dehumani[sz]\w*|racist|sexist|hateful|hate speech|insult\w*)\b", re.IGNORECASE
)
_REFUTES = re.compile(
    r"\b(?:harmless|neutral|affectionate|festival|recipe|gardening|in jest|reclaimed)\b", re.IGNORECASE
)
_ANGLES = (("meaning", "slang", "hate speech"), ("origin", "news", "derogatory"), ("history", "symbol", "insult"))


def _keywords(text: str) -> list[str]:
    """Return the words of a text that a search would begin with, each once, the longest first."""
    words = dict.fromkeys(word.casefold() for word in _KEYWORD.findall(text))
    return sorted(words, key=lambda word: (-len(word), word))


def plan_queries(question: Question) -> JSON:
    """Ask for three queries from the post's longest words; on later turns words and angle move on."""
    turn = len(marked_text(question.material["tried"] or "").splitlines()) // 3
    words = _keywords(question.post.text) or ["post"]
    picked = [words[(turn + place) % len(words)] for place in range(3)]
    angle = _ANGLES[turn % len(_ANGLES)]
    queries = [f'"{word}" {end} {turn or ""}'.strip() for word, end in zip(picked, angle, strict=True)]
    return {**_plan_for(picked), "queries": queries}


def plan_urls(question: Question) -> JSON:
    """Ask for three pages of reference works, by the post's longest words."""
    words, tried = _keywords(question.post.text) or ["post"], question.material["tried"] or ""
    urls = [url for word in words if (url := f"https://en.wikipedia.org/wiki/{word}") not in tried]
    urls += [f"https://en.wiktionary.org/wiki/{words[0]}-{len(tried)}-{place}" for place in range(3)]
    return {**_plan_for(words[:3]), "urls": urls[:3]}


def _plan_for(words: list[str]) -> JSON:
    """Return the thought before a search, and what is to be verified: words alone, since the rules read no claims."""
    entities = list(dict.fromkeys(words))
    thought = f"What {', '.join(f'“{word}”' for word in entities)} may mean here is to be looked up."
    return {"thought": thought, "entities": entities, "claims": []}


def choose_hits(question: Question) -> JSON:
    """Choose the hits whose title or snippet holds one of the query's words."""
    words = set(_keywords(marked_text(question.material["query"])))
    hits = read_entries(question.material["hits"])
    shown = ((head, f"{hit.get('title', '')} {hit.get('snippet', '')}") for head, hit in hits)
    return {"relevant": [int(head.rstrip(".")) for head, text in shown if words & set(_keywords(text))]}


def choose_passages(question: Question) -> JSON:
    """Choose sentences that share a word with the post and call it hateful, or harmless, by a handful of words."""
    words, passages = set(_keywords(question.post.text)), []
    for sentence in _SENTENCE.findall(marked_text(question.material["page"])):
        stance = "supports" if _SUPPORTS.search(sentence) else "refutes" if _REFUTES.search(sentence) else ""
        if stance and words & set(_keywords(sentence)):
            passages.append({"passage": sentence.strip(), "stance": stance})
    return {"passages": passages[:3]}


def _evidence(question: Question) -> tuple[list[str], list[str]]:
    """Return the ids of the evidence that supports hatefulness, and of what refutes it."""
    evidence = question.material["evidence"]
    return evidence_ids(evidence, "supports"), evidence_ids(evidence, "refutes")


def weigh_evidence(question: Question) -> JSON:
    """Judge as most of the passages say."""
    supports, refutes = map(len, _evidence(question))
    judgement = "hate" if supports > refutes else "non-hate" if refutes > supports else "undecided"
    return {"judgement": judgement, "reasoning": f"{supports} support and {refutes} refute: {judgement}."}


def check_sufficiency(question: Question) -> JSON:
    """Call two pieces of evidence enough."""
    count = sum(map(len, _evidence(question))) + len(evidence_ids(question.material["evidence"], "neutral"))
    return {"sufficient": count >= 2, "missing": "" if count >= 2 else "a second source that says what the words mean"}


def conclude_research(question: Question) -> JSON:
    """Decide by an attack in the post that nothing excuses, else by the greater part of the evidence."""
    reading = reading_of_question(question)
    supports, refutes = _evidence(question)
    hateful = reading.gravest is not None or (len(supports) > len(refutes) and not reading.matches)
    steps: list[JSON] = [{"claim": reading.summary.rstrip("."), "evidence": []}]
    if supports:
        steps.append({"claim": "What was read calls its words hateful", "evidence": supports})
    if refutes:
        steps.append({"claim": "What was read calls its words harmless", "evidence": refutes})
    return {"label": "HATE" if hateful else "NON-HATE", "steps": steps}


def answer_in_words(question: Question) -> str:
    """Answer the baseline's question in words."""
    reading = reading_of_question(question)
    return f"{'hate speech' if reading.gravest else 'not hate speech'}: {reading.summary}"
