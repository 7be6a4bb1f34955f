"""The parts of the research agent: queries, addresses, hits, passages, and the verdict on the evidence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.material import evidence, ids
from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.rehearsed import NOTHING_FOUND
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

_KEYWORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE = re.compile(r"[^.!?\n]{15,300}[.!?]?")
_SUPPORTS = re.compile(
    r"\b(?:slurs?|derogatory|dehumani[sz]\w*|racist|sexist|hateful|hate speech|insult\w*)\b", re.IGNORECASE
)
_REFUTES = re.compile(
    r"\b(?:harmless|neutral|affectionate|festival|recipe|gardening|in jest|reclaimed)\b", re.IGNORECASE
)
_HIT = re.compile(r"^(\d+)\.\n((?:  .*\n)*)", re.MULTILINE)
_SHOWN = re.compile(r"^  (?:title|snippet): (.*)$", re.MULTILINE)


def _keywords(text: str) -> list[str]:
    """The longest words of a text, each once: what a search would begin with."""
    words = dict.fromkeys(word.casefold() for word in _KEYWORD.findall(text))
    return sorted(words, key=lambda word: (-len(word), word)) or ["post"]


def queries(question: Question) -> JSON:
    """Three queries from the post's longest words, which are what is to be verified; on later turns words and angle
    move on."""
    tried = (question.material["tried"] or "").splitlines()[1:-1]
    words, turn = _keywords(question.post.text), len(tried) // 3
    picked = [words[(turn + place) % len(words)] for place in range(3)]
    angles = (("meaning", "slang", "hate speech"), ("origin", "news", "derogatory"), ("history", "symbol", "insult"))
    angle = angles[turn % len(angles)]
    queries = [f'"{word}" {end} {turn or ""}'.strip() for word, end in zip(picked, angle, strict=True)]
    return {**_plan(picked), "queries": queries}


def urls(question: Question) -> JSON:
    """Three pages of a reference work, by the post's longest words."""
    words, tried = _keywords(question.post.text), question.material["tried"] or ""
    urls = [f"https://en.wikipedia.org/wiki/{word}" for word in words]
    fresh = [url for url in urls if url not in tried] + [
        f"https://en.wiktionary.org/wiki/{word}-{len(tried)}-{place}" for place, word in enumerate((words * 3)[:3])
    ]
    return {**_plan(words[:3]), "urls": fresh[:3]}


def _plan(words: list[str]) -> JSON:
    """The thought before a search, and what is to be verified: words alone, since the rules read no claims."""
    entities = list(dict.fromkeys(words))
    thought = f"What {', '.join(f'“{word}”' for word in entities)} may mean here is to be looked up."
    return {"thought": thought, "entities": entities, "claims": []}


def relevance(question: Question) -> JSON:
    """Hits whose title or snippet holds one of the query's words."""
    words = set(_keywords(question.material["query"].partition("\n")[2].rpartition("\n")[0]))
    relevant = [
        int(number)
        for number, hit in _HIT.findall(question.material["hits"])
        if words & {word.casefold() for word in _KEYWORD.findall(" ".join(_SHOWN.findall(hit)))}
    ]
    return {"relevant": relevant}


def passages(question: Question) -> JSON:
    """Sentences that share a word with the post and call it hateful, or harmless, by a handful of words."""
    page = question.material["page"].partition("\n")[2].rpartition("\n")[0]
    words = set(_keywords(question.post.text))
    found = []
    for sentence in _SENTENCE.findall(page):
        if words & {word.casefold() for word in _KEYWORD.findall(sentence)}:
            if _SUPPORTS.search(sentence):
                found.append({"passage": sentence.strip(), "stance": "supports"})
            elif _REFUTES.search(sentence):
                found.append({"passage": sentence.strip(), "stance": "refutes"})
    return {"passages": found[:3]}


def weigh(question: Question) -> JSON:
    """With whichever side the new page speaks for more."""
    found = evidence(question.material["evidence"])
    for_hate = len(ids(found, "supports")) - len(ids(found, "refutes"))
    judgement = "hate" if for_hate > 0 else "non-hate" if for_hate < 0 else "undecided"
    return {"judgement": judgement, "reasoning": f"The page adds {', '.join(found)}, which speak for {judgement}."}


def enough(question: Question) -> JSON:
    """Two pieces of evidence are enough."""
    sufficient = len(evidence(question.material["evidence"])) >= 2
    return {"sufficient": sufficient, "missing": "" if sufficient else "a second source that says what the words mean"}


def conclude(question: Question) -> JSON:
    """By an attack in the post that nothing excuses, else by the greater part of the evidence."""
    found, reading = evidence(question.material["evidence"]), reading_of(question)
    supports, refutes, attack = ids(found, "supports"), ids(found, "refutes"), reading.gravest
    excused = bool(reading.matches) and attack is None
    hateful = attack is not None or (len(supports) > len(refutes) and not excused)
    if attack:
        claim = f"“{attack.words}” is an attack that nothing in the post takes back"
    elif excused:
        claim = "The post itself speaks against the words that would count"
    else:
        claim = NOTHING_FOUND
    steps: list[JSON] = [{"claim": claim, "evidence": []}]
    if supports:
        steps.append({"claim": "What was read calls its words hateful", "evidence": supports})
    if refutes:
        steps.append({"claim": "What was read calls its words harmless", "evidence": refutes})
    return {"label": "HATE" if hateful else "NON-HATE", "confidence": 0.0, "steps": steps}


def in_words(question: Question) -> str:
    """The baseline's answer in words."""
    reading = reading_of(question)
    if attack := reading.gravest:
        return f"hate speech: “{attack.words}” is an attack that nothing in the post takes back."
    if reading.matches:
        return "not hate speech: the post itself speaks against the words that would count."
    return f"not hate speech: {NOTHING_FOUND}"
