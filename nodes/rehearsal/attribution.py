"""What in a post fits the lexicon, and which group it is said of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from tribunal.nodes.rehearsal.attacks import ATTACKS, SENT_BACK, Attack
from tribunal.nodes.rehearsal.layout import AROUND, Layout, Mention
from tribunal.nodes.rehearsal.matches import Match
from tribunal.nodes.rehearsal.protection import protected_by
from tribunal.nodes.rehearsal.signs import SIGNS, Sign
from tribunal.nodes.rehearsal.spelling import WORD, any_of, cut

REACH = 80  # characters between a group's name and what is said of it
WORDS = 8  # words, likewise

THEY = any_of("they", "them", "they're", "these people", "those people")
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


def matches(layout: Layout) -> Iterator[Match]:
    """Everything in a post that fits the lexicon and is said of a group, attacks first. Nothing is excused yet."""
    for found in SENT_BACK.pattern.finditer(layout.text):
        yield _match(layout, SENT_BACK, found, _near(layout, found), "foreigners")
    for attack in ATTACKS:
        for found in attack.pattern.finditer(layout.text):
            mention = _near(layout, found, pronouns=True)
            if mention and _said_of(layout.text, attack, found, mention):
                yield _match(layout, attack, found, mention)
    for sign in SIGNS:
        for found in sign.pattern.finditer(layout.text):
            mention = _near(layout, found, earlier=True)
            if mention and (
                not protected_by(layout.policy, mention.key) or (sign.only and mention.key not in sign.only)
            ):
                mention = None
            if sign.touching and not (mention and _touches(layout.text, found, mention)):
                continue
            if mention or _counts_alone(layout, sign, found):
                yield _match(layout, sign, found, mention, sign.alone or "")


def _match(
    layout: Layout, kind: Attack | Sign, found: re.Match[str], mention: Mention | None, unnamed: str = ""
) -> Match:
    """From the first of the two to the end of the last; a group named a sentence earlier is left out."""
    start, end = found.span()
    if mention and mention.end + REACH >= start:
        start, end = min(start, mention.start), max(end, mention.end)
    return Match(
        kind=kind,
        type=kind.type,
        key=mention.key if mention else unnamed,
        mention=mention,
        found=found.group().strip(),
        words=cut(layout.text[start:end]),
        at=found.start(),
        start=start,
        end=end,
    )


def _near(layout: Layout, found: re.Match[str], *, pronouns: bool = False, earlier: bool = False) -> Mention | None:
    """The group that words are most likely about: in the same sentence and within reach, before them if there is one.

    Args:
        layout: the post.
        found: the words.
        pronouns: "they" and the like, within reach, stand for the last group of the sentence before.
        earlier: the last group of the sentence before counts, at most twice the reach away.
    """
    text, mentions = layout.text, layout.mentions
    if not mentions:
        return None
    start, end = found.span()
    first, last = layout.sentence(start)
    after = bisect_right(mentions, start, key=lambda mention: mention.start)
    held = mentions[after - 1] if after else None
    if held and held.start >= first and _within(text, held.end, start):
        return held
    inside = held if held and held.end > start else None
    for candidate in (inside, mentions[after] if after < len(mentions) else None):
        if candidate and candidate.start < last and (candidate.start < end or _within(text, end, candidate.start)):
            return candidate
    if held is None or not layout.sentence(start, 1)[0] <= held.start < first:
        return None
    if earlier and start - held.end <= 2 * REACH:
        return held
    if pronouns and THEY.search(text, max(first, start - REACH), min(last, end + REACH)):
        return held
    return None


def _within(text: str, start: int, end: int) -> bool:
    return end - start <= REACH and len(WORD.findall(text, start, end)) <= WORDS


def _said_of(text: str, attack: Attack, found: re.Match[str], mention: Mention) -> bool:
    """Whether an attack is said of the group, and not of a thing that stands beside it."""
    start, end = found.span()
    if THING.search(text, max(0, start - REACH), start):
        return False
    if attack.upon:
        return bool(AFTER_HATE.fullmatch(text, end, mention.start))
    if not attack.link:
        return True
    if mention.start >= end:
        return bool(BEFORE_LINK.fullmatch(text, end, mention.start))
    if start - mention.end <= REACH and AFTER_LINK.fullmatch(text, mention.end, start):
        return True
    return bool(THEY.search(text, max(mention.end, start - REACH), start))


def _touches(text: str, found: re.Match[str], mention: Mention) -> bool:
    """Whether nothing stands between a sign and the group before it, or after "typical"; "they …" may stand apart."""
    before = mention.end <= found.start()
    words = found.group().casefold()
    if words.startswith("they"):
        return before
    between = text[mention.end : found.start()] if before else text[found.end() : mention.start]
    return not between.strip() and before != (words == "typical")


def _counts_alone(layout: Layout, sign: Sign, found: re.Match[str]) -> bool:
    """Whether a sign counts though no group is named."""
    if sign.alone is None:
        return False
    first, last = layout.sentence(found.start())
    start, end = max(first, found.start() - AROUND), min(last, found.end() + AROUND)
    return sign.needs is None or bool(sign.needs.search(layout.text, start, end))
