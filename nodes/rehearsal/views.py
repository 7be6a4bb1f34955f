"""The parts of a debate of views and of its peers, for hate, sarcasm and misinformation.

As elsewhere, what speaks for YES is read from the post alone (`findings`), and what was said from the role's material
alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.findings import Finding, findings
from tribunal.rehearsed import NOTHING_FOUND
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

YES, NO = "YES", "NO"

# An answer as `nodes.mv_debate.history.answers_in_words` writes it: a name, the side, the reason between marks.
_ANSWER = re.compile(r"^(?:agent )?([\w-]+): (YES|NO)\n<<<answer ([0-9a-f]{16})\n(.*?)\nanswer \3>>>$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Said:
    """One answer in a role's material."""

    name: str
    answer: str
    reason: str


def said(material: str) -> list[Said]:
    """The answers in a material, in their order."""
    return [Said(name, answer, reason) for name, answer, _, reason in _ANSWER.findall(material)]


def _for(finding: Finding) -> JSON:
    return {"answer": YES, "reason": f"“{finding.words}” {finding.what}, and nothing in the post takes it back."}


_AGAINST: JSON = {"answer": NO, "reason": NOTHING_FOUND}


def _taken_up(found: Sequence[Finding], material: str) -> JSON | None:
    """YES, on words of the post that somebody else has pointed at."""
    brought = next((each for each in found if each.quoted_in(material)), None)
    if brought is None:
        return None
    return {"answer": YES, "reason": f"As was pointed out, “{brought.words}” {brought.what}."}


def answer(question: Question) -> JSON:
    """A view: YES on what it sees itself, else on what the history points at in the post, else NO."""
    found = findings(question)
    own = next((each for each in found if each.seen_by(question.material["view"])), None)
    return _for(own) if own else _taken_up(found, question.material["history"]) or _AGAINST


def revise(question: Question) -> JSON:
    """A view again: YES on what the reflection's own line points at, else as before."""
    before, _, reason = question.material["own"].partition("\n")
    view, lines = question.material["view"], question.material["reflection"].splitlines()
    own_line = next((line for line in lines if line.startswith(f"{view}: ")), "")
    stands = {"answer": before, "reason": "\n".join(reason.splitlines()[1:-1]) or "The answer stands."}
    return _taken_up(findings(question), own_line) or stands


def score(question: Question) -> JSON:
    """The Judge: whether an answer goes with what the post holds, and quotes it."""
    found = findings(question)
    scores = {}
    for each in said(question.material["responses"]):
        right = (each.answer == YES) == bool(found)
        quotes = any(finding.quoted_in(each.reason) for finding in found)
        scores[each.name] = (0.9 if quotes or not found else 0.6) if right else 0.3
    return {"reason": "An answer that quotes what speaks for it in the post counts for more.", "scores": scores}


def reflect(question: Question) -> JSON:
    """The Reflection: every answer that passes over what the post holds is shown its words."""
    found = findings(question)
    feedback = {}
    for each in said(question.material["responses"]):
        if found and each.answer == NO:
            errors, suggestion = "It passes over words of the post.", f"Weigh “{found[0].words}”: it {found[0].what}."
        elif each.answer == YES and not found:
            errors, suggestion = "The post's words don't bear it out.", "Look at the words again."
        else:
            errors, suggestion = "Nothing is wrong with it.", "Keep the answer."
        feedback[each.name] = {"errors": errors, "suggestion": suggestion}
    return {"feedback": feedback}


def summarise(question: Question) -> JSON:
    """The Summary: the greater part of the last answers, a tie being NO; else the last answer of the history."""
    last = said(question.material["responses"])
    if last:
        yes = sum(each.answer == YES for each in last)
        side, how = (YES if yes * 2 > len(last) else NO), f"{max(yes, len(last) - yes)} of {len(last)} views say so"
    else:
        kept = said(question.material["history"])
        side, how = (kept[-1].answer, "the best answer of the last round says so") if kept else (NO, "nobody was heard")
    finding = next(iter(findings(question)), None)
    words = f"“{finding.words}” {finding.what}" if finding else NOTHING_FOUND.rstrip(".")
    return {"answer": side, "explanation": f"The answer is {side}: {how}. {words}."}


def speak(question: Question) -> JSON:
    """An equal: those with an odd number see what lies open, the others all; then what anybody points at."""
    found = findings(question)
    _, _, number = question.role.seat.partition(":")
    odd = not number.isdecimal() or int(number) % 2 == 1
    own = next((each for each in found if not odd or each.seen_by("surface")), None)
    return _for(own) if own else _taken_up(found, question.material["others"]) or _AGAINST


def classify(question: Question) -> JSON:
    """The one call that answers a task's question: YES where anything was found."""
    finding = next(iter(findings(question)), None)
    return _for(finding) if finding else {"answer": NO, "reason": NOTHING_FOUND}
