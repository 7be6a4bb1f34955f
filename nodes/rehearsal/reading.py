"""A post as the rules read it: the groups that it names, the signs said of them, and what excuses each."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from tribunal.core.calls import NOTHING_FOUND
from tribunal.core.text import one_line, wellformed, without_hidden
from tribunal.models.role import Question
from tribunal.nodes.rehearsal.lexicon import (
    LEXICON,
    Sign,
    argue,
    category_of_group,
    protected_name,
    terms_of_groups,
)
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, CueType

REACH = 80  # characters between a group's name and what is said of it
AROUND = 300  # characters on either side in which excuses are looked for
NEGATION_REACH = 5  # words before an attack in which a negation denies it
MOST_WEIGHED = 200  # matches in one post whose excuses are looked at
_OWN_WORDS = 3  # outside quotations, from which on the rest of a post counts as quoted
_LONGEST_QUOTE = 90  # characters

_WORD = re.compile(r"\w+(?:'\w+)*")  # "don't" is one word
_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANK = re.compile(r"[^\S\n]+")
_QUOTATION_MARKS = str.maketrans(dict.fromkeys("‘’‚‛‹›ʼ", "'") | dict.fromkeys("“”„‟«»", '"'))
_STOP = re.compile(r"(?<=[.!?…]) |\n")
_QUOTATION_MARK = re.compile(r"\"|(?<!\w)'(?=\w)|(?<=[\w.,!?])'(?!\w)|\n")


def plain_text(text: str) -> str:
    """Return the text in one spelling, on which every rule works.

    Unicode NFKC; no hidden, control or replacement characters; one kind of line break, blank, quotation mark and
    apostrophe.
    """
    text = unicodedata.normalize("NFKC", without_hidden(wellformed(text).replace("\ufffd", "")))
    return _BLANK.sub(" ", _BREAK.sub("\n", text)).translate(_QUOTATION_MARKS)


def shorten_quote(words: str) -> str:
    """Return words on one line, short enough to quote, without quotation marks of their own."""
    line = one_line(re.sub('["“”]', "'", words))
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Mention:
    """A group named in the post; `key` is its place in the lexicon, or the policy's own name for it."""

    start: int
    end: int
    key: str
    term: str
    one: bool


class PostLayout:
    """A post in one spelling, and where its quotations, its sentences' ends and the groups that it names lie."""

    def __init__(self, text: str, policy: Policy) -> None:
        """Lay out a post under a policy that may name groups of its own."""
        self.text = plain_text(text)
        self.policy = policy
        self.quotes = _find_quotations(self.text)
        self.stops = [stop.end() for stop in _STOP.finditer(self.text)]
        pattern, table = terms_of_groups(policy)
        self.mentions = [
            Mention(term.start(), term.end(), key, term.group(), one)
            for term in pattern.finditer(self.text)
            for key, one in [table[" ".join(term.group().casefold().split())]]
        ]

    def sentence_around(self, at: int, spare: int = 0) -> tuple[int, int]:
        """Return where the sentence that holds a place begins and ends, with `spare` more on either side."""
        place = bisect_right(self.stops, at)
        first = place - 1 - spare
        last = place + spare
        return self.stops[first] if first >= 0 else 0, self.stops[last] if last < len(
            self.stops
        ) else len(self.text)

    def is_quoted(self, at: int) -> bool:
        """Return whether a place lies between quotation marks."""
        place = bisect_right(self.quotes, (at, len(self.text))) - 1
        return place >= 0 and at < self.quotes[place][1]

    def has_own_words(self) -> bool:
        """Return whether enough words stand outside quotations for the author to have said something about them."""
        starts = [0, *(end for _, end in self.quotes)]
        ends = [*(start for start, _ in self.quotes), len(self.text)]
        own = sum(
            len(_WORD.findall(self.text, start, end))
            for start, end in zip(starts, ends, strict=True)
        )
        return own >= _OWN_WORDS

    def group_near(self, match: re.Match[str]) -> Mention | None:
        """Return the group that words are most likely about.

        That is the nearest one before them in their sentence, within reach; else the nearest after them; else, if
        "they" or the like stands near, the last one of the sentence before.
        """
        start, end = match.span()
        first, last = self.sentence_around(start)
        after = bisect_right(self.mentions, start, key=lambda mention: mention.start)
        before = self.mentions[after - 1] if after else None
        if before and before.start >= first and start - before.end <= REACH:
            return before
        following = self.mentions[after] if after < len(self.mentions) else None
        if following and following.start < last and following.start - end <= REACH:
            return following
        if before and self.sentence_around(start, 1)[0] <= before.start < first:
            nearby = max(first, start - REACH), min(last, end + REACH)
            return before if LEXICON.context["they"].search(self.text, *nearby) else None
        return None


def _find_quotations(text: str) -> list[tuple[int, int]]:
    """Return each quotation from its opening mark to its closing one; it ends with its paragraph at the latest."""
    opening: re.Match[str] | None = None
    found = []
    for mark in _QUOTATION_MARK.finditer(text):
        if mark.group() == "\n":
            opening = None
        elif opening is None:
            if mark.group() == '"' or text[mark.end() : mark.end() + 1].isalnum():
                opening = mark
        elif mark.group() == opening.group():
            found.append((opening.start(), mark.end()))
            opening = None
    return found


@dataclass(frozen=True, slots=True)
class Excuse:
    """A reason in the post not to hold an attack against its author, and the words it lies in."""

    kind: str
    words: str

    @property
    def weak(self) -> bool:
        """Return whether a prosecutor has one more answer to it."""
        return LEXICON.excuses[self.kind].weak

    @property
    def plea(self) -> str:
        """Return what a defence says of it."""
        return LEXICON.excuses[self.kind].plea.format(words=self.words)


@dataclass(frozen=True, slots=True)
class SignMatch:
    """Words of the post that fit a sign of the lexicon, and the group that they are said of.

    `matched` are the words that fit, from `at` on; `words` also hold the group's name if it stands near, from `start`
    to `end`, short enough to quote. `key` is the group's place in the lexicon.
    """

    sign: Sign
    key: str
    mention: Mention | None
    matched: str
    words: str
    at: int
    start: int
    end: int
    type: CueType
    excuse: Excuse | None = None

    @property
    def term(self) -> str:
        """Return the group's name in the post; empty if none is named."""
        return self.mention.term if self.mention else ""

    @property
    def is_figure(self) -> bool:
        """Return whether it likens people to something else."""
        return self.type == "Metaphor" or self.sign.name == "dehumanising"

    @property
    def meaning(self) -> str:
        """Return what it implies of the group, as a clause."""
        return f"they are {self.sign.implies}" if self.is_figure else self.sign.implies

    @property
    def charge(self) -> str:
        """Return what the words do, to be said after them."""
        return self.sign.charge if self.type == "Direct" else f"implies that {self.meaning}"


class PostReading:
    """A post in one spelling, what was found in it, and whether it names a group that the policy protects.

    `direct` are the open attacks: those without an excuse first, then the gravest. `implied` is what is implied:
    without an excuse first, then the strong ones. `found` is both. `unexcused` is what nothing excuses, without a faint
    sign that stands alone, and `gravest` the first of it.
    """

    def __init__(self, text: str, matches: list[SignMatch], names_protected: bool) -> None:
        """Rank what was found."""
        self.text = text
        self.matches = tuple(matches)
        self.names_protected = names_protected
        ranked = sorted(
            matches,
            key=lambda one: (one.excuse is not None, -one.sign.gravity, not one.sign.strong),
        )
        self.direct = [match for match in ranked if match.type == "Direct"]
        self.implied = [match for match in ranked if match.type != "Direct"]
        self.found = *self.direct, *self.implied
        self.unexcused = [
            match for match in self.found if match.excuse is None and not self.stands_alone(match)
        ]
        self.gravest = self.unexcused[0] if self.unexcused else None

    @property
    def summary(self) -> str:
        """Return what the post comes to, in one sentence."""
        if self.gravest:
            return f"“{self.gravest.words}” is an attack that nothing in the post takes back."
        return (
            "The post itself speaks against the words that would count."
            if self.matches
            else NOTHING_FOUND
        )

    def stands_alone(self, match: SignMatch) -> bool:
        """Return whether a faint sign is all there is: no second one, nothing stronger."""
        return not match.sign.strong and len({each.sign.name for each in self.matches}) < 2


@lru_cache(maxsize=256)
def read_post(text: str, policy: Policy) -> PostReading:
    """Return what the rules find in a post under a policy, in time linear in the length of the text.

    Of each sign one match is kept for each group; one that nothing excuses before one that something does.
    """
    layout = PostLayout(text, policy)
    kept: dict[tuple[str, str], SignMatch] = {}
    weighed = 0
    for match in _find_matches(layout):
        place = (match.key, match.sign.name)
        if (place in kept and kept[place].excuse is None) or weighed >= MOST_WEIGHED:
            continue
        weighed += 1
        excuse = _find_excuse(layout, match)
        if place not in kept or excuse is None:
            kept[place] = replace(match, excuse=excuse)
    names_protected = any(protected_name(policy, mention.key) for mention in layout.mentions)
    return PostReading(layout.text, [*kept.values()], names_protected)


def reading_of_question(question: Question) -> PostReading:
    """Return the reading of the post that a call is about."""
    return read_post(question.post.text, question.policy)


def _find_matches(layout: PostLayout) -> Iterator[SignMatch]:
    """Yield everything in a post that fits the lexicon and is said of a group, attacks first, with no excuse yet."""
    for sign in LEXICON.signs:
        for match in sign.words.finditer(layout.text):
            mention = layout.group_near(match)
            if mention and not _is_said_of(layout, sign, match, mention):
                mention = None
            if mention is None and not _counts_alone(layout, sign, match):
                continue
            start, end = match.span()
            if mention and mention.end + REACH >= start:
                start = min(start, mention.start)
                end = max(end, mention.end)
            yield SignMatch(
                sign=sign,
                type=sign.type,
                key=mention.key if mention else sign.alone or "",
                mention=mention,
                matched=match.group().strip(),
                words=shorten_quote(layout.text[start:end]),
                at=match.start(),
                start=start,
                end=end,
            )


def _is_said_of(layout: PostLayout, sign: Sign, match: re.Match[str], mention: Mention) -> bool:
    """Return whether a sign is said of the group, and not of a thing that stands beside it."""
    text = layout.text
    start, end = match.span()
    patterns = LEXICON.context
    if sign.type != "Direct":
        if not protected_name(layout.policy, mention.key) or (
            sign.only and mention.key not in sign.only
        ):
            return False
    elif patterns["thing"].search(text, max(0, start - REACH), start):
        return False
    if sign.place == "near":
        return True
    if sign.place == "before":
        touches = (
            match.group().casefold().startswith("they") or not text[mention.end : start].strip()
        )
        return mention.end <= start and touches
    if sign.place == "after" or mention.start >= end:
        between = "attack_before_name" if sign.place == "after" else "insult_before_name"
        return bool(patterns[between].fullmatch(text, end, mention.start))
    if start - mention.end <= REACH and patterns["name_before_insult"].fullmatch(
        text, mention.end, start
    ):
        return True
    return bool(patterns["they"].search(text, max(mention.end, start - REACH), start))


def _counts_alone(layout: PostLayout, sign: Sign, match: re.Match[str]) -> bool:
    """Return whether a sign counts though no group is named."""
    first, last = layout.sentence_around(match.start())
    nearby = max(first, match.start() - AROUND), min(last, match.end() + AROUND)
    return sign.alone is not None and (
        sign.near is None or bool(sign.near.search(layout.text, *nearby))
    )


def _find_excuse(layout: PostLayout, match: SignMatch) -> Excuse | None:
    """Return the first reason in a post not to hold an attack against its author, in the order of the lexicon."""
    if not protected_name(layout.policy, match.key):
        return Excuse("unprotected", match.term or shorten_quote(match.matched))
    text = layout.text
    mention = match.mention
    rules = LEXICON.excuses
    patterns = LEXICON.context
    earliest, latest = layout.sentence_around(match.start, 1)
    first = max(earliest, match.start - AROUND)
    last = min(latest, match.end + AROUND)
    own_first, own_last = layout.sentence_around(match.at)
    own_first = max(own_first, first)
    own_last = min(own_last, last)

    def own_voice(words: re.Pattern[str], start: int = first, end: int = last) -> str:
        """Return the first such words that the author says: not quoted, outside the attack, with no "not" before."""
        for each in words.finditer(text, start, end):
            overlaps = each.start() < match.end and match.start < each.end()
            before = text[max(start, each.start() - 24) : each.start()]
            if (
                not overlaps
                and not patterns["not_so"].search(before)
                and not layout.is_quoted(each.start())
            ):
                return shorten_quote(each.group())
        return ""

    # The last words before the attack, in its clause; and its own where a "not" among them denies it.
    clause_words = (
        patterns["clause_end"].split(text[own_first : match.at])[-1].split()[-NEGATION_REACH:]
    )
    clause = " ".join([*clause_words, match.matched if match.sign.deniable else ""])
    negation = rules["denied"].words.search(clause)
    if negation and not patterns["why_not"].search(clause):
        return Excuse("denied", negation.group())
    if mention and (self_reference := _find_self_reference(layout, mention, first, last)):
        return Excuse("self", self_reference)
    quoted = layout.is_quoted(match.at)
    agrees = own_voice(LEXICON.agreement.words)
    if not agrees:
        for about in LEXICON.spoken_of.words.finditer(text, own_first, last):
            if any(about.start() <= place < about.end() for place in (match.start, match.at)):
                return Excuse("condemned", shorten_quote(about.group()))
        judgement = own_voice(rules["condemned"].words)
        if judgement:
            return Excuse("condemned", judgement)
        report = own_voice(rules["reported"].words, end=last if quoted else match.start)
        if report:
            return Excuse("reported", report)
    satire = rules["satire"].words.search(text)
    if satire:
        return Excuse("satire", satire.group())
    if quoted and not agrees and layout.has_own_words():
        return Excuse("quoted", match.matched)
    if mention and mention.one:
        one = patterns["one_of_them"].search(text, max(0, mention.start - 40), mention.start)
        # "That filthy …" insults by the group's name; "that woman from the bank is …" doesn't.
        by_name = match.type == "Direct" and 0 <= mention.start - match.at - len(match.matched) <= 1
        if one and not by_name:
            return Excuse("one person", f"{one.group().split()[0]} {mention.term}")
    if match.type != "Direct" and (
        praise := own_voice(rules["praised"].words, own_first, own_last)
    ):
        return Excuse("praised", praise)
    return None


def _find_self_reference(layout: PostLayout, mention: Mention, first: int, last: int) -> str:
    """Return the words in which the author speaks as one of the same group: "we immigrants", "as a woman"."""
    mixed = mention.key in LEXICON.groups and LEXICON.groups[mention.key].mixed
    for other in layout.mentions:
        if other.key != mention.key or other.end <= first or other.start >= last:
            continue
        first_words = {
            each.term.casefold().split()[0].removesuffix("s") for each in (other, mention)
        }
        if mixed and len(first_words) > 1:
            continue
        before = layout.text[max(0, other.start - 40) : other.start]
        me = LEXICON.context["we"].search(before) or (
            other.one and LEXICON.context["as_one"].search(before)
        )
        if me:
            return shorten_quote(me.group() + other.term)
    return ""


def decide_alone(question: Question) -> JSON:
    """Play the classifier: hateful if anything was found that the post doesn't excuse, faint signs apart."""
    reading = reading_of_question(question)
    policy = question.policy
    scheme = question.scheme
    match = reading.gravest
    if match:
        category = category_of_group(policy, scheme, match.key)
        return fill_decision(
            category, argue("found", words=match.words, charge=match.charge, category=category)
        )
    why = NOTHING_FOUND
    first = next(iter(reading.found), None)
    if first:
        why = first.excuse.plea if first.excuse else argue("faint", words=first.words)
    return fill_decision(policy.categories(scheme)[0].name, why)


def take_exam(question: Question) -> JSON:
    """Play whoever takes an exam: the classifier, who quotes what was found, or else the post."""
    match = reading_of_question(question).gravest
    return {**decide_alone(question), "quote": match.words if match else question.post.text}


def fill_decision(category: str, explanation: str) -> JSON:
    """Return a decision in its form."""
    return {"category": category, "explanation": explanation}
