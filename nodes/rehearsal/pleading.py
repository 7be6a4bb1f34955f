"""What both sides of the court share: how a cue is tied to the post, and how an argument about it is made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tribunal.nodes.rehearsal.matches import Excuse, Match
from tribunal.nodes.rehearsal.material import Statement
from tribunal.nodes.rehearsal.reading import Reading
from tribunal.nodes.rehearsal.spelling import plain
from tribunal.schema import JSON

if TYPE_CHECKING:
    from tribunal.models.question import Question

HARMLESS = "harmless reading"  # a refutation that rests on this alone doesn't carry with the judge

_QUOTED = re.compile(r"[“\"]([^“”\"\n]+)[”\"]")


def is_harmless(argument: str) -> bool:
    """Whether an argument offers only a harmless reading; words quoted from the post don't count."""
    return HARMLESS in re.sub(r"“[^”]*”", "", argument).casefold()


def match_of(reading: Reading, cue: Statement) -> Match | None:
    """What the rules themselves found in the post that a cue speaks of, whoever worded the cue."""
    claim = plain(cue.claim).casefold()
    quoted = [found[1].casefold() for found in _QUOTED.finditer(claim)]
    same = [match for match in reading.matches if quoted and plain(match.words).casefold() == quoted[-1]]
    of_its_type = [match for match in same if cue.type in ("", match.type)]
    named = [match for match in reading.matches if match.found and match.found.casefold() in claim]
    return next(iter((*of_its_type, *same, *named)), None)


def excuse_for(reading: Reading, match: Match | None) -> Excuse | None:
    """What in the post speaks against a cue that is tied to this match, or to none that the rules find."""
    if match:
        return match.excuse
    if not reading.names_protected and not reading.matches:
        return Excuse("nobody", "")
    # A cue in words of its own is excused by what excuses everything that was found.
    excuses = [found.excuse for found in reading.matches]
    return excuses[0] if excuses and all(excuses) else None


def argument(cue: Statement, stance: str, words: str) -> JSON:
    """What is said of one cue, in the court's form."""
    return {
        "cue_id": cue.cue_id,
        "target_group": cue.group or "(not said)",
        "claim": cue.claim or "(not said)",
        "argument": words,
        "stance": stance,
    }


def admitted(question: Question, said: Iterable[JSON]) -> list[JSON]:
    """Those arguments that the court admits: an edited transcript may name cues that it doesn't know."""
    kept = []
    for each in said:
        try:
            filled = question.form.model_validate({"arguments": [each]})
            if question.mend:
                question.mend(filled, [])
        except ValueError:
            continue
        kept.append(each)
    return kept
