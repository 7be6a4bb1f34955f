"""The rehearsal model: every role played by written rules, offline, the same way every time.

It looks for simple evidence in the words of a post and for what the debate holds, and answers in the form asked for.
It knows nothing of the world and is no moderator; `docs/rehearsal.md` gives its rules, and must change with them.

The post and the debate are kept apart: evidence is read from the post alone, what has been said from the role's
material alone. A post that imitates a transcript is a post.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from tribunal.nodes.rehearsal.views import Finding, parts
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, CueType, Scheme
from tribunal.text import without_hidden

if TYPE_CHECKING:
    from tribunal.models.door import Question

# --- The lexicon ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the words for a group, and how policies speak of it, as patterns, the closest first.

    `mixed` marks words for different groups under one head: a Christian who speaks of Hindus isn't speaking of
    themselves.
    """

    many: tuple[str, ...]
    one: tuple[str, ...]
    groups: tuple[str, ...]
    categories: tuple[str, ...]
    mixed: bool = False


# fmt: off
GROUPS: dict[str, Group] = {
    "immigrants": Group(
        ("immigrants", "migrants", "refugees", "asylum seekers", "newcomers"),
        ("immigrant", "migrant", "refugee", "asylum seeker"),
        ("immigra", "migra", "refugee", "asylum", "national", "ethnic", r"\brace\b"),
        ("immigra", "migra", "refugee", "xenophob", "national", "racis", "ethnic", r"\brace\b"),
    ),
    "foreigners": Group(
        ("foreigners", "mexicans", "arabs", "africans", "indians", "pakistanis", "poles", "romanians",
         "chinese people"),
        ("foreigner", "mexican", "african", "pakistani"),
        ("national", "origin", "xenophob", "foreign", "ethnic", r"\brace\b", "migra"),
        ("national", "xenophob", "foreign", "racis", "ethnic", r"\brace\b"),
        mixed=True,
    ),
    "race": Group(
        ("black people", "black men", "black women", "white people", "white men", "white women", "asian people",
         "asian women", "asians", "latinos", "brown people", "roma people", "people of colour", "people of color"),
        ("black person", "black man", "black woman", "white person", "white man", "white woman", "asian person",
         "asian woman", "latino"),
        (r"\brace\b", "racial", "ethnic", "skin", "colou?r", "national"),
        ("racis", r"\brace\b", "racial", "ethnic", "skin"),
        mixed=True,
    ),
    "women": Group(
        ("women", "females", "girls", "ladies", "wives"),
        ("woman", "girl", "lady"),
        (r"\bwomen\b", r"\bgender\b", r"\bsex\b"),
        ("sexis", "misogyn", r"\bwomen\b", r"\bsex\b(?! orient)", r"\bgender\b(?! ident)"),
    ),
    "men": Group(
        ("men", "males", "boys"),
        (),
        (r"\bmen\b", r"\bgender\b", r"\bsex\b"),
        ("sexis", r"\bmen\b", r"\bsex\b(?! orient)", r"\bgender\b(?! ident)"),
    ),
    "gay": Group(
        ("gay people", "gay men", "gays", "lesbians", "homosexuals", "bisexuals", "queer people", "lgbt people"),
        ("gay person", "gay man", "lesbian", "homosexual"),
        ("sexual orient", "lgbt", "queer", r"\bgay\b", "sexualit"),
        ("homophob", "sexual orient", "lgbt", "queer", r"\bgay\b"),
    ),
    "trans": Group(
        ("trans people", "transgender people", "trans women", "trans men"),
        ("trans person", "trans woman", "trans man"),
        ("gender ident", r"\btrans", "lgbt", r"\bgender\b", r"\bsex\b", "sexual orient"),
        ("transphob", "gender ident", "lgbt", "homophob", r"\bgender\b"),
    ),
    "muslims": Group(
        ("muslims", "muslim people"), ("muslim",),
        ("muslim", "islam", "religio", "faith", "belief"), ("islamophob", "muslim", "religio", "faith", "belief"),
    ),
    "jews": Group(
        ("jews", "jewish people"), ("jew",),
        ("jew", "antisemit", "religio", "faith", "belief"), ("antisemit", "jew", "religio", "faith", "belief"),
    ),
    "believers": Group(
        ("christians", "catholics", "hindus", "sikhs", "buddhists", "atheists"),
        ("christian", "catholic", "hindu", "sikh", "buddhist", "atheist"),
        ("religio", "faith", "belief"),
        ("religio", "faith", "belief"),
        mixed=True,
    ),
    "disabled": Group(
        ("disabled people", "people with disabilities", "wheelchair users", "autistic people", "deaf people",
         "blind people", "the disabled"),
        ("disabled person", "wheelchair user"),
        ("disab", "handicap", "impair"),
        ("ableis", "disab", "handicap"),
    ),
    "old": Group(
        ("old people", "elderly people", "the elderly", "boomers", "pensioners", "seniors"),
        ("old person", "boomer", "pensioner"),
        (r"\bage\b", "elder", "older"),
        ("ageis", r"\bage\b", "elder", "older"),
    ),
    "fat": Group(
        ("fat people", "overweight people", "obese people"), ("fat person",),
        (r"\bbody", "weight", r"\bfat\b", r"\bsize\b"), (r"\bbody", "weight", r"\bfat\b"),
    ),
    "poor": Group(
        ("poor people", "the poor", "homeless people", "the homeless", "benefit claimants"), ("poor person",),
        (r"\bclass\b", "poverty", r"\bpoor\b", "homeless", "caste"), (r"\bclass\b", "classis", "poverty", r"\bpoor\b"),
    ),
    "politics": Group(
        ("democrats", "republicans", "liberals", "conservatives", "tories", "socialists", "communists", "leftists",
         "progressives", "feminists", "vegans", "nazis", "fascists", "politicians", "capitalists"),
        ("democrat", "republican", "tory", "socialist", "communist", "feminist", "politician"),
        ("politic", "party", "ideolog", "opinion"),
        ("politic", "party", "ideolog", "opinion"),
        mixed=True,
    ),
    "trades": Group(
        ("landlords", "bankers", "journalists", "lawyers", "police officers", "estate agents", "referees",
         "influencers", "scammers", "spammers", "football fans"),
        ("landlord", "banker", "journalist", "lawyer", "referee", "scammer"),
        ("occupation", "profession", "trade"),
        ("occupation", "profession", "trade"),
        mixed=True,
    ),
}
# fmt: on

# "Those people", "they": whoever is meant, they are set apart as not belonging.
UNNAMED = Group((), (), ("ethnic", r"\brace\b", "national"), ("racis", "ethnic", r"\brace\b"))


@dataclass(frozen=True, slots=True)
class Attack:
    """A kind of open attack: its words, how grave it is, what it is in a sentence, and what it implies.

    `link`: it counts only as said of the group: right before its name, or after "are", "is", "look" and the like.
    `upon`: it counts only right before the name ("I hate …").
    `deniable`: a "not" among its own words turns it round ("should not be banned"), as one before it does.
    """

    name: str
    gravity: int
    pattern: re.Pattern[str]
    what: str
    implies: str
    link: bool = False
    upon: bool = False
    deniable: bool = False


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(patterns) + r")\b", re.IGNORECASE)


_OUGHT = r"(?:should|must|ought to|need to|needs to|have to)"
_NOT = r"(?:not|n't)"

ATTACKS = (
    Attack(
        "threat",
        4,
        _any(
            r"deserves? to (?:die|suffer|be (?:hurt|beaten))",
            rf"{_OUGHT}(?: \w+)? (?:die|suffer|be (?:shot|beaten|hurt|wiped out|eradicated))",
        ),
        "is a threat of harm",
        "they have harm coming to them",
    ),
    Attack(
        "threat",
        4,
        _any(r"hunt down", r"get rid of", r"wipe out"),
        "is a threat of harm",
        "they have harm coming to them",
        upon=True,
    ),
    Attack(
        "exclusion",
        3,
        _any(
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
        _any(
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
        _any(
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
        _any("inferior", "disgusting", "filthy", "worthless", "stupid", "pathetic", "revolting", "evil"),
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
    _any(
        r"(?:go|get) back to (?:your (?:own )?(?:country|countries|homeland)|where you (?:came|come) from)",
        r"send (?:them|you)(?: all)? back(?: to where (?:you|they) (?:came|come) from)?",
        r"get out of (?:our|my) country",
    ),
    "is a call to shut people out",
    "they don't belong here",
)


@dataclass(frozen=True, slots=True)
class Sign:
    """A stereotype or a metaphor: what it implies, and the harmless reading that a defence can offer.

    `strong` is whether one such sign is enough; `alone` is the group it is about when the post names none (None: then
    it is no sign), and `needs` what has to stand within reach of it in that case. `touching`: only right before or
    after a group's name, or in "they …" after a group was named.
    """

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


_SHE = _any("wife", "wives", "girlfriends?", "she", "her", "bride", "ladies", "girls?", "wom[ae]n")
_OURS = _any("our (?:country|nation|town|city|land|people|society|neighbourhood|neighborhood|streets)")

SIGNS = (
    Sign("kitchen", "Socio-cultural",
         _any(r"belongs? in the kitchen", r"back (?:in|to|into) the kitchen", r"make me a sandwich",
              r"place is (?:in the kitchen|at home)", r"belongs? at home"),
         "a woman's place is housework", "talk about who cooks", alone="women"),
    Sign("appliance", "Metaphor",
         re.compile(r"\b(?:wom[ae]n|wife|wives|girlfriends?|she|girls?)\b[^.!?\n]{0,30}(?:\b(?:is|are|as|like|called)\b|'s)"
                    r"[^.!?\n]{0,20}\bdish-?washers?\b|\bdish-?washers?\b[^.!?\n]{0,60}\b(?:marry|married|wedding)\b",
                    re.IGNORECASE),
         "made for housework", "talk about a machine", alone="women", only=("women",)),
    Sign("dishwasher", "Metaphor", _any("dish-?washers?"), "made for housework", "talk about a machine",
         strong=False, alone="women", needs=_SHE, only=("women",)),
    Sign("real", "Socio-cultural",
         _any(r"real (?:men|women) (?:don't|do not|never|always|stay|know|should|obey|cook|are)"),
         "only one way of being a man or a woman counts", "praise of good manners"),
    Sign("jobs", "Socio-cultural",
         _any(r"(?:tak(?:e|es|ing)|took|steal(?:s|ing)?|stole) (?:all )?our (?:jobs?|homes|houses|women|money)"),
         "newcomers rob those who were here before", "worry about the labour market", alone="immigrants"),
    Sign("burden", "Socio-cultural",
         _any(r"(?:live|lives|living) off (?:benefits|welfare|the state|our tax(?:es)?)", r"a burden (?:on|to)", "lazy",
              r"play(?:s|ing)? the victim", r"too (?:emotional|old|slow|lazy|weak) to"),
         "they are a weight that others carry", "talk about what something costs"),
    Sign("control", "Socio-cultural",
         _any(r"(?:control|own)s? (?:all )?the (?:banks?|media|money|press)"),
         "a hidden power over everybody else", "talk about a line of business"),
    Sign("not like us", "Socio-cultural", _any(r"(?:not|aren't|isn't|never be) (?:really )?(?:like|one of) us"),
         "they are of another kind and don't belong", "a remark on different customs", alone="",
         needs=_any("people", "them", "they")),
    Sign("those people", "Socio-cultural",
         _any(r"(?:those|these|you) people(?: \w+){0,2} (?:always|never|all|only|can't|cannot|won't)",
              r"(?:their|your) (?:kind|sort) (?:are|is|always|never|should|don't|will)", "people of that sort"),
         "all of them are alike, and alike in the worst", "talk about some people met that day",
         strong=False, alone=""),
    Sign("how they are", "Socio-cultural",
         _any(r"(?:you|we all) know (?:how|what) (?:they|those people|these people)(?: are|'re)(?: like)?"),
         "everybody knows the worst of them already", "small talk about people who are known", strong=False, alone=""),
    Sign("weeds", "Metaphor", _any("weeds?", "rotten apples?", "bad seeds?"),
         "unwanted and to be rooted out", "talk about gardening", alone="", needs=_OURS),
    Sign("infestation", "Metaphor",
         _any(r"(?:swarms?|infestations?|plagues?|hordes?) of", r"(?:swarming|infest(?:ed|ing)|crawling) with",
              r"overrun (?:by|with)", r"breed(?:s|ing)? like", r"multiply(?:ing)? like"),
         "spreading like pests", "a figure of speech for a large number"),
    Sign("flood", "Metaphor",
         _any(r"(?:floods?|waves?|tides?|invasions?) of", r"(?:flooding|invading|pouring) (?:in|into|our)"),
         "a danger that sweeps everything away", "a figure of speech for a large number", strong=False),
    Sign("sell-by date", "Metaphor", _any(r"past (?:their|its|her|his) (?:sell-by|use-by|best) ?-?(?:date|before)?"),
         "used up and fit to be thrown away", "talk about what is in the fridge"),
    Sign("ability", "Socio-cultural", _any(r"(?:can't|cannot) (?:drive|park|cook)", "bad drivers", "good at maths?"),
         "what one is able to do follows from birth", "a remark on somebody's skill", strong=False),
    Sign("all alike", "Socio-cultural",
         _any(r"(?:they )?(?:are all(?: the same)?|are always|always|never|only (?:want|care)|just want)", "typical"),
         "all of them are alike, and alike in the worst", "a remark on what somebody has seen", strong=False,
         touching=True),
)  # fmt: skip

NEGATION = re.compile(r"\b(?:not(?! only| just| even)|never|no longer|hardly|isn't|aren't|wasn't|weren't|don't|doesn't"
                      r"|didn't|shouldn't|mustn't|won't|can't|nobody|no one)\b", re.IGNORECASE)  # fmt: skip
NOT_SO = re.compile(r"(?:\b(?:not|no|never)|n't)(?: \w+)? $", re.IGNORECASE)
WHY_NOT = re.compile(r"\bwhy (?:don't|not|aren't)\b", re.IGNORECASE)
CONDEMNED = _any(
    r"shame on", "unacceptable", r"stop (?:saying|calling|treating|hating|the hate|spreading)", r"don't (?:say|call)",
    r"(?:nobody|no one) should", r"stand (?:with|against|up (?:to|for))", r"condemn(?:s|ed|ing)?", "racis[mt]s?",
    "sexis[mt]s?", r"xenophobi[ac]", r"homophobi[ac]", r"transphobi[ac]", r"islamophobi[ac]", r"antisemiti(?:sm|c)",
    r"misogyn(?:y|ist|istic)", r"bigot(?:s|ed|ry)?", "prejudices?", "hate speech", "hateful",
    r"(?:is|are|'s|was|so) (?:\w+ )?wrong", r"i disagree", "heartbreaking", "stereotypes?", "myths?", "misconceptions?",
    r"(?:is|are|'s) (?:a lie|lies|untrue|false|nonsense)", r"dehumani[sz](?:es?|ed|ing)", r"not true",
)  # fmt: skip
SPOKEN_OF = re.compile(
    r"\b(?:calling|calls?|saying|to say|says?|thinks?|thinking|treating|telling|who (?:hates?|calls?|says?))\b"
    r"[^.!?\n]{0,120}?(?:\b(?:is|are|be|was)|'s) (?:\w+ ){0,2}"
    r"(?:wrong|disgusting|unacceptable|shameful|vile|awful|ridiculous|nonsense|stupid|pathetic|cruel|racist|sexist)\b",
    re.IGNORECASE,
)
ENDORSED = _any(
    "so true", r"i (?:totally |fully |completely )?agree",
    r"(?:he|she|they)(?:'s|'re| is| are| was| were)(?: \w+)? right", "well said", "amen", "finally someone",
    "couldn't agree more", "hear hear",
)  # fmt: skip
REPORTED = _any(
    "according to", "reported(?:ly)?", r"the (?:article|report|study|documentary|exhibition|museum|textbook|lecture)",
    r"historians?", "propaganda", r"police sa(?:id|y)", r"in (?:18|19)\d\d",
    r"was (?:charged|sentenced|fined|suspended)", "researchers?", "content warning", "trigger warning",
    r"(?:he|she|they|someone|somebody|people|man|woman|uncle|neighbou?r|colleague|troll|minister|politician|speaker"
    r"|senator|newspaper|poster|website)(?: \w+){0,2} (?:called|calls|said|says|wrote|writes|shouted|yelled|compared"
    r"|claimed|claims|posted|tweeted)",
)  # fmt: skip
SATIRE = re.compile(r"(?:(?<=\s)|^)/s(?=\s|$)|\b(?:satire|satirical|parody|sarcasm|spoof)\b", re.IGNORECASE)
PRAISE = _any(
    "love", "proud", "amazing", "brave", "wonderful", "lovely", "thank(?:s| you)?", "beautiful", "welcome", "celebrate",
    r"inspir(?:e|es|ed|ing)", "fought", "give up", "stronger", "equal",
)  # fmt: skip
CLAUSE_END = re.compile(r"[,;:()\u2013\u2014]|\b(?:but|because|while|whereas|although)\b", re.IGNORECASE)
THING = re.compile(
    r"\b(?:it|this|that|food|weather|traffic|fridge|kitchen|film|movie|game|coffee|tea|bus|train|song|room|house|phone"
    r"|smell|taste|soup|water)(?: (?:is|was|looks?|smells?|tastes?)|'s) (?:\w+ ){0,2}$"
    r"|\b(?:clean|cleans|cleaned|cleaning|wash|washed|swept|scrub|scrubbed) (?:\w+ ){0,3}$",
    re.IGNORECASE,
)
AFTER_HATE = re.compile(r" (?:all |the |these |those |them )?", re.IGNORECASE)
BEFORE_LINK = re.compile(r" (?:\w+ )?")
AFTER_LINK = re.compile(
    r"(?: \w+){0,2}?(?: (?:is|are|was|were|am|i'm|look|looks|smell|seem)|'re|'m|'s)(?: \w+){0,2} ", re.IGNORECASE
)
ONE_OF_THEM = re.compile(r"\b(?:that|this|my|the|his|her|our|your|some|one) (?:\w+ )?$", re.IGNORECASE)
WE = re.compile(r"\b(?:we|us|we are(?: all)?|we're(?: all)?|(?:my )?fellow) $", re.IGNORECASE)
AS_ONE = re.compile(r"\b(?:as an?|being an?|i am an?|i'm an?) (?:\w+ )?$", re.IGNORECASE)
THEY = _any("they", "them", "they're", "these people", "those people")

# --- Reading a post ---------------------------------------------------------------------------------------------------

REACH = 80  # characters between a group's name and what is said of it
WORDS = 8  # words, likewise
AROUND = 300  # characters on either side that can excuse an attack
MOST_WEIGHED = 200  # attacks in one post whose excuses are looked at
LONGEST_QUOTE = 90

_WORD = re.compile(r"\w+")
_STOP = re.compile(r"(?<=[.!?…]) |\n")
_BLANK = re.compile(r"[^\S\n\u2028\u2029]+|[\x00-\x08\x0e-\x1f\x7f-\x9f]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPELLING = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
                           "\u2028": "\n", "\u2029": "\n"})  # fmt: skip
_MARK = re.compile(r"\"|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)|\n")

Excuse = Literal[
    "unprotected", "denied", "self", "condemned", "reported", "satire", "quoted", "one person", "praised", "nobody"
]  # fmt: skip
WEAK: tuple[Excuse, ...] = ("quoted", "praised")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What in the post speaks against a cue, and the words it lies in."""

    kind: Excuse
    words: str

    @property
    def weak(self) -> bool:
        """Whether a prosecutor has one more answer to it."""
        return self.kind in WEAK


@dataclass(frozen=True, slots=True)
class Mention:
    """A group named in the post; `key` is its place in the lexicon, or the policy's own name for it."""

    start: int
    end: int
    key: str
    term: str
    one: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """An attack found in the post."""

    type: CueType
    name: str
    gravity: int
    strong: bool
    key: str
    term: str
    sign: str
    what: str
    implies: str
    harmless: str
    words: str
    deniable: bool = False
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A post as the rules read it: its words, where quotations and sentences lie, what was found."""

    text: str
    policy: Policy
    quotes: tuple[tuple[int, int], ...]
    stops: tuple[int, ...]
    mentions: tuple[Mention, ...]
    satire: str
    has_own_words: bool
    hits: tuple[Hit, ...] = ()

    @property
    def direct(self) -> list[Hit]:
        """The open attacks: those without an excuse first, then the gravest, then in the order of the post."""
        return sorted(
            (hit for hit in self.hits if hit.type == "Direct"), key=lambda hit: (hit.evidence is not None, -hit.gravity)
        )

    @property
    def implied(self) -> list[Hit]:
        """What is implied, likewise."""
        return sorted(
            (hit for hit in self.hits if hit.type != "Direct"),
            key=lambda hit: (hit.evidence is not None, not hit.strong),
        )

    def stands_alone(self, hit: Hit) -> bool:
        """Whether a faint sign is all there is: no second one, nothing stronger."""
        return not hit.strong and len({found.name for found in self.hits}) < 2

    @property
    def names_protected(self) -> bool:
        """Whether any group is named that the policy protects."""
        return any(protected_by(self.policy, mention.key) for mention in self.mentions)

    def sentence(self, at: int, spare: int = 0) -> tuple[int, int]:
        """Where the sentence that holds a place begins and ends, with so many more on either side."""
        place = bisect_right(self.stops, at)
        first, last = place - 1 - spare, place + spare
        return self.stops[first] if first >= 0 else 0, self.stops[last] if last < len(self.stops) else len(self.text)

    def in_quotes(self, at: int) -> bool:
        """Whether a place lies between quotation marks."""
        place = bisect_right(self.quotes, (at, len(self.text))) - 1
        return place >= 0 and at < self.quotes[place][1]


@lru_cache(maxsize=256)
def read(text: str, policy: Policy) -> Reading:
    """What the rules find in a post, under a policy. Pure, and linear in the length of the text."""
    text = _plain(text)
    mentions = tuple(_mentions(text, policy))
    stops = tuple(stop.end() for stop in _STOP.finditer(text))
    quotes, satire = tuple(_quotations(text)), SATIRE.search(text)
    own = _has_own_words(text, quotes)
    reading = Reading(text, policy, quotes, stops, mentions, satire.group() if satire else "", own)
    kept: dict[tuple[str, str], Hit] = {}
    weighed = 0
    for hit, start, end, mention in _attacks(reading):
        place = (hit.key, hit.name)
        if (place in kept and kept[place].evidence is None) or weighed >= MOST_WEIGHED:
            continue
        weighed += 1
        evidence = _excuse(reading, start, end, mention, hit)
        if place not in kept or evidence is None:
            kept[place] = replace(hit, evidence=evidence)
    return replace(reading, hits=tuple(kept.values()))


def _plain(text: str) -> str:
    """The text with one spelling for quotation marks and apostrophes, and without hidden characters."""
    text = unicodedata.normalize("NFKC", _SURROGATE.sub("\ufffd", without_hidden(text)))
    return _BLANK.sub(" ", text).translate(_SPELLING)


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """From each opening mark to its closing one; a quotation ends with its paragraph at the latest."""
    opened: tuple[int, str] | None = None
    for mark in _MARK.finditer(text):
        if mark.group() == "\n":
            opened = None
        elif opened is None:
            follows = text[mark.end() : mark.end() + 1]
            if mark.group() == '"' or follows.isalnum():
                opened = (mark.start(), mark.group())
        elif mark.group() == opened[1]:
            yield opened[0], mark.end()
            opened = None


_THE = r"(?=\s+(?:are|were|should|must|have|always|never|can't|don't|live|take|get|deserve)\b|\s*[.,!?;:]|\s*$)"


@lru_cache(maxsize=32)
def _terms(policy: Policy) -> tuple[re.Pattern[str], dict[str, tuple[str, bool]]]:
    """The words for groups, the policy's own among them, as one pattern and as a table: word → (key, is it one)."""
    table = {term: (key, False) for key, group in GROUPS.items() for term in group.many}
    table |= {term: (key, True) for key, group in GROUPS.items() for term in group.one}
    for name in policy.protected_groups:
        if _is_plural(name):
            table.setdefault(" ".join(name.casefold().split()), (name, False))
    spelt = sorted(table, key=len, reverse=True)
    words = [re.escape(term).replace(r"\ ", r"\s+") + (_THE if term.startswith("the ") else r"\b") for term in spelt]
    return re.compile(r"\b(?:" + "|".join(words) + ")", re.IGNORECASE), table


def _is_plural(name: str) -> bool:
    """Whether a policy's name for a group is a word for people ("veterans"), not for what they share ("status")."""
    last = name.casefold().split()[-1]
    return "people" in name.casefold() or (last.endswith("s") and not last.endswith(("ss", "us", "is")))


def _mentions(text: str, policy: Policy) -> Iterator[Mention]:
    pattern, table = _terms(policy)
    for found in pattern.finditer(text):
        key, one = table[" ".join(found.group().casefold().split())]
        yield Mention(found.start(), found.end(), key, found.group(), one)


def _attacks(reading: Reading) -> Iterator[tuple[Hit, int, int, Mention | None]]:
    """Everything that looks like an attack, with where it lies and the group it is tied to."""
    text = reading.text
    for found in SENT_BACK.pattern.finditer(text):
        mention = _near(reading, found.start(), found.end())
        key = mention.key if mention else "foreigners"
        start, end = _span(found, mention)
        yield _direct(text, SENT_BACK, found, key, mention, start, end), start, end, mention
    for attack in ATTACKS:
        for found in attack.pattern.finditer(text):
            mention = _near(reading, found.start(), found.end(), pronouns=True)
            if mention is None or not _said_of(text, attack, found, mention):
                continue
            start, end = _span(found, mention)
            yield _direct(text, attack, found, mention.key, mention, start, end), start, end, mention
    for sign in SIGNS:
        for found in sign.pattern.finditer(text):
            mention = _near(reading, found.start(), found.end(), pronouns=not sign.touching, spare=1)
            if mention and (
                not protected_by(reading.policy, mention.key) or (sign.only and mention.key not in sign.only)
            ):
                mention = None
            if sign.touching and not (mention and _touches(text, found, mention)):
                continue
            if mention is None and not _alone(reading, sign, found):
                continue
            key = mention.key if mention else sign.alone or ""
            start, end = _span(found, mention)
            hit = Hit(
                type=sign.type,
                name=sign.name,
                gravity=0,
                strong=sign.strong,
                key=key,
                term=mention.term if mention else "",
                sign=found.group(),
                what="",
                implies=sign.implies,
                harmless=sign.harmless,
                words=_cut(text[start:end]),
            )
            yield hit, start, end, mention


def _direct(
    text: str, attack: Attack, found: re.Match[str], key: str, mention: Mention | None, start: int, end: int
) -> Hit:
    return Hit(
        type="Direct",
        name=attack.name,
        gravity=attack.gravity,
        strong=True,
        key=key,
        term=mention.term if mention else "",
        sign=found.group().strip(),
        what=attack.what,
        implies=attack.implies,
        harmless="",
        words=_cut(text[start:end]),
        deniable=attack.deniable,
    )


def _span(found: re.Match[str], mention: Mention | None) -> tuple[int, int]:
    """From the first of the two to the end of the last; a group named a sentence earlier is left out."""
    if mention is None or mention.end + REACH < found.start():
        return found.start(), found.end()
    return min(found.start(), mention.start), max(found.end(), mention.end)


def _near(reading: Reading, start: int, end: int, *, pronouns: bool = False, spare: int = 0) -> Mention | None:
    """The group that words are most likely about: in the same sentence and within reach, before them if there is one.

    With `pronouns`, "they" and "them" in the sentence stand for the last group of the sentence before.
    """
    text, mentions = reading.text, reading.mentions
    if not mentions:
        return None
    first, last = reading.sentence(start)
    after = bisect_right(mentions, start, key=lambda mention: mention.start)
    held = mentions[after - 1] if after else None
    if held and held.start >= first and _within(text, held.end, start):
        return held
    inside = held if held and held.end > start else None
    for candidate in (inside, mentions[after] if after < len(mentions) else None):
        if candidate and candidate.start < last and (candidate.start < end or _within(text, end, candidate.start)):
            return candidate
    earlier, _ = reading.sentence(start, 1)
    speaks_on = pronouns and THEY.search(text, max(first, start - REACH), min(last, end + REACH))
    if held and earlier <= held.start < first and (speaks_on or spare) and start - held.end <= 2 * REACH:
        return held
    return None


def _within(text: str, start: int, end: int) -> bool:
    return end - start <= REACH and len(_WORD.findall(text, start, end)) <= WORDS


def _said_of(text: str, attack: Attack, found: re.Match[str], mention: Mention) -> bool:
    """Whether an attack is said of the group, and not of a thing that stands beside it."""
    if THING.search(text, max(0, found.start() - REACH), found.start()):
        return False
    if attack.upon:
        return bool(AFTER_HATE.fullmatch(text, found.end(), mention.start))
    if not attack.link:
        return True
    if mention.start >= found.end():
        return bool(BEFORE_LINK.fullmatch(text[found.end() : mention.start]))
    between = text[mention.end : found.start()]
    return len(between) <= 2 * REACH and bool(AFTER_LINK.fullmatch(between) or THEY.search(between))


def _touches(text: str, found: re.Match[str], mention: Mention) -> bool:
    if found.group().casefold().startswith("they"):
        return mention.end <= found.start()
    between = text[mention.end : found.start()] if mention.end <= found.start() else text[found.end() : mention.start]
    before = mention.end <= found.start()
    return not between.strip() and before != (found.group().casefold() == "typical")


def _alone(reading: Reading, sign: Sign, found: re.Match[str]) -> bool:
    """Whether a sign counts though no group is named."""
    if sign.alone is None:
        return False
    first, last = reading.sentence(found.start())
    start, end = max(first, found.start() - AROUND), min(last, found.end() + AROUND)
    return sign.needs is None or bool(sign.needs.search(reading.text, start, end))


def _excuse(reading: Reading, start: int, end: int, mention: Mention | None, hit: Hit) -> Evidence | None:
    """The best reason in the post not to hold an attack against its author."""
    text = reading.text
    if mention and not protected_by(reading.policy, mention.key):
        return Evidence("unprotected", mention.term)
    first, last = reading.sentence(start, 1)
    first, last = max(first, start - AROUND), min(last, end + AROUND)
    own_first = max(reading.sentence(start)[0], first)
    sign_at = max(start, text.find(hit.sign, start, end)) if hit.sign else start
    before = CLAUSE_END.split(text[own_first:sign_at])[-1]
    # What a sign says with a "not" of its own ("not like us") isn't denied by it.
    said = " ".join([*before.split()[-5:], hit.sign if hit.deniable else ""])
    if (denied := NEGATION.search(said)) and not WHY_NOT.search(said):
        return Evidence("denied", denied.group())
    if mention and (me := _oneself(reading, mention, first, last)):
        return Evidence("self", me)
    quoted = reading.in_quotes(sign_at)
    endorsed = _outside(reading, ENDORSED, first, last, start, end)
    if not endorsed:
        for about in SPOKEN_OF.finditer(text, own_first, last):
            if about.start() <= sign_at < about.end() or about.start() <= start < about.end():
                return Evidence("condemned", _cut(about.group()))
        if condemned := _outside(reading, CONDEMNED, first, last, start, end):
            return Evidence("condemned", condemned)
        if reported := _outside(reading, REPORTED, first, last if quoted else start, start, end):
            return Evidence("reported", reported)
    if reading.satire:
        return Evidence("satire", reading.satire)
    if quoted and not endorsed and reading.has_own_words:
        return Evidence("quoted", hit.sign)
    if mention and mention.one and (one := ONE_OF_THEM.search(text, max(0, mention.start - 40), mention.start)):
        # "That filthy …" insults by the group's name; "that woman from the bank is …" doesn't.
        names = hit.type == "Direct" and 0 <= mention.start - sign_at - len(hit.sign) <= 1
        if not names:
            return Evidence("one person", f"{one.group().split()[0]} {mention.term}")
    if hit.type != "Direct" and (praise := _outside(reading, PRAISE, own_first, reading.sentence(end)[1], start, end)):
        return Evidence("praised", praise)
    return None


def _oneself(reading: Reading, mention: Mention, first: int, last: int) -> str:
    """Where the author speaks as one of the same group: "we immigrants", "as a woman"."""
    for other in reading.mentions[max(0, bisect_right(reading.mentions, first, key=lambda at: at.start) - 1) :]:
        if other.start >= last:
            break
        mixed = other.key in GROUPS and GROUPS[other.key].mixed
        if other.key != mention.key or (mixed and _stem(other.term) != _stem(mention.term)):
            continue
        before = reading.text[max(0, other.start - 40) : other.start]
        if me := WE.search(before) or (other.one and AS_ONE.search(before)):
            return _cut(me.group() + other.term)
    return ""


def _stem(term: str) -> str:
    words = term.casefold().split()
    return words[0] if len(words) > 1 else words[0].removesuffix("s")


def _outside(reading: Reading, pattern: re.Pattern[str], first: int, last: int, start: int, end: int) -> str:
    """The first words of a kind in the author's own voice: not quoted, not part of the attack, with no "not" before."""
    for found in pattern.finditer(reading.text, first, last):
        overlaps = found.start() < end and start < found.end()
        before = reading.text[max(first, found.start() - 24) : found.start()]
        if not overlaps and not NOT_SO.search(before) and not reading.in_quotes(found.start()):
            return _cut(found.group())
    return ""


def _has_own_words(text: str, quotes: tuple[tuple[int, int], ...]) -> bool:
    """Whether at least three words stand outside quotations."""
    count, at = 0, 0
    for start, end in (*quotes, (len(text), len(text))):
        for _ in _WORD.finditer(text, at, start):
            count += 1
            if count == 3:
                return True
        at = end
    return False


def _cut(words: str) -> str:
    """Words on one line, short enough to quote, without quotation marks of their own."""
    line = " ".join(words.replace('"', "'").replace("“", "'").replace("”", "'").split())
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1].rstrip() + "…"


# --- From the lexicon to the policy -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def protected_by(policy: Policy, key: str) -> str | None:
    """The policy's name for a group of the lexicon, or None where the policy doesn't protect it."""
    if key in policy.protected_groups:
        return key
    for pattern in (GROUPS.get(key) or UNNAMED).groups:
        for name in policy.protected_groups:
            if re.search(pattern, name, re.IGNORECASE):
                return name
    return None


@lru_cache(maxsize=1024)
def category_for(policy: Policy, scheme: Scheme, key: str) -> str:
    """The hateful category whose name or meaning speaks of a group; the last one where none does.

    Args:
        policy: the policy in force.
        scheme: which of its lists is asked for.
        key: a group of the lexicon, a protected group by its name in the policy, or any words for one.
    """
    hateful = policy.categories(scheme)[1:]
    known = GROUPS.get(key) or (UNNAMED if not key else None)
    patterns = known.categories if known else (*_words_for(key), *_like(key))
    for pattern in patterns:
        for category in hateful:
            if re.search(pattern, f"{category.name}: {category.meaning}", re.IGNORECASE):
                return category.name
    return hateful[-1].name


def _words_for(group: str) -> tuple[str, ...]:
    """Patterns for a group that the lexicon doesn't know: all its words, then each that says something."""
    words = [word for word in group.casefold().split() if word not in ("people", "persons", "status", "and", "of")]
    return tuple(rf"\b{re.escape(word.removesuffix('s'))}" for word in (group.casefold(), *words))


def _like(group: str) -> tuple[str, ...]:
    """What the lexicon says of categories for the head under which a policy's name for a group comes first."""
    found = [
        (place, head.categories)
        for head in GROUPS.values()
        for place, pattern in enumerate(head.groups)
        if re.search(pattern, group, re.IGNORECASE)
    ]
    return min(found)[1] if found else ()


# --- Reading the debate -----------------------------------------------------------------------------------------------

STANCES = ("press", "withdraw", "refute", "concede")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a speaker said of one cue: the cue itself, or an argument about it."""

    cue_id: str
    group: str
    claim: str
    type: str = ""
    category: str = ""
    stance: str = ""
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One turn of the transcript."""

    seat: str
    round: int
    statements: dict[str, Statement] = field(default_factory=dict)


_OPEN = re.compile(r"^<<<(\S+) ([0-9a-f]{16})\n", re.MULTILINE)
_HEADER = re.compile(r"^(?P<seat>[^\n]+), round (?P<round>\d+) \([^\n]*\):\s*\Z", re.MULTILINE)
_CATEGORY = re.compile(r"^  category: (.*)$", re.MULTILINE)
_STANCE = re.compile(rf"^  ({'|'.join(STANCES)})(?:es|s)?: (.*)", re.MULTILINE | re.DOTALL)


def blocks(material: str) -> Iterator[tuple[str, str]]:
    """Each marked text in a material, after what stands before it. Marks inside a marked text are part of that text."""
    at = 0
    while opened := _OPEN.search(material, at):
        close = f"\n{opened[1]} {opened[2]}>>>"
        end = material.find(close, opened.end() - 1)
        if end == -1:
            return
        yield material[at : opened.start()], material[opened.end() : end]
        at = end + len(close)


@lru_cache(maxsize=32)
def _head(policy: Policy) -> re.Pattern[str]:
    groups = "|".join(re.escape(name) for name in sorted(policy.protected_groups, key=len, reverse=True))
    return re.compile(rf"^(\S+)(?: \(([\w-]+)\))? against ({groups}|[^:\n]*): (.*)$", re.MULTILINE)


def statements(turn: str, policy: Policy) -> dict[str, Statement]:
    """What a turn, in the form of `cues.in_words`, says of each cue by its id, the first time it speaks of it."""
    said: dict[str, Statement] = {}
    heads = list(_head(policy).finditer(turn))
    for place, head in enumerate(heads):
        body = turn[head.end() + 1 : heads[place + 1].start() if place + 1 < len(heads) else len(turn)]
        cue_id, kind, group, claim = head.groups()
        category, stance = _CATEGORY.search(body), _STANCE.search(body)
        said.setdefault(
            cue_id,
            Statement(
                cue_id=cue_id,
                group=group,
                claim=claim.strip(),
                type=kind or "",
                category=category[1].strip() if category else "",
                stance=stance[1] if stance else "",
                argument=" ".join(stance[2].split()) if stance else "",
            ),
        )
    return said


def heard(question: Question, name: str) -> dict[str, Statement]:
    """What one turn in a role's material says."""
    material = str(question.material.get(name, ""))
    return {
        cue_id: statement
        for _, turn in blocks(material)
        for cue_id, statement in statements(turn, question.policy).items()
    }


def debate(question: Question) -> list[Spoken]:
    """The turns of a judge's transcript, round by round."""
    turns = []
    for before, turn in blocks(str(question.material.get("transcript", ""))):
        if header := _HEADER.search(before):
            said = statements(turn, question.policy)
            turns.append(Spoken(header["seat"].strip().casefold(), int(header["round"]), said))
    return sorted(turns, key=lambda turn: turn.round)


# --- The prosecutor ---------------------------------------------------------------------------------------------------


def scan(question: Question) -> JSON:
    """The gatekeeper: at most two open attacks."""
    return {"cues": [_cue(question, hit) for hit in _reading(question).direct[:2]]}


def indict(question: Question) -> JSON:
    """The open attacks and then what is implied, three in all; where there is nothing, what the scan may have seen."""
    reading = _reading(question)
    found = [*reading.direct, *reading.implied][:3]
    if found:
        return {"cues": [_cue(question, hit) for hit in found]}
    return {
        "cues": [
            {
                "type": "Direct",
                "target_group": question.policy.protected_groups[0],
                "claim": f"“{_cut(reading.text[:200]) or 'the post'}”",
                "category": question.policy.categories(question.scheme)[-1].name,
                "justification": "The scan found the post suspect on its face. The rehearsal's rules find no attack in "
                "its words, and leave it to the defence to say so.",
            }
        ]
    }


def investigate(question: Question) -> JSON:
    """At most two things that are implied; an open attack, which no gate has taken out, implies something too."""
    reading = _reading(question)
    open_ones = [replace(hit, type="Metaphor" if _is_figure(hit) else "Socio-cultural") for hit in reading.direct]
    found = [_cue(question, hit) for hit in [*reading.implied, *open_ones][:2]]
    return {"cues": found or _cues_from_the_web(question)}


def _cues_from_the_web(question: Question) -> list[JSON]:
    """Where the rules know no sign, a passage that calls the post's words hateful is one."""
    if not (held := _passages(question, "supports")):
        return []
    return [
        {
            "type": "Socio-cultural",
            "target_group": question.policy.protected_groups[0],
            "claim": f"“{_cut(_reading(question).text[:200]) or 'the post'}”",
            "category": question.policy.categories(question.scheme)[-1].name,
            "justification": f"What was read on the web calls words of the post hateful [{held[0]}].",
        }
    ]


def _passages(question: Question, stance: str) -> list[str]:
    """The ids of the passages that the court was given and that speak this way."""
    return [found for found, each in _EVIDENCE.findall(question.shared) if each == stance]


def _reading(question: Question) -> Reading:
    return read(question.post.text, question.policy)


def _cue(question: Question, hit: Hit) -> JSON:
    policy = question.policy
    group = protected_by(policy, hit.key) or policy.protected_groups[0]
    who = f"“{_cut(hit.term)}”" if hit.term else "people it doesn't name"
    if hit.type == "Direct":
        claim = f"“{hit.words}”"
        reason = f"“{_cut(hit.sign)}” {hit.what}, and it is said of {who}: the words show it on their face."
    elif hit.type == "Metaphor":
        claim = f"{_cut(hit.term) or _people(hit)} – {_cut(hit.sign)} – {hit.implies}: “{hit.words}”"
        reason = f"The metaphor likens {who} to something {hit.implies}; a reader is meant to hear it so."
    else:
        claim = f"the stereotype that {hit.implies}: “{hit.words}”"
        reason = f"“{_cut(hit.sign)}”, said of {who}, calls up the stereotype that {hit.implies}."
    if question.post.image:
        reason += " The text carries this alone; the rehearsal doesn't see the image."
    return {
        "type": hit.type,
        "target_group": group,
        "claim": claim,
        "category": category_for(policy, question.scheme, hit.key),
        "justification": reason,
    }


def _people(hit: Hit) -> str:
    return hit.key or "outsiders"


def prosecute(question: Question) -> JSON:
    """Round k: withdraw what the post itself excuses, press the rest with a reason that meets what the defence said."""
    own, defence = heard(question, "own"), heard(question, "defence")
    cues = own | {cue_id: cue for cue_id, cue in defence.items() if cue_id not in own}
    said = [_pressed(question, cue, defence.get(cue.cue_id)) for cue in cues.values()]
    return {"arguments": _admitted(question, said)}


def _pressed(question: Question, cue: Statement, answer: Statement | None) -> JSON:
    reading, later = _reading(question), _round(question) > 2
    hit = _tied(reading, cue)
    evidence = _evidence_for(reading, hit)
    if cue.stance == "withdraw":
        return _argue(cue, "withdraw", "The prosecution has withdrawn this cue, and lets it rest.")
    if answer is None or answer.stance not in ("refute", "concede"):
        again = "still " if later else ""
        return _argue(cue, "press", f"The defence has {again}no answer to this cue, so the reason given for it stands.")
    if answer.stance == "concede":
        if later:
            return _argue(
                cue, "press", "The defence has granted this cue, and nothing has been found against it since."
            )
        return _argue(cue, "press", "The defence grants this cue, and the reason given for it stands.")
    if evidence and evidence.kind == "nobody":
        return _argue(cue, "withdraw", "The defence has a point: the post names no group that the policy protects.")
    if evidence and evidence.weak and not later:
        return _argue(cue, "press", _NOT_ENOUGH[evidence.kind].format(words=evidence.words))
    if evidence:
        return _argue(
            cue,
            "withdraw",
            f"The defence has a point: “{evidence.words}” in the post bears it out, and no reason is left.",
        )
    if is_harmless(answer.argument):
        if hit and reading.stands_alone(hit):
            return _argue(
                cue,
                "withdraw",
                f"By itself “{_cut(hit.sign)}” is too faint a sign, and the post gives no second one.",
            )
        if hit and not later:
            return _argue(
                cue,
                "press",
                f"The {HARMLESS} leaves out “{_cut(hit.sign)}”: said of these people, it tells the reader that "
                f"{_meaning(hit)}, and nothing in the post takes it back.",
            )
        return _argue(
            cue, "press", f"The {HARMLESS} rests on nothing that the post says; the cue needs no more than it says."
        )
    if later:
        return _argue(
            cue, "press", "The defence says it again, and still points to no words of the post that bear it out."
        )
    return _argue(cue, "press", "The defence's reason is not borne out by any words in the post, so the cue stands.")


def _is_figure(hit: Hit) -> bool:
    return hit.type == "Metaphor" or hit.name == "dehumanising"


def _meaning(hit: Hit) -> str:
    return f"they are {hit.implies}" if _is_figure(hit) else hit.implies


_NOT_ENOUGH: dict[Excuse, str] = {
    "quoted": "Quotation marks are no distance: nothing the author says in their own voice turns against “{words}”.",
    "praised": "Praise doesn't undo it: beside “{words}” the post still says the same of all of them.",
}

# --- The defender -----------------------------------------------------------------------------------------------------

HARMLESS = "harmless reading"  # a refutation that rests on this alone doesn't carry with the judge
_STANDS_BY = "The defence stands by its reason: "


def is_harmless(argument: str) -> bool:
    """Whether an argument offers only a harmless reading; words quoted from the post don't count."""
    return HARMLESS in re.sub(r"“[^”]*”", "", argument).casefold()


def defend(question: Question) -> JSON:
    """Refute what the post itself excuses, try a harmless reading of what is only implied, concede the rest."""
    own = heard(question, "own")
    said = [_answered(question, cue, own.get(cue.cue_id)) for cue in heard(question, "prosecution").values()]
    return {"arguments": _admitted(question, said)}


def _answered(question: Question, cue: Statement, before: Statement | None) -> JSON:
    reading, round_ = _reading(question), _round(question)
    hit = _tied(reading, cue)
    evidence = _evidence_for(reading, hit)
    if cue.stance == "withdraw":
        return _argue(cue, "refute", "The prosecution has withdrawn this cue; nothing is left to answer.")
    if evidence:
        reason = _IN_DEFENCE[evidence.kind].format(words=evidence.words)
        opening = {1: "", 2: "The answer doesn't touch the evidence. "}.get(
            round_, "The evidence still stands in the post. "
        )
        return _argue(cue, "refute", opening + reason)
    if before and before.stance == "refute" and not is_harmless(before.argument):
        reason = before.argument.removeprefix(_STANDS_BY)
        return _argue(cue, "refute", _STANDS_BY + reason)
    direct = (hit.type if hit else cue.type) == "Direct"
    if not direct and (held := _passages(question, "refutes")):
        return _argue(cue, "refute", f"What was read on the web calls these words harmless [{held[0]}].")
    if before and before.stance == "concede":
        return _argue(cue, "concede", "The defence conceded this cue in the round before, and has found nothing since.")
    if direct:
        return _argue(
            cue,
            "concede",
            "The words are the author's own and are said of the group; nothing in the post denies or condemns them.",
        )
    if round_ == 1 or (hit and reading.stands_alone(hit)):
        reading_of_it = hit.harmless if hit else "an everyday remark"
        words = f"“{_cut(hit.sign)}”" if hit else "It"
        return _argue(
            cue, "refute", f"{words} has a {HARMLESS}: {reading_of_it}. Nothing is said outright against the group."
        )
    return _argue(
        cue,
        "concede",
        "The reading offered before finds no support in the post, and the prosecution's reason has not been met.",
    )


_IN_DEFENCE: dict[Excuse, str] = {
    "unprotected": "“{words}” stands for no group that the policy protects: hostility to a camp, a trade or an "
    "idea isn't hate speech under it.",
    "denied": "The post denies it: “{words}” stands before the words in question, and turns them round.",
    "self": "The author speaks as one of the group (“{words}”): this is said of oneself, not against others.",
    "condemned": "The post turns against such words: “{words}” is the author's own judgement of them.",
    "reported": "The post reports these words and doesn't assert them: “{words}” ascribes or documents them.",
    "satire": "The post marks itself as satire: “{words}”.",
    "quoted": "“{words}” stands in quotation marks, among the author's own words: it is somebody else who says it.",
    "one person": "“{words}” is one person; nothing is said of the group.",
    "praised": "“{words}” in the same sentence speaks for these people, not against them.",
    "nobody": "The post names no group that the policy protects, and the rules find no attack on one in its words.",
}

# --- What both sides share --------------------------------------------------------------------------------------------

_QUOTED = re.compile(r"[“\"]([^“”\"\n]+)[”\"]")


def _tied(reading: Reading, cue: Statement) -> Hit | None:
    """What the rules themselves found in the post that a cue speaks of, whoever worded the cue."""
    claim = _plain(cue.claim).casefold()
    quoted = [found[1].casefold() for found in _QUOTED.finditer(claim)]
    for hit in reading.hits:
        if quoted and _plain(hit.words).casefold() == quoted[-1] and cue.type in ("", hit.type):
            return hit
    for hit in reading.hits:
        if quoted and _plain(hit.words).casefold() == quoted[-1]:
            return hit
    return next((hit for hit in reading.hits if hit.sign and hit.sign.casefold() in claim), None)


def _evidence_for(reading: Reading, hit: Hit | None) -> Evidence | None:
    """What in the post speaks against a cue that is tied to this attack, or to none that the rules find."""
    if hit:
        return hit.evidence
    if not reading.names_protected and not reading.hits:
        return Evidence("nobody", "")
    # A cue in words of its own is excused by what excuses everything that was found.
    excuses = [found.evidence for found in reading.hits]
    return excuses[0] if excuses and all(excuses) else None


def _argue(cue: Statement, stance: str, argument: str) -> JSON:
    return {
        "cue_id": cue.cue_id,
        "target_group": cue.group or "(not said)",
        "claim": cue.claim or "(not said)",
        "stance": stance,
        "argument": argument,
    }


def _round(question: Question) -> int:
    return int(question.material.get("round", 1))


def _admitted(question: Question, said: Iterable[JSON]) -> list[JSON]:
    """Those arguments that the court admits: an edited record may name cues that it doesn't know."""
    admitted = []
    for argument in said:
        try:
            if question.check:
                question.check(question.form.model_validate({"arguments": [argument]}))
        except ValueError:
            continue
        admitted.append(argument)
    return admitted


# --- Those who decide -------------------------------------------------------------------------------------------------


def judge(question: Question) -> JSON:
    """Hateful if a cue is left standing by the debate, under the category of the first such cue, Direct ones first."""
    charged: dict[str, Statement] = {}
    prosecution: dict[str, Statement] = {}
    defence: dict[str, Statement] = {}
    for turn in debate(question):
        for cue_id, statement in turn.statements.items():
            if turn.seat == "prosecutor":
                charged.setdefault(cue_id, statement)
                if statement.stance in ("press", "withdraw"):
                    prosecution[cue_id] = statement
            elif turn.seat == "defender" and statement.stance in ("refute", "concede"):
                defence[cue_id] = statement
    names = [category.name for category in question.policy.categories(question.scheme)]
    if not charged:
        if "(opening):" in str(question.material.get("transcript", "")):
            return classify(question)  # a debate without cues, which these rules can't count: the post decides
        return {
            "category": names[0],
            "explanation": "No cue was brought against the post, so nothing stands that the policy calls hate speech.",
        }
    ruled = {cue_id: _ruling(prosecution.get(cue_id), defence.get(cue_id)) for cue_id in charged}
    standing = [charged[cue_id] for cue_id, (stands, _) in ruled.items() if stands]
    if not standing:
        told = " ".join(f"{_named(charged[cue_id])} falls: {why}." for cue_id, (_, why) in list(ruled.items())[:3])
        return {"category": names[0], "explanation": f"No cue is left standing. {told}"}
    decisive = next((cue for cue in standing if cue.type == "Direct"), standing[0])
    category = decisive.category if decisive.category in names[1:] else ""
    category = category or category_for(question.policy, question.scheme, decisive.group)
    count = "The one cue brought" if len(charged) == 1 else f"{len(standing)} of {len(charged)} cues"
    stand = "stand" if len(standing) > 1 else "stands"
    return {
        "category": category,
        "explanation": f"{count} {stand} after the defence. {_named(decisive)} decides it: "
        f"{ruled[decisive.cue_id][1]}. It is an attack on people for {decisive.group}, "
        f"which is {category} under the policy.",
    }


def _ruling(pressed: Statement | None, answer: Statement | None) -> tuple[bool, str]:
    """Whether a cue stands, by the last word of each side, and why."""
    if pressed and pressed.stance == "withdraw":
        return False, "the prosecution withdrew it"
    if answer is None:
        return True, "the defence had no answer to it"
    if answer.stance == "concede":
        return True, "the defence conceded it"
    if is_harmless(answer.argument):
        return True, f"the defence had only a {HARMLESS} to offer, which no words of the post support"
    return False, f"the defence refuted it ({answer.argument.rstrip('.')})"


def _named(cue: Statement) -> str:
    return f"{cue.cue_id}, {cue.claim.rstrip('.')}," if cue.claim else cue.cue_id


def ruling(question: Question) -> JSON:
    """The judge's decision, with a confidence where one is asked for: less where the sides never agreed on the cue, and
    less again where more than half of the perspectives say otherwise."""
    given = judge(question)
    if "confidence" not in question.form.model_fields:
        return given
    hateful = given["category"] != question.policy.categories(question.scheme)[0].name
    settled = "conceded it" in given["explanation"] or "withdrew it" in given["explanation"]
    stances = _LABELLED.findall(question.shared)
    against = sum((stance == "not hate") == hateful for stance in stances)
    return {**given, "confidence": round((0.9 if settled else 0.7) - (0.3 if against * 2 > len(stances) else 0.0), 2)}


_LABELLED = re.compile(r"^[\w-]+, [^\n]*? \((hate|not hate)\): ", re.MULTILINE)


def first_look(question: Question) -> JSON:
    """As the classifier, and sure where words are plain: an open attack that nothing excuses, or no group at all."""
    reading, found = _reading(question), _unexcused(question)
    plain = (found is not None and found.type == "Direct") or not (reading.hits or reading.names_protected)
    return {**classify(question), "confidence": 0.95 if plain else 0.5}


def classify(question: Question) -> JSON:
    """The baseline, decided alone: hateful if anything was found that the post doesn't excuse, faint signs apart."""
    reading, policy, scheme = _reading(question), question.policy, question.scheme
    none = policy.categories(scheme)[0].name
    if not reading.hits:
        return {"category": none, "explanation": "The post's words hold no attack on a group that the rules know."}
    ranked = [*reading.direct, *reading.implied]
    if hit := _unexcused(question):
        category = category_for(policy, scheme, hit.key)
        what = hit.what if hit.type == "Direct" else f"implies that {_meaning(hit)}"
        return {
            "category": category,
            "explanation": f"“{hit.words}” {what}, and nothing in the post quotes, denies or condemns it; "
            f"this is {category} under the policy.",
        }
    hit = ranked[0]
    if hit.evidence is None:
        return {
            "category": none,
            "explanation": f"“{hit.words}” is too faint a sign to hold against the post, and there is no second one.",
        }
    return {"category": none, "explanation": _IN_DEFENCE[hit.evidence.kind].format(words=hit.evidence.words)}


# --- PREDICT's parts --------------------------------------------------------------------------------------------------

_BROAD = re.compile(r"stereotype|implicit|implied|veiled|between the lines|sarcasm|indirect", re.IGNORECASE)
_LATIN = re.compile(r"[A-Za-z]")
_COUNTED = re.compile(r"(\d+) of the annotators")


def label(question: Question) -> JSON:
    """A perspective: by the post's own words, and in a script that the rules can't read by its examples' labels."""
    material, reading = question.material, _reading(question)
    hate, not_hate = material["hate"], material["not_hate"]
    if hit := _unexcused(question):
        counts = hit.type == "Direct" or not material.get("criterion") or bool(_BROAD.search(material["criterion"]))
        if counts:
            what = hit.what if hit.type == "Direct" else f"implies that {_meaning(hit)}"
            return {"label": hate, "reason": f"“{hit.words}” {what}."}
        return {"label": not_hate, "reason": f"“{hit.words}” is at most implied, and the criterion asks for more."}
    if reading.hits:
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
    material, found = question.material, _unexcused(question)
    against = (found is None and bool(_reading(question).hits)) if hateful else (found and found.type == "Direct")
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


_SIDES = ("non-hate", "hate")


def annotate(question: Question) -> JSON:
    """The base agent: by the post's own words alone."""
    if hit := _unexcused(question):
        return {"label": "hate", "reason": f"“{hit.words}” is an attack that nothing in the post takes back."}
    return {"label": "non-hate", "reason": "The post's words hold no attack that it doesn't itself take back."}


def _unexcused(question: Question) -> Hit | None:
    """The gravest attack in the post that it doesn't excuse, faint signs that stand alone apart."""
    reading = _reading(question)
    ranked = [*reading.direct, *reading.implied]
    return next((hit for hit in ranked if hit.evidence is None and not reading.stands_alone(hit)), None)


# --- AntiHateAgent's parts --------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]{4,}")
_SENTENCE = re.compile(r"[^.!?\n]{15,300}[.!?]?")
_SUPPORTS = re.compile(
    r"\b(?:slurs?|derogatory|dehumani[sz]\w*|racist|sexist|hateful|hate speech|insult\w*)\b", re.IGNORECASE
)
_REFUTES = re.compile(
    r"\b(?:harmless|neutral|affectionate|festival|recipe|gardening|in jest|reclaimed)\b", re.IGNORECASE
)
_EVIDENCE = re.compile(r"^\[([A-Z]\d+)\] (supports|refutes) ", re.MULTILINE)
_HIT = re.compile(r"^(\d+)\. (.*(?:\n   .*)*)", re.MULTILINE)


def _keywords(text: str) -> list[str]:
    """The longest words of a text, each once: what a search would begin with."""
    words = dict.fromkeys(word.casefold() for word in _WORD.findall(text))
    return sorted(words, key=lambda word: (-len(word), word)) or ["post"]


def research_queries(question: Question) -> JSON:
    """Three queries from the post's longest words; on later turns the words and the angle move on."""
    tried = (question.material["tried"] or "").splitlines()[1:-1]
    words, turn = _keywords(question.post.text), len(tried) // 3
    picked = [words[(turn + place) % len(words)] for place in range(3)]
    angles = (("meaning", "slang", "hate speech"), ("origin", "news", "derogatory"), ("history", "symbol", "insult"))
    angle = angles[turn % len(angles)]
    return {"queries": [f'"{word}" {end} {turn or ""}'.strip() for word, end in zip(picked, angle, strict=True)]}


def research_urls(question: Question) -> JSON:
    """Three pages of a reference work, by the post's longest words."""
    words, tried = _keywords(question.post.text), question.material["tried"] or ""
    urls = [f"https://en.wikipedia.org/wiki/{word}" for word in words]
    fresh = [url for url in urls if url not in tried] + [
        f"https://en.wiktionary.org/wiki/{word}-{len(tried)}-{place}" for place, word in enumerate((words * 3)[:3])
    ]
    return {"urls": fresh[:3]}


def research_relevance(question: Question) -> JSON:
    """Hits whose title or snippet holds one of the query's words."""
    words = set(_keywords(question.material["query"].partition("\n")[2].rpartition("\n")[0]))
    relevant = [
        int(number)
        for number, shown in _HIT.findall(question.material["hits"])
        if words & {word.casefold() for word in _WORD.findall(shown)}
    ]
    return {"relevant": relevant}


def research_passages(question: Question) -> JSON:
    """Sentences that share a word with the post and call it hateful, or harmless, by a handful of words."""
    page = question.material["page"].partition("\n")[2].rpartition("\n")[0]
    words = set(_keywords(question.post.text))
    found = []
    for sentence in _SENTENCE.findall(page):
        if words & {word.casefold() for word in _WORD.findall(sentence)}:
            if _SUPPORTS.search(sentence):
                found.append({"passage": sentence.strip(), "stance": "supports"})
            elif _REFUTES.search(sentence):
                found.append({"passage": sentence.strip(), "stance": "refutes"})
    return {"passages": found[:3]}


def research_weigh(question: Question) -> JSON:
    """With whichever side the new page speaks for more."""
    stances = [stance for _, stance in _EVIDENCE.findall(question.material["evidence"])]
    ids = ", ".join(found for found, _ in _EVIDENCE.findall(question.material["evidence"]))
    for_hate = stances.count("supports") - stances.count("refutes")
    judgement = "hate" if for_hate > 0 else "non-hate" if for_hate < 0 else "undecided"
    return {"judgement": judgement, "reasoning": f"The page adds {ids}, which speak for {judgement}."}


def research_enough(question: Question) -> JSON:
    """Two pieces of evidence are enough."""
    enough = len(_EVIDENCE.findall(question.material["evidence"])) >= 2
    return {"sufficient": enough, "missing": "" if enough else "a second source that says what the words mean"}


def conclude(question: Question) -> JSON:
    """By an attack in the post that nothing excuses, else by the greater part of the evidence."""
    evidence = _EVIDENCE.findall(question.material["evidence"])
    ids = {stance: [found for found, each in evidence if each == stance] for stance in ("supports", "refutes")}
    hit = _unexcused(question)
    excused = bool(_reading(question).hits) and hit is None
    hateful = hit is not None or (len(ids["supports"]) > len(ids["refutes"]) and not excused)
    steps: list[JSON] = []
    if hit:
        steps.append({"claim": f"“{hit.words}” is an attack that nothing in the post takes back", "evidence": []})
    elif excused:
        steps.append({"claim": "The post itself speaks against the words that would count", "evidence": []})
    else:
        steps.append({"claim": "The post's own words hold no attack that the rules know", "evidence": []})
    if ids["supports"]:
        steps.append({"claim": "What was read calls its words hateful", "evidence": ids["supports"]})
    if ids["refutes"]:
        steps.append({"claim": "What was read calls its words harmless", "evidence": ids["refutes"]})
    return {"label": "HATE" if hateful else "NON-HATE", "confidence": 0.9 if hit or evidence else 0.6, "steps": steps}


def _in_words(question: Question) -> str:
    """The baseline's answer in words."""
    hit = _unexcused(question)
    if hit:
        return f"hate speech: “{hit.words}” is an attack that nothing in the post takes back."
    return "not hate speech: the post's words hold no attack that it doesn't itself take back."


# --- What the parts of the views find ---------------------------------------------------------------------------


def _findings(question: Question) -> list[Finding]:
    """What speaks for hate in a post; every view sees an open attack."""
    reading = _reading(question)
    return [
        Finding(
            hit.words,
            hit.what if hit.type == "Direct" else f"implies that {_meaning(hit)}",
            {"Direct": None, "Socio-cultural": ("deep", "context"), "Metaphor": ("deep",)}[hit.type],
        )
        for hit in [*reading.direct, *reading.implied]
        if hit.evidence is None and not reading.stands_alone(hit)
    ]


# --- The model --------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Question], JSON]] = {
    "gatekeeper": scan,
    "prosecutor.indictment": indict,
    "prosecutor.investigation": investigate,
    "prosecutor.argument": prosecute,
    "defender": defend,
    "judge": ruling,
    "triage": first_look,
    "classifier": classify,
    "perspective": label,
    "annotator": annotate,
    "debater.opening.not_hate": open_debate,
    "debater.opening.hate": open_debate,
    "debater.response.not_hate": answer_debate,
    "debater.response.hate": answer_debate,
    "judge.debate": judge_debate,
    "researcher.queries": research_queries,
    "researcher.urls": research_urls,
    "researcher.relevance": research_relevance,
    "researcher.passages": research_passages,
    "researcher.weigh": research_weigh,
    "researcher.enough": research_enough,
    "judge.evidence": conclude,
    **parts(_findings),
}
IN_WORDS: dict[str, Callable[[Question], str]] = {"classifier.words": _in_words}
CHARACTERS_PER_TOKEN = 4
LONG_POST = 4_000  # characters from which a post is read off the event loop


class Rehearsal(BaseChatModel):
    """A chat model that plays every role by the rules of this module.

    It is asked like any other, with one thing more: the keyword `question`, the `Question` behind the
    messages. Tokens are estimated at four characters each.

    Raises (when asked):
        ValueError: there is no `question`.
        NotImplementedError: no part is written for the role.
    """

    @property
    def _llm_type(self) -> str:
        return "rehearsal"

    def _resolve_model_profile(self) -> ModelProfile:
        return ModelProfile(text_inputs=True, image_inputs=False, temperature=True, structured_output=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question = kwargs.get("question")
        in_words = IN_WORDS.get(question.role.name) if question is not None else None
        said = (
            in_words(question)
            if in_words and question is not None
            else json.dumps(answer(question), ensure_ascii=False)
        )
        asked = sum(len(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=_message(said, asked))])

    async def answer(self, messages: list[BaseMessage], **options: Any) -> AIMessage:
        """What `ainvoke` gives, without the callbacks that nobody listens to."""
        [generation] = (await self._agenerate(messages, **options)).generations
        return cast("AIMessage", generation.message)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question = kwargs.get("question")
        if question is not None and len(question.post.text) > LONG_POST:
            await asyncio.to_thread(read, question.post.text, question.policy)  # the answers then find it in the cache
        # An ordinary post takes a fraction of a millisecond: a thread would cost more.
        return self._generate(messages, stop, **kwargs)


def answer(question: Question | None) -> JSON:
    """The answer to one question, in the form that its role asks for.

    Raises:
        ValueError: there is no question.
        NotImplementedError: no part is written for the role.
    """
    if question is None:
        raise ValueError("the rehearsal model is asked through `ask`, which hands it the question itself")
    part = PARTS.get(question.role.name)
    if part is None:
        raise NotImplementedError(
            f"the rehearsal model has no part for the role {question.role.name!r}; it plays {', '.join(PARTS)}"
        )
    return part(question)


def _message(said: str, asked: int) -> AIMessage:
    tokens_in, tokens_out = _tokens(asked), _tokens(len(said))
    usage = UsageMetadata(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
    return AIMessage(said, usage_metadata=usage, response_metadata={"finish_reason": "stop", "model_name": "court"})


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
