"""The parts of PREDICT's panel: perspectives, debaters, their judge, and the base annotator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.material import blocks
from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.rehearsed import NOTHING_FOUND
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

_BROAD = re.compile(r"stereotype|implicit|implied|veiled|between the lines|sarcasm|indirect", re.IGNORECASE)
_LATIN = re.compile(r"[A-Za-z]")
_COUNTED = re.compile(r"(\d+) of the annotators")
_LABEL = re.compile(r"^  label: (.*)$", re.MULTILINE)
_SIDE = re.compile(r"The ((?:non-)?hate) side, round (\d+)( \(agrees\))?[^\n]*\Z")
_SIDES = ("non-hate", "hate")


def label(question: Question) -> JSON:
    """A perspective: by the post's own words, and in a script that the rules can't read by its examples' labels."""
    material, reading = question.material, reading_of(question)
    hate, not_hate = material["hate"], material["not_hate"]
    if found := reading.gravest:
        criterion = material.get("criterion")
        if found.type == "Direct" or not criterion or _BROAD.search(criterion):
            return {"label": hate, "reason": f"“{found.words}” {found.charge}."}
        return {"label": not_hate, "reason": f"“{found.words}” is at most implied, and the criterion asks for more."}
    if reading.matches:
        return {"label": not_hate, "reason": "The post itself speaks against the words that would count."}
    labels = _LABEL.findall(material.get("examples") or "")
    alike = sum(each == hate for each in labels)
    if alike >= 2 and not _LATIN.search(question.post.text):
        return {"label": hate, "reason": f"{alike} of the most similar texts were labelled {hate}."}
    return {"label": not_hate, "reason": NOTHING_FOUND}


def open_debate(question: Question) -> JSON:
    """A debater's first argument: how many annotators stand behind it, and the first one's reason."""
    hateful = question.role.name.endswith(".hate")
    given = question.material["reference"]
    side = "hateful" if hateful else "not hateful"
    if not given:
        return {"argument": f"No annotator stands behind it, and still the post may be read as {side}."}
    reasons = [line.removeprefix("- ") for line in given.splitlines() if line.startswith("- ")]
    return {"argument": f"The post is {side}, as {len(reasons)} of the annotators hold: {reasons[0]}"}


def answer_debate(question: Question) -> JSON:
    """A debater's answer: agrees where the post's own words decide it for the other side, or nobody stood behind it."""
    hateful = question.role.name.endswith(".hate")
    material, reading = question.material, reading_of(question)
    found = reading.gravest
    against = (found is None and bool(reading.matches)) if hateful else (found and found.type == "Direct")
    if against or not (_COUNTED.search(material["own"]) or not _COUNTED.search(material["opposing"])):
        return {"stance": "agree", "argument": "On the words of the post, the other side's reason carries."}
    return {"stance": "rebut", "argument": "The other side's reason doesn't answer the argument made here."}


def judge_debate(question: Question) -> JSON:
    """For the side that the other one agreed with; else for the side with more annotators behind it, ties non-hate."""
    turns = [(said, words) for before, words in blocks(question.material["debate"]) if (said := _SIDE.search(before))]
    gave_in = {side: any(said[1] == side and said[2] == "2" and said[3] for said, _ in turns) for side in _SIDES}
    nothing = "" if reading_of(question).matches else f" {NOTHING_FOUND}"
    if gave_in["hate"] != gave_in["non-hate"]:
        winner = "hate" if gave_in["non-hate"] else "non-hate"
        loser = "non-hate" if winner == "hate" else "hate"
        return {"label": winner, "reason": f"The {loser} side came to agree with the {winner} side.{nothing}"}
    behind = {"hate": 0, "non-hate": 0}
    for side in _SIDES:
        opened = next((words for said, words in turns if said[1] == side and said[2] == "1"), "")
        count = _COUNTED.search(opened)
        behind[side] = int(count[1]) if count else 0
    winner = "hate" if behind["hate"] > behind["non-hate"] else "non-hate"
    return {
        "label": winner,
        "reason": f"Neither side moved the other; {behind['hate']} annotators stood behind hate and "
        f"{behind['non-hate']} behind non-hate.{nothing}",
    }


def annotate(question: Question) -> JSON:
    """The base agent: by the post's own words alone."""
    reading = reading_of(question)
    if found := reading.gravest:
        return {"label": "hate", "reason": f"“{found.words}” is an attack that nothing in the post takes back."}
    if reading.matches:
        return {"label": "non-hate", "reason": "The post itself speaks against the words that would count."}
    return {"label": "non-hate", "reason": NOTHING_FOUND}
