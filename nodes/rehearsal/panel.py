"""The parts of PREDICT's panel: perspectives, debaters, their judge, and the base annotator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

_BROAD = re.compile(r"stereotype|implicit|implied|veiled|between the lines|sarcasm|indirect", re.IGNORECASE)
_LATIN = re.compile(r"[A-Za-z]")
_COUNTED = re.compile(r"(\d+) of the annotators")
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
    labels = [line.partition(": ")[0].partition(". ")[2] for line in (material.get("examples") or "").splitlines()]
    alike = sum(each == hate for each in labels)
    if alike >= 2 and not _LATIN.search(question.post.text):
        return {"label": hate, "reason": f"{alike} of the most similar texts were labelled {hate}."}
    return {"label": not_hate, "reason": "Nothing in the post meets the criterion."}


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
    debate_text = question.material["debate"]
    gave_in = {side: bool(re.search(rf"^The {side} side, round 2 \(agrees\)", debate_text, re.M)) for side in _SIDES}
    if gave_in["hate"] != gave_in["non-hate"]:
        winner = "hate" if gave_in["non-hate"] else "non-hate"
        loser = "non-hate" if winner == "hate" else "hate"
        return {"label": winner, "reason": f"The {loser} side came to agree with the {winner} side."}
    behind = {"hate": 0, "non-hate": 0}
    for side in _SIDES:
        opened = re.search(
            rf"^The {side} side, round 1:\n(.*?)(?=^The (?:non-)?hate side, |\Z)", debate_text, re.M | re.S
        )
        count = _COUNTED.search(opened[1]) if opened else None
        behind[side] = int(count[1]) if count else 0
    winner = "hate" if behind["hate"] > behind["non-hate"] else "non-hate"
    return {
        "label": winner,
        "reason": f"Neither side moved the other; {behind['hate']} annotators stood behind hate and "
        f"{behind['non-hate']} behind non-hate.",
    }


def annotate(question: Question) -> JSON:
    """The base agent: by the post's own words alone."""
    if found := reading_of(question).gravest:
        return {"label": "hate", "reason": f"“{found.words}” is an attack that nothing in the post takes back."}
    return {"label": "non-hate", "reason": "The post's words hold no attack that it doesn't itself take back."}
