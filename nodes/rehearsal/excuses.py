"""What in a post excuses an attack found in it."""

from __future__ import annotations

import re
from bisect import bisect_right

from tribunal.nodes.rehearsal.groups import GROUPS
from tribunal.nodes.rehearsal.layout import AROUND, Layout, Mention
from tribunal.nodes.rehearsal.matches import Excuse, Match
from tribunal.nodes.rehearsal.phrases import (
    AS_ONE,
    CLAUSE_END,
    CONDEMNED,
    ENDORSED,
    NEGATION,
    NOT_SO,
    ONE_OF_THEM,
    PRAISE,
    REPORTED,
    SPOKEN_OF,
    WE,
    WHY_NOT,
)
from tribunal.nodes.rehearsal.protection import protected_by
from tribunal.nodes.rehearsal.spelling import cut

DENIES = 5  # words before an attack in which a negation denies it


def excuse_of(layout: Layout, match: Match) -> Excuse | None:
    """The first reason in a post not to hold an attack against its author, in the order of docs/rehearsal.md."""
    if not protected_by(layout.policy, match.key):
        return Excuse("unprotected", match.term or cut(match.found))
    text, mention = layout.text, match.mention
    earliest, latest = layout.sentence(match.start, 1)
    first, last = max(earliest, match.start - AROUND), min(latest, match.end + AROUND)
    own_first = max(layout.sentence(match.at)[0], first)
    if denied := _denied(text[own_first : match.at], match):
        return Excuse("denied", denied)
    if mention and (me := _oneself(layout, mention, first, last)):
        return Excuse("self", me)
    quoted = layout.in_quotes(match.at)
    endorsed = _own_voice(layout, ENDORSED, first, last, match)
    if not endorsed:
        for about in SPOKEN_OF.finditer(text, own_first, last):
            if any(about.start() <= place < about.end() for place in (match.start, match.at)):
                return Excuse("condemned", cut(about.group()))
        if condemned := _own_voice(layout, CONDEMNED, first, last, match):
            return Excuse("condemned", condemned)
        if reported := _own_voice(layout, REPORTED, first, last if quoted else match.start, match):
            return Excuse("reported", reported)
    if layout.satire:
        return Excuse("satire", layout.satire)
    if quoted and not endorsed and layout.has_own_words:
        return Excuse("quoted", match.found)
    if mention and mention.one and (one := ONE_OF_THEM.search(text, max(0, mention.start - 40), mention.start)):
        # "That filthy …" insults by the group's name; "that woman from the bank is …" doesn't.
        names = match.type == "Direct" and 0 <= mention.start - match.at - len(match.found) <= 1
        if not names:
            return Excuse("one person", f"{one.group().split()[0]} {mention.term}")
    if match.type != "Direct":
        own_last = min(layout.sentence(match.at)[1], last)
        if praise := _own_voice(layout, PRAISE, own_first, own_last, match):
            return Excuse("praised", praise)
    return None


def _denied(before: str, match: Match) -> str:
    """The negation in the last words before an attack, in its clause, or among its own words where it can hold one."""
    # What a sign says with a "not" of its own ("not like us") isn't denied by it.
    words = [*CLAUSE_END.split(before)[-1].split()[-DENIES:], match.found if match.kind.deniable else ""]
    clause = " ".join(words)
    denied = NEGATION.search(clause)
    return denied.group() if denied and not WHY_NOT.search(clause) else ""


def _oneself(layout: Layout, mention: Mention, first: int, last: int) -> str:
    """Where the author speaks as one of the same group: "we immigrants", "as a woman"."""
    for other in layout.mentions[max(0, bisect_right(layout.mentions, first, key=lambda at: at.start) - 1) :]:
        if other.start >= last:
            break
        mixed = other.key in GROUPS and GROUPS[other.key].mixed
        if other.key != mention.key or (mixed and _stem(other.term) != _stem(mention.term)):
            continue
        before = layout.text[max(0, other.start - 40) : other.start]
        if me := WE.search(before) or (other.one and AS_ONE.search(before)):
            return cut(me.group() + other.term)
    return ""


def _stem(term: str) -> str:
    words = term.casefold().split()
    return words[0] if len(words) > 1 else words[0].removesuffix("s")


def _own_voice(layout: Layout, pattern: re.Pattern[str], first: int, last: int, match: Match) -> str:
    """The first words of a kind in the author's own voice: not quoted, not part of the attack, with no "not" before."""
    for found in pattern.finditer(layout.text, first, last):
        overlaps = found.start() < match.end and match.start < found.end()
        before = layout.text[max(first, found.start() - 24) : found.start()]
        if not overlaps and not NOT_SO.search(before) and not layout.in_quotes(found.start()):
            return cut(found.group())
    return ""
