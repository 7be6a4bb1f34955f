"""Check whether the explanation of each verdict holds, without a call.

The checks follow HateXScore (Hu and Lee, EACL 2026, arXiv 2601.13547): an explicit conclusion, faithful quotations, a
protected group, and parts that agree with each other. They are rules, not a model, so they read names and words only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tribunal.eval.datasets.audits import WITHOUT_QUOTES, spans_quoted
from tribunal.eval.measures.clusters import Clusters
from tribunal.eval.measures.columns import Bools, Ints, RunColumns
from tribunal.eval.measures.rates import rate_interval
from tribunal.explanations.quotations import find_spans, quotations_in
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Cue, Record, standing_cues

CHECKS = ("explicit", "quotes", "faithful", "group", "agrees")
HOLDS = 1
FAILS = 0
UNCHECKED = -1
_MOST_LISTED = 20  # posts that fail a check
_HATE = ("hate speech", "hateful")
_NEGATION = r"(?:not|no|non|never|isn['’]?t|aren['’]?t|doesn['’]?t|without)"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GENERAL = frozenset(
    {
        "people",
        "person",
        "persons",
        "group",
        "groups",
        "community",
        "members",
        "from",
        "with",
        "who",
    }
)


class VerdictChecks(NamedTuple):
    """Whether the explanation of one verdict passes each check: `HOLDS`, `FAILS`, or `UNCHECKED` if it can't apply."""

    explicit: int
    quotes: int
    faithful: int
    group: int
    agrees: int


def check_explanation(record: Record, text: str | None, policy: Policy) -> VerdictChecks:
    """Check the explanation of a verdict on hate speech.

    Args:
        record: the verdict's.
        text: the post's text; None if it isn't known, or if the words may be in an image.
        policy: the policy of the run.
    """
    hateful = bool(record.hateful)
    words = record.explanation
    cues = standing_cues(record.cues, record.transcript) if hateful else []
    conclusion = _stated_side(words, record.category or "", policy)
    quotes = faithful = UNCHECKED
    if text is not None:
        names = {each.casefold() for each in _names_of_policy(policy)}
        quoted = [
            each for each in quotations_in(words) if each.strip() and each.casefold() not in names
        ]
        if hateful:
            quotes = int(bool(spans_quoted(words, cues, text)))
        if quoted:
            faithful = int(all(any(find_spans(text, [each])) for each in quoted))
    return VerdictChecks(
        explicit=int(conclusion is hateful),
        quotes=quotes,
        faithful=faithful,
        group=_check_group(words, cues, policy),
        agrees=_check_agreement(record, cues, policy) if hateful else UNCHECKED,
    )


def _stated_side(words: str, category: str, policy: Policy) -> bool | None:
    """Return whether the last conclusion in a text is hate or not; None if it states none."""
    pattern, harmless = _conclusions(policy, category)
    side = None
    for found in pattern.finditer(words):
        side = found["negation"] is None and found["name"].casefold() not in harmless
    return side


@lru_cache(maxsize=256)
def _conclusions(policy: Policy, category: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return the pattern of a conclusion, and its names for "not hate".

    A verdict of one kind of hate is named by this kind or by "hate speech", any other verdict by every kind as well.
    """
    every = (*policy.fine, *policy.binary)
    harmless = {name for each in every if not each.hate for name in _spellings(policy, each.name)}
    kinds = {each.name for each in every if each.hate}
    named = {category} if category in {each.name for each in policy.fine if each.hate} else kinds
    hateful = {name for each in named for name in _spellings(policy, each)}.union(_HATE)
    ordered = sorted(harmless | hateful, key=len, reverse=True)
    names = "|".join(r"[\s-]+".join(map(re.escape, name.split())) for name in ordered)
    names += "|(?-i:YES|NO)"  # the answers of a debate of views, in capitals
    pattern = rf"(?<![A-Za-z])(?P<negation>{_NEGATION}[\s-]+(?:[\w’']+[\s-]+){{0,3}}?)?(?P<name>{names})(?![A-Za-z])"
    return re.compile(pattern, re.IGNORECASE), frozenset(
        name.casefold() for name in (*harmless, "no")
    )


def _spellings(policy: Policy, category: str) -> set[str]:
    """Return how an explanation may write the name of a category: NotHate, Not Hate, and its translations."""
    translated = (each.names.get(category) for each in policy.translations.values())
    return {category, _CAMEL.sub(" ", category), *filter(None, translated)}


def _names_of_policy(policy: Policy) -> list[str]:
    names = [
        name for each in (*policy.fine, *policy.binary) for name in _spellings(policy, each.name)
    ]
    return [*names, *policy.protected_groups, *(each.id for each in policy.clauses), "YES", "NO"]


def _check_group(words: str, cues: Sequence[Cue], policy: Policy) -> int:
    """Check that the explanation names the group of a cue, and that the policy protects this group."""
    named = [cue for cue in cues if cue.characteristic]
    if not named:
        return UNCHECKED
    protected = {each.casefold() for each in policy.protected_groups}
    folded = words.casefold()
    return int(
        any(
            cue.characteristic.casefold() in protected and _names_group(folded, cue)
            for cue in named
        )
    )


def _names_group(folded: str, cue: Cue) -> bool:
    tokens = re.findall(r"\w+", cue.target_group.casefold())
    telling = [each.removesuffix("s") for each in tokens if len(each) > 2 and each not in _GENERAL]
    whole = [cue.target_group.casefold(), cue.characteristic.casefold()]
    return any(
        each and re.search(rf"(?<!\w){re.escape(each)}", folded) for each in (*whole, *telling)
    )


def _check_agreement(record: Record, cues: Sequence[Cue], policy: Policy) -> int:
    """Check that the weightiest clause, and one standing cue, are of the verdict's category."""
    if not record.clauses and not cues:
        return UNCHECKED
    category = record.category
    hateful = {each.name for each in (*policy.fine, *policy.binary) if each.hate}
    fits = {category} if record.scheme == "fine" else hateful
    if record.clauses:
        clause = policy.find_clause(record.clauses[0])
        if clause is None or clause.category not in fits:
            return FAILS
    return int(not cues or any(cue.category in fits for cue in cues))


def measure_explanations(columns: RunColumns, clusters: Clusters, checks: Ints) -> JSON:
    """Return the share of verdicts that pass each check.

    Args:
        columns: the run.
        clusters: the clusters of its posts.
        checks: of each row and check `HOLDS`, `FAILS` or `UNCHECKED`; a row without a verdict is unchecked.

    Returns:
        `n`, the verdicts with a check; for each check, and `all` (every check that applies): `n`, `value`, `interval`
        and `failing`, the ids of the first posts that fail it; and `without_quotes` (`measure_without_quotes`).
    """
    cluster = clusters.of_post[columns.post]

    def rate(passes: Bools, applies: Bools) -> JSON:
        n = int(applies.sum())
        hits, totals = (
            np.bincount(cluster, each, minlength=1) for each in (passes & applies, applies)
        )
        failing = dict.fromkeys(
            columns.ids[post] for post in columns.post[applies & ~passes].tolist()
        )
        return {
            "n": n,
            "value": float(hits.sum() / n) if n else None,
            "interval": rate_interval(hits, totals),
            "failing": list(failing)[:_MOST_LISTED],
        }

    applies = (checks != UNCHECKED).any(axis=1) if len(checks) else np.zeros(0, dtype=bool)
    return {
        "n": int(applies.sum()),
        **{
            name: rate(checks[:, place] == HOLDS, checks[:, place] != UNCHECKED)
            for place, name in enumerate(CHECKS)
        },
        "all": rate((checks != FAILS).all(axis=1), applies),
        "without_quotes": measure_without_quotes(columns, clusters),
    }


def measure_without_quotes(columns: RunColumns, clusters: Clusters) -> JSON | None:
    """Return the share of hateful verdicts that change once the quoted words are taken out of the post.

    None unless the run is over such posts (the data set `without-quotes`).
    """
    if columns.run.get("dataset") != WITHOUT_QUOTES:
        return None
    cluster = clusters.of_post[columns.post]
    decided = columns.has_verdict
    changed = decided & (columns.hateful == 0)
    n = int(decided.sum())
    hits, totals = (np.bincount(cluster, each, minlength=1) for each in (changed, decided))
    return {
        "n": n,
        "value": float(changed.sum() / n) if n else None,
        "interval": rate_interval(hits, totals),
    }
