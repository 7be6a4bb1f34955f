"""The parts of PREDICT's panel: perspectives, debaters, their judge, and the base annotator."""

from __future__ import annotations

import re

from tribunal.calls import NOTHING_FOUND
from tribunal.models.role import Question
from tribunal.nodes.rehearsal.material import read_blocks
from tribunal.nodes.rehearsal.reading import reading_of_question
from tribunal.schema import JSON

_BROAD = re.compile(r"stereotype|implicit|implied|veiled|between the lines|sarcasm|indirect", re.IGNORECASE)
_LATIN = re.compile(r"[A-Za-z]")
_COUNT = re.compile(r"(\d+) of the annotators")
_LABEL = re.compile(r"^  label: (.*)$", re.MULTILINE)
_TURN = re.compile(r"The ((?:non-)?hate) side, round (\d+)( \(agrees\))?[^\n]*\Z")


def label_post(question: Question) -> JSON:
    """Play a perspective: by the post's words, and in a script that the rules can't read by its examples' labels."""
    material, reading = question.material, reading_of_question(question)
    hate, not_hate = material["hate"], material["not_hate"]
    if match := reading.gravest:
        criterion = material.get("criterion")
        if match.type == "Direct" or not criterion or _BROAD.search(criterion):
            return {"label": hate, "reason": f"“{match.words}” {match.charge}."}
        return {"label": not_hate, "reason": f"“{match.words}” is at most implied, and the criterion asks for more."}
    alike = _LABEL.findall(material.get("examples") or "").count(hate)
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
    reasons = [line[2:] for line in question.material["reference"].splitlines() if line.startswith("- ")]
    if not reasons:
        return {"argument": f"No annotator stands behind it, and still the post may be read as {side}."}
    return {"argument": f"The post is {side}, as {len(reasons)} of the annotators hold: {reasons[0]}"}


def answer_debate(question: Question) -> JSON:
    """Agree if the post's own words decide it for the other side, or nobody stood behind this one; else rebut."""
    material, reading = question.material, reading_of_question(question)
    decided = reading.gravest is not None and reading.gravest.type == "Direct"
    if question.role.name.endswith(".hate"):
        decided = reading.gravest is None and bool(reading.matches)
    outnumbered = _COUNT.search(material["opposing"]) and not _COUNT.search(material["own"])
    if decided or outnumbered:
        return {"stance": "agree", "argument": "On the words of the post, the other side's reason carries."}
    return {"stance": "rebut", "argument": "The other side's reason doesn't answer the argument made here."}


def judge_panel(question: Question) -> JSON:
    """Decide for the side that the other agreed with, else for the one with more annotators, a tie being non-hate."""
    gave_in, annotators = set(), {"hate": 0, "non-hate": 0}
    for before, words in read_blocks(question.material["debate"]):
        if turn := _TURN.search(before):
            side, number, agrees = turn.groups()
            if number == "2" and agrees:
                gave_in.add(side)
            elif number == "1" and (count := _COUNT.search(words)):
                annotators[side] = int(count[1])
    nothing = "" if reading_of_question(question).matches else f" {NOTHING_FOUND}"
    if len(gave_in) == 1:
        [loser] = gave_in
        winner = "hate" if loser == "non-hate" else "non-hate"
        return {"label": winner, "reason": f"The {loser} side came to agree with the {winner} side.{nothing}"}
    return {
        "label": "hate" if annotators["hate"] > annotators["non-hate"] else "non-hate",
        "reason": f"Neither side moved the other; {annotators['hate']} annotators stood behind hate and "
        f"{annotators['non-hate']} behind non-hate.{nothing}",
    }
