"""The rehearsal model's parts in a debate of views and among its peers, for hate, sarcasm and misinformation.

As elsewhere, what speaks for YES is read from the post alone (`Finding`), and what was said from the role's material
alone. `docs/rehearsal.md` gives the rules and must change with them. This module knows nothing of the model,
which hands it what it finds of hate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tribunal.schema import JSON, Task

if TYPE_CHECKING:
    from tribunal.models.door import Question

YES, NO = "YES", "NO"
LONGEST = 90  # characters of a quotation


@dataclass(frozen=True, slots=True)
class Finding:
    """Words of the post that speak for YES, what they are, and the views that see them (None: all do)."""

    words: str
    what: str
    views: tuple[str, ...] | None = None

    def seen_by(self, view: str) -> bool:
        return self.views is None or view in self.views


Find = Callable[["Question"], list[Finding]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign of sarcasm or misinformation. `beside` must stand in the post too, and `unless` must not."""

    name: str
    pattern: re.Pattern[str]
    what: str
    views: tuple[str, ...] | None
    beside: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)(?:" + "|".join(patterns) + r")(?!\w)", re.IGNORECASE)


_WARM = _any("love", "loving", "great", "wonderful", "fantastic", "perfect", "lovely", "brilliant", "delightful",
             "thrilled", "best day ever", "so much fun", "can't wait", "favou?rite")  # fmt: skip
_MISHAP = _any("broke(?:n)?(?: down)?", "delayed", "cancelled", "canceled", "late again", "stuck", "flat tyre",
               "flat tire", "spilled", "soaked", "locked out", "lost my", "crashed", "power cut")  # fmt: skip
_NUISANCE = _any("mondays?", "traffic(?: jams?)?", "meetings?", "taxes", "queues?", "homework", "the dentist",
                 "alarm clock", "overtime", "spam calls?")  # fmt: skip
_SOURCE = _any("according to", "reports?", "reported", "study", "studies", "police said", r"https?://\S+")

MARKS: dict[Task, tuple[Mark, ...]] = {
    "sarcasm": (
        Mark("label", _any("/s", r"#sarcas\w+", "sarcasm alert"), "says itself that it is sarcasm", None),
        Mark("stock phrase",
             _any("yeah,? right", "oh,? (?:great|joy|wonderful|fantastic)", "just (?:great|perfect|what i needed)",
                  "thanks a lot", "how (?:nice|lovely|thoughtful) of"),
             "is a phrase that is mostly said in mockery", ("surface", "deep")),
        Mark("warm mishap", _WARM, "is praise, and what it is said of is a mishap", ("contrast",),
             beside=_MISHAP),
        Mark("warm nuisance", _WARM, "is praise of what people commonly complain about", ("deep", "context"),
             beside=_NUISANCE),
    ),
    "misinformation": (
        Mark("known",
             _any("vaccines cause autism", "the earth is flat", "chemtrails", "5g (?:causes|spreads)",
                  "moon landing was (?:faked|staged)"),
             "is a claim that is known to be false", None),
        Mark("alarm",
             _any("they don't want you to know", "share (?:this )?before (?:it's|it is) (?:deleted|gone)",
                  "wake up,? people", "the media won't tell you"),
             "drums up alarm in place of a source", ("surface", "deep")),
        Mark("miracle",
             _any("miracle cures?", "cures? (?:cancer|diabetes|everything)", "100 ?% (?:proven|guaranteed)"),
             "promises what nothing can keep", ("surface", "deep")),
        Mark("headline", _any("breaking", "shocking", "exclusive"), "is a headline, and no source follows it",
             ("surface", "contrast"), unless=_SOURCE),
        Mark("gossip",
             _any("secretly (?:married|divorced|dating|pregnant)", "insiders? (?:say|says|claim|claims|reveal|reveals)",
                  "a source close to"),
             "is gossip that nobody stands behind", ("deep", "context")),
    ),
}  # fmt: skip
# One of these anywhere in the post takes everything back.
TAKEN_BACK: dict[Task, re.Pattern[str]] = {
    "sarcasm": _any("no sarcasm", "not (?:being )?sarcastic", "i (?:really )?mean (?:it|that)", "genuinely",
                    "sincerely"),
    "misinformation": _any("fact[- ]?check(?:ed|s|ing)?", "debunked", "not true", "untrue", "myths?", "false claims?",
                           "no evidence", "hoax", "satire", "rumou?rs?"),
}  # fmt: skip


def marks(question: Question) -> list[Finding]:
    """What speaks for YES in a post, where the task is sarcasm or misinformation."""
    task, text = question.policy.task, " ".join(question.post.text.replace("’", "'").split())
    if TAKEN_BACK[task].search(text):
        return []
    found = []
    for mark in MARKS[task]:
        hit = mark.pattern.search(text)
        other = mark.beside.search(text) if mark.beside else None
        if not hit or (mark.beside and not other) or (mark.unless and mark.unless.search(text)):
            continue
        found.append(Finding(hit.group()[:LONGEST].replace('"', "'"), mark.what, mark.views))
    return found


# --- What was said ----------------------------------------------------------------------------------------------------

# An answer as `tribunal.nodes.mv_debate.views.shown` writes it: a name, the side, the reason between marks.
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


def _quoted(finding: Finding, text: str) -> bool:
    return f"“{finding.words}”" in text


def _for(finding: Finding) -> JSON:
    return {"answer": YES, "reason": f"“{finding.words}” {finding.what}, and nothing in the post takes it back."}


_AGAINST: JSON = {"answer": NO, "reason": "Looked at in this way, nothing in the post's words speaks for it."}


def _taken_up(found: Sequence[Finding], material: str) -> JSON | None:
    """YES, on words of the post that somebody else has pointed at."""
    brought = next((each for each in found if _quoted(each, material)), None)
    if brought is None:
        return None
    return {"answer": YES, "reason": f"As was pointed out, “{brought.words}” {brought.what}."}


# --- The parts --------------------------------------------------------------------------------------------------------


def answer(find: Find, question: Question) -> JSON:
    """A view: YES on what it sees itself, else on what the history points at in the post, else NO."""
    found = find(question)
    own = next((each for each in found if each.seen_by(question.material["view"])), None)
    return _for(own) if own else _taken_up(found, question.material["history"]) or _AGAINST


def revise(find: Find, question: Question) -> JSON:
    """A view again: YES on what the reflection's own line points at, else as before."""
    before, _, reason = question.material["own"].partition("\n")
    view, lines = question.material["view"], question.material["reflection"].splitlines()
    own_line = next((line for line in lines if line.startswith(f"{view}: ")), "")
    stands = {"answer": before, "reason": "\n".join(reason.splitlines()[1:-1]) or "The answer stands."}
    return _taken_up(find(question), own_line) or stands


def score(find: Find, question: Question) -> JSON:
    """The Judge: whether an answer goes with what the post holds, and quotes it."""
    found = find(question)
    scores = {}
    for each in said(question.material["responses"]):
        right = (each.answer == YES) == bool(found)
        quotes = any(_quoted(finding, each.reason) for finding in found)
        scores[each.name] = (0.9 if quotes or not found else 0.6) if right else 0.3
    return {"reason": "An answer that quotes what speaks for it in the post counts for more.", "scores": scores}


def reflect(find: Find, question: Question) -> JSON:
    """The Reflection: every answer that passes over what the post holds is shown its words."""
    found = find(question)
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


def summarise(find: Find, question: Question) -> JSON:
    """The Summary: the greater part of the last answers, a tie being NO; else the last answer of the history."""
    last = said(question.material["responses"])
    if last:
        yes = sum(each.answer == YES for each in last)
        side, how = (YES if yes * 2 > len(last) else NO), f"{max(yes, len(last) - yes)} of {len(last)} views say so"
    else:
        kept = said(question.material["history"])
        side, how = (kept[-1].answer, "the best answer of the last round says so") if kept else (NO, "nobody was heard")
    finding = next(iter(find(question)), None)
    words = f"“{finding.words}” {finding.what}" if finding else "Nothing in the post's words speaks for it"
    return {"answer": side, "explanation": f"The answer is {side}: {how}. {words}."}


def speak(find: Find, question: Question) -> JSON:
    """An equal: those with an odd number see what lies open, the others all; then what anybody points at."""
    found = find(question)
    _, _, number = question.role.seat.partition(":")
    odd = not number.isdecimal() or int(number) % 2 == 1
    own = next((each for each in found if not odd or each.seen_by("surface")), None)
    return _for(own) if own else _taken_up(found, question.material["others"]) or _AGAINST


def classify(find: Find, question: Question) -> JSON:
    """The one call of the other tasks: positive where anything was found."""
    no, yes = (label.name for label in question.policy.binary)
    finding = next(iter(find(question)), None)
    if finding is None:
        return {"category": no, "explanation": "Nothing in the post's words speaks for it."}
    return {"category": yes, "explanation": f"“{finding.words}” {finding.what}."}


def parts(of_hate: Find) -> dict[str, Callable[[Question], JSON]]:
    """Every part of this module by its role, given what finds hate in a post."""

    def find(question: Question) -> list[Finding]:
        return of_hate(question) if question.policy.task == "hate" else marks(question)

    return {
        "view.answer": partial(answer, find),
        "view.revision": partial(revise, find),
        "judge.scores": partial(score, find),
        "reflection": partial(reflect, find),
        "summary": partial(summarise, find),
        "agent": partial(speak, find),
        "classifier.task": partial(classify, find),
    }
