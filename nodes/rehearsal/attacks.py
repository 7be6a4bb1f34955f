"""The lexicon of open attacks: what counts as a Direct cue once it is said of a group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tribunal.nodes.rehearsal.spelling import any_of
from tribunal.schema import CueType


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of open attack: its words, how grave it is, what it is in a sentence, and what it implies.

    `link`: it counts only as said of the group: right before its name, or after "are", "is", "look" and the like.
    `upon`: it counts only right before the name ("I hate …").
    `deniable`: a "not" among its own words turns it round ("should not be banned"), as one before it does.
    """

    type: ClassVar[CueType] = "Direct"
    strong: ClassVar[bool] = True
    harmless: ClassVar[str] = ""
    name: str
    gravity: int
    pattern: re.Pattern[str]
    what: str
    implies: str
    link: bool = False
    upon: bool = False
    deniable: bool = False


_OUGHT = r"(?:should|must|ought to|need to|needs to|have to)"
_NOT = r"(?:not|n't)"

ATTACKS = (
    Attack(
        "threat",
        4,
        any_of(
            r"deserves? to (?:die|suffer|be (?:hurt|beaten))",
            rf"{_OUGHT}(?: \w+)? (?:die|suffer|be (?:shot|beaten|hurt|wiped out|eradicated))",
        ),
        "is a threat of harm",
        "they have harm coming to them",
    ),
    Attack(
        "threat",
        4,
        any_of(r"hunt down", r"get rid of", r"wipe out"),
        "is a threat of harm",
        "they have harm coming to them",
        upon=True,
    ),
    Attack(
        "exclusion",
        3,
        any_of(
            rf"{_OUGHT}(?: ?{_NOT})?(?: \w+)? be "
            r"(?:banned|removed|deported|expelled|locked up|kept out|kicked out|sent (?:back|home|away))"
        ),
        "is a call to shut people out",
        "they don't belong here",
        deniable=True,
    ),
    Attack(
        "exclusion",
        3,
        any_of(
            rf"{_OUGHT} ?{_NOT} be (?:allowed|let)",
            r"deport (?:all|every|the|these|those|them)",
            r"(?:ban|remove) (?:all|every|these|those)",
            r"kick (?:all |the |these |those |them )?(?:\w+ )?out",
            r"(?:get out|go home)(?=[!.,\n]|$)",
            r"get out of (?:our|this|here)",
            rf"{_OUGHT}(?: all)? (?:go|get) (?:back|home|out)",
            r"(?:are|is) ?(?:not|n't) welcome",
            r"(?:do|does)(?: not|n't) belong here",
        ),
        "is a call to shut people out",
        "they don't belong here",
    ),
    Attack(
        "dehumanising",
        2,
        any_of(
            r"vermin|sub-?humans?|parasites?|savages?|filth|scum|cockroaches",
            r"(?:are|is|'re|such|behave like|live like|bunch of) (?:\w+ )?(?:animals|rats|trash|garbage|pests)",
            r"(?:are|is)(?: not|n't) (?:even )?(?:human|people)",
            r"(?:less|lower) than human",
        ),
        "denies people their humanity",
        "less than human",
    ),
    Attack(
        "insult",
        1,
        any_of("inferior", "disgusting", "filthy", "worthless", "stupid", "pathetic", "revolting", "evil"),
        "is an open insult",
        "they are worth less than others",
        link=True,
    ),
    Attack(
        "hatred",
        1,
        re.compile(r"(?:\b(?:i|we)(?: \w+)? |^)(?:hate|despise|detest|can't stand)\b", re.IGNORECASE | re.MULTILINE),
        "is an open avowal of hatred",
        "they are there to be hated",
        deniable=True,
        upon=True,
    ),
)

# This one needs no group to be named.
SENT_BACK = Attack(
    "exclusion",
    3,
    any_of(
        r"(?:go|get) back to (?:your (?:own )?(?:country|countries|homeland)|where you (?:came|come) from)",
        r"send (?:them|you)(?: all)? back(?: to where (?:you|they) (?:came|come) from)?",
        r"get out of (?:our|my) country",
    ),
    "is a call to shut people out",
    "they don't belong here",
)
