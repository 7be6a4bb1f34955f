"""What in a post speaks for YES in a debate of views and among its peers, read from the post alone.

`docs/rehearsal.md` shows the hints and must change with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.reading import reading_of
from tribunal.nodes.rehearsal.spelling import cut, plain
from tribunal.schema import CueType, Task
from tribunal.text import one_line

if TYPE_CHECKING:
    from tribunal.models.question import Question


@dataclass(frozen=True, slots=True)
class Finding:
    """Words of the post that speak for YES, what they are, and the views that see them (None: all do)."""

    words: str
    what: str
    views: tuple[str, ...] | None = None

    def seen_by(self, view: str) -> bool:
        return self.views is None or view in self.views

    def quoted_in(self, text: str) -> bool:
        return f"“{self.words}”" in text


@dataclass(frozen=True, slots=True)
class Hint:
    """What hints at sarcasm or misinformation. `beside` must stand in the post too, and `unless` must not."""

    name: str
    pattern: re.Pattern[str]
    what: str
    views: tuple[str, ...] | None
    beside: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None


def _whole(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)(?:" + "|".join(patterns) + r")(?!\w)", re.IGNORECASE)


_WARM = _whole("love", "loving", "great", "wonderful", "fantastic", "perfect", "lovely", "brilliant", "delightful",
               "thrilled", "best day ever", "so much fun", "can't wait", "favou?rite")  # fmt: skip
_MISHAP = _whole("broke(?:n)?(?: down)?", "delayed", "cancelled", "canceled", "late again", "stuck", "flat tyre",
                 "flat tire", "spilled", "soaked", "locked out", "lost my", "crashed", "power cut")  # fmt: skip
_NUISANCE = _whole("mondays?", "traffic(?: jams?)?", "meetings?", "taxes", "queues?", "homework", "the dentist",
                   "alarm clock", "overtime", "spam calls?")  # fmt: skip
_SOURCE = _whole("according to", "reports?", "reported", "study", "studies", "police said", r"https?://\S+")

HINTS: dict[Task, tuple[Hint, ...]] = {
    "sarcasm": (
        Hint("label", _whole("/s", r"#sarcas\w+", "sarcasm alert"), "says itself that it is sarcasm", None),
        Hint("stock phrase",
             _whole("yeah,? right", "oh,? (?:great|joy|wonderful|fantastic)", "just (?:great|perfect|what i needed)",
                    "thanks a lot", "how (?:nice|lovely|thoughtful) of"),
             "is a phrase that is mostly said in mockery", ("surface", "deep")),
        Hint("warm mishap", _WARM, "is praise, and what it is said of is a mishap", ("contrast",),
             beside=_MISHAP),
        Hint("warm nuisance", _WARM, "is praise of what people commonly complain about", ("deep", "context"),
             beside=_NUISANCE),
    ),
    "misinformation": (
        Hint("known",
             _whole("vaccines cause autism", "the earth is flat", "chemtrails", "5g (?:causes|spreads)",
                    "moon landing was (?:faked|staged)"),
             "is a claim that is known to be false", None),
        Hint("alarm",
             _whole("they don't want you to know", "share (?:this )?before (?:it's|it is) (?:deleted|gone)",
                    "wake up,? people", "the media won't tell you"),
             "drums up alarm in place of a source", ("surface", "deep")),
        Hint("miracle",
             _whole("miracle cures?", "cures? (?:cancer|diabetes|everything)", "100 ?% (?:proven|guaranteed)"),
             "promises what nothing can keep", ("surface", "deep")),
        Hint("headline", _whole("breaking", "shocking", "exclusive"), "is a headline, and no source follows it",
             ("surface", "contrast"), unless=_SOURCE),
        Hint("gossip",
             _whole("secretly (?:married|divorced|dating|pregnant)",
                    "insiders? (?:say|says|claim|claims|reveal|reveals)", "a source close to"),
             "is gossip that nobody stands behind", ("deep", "context")),
    ),
}  # fmt: skip
# One of these anywhere in the post takes everything back.
TAKEN_BACK: dict[Task, re.Pattern[str]] = {
    "sarcasm": _whole("no sarcasm", "not (?:being )?sarcastic", "i (?:really )?mean (?:it|that)", "genuinely",
                      "sincerely"),
    "misinformation": _whole("fact[- ]?check(?:ed|s|ing)?", "debunked", "not true", "untrue", "myths?", "false claims?",
                             "no evidence", "hoax", "satire", "rumou?rs?"),
}  # fmt: skip
_SEEN_BY: dict[CueType, tuple[str, ...] | None] = {
    "Direct": None, "Socio-cultural": ("deep", "context"), "Metaphor": ("deep",),
}  # fmt: skip


def findings(question: Question) -> list[Finding]:
    """What speaks for YES in the post that a call is about, under the task of its policy."""
    if question.policy.task == "hate":
        unexcused = reading_of(question).unexcused
        return [Finding(match.words, match.charge, _SEEN_BY[match.type]) for match in unexcused]
    return _hinted(question.policy.task, one_line(plain(question.post.text)))


def _hinted(task: Task, text: str) -> list[Finding]:
    if TAKEN_BACK[task].search(text):
        return []
    found = []
    for hint in HINTS[task]:
        hinted = hint.pattern.search(text)
        alone = hint.beside is not None and not hint.beside.search(text)
        backed = hint.unless is not None and hint.unless.search(text)
        if hinted and not alone and not backed:
            found.append(Finding(cut(hinted.group()), hint.what, hint.views))
    return found
