"""The lexicon of signs: stereotypes and metaphors, which imply an attack and don't say it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tribunal.nodes.rehearsal.spelling import any_of
from tribunal.schema import CueType


@dataclass(frozen=True, slots=True)
class Sign:
    """A stereotype or a metaphor: what it implies, and the harmless reading that a defence can offer.

    `strong` is whether one such sign is enough; `alone` is the group it is about when the post names none (None: then
    it is no sign), and `needs` what has to stand near it in that case. `touching`: only right before or after a group's
    name, or in "they …" after a group was named. `only`: the groups that it can be about, if not all.
    """

    gravity: ClassVar[int] = 0
    what: ClassVar[str] = ""
    deniable: ClassVar[bool] = False
    name: str
    type: CueType
    pattern: re.Pattern[str]
    implies: str
    harmless: str
    strong: bool = True
    alone: str | None = None
    needs: re.Pattern[str] | None = None
    touching: bool = False
    only: tuple[str, ...] = ()


_SHE = any_of("wife", "wives", "girlfriends?", "she", "her", "bride", "ladies", "girls?", "wom[ae]n")
_OUR_PLACE = any_of("our (?:country|nation|town|city|land|people|society|neighbourhood|neighborhood|streets)")

SIGNS = (
    Sign("kitchen", "Socio-cultural",
         any_of(r"belongs? in the kitchen", r"back (?:in|to|into) the kitchen", r"make me a sandwich",
                r"place is (?:in the kitchen|at home)", r"belongs? at home"),
         "a woman's place is housework", "talk about who cooks", alone="women"),
    Sign("appliance", "Metaphor",
         re.compile(r"\b(?:wom[ae]n|wife|wives|girlfriends?|she|girls?)\b[^.!?\n]{0,30}(?:\b(?:is|are|as|like|called)\b|'s)"
                    r"[^.!?\n]{0,20}\bdish-?washers?\b|\bdish-?washers?\b[^.!?\n]{0,60}\b(?:marry|married|wedding)\b",
                    re.IGNORECASE),
         "made for housework", "talk about a machine", alone="women", only=("women",)),
    Sign("dishwasher", "Metaphor", any_of("dish-?washers?"), "made for housework", "talk about a machine",
         strong=False, alone="women", needs=_SHE, only=("women",)),
    Sign("real", "Socio-cultural",
         any_of(r"real (?:men|women) (?:don't|do not|never|always|stay|know|should|obey|cook|are)"),
         "only one way of being a man or a woman counts", "praise of good manners"),
    Sign("jobs", "Socio-cultural",
         any_of(r"(?:tak(?:e|es|ing)|took|steal(?:s|ing)?|stole) (?:all )?our (?:jobs?|homes|houses|women|money)"),
         "newcomers rob those who were here before", "worry about the labour market", alone="immigrants"),
    Sign("burden", "Socio-cultural",
         any_of(r"(?:live|lives|living) off (?:benefits|welfare|the state|our tax(?:es)?)", r"a burden (?:on|to)",
                "lazy", r"play(?:s|ing)? the victim", r"too (?:emotional|old|slow|lazy|weak) to"),
         "they are a weight that others carry", "talk about what something costs"),
    Sign("control", "Socio-cultural",
         any_of(r"(?:control|own)s? (?:all )?the (?:banks?|media|money|press)"),
         "a hidden power over everybody else", "talk about a line of business"),
    Sign("not like us", "Socio-cultural", any_of(r"(?:not|aren't|isn't|never be) (?:really )?(?:like|one of) us"),
         "they are of another kind and don't belong", "a remark on different customs", alone="",
         needs=any_of("people", "them", "they")),
    Sign("those people", "Socio-cultural",
         any_of(r"(?:those|these|you) people(?: \w+){0,2} (?:always|never|all|only|can't|cannot|won't)",
                r"(?:their|your) (?:kind|sort) (?:are|is|always|never|should|don't|will)", "people of that sort"),
         "all of them are alike, and alike in the worst", "talk about some people met that day",
         strong=False, alone=""),
    Sign("how they are", "Socio-cultural",
         any_of(r"(?:you|we all) know (?:how|what) (?:they|those people|these people)(?: are|'re)(?: like)?"),
         "everybody knows the worst of them already", "small talk about people who are known", strong=False, alone=""),
    Sign("weeds", "Metaphor", any_of("weeds?", "rotten apples?", "bad seeds?"),
         "unwanted and to be rooted out", "talk about gardening", alone="", needs=_OUR_PLACE),
    Sign("infestation", "Metaphor",
         any_of(r"(?:swarms?|infestations?|plagues?|hordes?) of", r"(?:swarming|infest(?:ed|ing)|crawling) with",
                r"overrun (?:by|with)", r"breed(?:s|ing)? like", r"multiply(?:ing)? like"),
         "spreading like pests", "a figure of speech for a large number"),
    Sign("flood", "Metaphor",
         any_of(r"(?:floods?|waves?|tides?|invasions?) of", r"(?:flooding|invading|pouring) (?:in|into|our)"),
         "a danger that sweeps everything away", "a figure of speech for a large number", strong=False),
    Sign("sell-by date", "Metaphor", any_of(r"past (?:their|its|her|his) (?:sell-by|use-by|best) ?-?(?:date|before)?"),
         "used up and fit to be thrown away", "talk about what is in the fridge"),
    Sign("ability", "Socio-cultural", any_of(r"(?:can't|cannot) (?:drive|park|cook)", "bad drivers", "good at maths?"),
         "what one is able to do follows from birth", "a remark on somebody's skill", strong=False),
    Sign("all alike", "Socio-cultural",
         any_of(r"(?:they )?(?:are all(?: the same)?|are always|always|never|only (?:want|care)|just want)", "typical"),
         "all of them are alike, and alike in the worst", "a remark on what somebody has seen", strong=False,
         touching=True),
)  # fmt: skip
