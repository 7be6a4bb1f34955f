"""The lexicon of excuses: words by which a post denies, condemns, reports or takes back what it says."""

from __future__ import annotations

import re

from tribunal.nodes.rehearsal.spelling import any_of

NEGATION = re.compile(r"\b(?:not(?! only| just| even)|never|no longer|hardly|isn't|aren't|wasn't|weren't|don't|doesn't"
                      r"|didn't|shouldn't|mustn't|won't|can't|nobody|no one)\b", re.IGNORECASE)  # fmt: skip
NOT_SO = re.compile(r"(?:\b(?:not|no|never)|n't)(?: \w+)? $", re.IGNORECASE)
WHY_NOT = re.compile(r"\bwhy (?:don't|not|aren't)\b", re.IGNORECASE)
CONDEMNED = any_of(
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
ENDORSED = any_of(
    "so true", r"i (?:totally |fully |completely )?agree",
    r"(?:he|she|they)(?:'s|'re| is| are| was| were)(?: \w+)? right", "well said", "amen", "finally someone",
    "couldn't agree more", "hear hear",
)  # fmt: skip
REPORTED = any_of(
    "according to", "reported(?:ly)?", r"the (?:article|report|study|documentary|exhibition|museum|textbook|lecture)",
    r"historians?", "propaganda", r"police sa(?:id|y)", r"in (?:18|19)\d\d",
    r"was (?:charged|sentenced|fined|suspended)", "researchers?", "content warning", "trigger warning",
    r"(?:he|she|they|someone|somebody|people|man|woman|uncle|neighbou?r|colleague|troll|minister|politician|speaker"
    r"|senator|newspaper|poster|website)(?: \w+){0,2} (?:called|calls|said|says|wrote|writes|shouted|yelled|compared"
    r"|claimed|claims|posted|tweeted)",
)  # fmt: skip
SATIRE = re.compile(r"(?:(?<=\s)|^)/s(?=\s|$)|\b(?:satire|satirical|parody|sarcasm|spoof)\b", re.IGNORECASE)
PRAISE = any_of(
    "love", "proud", "amazing", "brave", "wonderful", "lovely", "thank(?:s| you)?", "beautiful", "welcome", "celebrate",
    r"inspir(?:e|es|ed|ing)", "fought", "give up", "stronger", "equal",
)  # fmt: skip
CLAUSE_END = re.compile(r"[,;:()\u2013\u2014]|\b(?:but|because|while|whereas|although)\b", re.IGNORECASE)
ONE_OF_THEM = re.compile(r"\b(?:that|this|my|the|his|her|our|your|some|one) (?:\w+ )?$", re.IGNORECASE)
WE = re.compile(r"\b(?:we|us|we are(?: all)?|we're(?: all)?|(?:my )?fellow) $", re.IGNORECASE)
AS_ONE = re.compile(r"\b(?:as an?|being an?|i am an?|i'm an?) (?:\w+ )?$", re.IGNORECASE)
