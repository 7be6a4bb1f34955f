"""The facts of a restriction, as a letter to the person who posted states them (Digital Services Act, article 17(3)).

The templates put them into fixed sentences (`templates/letters.toml`). What the policy says is from its own
translations, and what the operator did is from their file of measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from tribunal.cases.case_view import Notice
from tribunal.language import language_name
from tribunal.notices.decision import applied_clauses, automation_of
from tribunal.notices.mapping import DecisionMapping, Redress
from tribunal.notices.register_values import SCOPES
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Record
from tribunal.text import one_line

_DECISIONS = ("decision_visibility", "decision_monetary", "decision_provision", "decision_account")
_WORDS = (
    "incompatible_content_ground", "illegal_content_legal_ground", "decision_visibility_other",
    "decision_monetary_other",
)  # fmt: skip
_TOLD = (*_WORDS, "decision_ground_reference_url", "source_type", "automated_detection", "automated_decision")
_NO_MAPPING = (
    "the letter doesn't say what was done with the post, on which ground and how it was found: give a file of measures "
    "(--mapping FILE; tribunal dsa statements --example-mapping prints one)"
)


class AppliedRule(NamedTuple):
    """What a policy says of a decision in one language; a text is empty if the policy lacks it in that language."""

    category: str
    clauses: tuple[str, ...] = ()
    rule: str = ""
    exceptions: str = ""


def rule_in_language(policy: Policy | None, record: Record, tag: str) -> AppliedRule:
    """Return what the policy says of a verdict, as far as it is written in a language or translated into it."""
    category, base = record.category or "", tag.partition("-")[0]
    if policy is None:
        return AppliedRule(category, record.clauses)
    clauses = applied_clauses(policy, category, record.clauses)
    ids = tuple(each.id for each in clauses)
    if policy.language.partition("-")[0] == base:
        meaning = next((each.meaning for each in policy.categories(record.scheme) if each.name == category), "")
        rule = " ".join(each.rule for each in clauses) or meaning
        exceptions = [policy.exceptions_of(each) for each in clauses] or [f"{policy.exclusions} {policy.excuses}"]
        return AppliedRule(category, ids, one_line(rule), one_line(" ".join(dict.fromkeys(exceptions))))
    translation = policy.translations.get(tag) or policy.translations.get(base)
    if translation is None:
        return AppliedRule(category, ids)
    translated = [translation.clauses.get(each.id) for each in clauses]
    rules = [each.rule for each in translated if each and each.rule]
    rule = " ".join(rules) if rules and len(rules) == len(clauses) else translation.meanings.get(category, "")
    general = " ".join(filter(None, (translation.exclusions, translation.excuses)))
    exceptions = [
        (each.exceptions if each else "") or "" if clause.exceptions else general
        for clause, each in zip(clauses, translated, strict=True)
    ] or [general]
    name = translation.names.get(category, category)
    return AppliedRule(name, ids, one_line(rule), one_line(" ".join(dict.fromkeys(exceptions))))


def make_notice(
    record: Record,
    tag: str,
    *,
    rule: AppliedRule,
    attacked: tuple[str, ...],
    has_image: bool,
    mapping: DecisionMapping | None,
    today: date,
) -> Notice:
    """Return the facts of a restriction.

    Args:
        record: the case's, whose verdict is against the post.
        tag: the language of the sentences.
        rule: what the policy says, in that language.
        attacked: whom the post attacks, in that language.
        has_image: whether the post's image is at hand.
        mapping: what the operator does by category; None: it isn't said.
        today: the day on which the letter is written.
    """
    category = record.category or ""
    mapped: JSON = mapping.fields_for(category) if mapping else {}
    fields = {"automated_decision": automation_of(record.dump()), **mapped}
    fields |= mapping.words_for(category, tag) if mapping else {}
    return Notice(
        language=tag,
        fields={name: value for name, value in fields.items() if name in _TOLD},
        ends=tuple(dict.fromkeys(value for name, value in mapped.items() if name.startswith("end_date_"))),
        territory=_name_territory(mapped.get("territorial_scope") or (), tag),
        attacked=attacked,
        has_image=has_image,
        category=rule.category,
        exceptions=rule.exceptions,
        written_on=today,
        redress=(mapping.redress if mapping else Redress()).model_dump(exclude_none=True),
    )


def measures_of(mapping: DecisionMapping | None, category: str) -> tuple[str, ...]:
    """Return what was done with posts of a category, as the register of the EU calls it."""
    fields = mapping.fields_for(category) if mapping else {}
    values = [fields.get(name) or () for name in _DECISIONS]
    return tuple(each for value in values for each in (value if isinstance(value, tuple) else (value,)))


def missing_from_mapping(mapping: DecisionMapping | None, category: str, tag: str) -> Iterator[str]:
    """Yield a warning if there is no mapping, and for each field in the operator's words that isn't in a language."""
    if mapping is None:
        yield _NO_MAPPING
    elif tag.partition("-")[0] != "en":
        fields, words = mapping.fields_for(category), mapping.words_for(category, tag)
        for name in _WORDS:
            if name in fields and name not in words:
                table = f"[category.{category}.translations.{tag}] or [all.translations.{tag}]"
                spoken = language_name(tag)
                yield f"{name} stands in the letter as it is: add it in {spoken} to the mapping, under {table}"


def _name_territory(codes: Sequence[str], tag: str) -> tuple[str, ...]:
    for name, countries in SCOPES.items():
        if set(codes) == set(countries):
            return (name,)
    if not codes:
        return ()
    from babel import Locale

    names = Locale.parse(tag.partition("-")[0]).territories
    return tuple(names.get(each, each) for each in codes)
