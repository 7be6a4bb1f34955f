"""The parts of debates and of research: PREDICT's panel, views and their peers for every task, and the researcher.

What speaks for YES is read from the post alone, and what was said from the role's material alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tribunal.core.calls import NOTHING_FOUND
from tribunal.core.text import one_line
from tribunal.models.role import Question
from tribunal.nodes.rehearsal.lexicon import (
    LEXICON,
    Words,
    evidence_ids,
    marked_text,
    read_blocks,
    read_entries,
)
from tribunal.nodes.rehearsal.reading import plain_text, reading_of_question, shorten_quote
from tribunal.schema import JSON, CueType

_BROAD = re.compile(
    r"stereotype|implicit|implied|veiled|between the lines|sarcasm|indirect", re.IGNORECASE
)
_LATIN = re.compile(r"[A-Za-z]")
_COUNT = re.compile(r"(\d+) of the annotators")
_TURN = re.compile(r"The ((?:non-)?hate) side, round (\d+)( \(agrees\))?[^\n]*\s*\Z")
_VIEWS_OF_TYPE: dict[CueType, Words] = {
    "Direct": (),
    "Socio-cultural": ("deep", "context"),
    "Metaphor": ("deep",),
}
# What stands before the reason of an answer, as `nodes.mv_debate.views.answers_in_words` writes it.
_ANSWER = re.compile(r"^(?:agent )?([\w-]+): (YES|NO)\n\Z", re.MULTILINE)


# A panel of perspectives


def label_post(question: Question) -> JSON:
    """Play a perspective: by the post's words, and in a script that the rules can't read by its examples' labels."""
    material = question.material
    reading = reading_of_question(question)
    hate = material["hate"]
    not_hate = material["not_hate"]
    match = reading.gravest
    if match:
        criterion = material.get("criterion")
        if match.type == "Direct" or not criterion or _BROAD.search(criterion):
            return {"label": hate, "reason": f"“{match.words}” {match.charge}."}
        return {
            "label": not_hate,
            "reason": f"“{match.words}” is at most implied, and the criterion asks for more.",
        }
    alike = [entry.get("label") for _, entry in read_entries(material.get("examples") or "")].count(
        hate
    )
    if not reading.matches and alike >= 2 and not _LATIN.search(question.post.text):
        return {"label": hate, "reason": f"{alike} of the most similar texts were labelled {hate}."}
    return {"label": not_hate, "reason": reading.summary}


def annotate_post(question: Question) -> JSON:
    """Play the base agent: by the post's own words alone."""
    reading = reading_of_question(question)
    return {"label": "hate" if reading.gravest else "non-hate", "reason": reading.summary}


def open_debate(question: Question) -> JSON:
    """Argue in round 1: how many annotators stand behind the side, and the first one's reason."""
    side = "hateful" if question.role.name.endswith(".hate") else "not hateful"
    reasons = [
        line[2:] for line in question.material["reference"].splitlines() if line.startswith("- ")
    ]
    if not reasons:
        return {
            "argument": f"No annotator stands behind it, and still the post may be read as {side}."
        }
    return {
        "argument": f"The post is {side}, as {len(reasons)} of the annotators hold: {reasons[0]}"
    }


def answer_debate(question: Question) -> JSON:
    """Agree if the post's own words decide it for the other side, or nobody stood behind this one; else rebut."""
    material = question.material
    reading = reading_of_question(question)
    decided = reading.gravest is not None and reading.gravest.type == "Direct"
    if question.role.name.endswith(".hate"):
        decided = reading.gravest is None and bool(reading.matches)
    outnumbered = _COUNT.search(material["opposing"]) and not _COUNT.search(material["own"])
    if decided or outnumbered:
        return {
            "stance": "agree",
            "argument": "On the words of the post, the other side's reason carries.",
        }
    return {
        "stance": "rebut",
        "argument": "The other side's reason doesn't answer the argument made here.",
    }


def judge_panel(question: Question) -> JSON:
    """Decide for the side that the other agreed with, else for the one with more annotators, a tie being non-hate."""
    gave_in = set()
    annotators = {"hate": 0, "non-hate": 0}
    for before, words in read_blocks(question.material["debate"]):
        turn = _TURN.search(before)
        if turn:
            side, number, agrees = turn.groups()
            if number == "2" and agrees:
                gave_in.add(side)
            elif number == "1" and (count := _COUNT.search(words)):
                annotators[side] = int(count[1])
    nothing = "" if reading_of_question(question).matches else f" {NOTHING_FOUND}"
    if len(gave_in) == 1:
        [loser] = gave_in
        winner = "hate" if loser == "non-hate" else "non-hate"
        return {
            "label": winner,
            "reason": f"The {loser} side came to agree with the {winner} side.{nothing}",
        }
    return {
        "label": "hate" if annotators["hate"] > annotators["non-hate"] else "non-hate",
        "reason": f"Neither side moved the other; {annotators['hate']} annotators stood behind hate and "
        f"{annotators['non-hate']} behind non-hate.{nothing}",
    }


# Views and their peers


class ViewClue(NamedTuple):
    """Words of the post that speak for YES, what they do, and the views that see them (none named: all do)."""

    words: str
    charge: str
    views: Words

    def is_quoted_in(self, text: str) -> bool:
        """Return whether a text quotes these words."""
        return f"“{self.words}”" in text


def _read_answers(material: str) -> list[tuple[str, str, str]]:
    """Return the name, the side and the reason of each answer in a material."""
    return [
        (answer[1], answer[2], reason)
        for before, reason in read_blocks(material)
        if (answer := _ANSWER.search(before))
    ]


def find_clues(question: Question) -> list[ViewClue]:
    """Return what speaks for YES in the post that a call is about, under the task of its policy."""
    task = question.policy.task
    if task == "hate":
        unexcused = reading_of_question(question).unexcused
        return [
            ViewClue(match.words, match.charge, _VIEWS_OF_TYPE[match.type]) for match in unexcused
        ]
    rules = LEXICON.tasks[task]
    text = one_line(plain_text(question.post.text))
    if rules.taken_back.search(text):
        return []
    clues = []
    for hint in rules.hints:
        alone = hint.beside and not hint.beside.search(text)
        backed = hint.unless and hint.unless.search(text)
        match = hint.words.search(text)
        if match and not alone and not backed:
            clues.append(ViewClue(shorten_quote(match.group()), hint.charge, hint.views))
    return clues


def _answer_as(question: Question, view: str, material: str) -> JSON:
    """Return YES on what a view sees itself, else on what a material quotes of the post, else NO. "" sees all."""
    clues = find_clues(question)
    own = next((clue for clue in clues if not view or not clue.views or view in clue.views), None)
    if own:
        return {
            "answer": "YES",
            "reason": f"“{own.words}” {own.charge}, and nothing in the post takes it back.",
        }
    quoted = next((clue for clue in clues if clue.is_quoted_in(material)), None)
    if quoted:
        return {"answer": "YES", "reason": f"As was pointed out, “{quoted.words}” {quoted.charge}."}
    return {"answer": "NO", "reason": NOTHING_FOUND}


def answer_as_view(question: Question) -> JSON:
    """Play a view: by what it sees itself, else by what the history points at."""
    return _answer_as(question, question.material["view"], question.material["history"])


def answer_as_equal(question: Question) -> JSON:
    """Play an equal: those with an odd number see what lies open, the others all; then what anybody points at."""
    number = question.role.seat.partition(":")[2]
    odd = not number.isdecimal() or int(number) % 2 == 1
    return _answer_as(question, "surface" if odd else "", question.material["others"])


def answer_task(question: Question) -> JSON:
    """Answer a task's question in the one call: YES if anything was found."""
    return _answer_as(question, "", "")


def revise_answer(question: Question) -> JSON:
    """Answer as a view again: YES on what the reflection's own line points at, else as before."""
    before, _, reason = question.material["own"].partition("\n")
    lines = question.material["reflection"].splitlines()
    own_line = next(
        (line for line in lines if line.startswith(f"{question.material['view']}: ")), ""
    )
    if any(clue.is_quoted_in(own_line) for clue in find_clues(question)):
        return _answer_as(question, "nobody", own_line)
    return {"answer": before, "reason": marked_text(reason) or "The answer stays the same."}


def score_answers(question: Question) -> JSON:
    """Play the Judge: whether an answer goes with what the post holds, and quotes it."""
    clues = find_clues(question)
    scores = {}
    for name, answer, reason in _read_answers(question.material["responses"]):
        right = (answer == "YES") == bool(clues)
        quotes = any(clue.is_quoted_in(reason) for clue in clues)
        scores[name] = (0.9 if quotes or not clues else 0.6) if right else 0.3
    return {
        "reason": "An answer that quotes what speaks for it in the post counts for more.",
        "scores": scores,
    }


def reflect_on_answers(question: Question) -> JSON:
    """Play the Reflection: every answer that passes over what the post holds is shown its words."""
    clues = find_clues(question)
    feedback = {}
    for name, answer, _ in _read_answers(question.material["responses"]):
        errors = "Nothing is wrong with it."
        suggestion = "Keep the answer."
        if clues and answer == "NO":
            errors = "It passes over words of the post."
            suggestion = f"Weigh “{clues[0].words}”: it {clues[0].charge}."
        elif answer == "YES" and not clues:
            errors = "The post's words don't bear it out."
            suggestion = "Look at the words again."
        feedback[name] = {"errors": errors, "suggestion": suggestion}
    return {"feedback": feedback}


def summarise_debate(question: Question) -> JSON:
    """Play the Summary: the greater part of the last answers, a tie being NO; else the history's last answer."""
    last, history = (
        [answer for _, answer, _ in _read_answers(question.material[name])]
        for name in ("responses", "history")
    )
    side = "NO"
    how = "nobody was heard"
    if last:
        yes = last.count("YES")
        side = "YES" if yes * 2 > len(last) else "NO"
        how = f"{max(yes, len(last) - yes)} of {len(last)} views say so"
    elif history:
        side = history[-1]
        how = "the best answer of the last round says so"
    clue = next(iter(find_clues(question)), None)
    words = f"“{clue.words}” {clue.charge}." if clue else NOTHING_FOUND
    return {"answer": side, "explanation": f"The answer is {side}: {how}. {words}"}


# The researcher: queries, addresses, hits, passages, and the verdict on the evidence


_KEYWORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE = re.compile(r"[^.!?\n]{15,300}[.!?]?")
_SUPPORTS = re.compile(
    r"\b(?:slurs?|derogatory|dehumani[sz]\w*|racist|sexist|hateful|hate speech|insult\w*)\b",
    re.IGNORECASE,
)
_REFUTES = re.compile(
    r"\b(?:harmless|neutral|affectionate|festival|recipe|gardening|in jest|reclaimed)\b",
    re.IGNORECASE,
)
_ANGLES = (
    ("meaning", "slang", "hate speech"),
    ("origin", "news", "derogatory"),
    ("history", "symbol", "insult"),
)


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
    queries = [
        f'"{word}" {end} {turn or ""}'.strip() for word, end in zip(picked, angle, strict=True)
    ]
    return {**_plan_for(picked), "queries": queries}


def plan_urls(question: Question) -> JSON:
    """Ask for three pages of reference works, by the post's longest words."""
    words = _keywords(question.post.text) or ["post"]
    tried = question.material["tried"] or ""
    urls = [url for word in words if (url := f"https://en.wikipedia.org/wiki/{word}") not in tried]
    urls += [
        f"https://en.wiktionary.org/wiki/{words[0]}-{len(tried)}-{place}" for place in range(3)
    ]
    return {**_plan_for(words[:3]), "urls": urls[:3]}


def _plan_for(words: list[str]) -> JSON:
    """Return the thought before a search, and what is to be verified: words alone, since the rules read no claims."""
    entities = list(dict.fromkeys(words))
    thought = (
        f"What {', '.join(f'“{word}”' for word in entities)} may mean here is to be looked up."
    )
    return {"thought": thought, "entities": entities, "claims": []}


def choose_hits(question: Question) -> JSON:
    """Choose the hits whose title or snippet holds one of the query's words."""
    words = set(_keywords(marked_text(question.material["query"])))
    hits = read_entries(question.material["hits"])
    shown = ((head, f"{hit.get('title', '')} {hit.get('snippet', '')}") for head, hit in hits)
    return {
        "relevant": [int(head.rstrip(".")) for head, text in shown if words & set(_keywords(text))]
    }


def choose_passages(question: Question) -> JSON:
    """Choose sentences that share a word with the post and call it hateful, or harmless, by a handful of words."""
    words = set(_keywords(question.post.text))
    passages = []
    for sentence in _SENTENCE.findall(marked_text(question.material["page"])):
        stance = (
            "supports"
            if _SUPPORTS.search(sentence)
            else "refutes"
            if _REFUTES.search(sentence)
            else ""
        )
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
    return {
        "judgement": judgement,
        "reasoning": f"{supports} support and {refutes} refute: {judgement}.",
    }


def check_sufficiency(question: Question) -> JSON:
    """Call two pieces of evidence enough."""
    count = sum(map(len, _evidence(question))) + len(
        evidence_ids(question.material["evidence"], "neutral")
    )
    return {
        "sufficient": count >= 2,
        "missing": "" if count >= 2 else "a second source that says what the words mean",
    }


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
