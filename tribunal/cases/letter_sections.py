"""The sections of a letter that is a notice of a restriction (Digital Services Act, article 17(3)).

Their sentences are fixed, once per language (`templates/letters.toml`). What the policy says stands in its own
translations, and what the operator did is from their file of measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from tribunal.cases.case_view import LetterLine, LetterSection
from tribunal.language import language_name
from tribunal.notices.decision import add_months, applied_clauses, automation_of
from tribunal.notices.mapping import DecisionMapping, Redress
from tribunal.notices.register_values import SCOPES
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Record
from tribunal.text import one_line

_DECISIONS = ("decision_visibility", "decision_monetary", "decision_provision", "decision_account")
_OTHER = {"VISIBILITY_OTHER": "decision_visibility_other", "MONETARY_OTHER": "decision_monetary_other"}
NO_MAPPING = (
    "the letter doesn't say what was done with the post, on which ground and how it was found: give a file of measures "
    "(--mapping FILE; tribunal dsa statements --example-mapping prints one)"
)


class AppliedRule(NamedTuple):
    """Hold what a policy says of a decision in one language; an empty text isn't there in that language."""

    category: str
    clauses: tuple[str, ...] = ()
    rule: str = ""
    exceptions: str = ""


class FactsOfLetter(NamedTuple):
    """Hold what a decision rests on: words of the post, whom they attack, and what of the post is stored."""

    quoted: tuple[str, ...]
    attacked: tuple[str, ...]
    has_text: bool
    has_image: bool


def rule_in_language(policy: Policy | None, record: Record, tag: str) -> AppliedRule:
    """Return what the policy says of a verdict, as far as it is written in a language or translated into it."""
    category, base = record.category or "", tag.partition("-")[0]
    cited = record.clauses
    if policy is None:
        return AppliedRule(category, cited)
    clauses = applied_clauses(policy, category, cited)
    ids = tuple(each.id for each in clauses)
    if policy.language.partition("-")[0] == base:
        meaning = next((each.meaning for each in policy.categories(record.scheme) if each.name == category), "")
        rule = " ".join(each.rule for each in clauses) or meaning
        own = [policy.exceptions_of(each) for each in clauses] or [f"{policy.exclusions} {policy.excuses}"]
        return AppliedRule(category, ids, one_line(rule), one_line(" ".join(dict.fromkeys(own))))
    told = policy.translations.get(tag) or policy.translations.get(base)
    if told is None:
        return AppliedRule(category, ids)
    spoken = [told.clauses.get(each.id) for each in clauses]
    rules = [each.rule for each in spoken if each and each.rule]
    rule = " ".join(rules) if rules and len(rules) == len(clauses) else told.meanings.get(category, "")
    whole = " ".join(filter(None, (told.exclusions, told.excuses)))
    exceptions = [
        (each.exceptions if each else "") or "" if clause.exceptions else whole
        for clause, each in zip(clauses, spoken, strict=True)
    ] or [whole]
    return AppliedRule(
        told.names.get(category, category), ids, one_line(rule), one_line(" ".join(dict.fromkeys(exceptions)))
    )


def make_sections(
    record: Record,
    texts: Mapping[str, Any],
    tag: str,
    *,
    rule: AppliedRule,
    facts: FactsOfLetter,
    mapping: DecisionMapping | None,
    today: date,
    written: bool,
) -> tuple[LetterSection, ...]:
    """Return the sections of a letter about a restriction.

    Args:
        record: the case's, whose verdict is against the post.
        texts: the fixed words in the language of the sections.
        tag: that language.
        rule: what the policy says, in that language.
        facts: what the decision rests on.
        mapping: what the operator does by category; None: it isn't said.
        today: the day on which the letter is written.
        written: whether a model has put the rule and the reasons into words, in the text above the sections.
    """
    told = mapping.fields_for(record.category or "") if mapping else {}
    words = told | (mapping.words_for(record.category or "", tag) if mapping else {})
    say = texts["lines"]
    parts: dict[str, list[LetterLine]] = {
        "measure": [LetterLine(text=each) for each in _measure(told, words, texts, tag)],
        "facts": list(_facts(told, say, facts)),
        "rule": list(_rule(words, say, rule, written=written)),
        "automation": [LetterLine(text=each) for each in _automation(record, told, say)],
        "redress": [
            LetterLine(text=each) for each in _redress(mapping.redress if mapping else Redress(), say, tag, today)
        ],
    }
    return tuple(
        LetterSection.model_validate({"about": about, "heading": texts["heads"][about], "lines": tuple(lines)})
        for about, lines in parts.items()
        if lines
    )


def measures_of(mapping: DecisionMapping | None, category: str) -> tuple[str, ...]:
    """Return what was done with posts of a category, as the register of the EU calls it."""
    told = mapping.fields_for(category) if mapping else {}
    values = (told.get(name) for name in _DECISIONS)
    return tuple(each for value in values if value for each in (value if isinstance(value, tuple) else (value,)))


def format_day(day: date, tag: str) -> str:
    """Return a day as people of a language write it: 26. Mai 2027."""
    from babel.dates import format_date

    base = tag.partition("-")[0]
    return str(format_date(day, "long", locale="en_GB" if base == "en" else base))


def lacking_translations(mapping: DecisionMapping | None, category: str, tag: str) -> Iterator[str]:
    """Yield a warning for each field in the operator's own words that has none in a language."""
    if mapping is None or tag.partition("-")[0] == "en":
        return
    told, words = mapping.fields_for(category), mapping.words_for(category, tag)
    for name in ("incompatible_content_ground", "illegal_content_legal_ground", *_OTHER.values()):
        if name in told and name not in words:
            table = f"[category.{category}.translations.{tag}] or [all.translations.{tag}]"
            yield f"{name} stands in the letter as it is: add it in {language_name(tag)} to the mapping, under {table}"


def _measure(told: JSON, words: JSON, texts: Mapping[str, Any], tag: str) -> Iterator[str]:
    for name in _DECISIONS:
        value = told.get(name) or ()
        for each in value if isinstance(value, tuple) else (value,):
            short = each.removeprefix("DECISION_")
            yield texts["measures"][short].format(words=words.get(_OTHER.get(short, ""), ""))
    ends = [value for name, value in told.items() if name.startswith("end_date_")]
    for day in dict.fromkeys(ends):
        yield texts["lines"]["until"].format(date=format_day(day, tag))
    if scope := told.get("territorial_scope"):
        yield _place(scope, texts["lines"], tag)


def _place(scope: Sequence[str], say: Mapping[str, str], tag: str) -> str:
    for name, countries in SCOPES.items():
        if set(scope) == set(countries):
            return say[f"in_{name}"]
    from babel import Locale

    names = Locale.parse(tag.partition("-")[0]).territories
    return say["in_countries"].format(countries=", ".join(names.get(each, each) for each in scope))


def _facts(told: JSON, say: Mapping[str, str], facts: FactsOfLetter) -> Iterator[LetterLine]:
    if source := told.get("source_type"):
        yield LetterLine(text=say[source])
    if not (facts.has_text or facts.has_image):
        yield LetterLine(text=say["erased"])
    elif facts.quoted:
        yield LetterLine(text=say["words"])
        yield from (LetterLine(text=each, kind="post") for each in facts.quoted)
    else:
        yield LetterLine(text=say["image" if facts.has_image else "whole"])
    if facts.attacked:
        yield LetterLine(text=say["attacked"].format(groups=", ".join(facts.attacked)))


def _rule(words: JSON, say: Mapping[str, str], rule: AppliedRule, *, written: bool) -> Iterator[LetterLine]:
    if "incompatible_content_ground" in words:
        yield LetterLine(text=say["INCOMPATIBLE"].format(ground=words["incompatible_content_ground"]))
    elif "illegal_content_legal_ground" in words:
        yield LetterLine(text=say["ILLEGAL"].format(ground=words["illegal_content_legal_ground"]))
    if address := words.get("decision_ground_reference_url"):
        yield LetterLine(text=say["reference"].format(address=address))
    yield LetterLine(text=say["category"].format(category=rule.category))
    if rule.clauses:
        yield LetterLine(text=say["clauses"].format(clauses=", ".join(rule.clauses)))
    if rule.rule:
        yield LetterLine(text=say["rule"])
        yield LetterLine(text=rule.rule, kind="rule")
        yield LetterLine(text=say["why"])
    elif not written:
        yield LetterLine(text=say["rule_absent"])
    if rule.exceptions:
        yield LetterLine(text=say["exceptions"])
        yield LetterLine(text=rule.exceptions, kind="rule")


def _automation(record: Record, told: JSON, say: Mapping[str, str]) -> Iterator[str]:
    if detected := told.get("automated_detection"):
        yield say[f"detected_{detected}"]
    yield say[told.get("automated_decision") or automation_of(record.dump())]


def _redress(redress: Redress, say: Mapping[str, str], tag: str, today: date) -> Iterator[str]:
    until = format_day(add_months(today, redress.months), tag)
    yield say["complaint"].format(date=until, today=format_day(today, tag), months=redress.months)
    if redress.complaint:
        yield say["complaint_at"].format(address=redress.complaint)
    yield say["settlement"]
    if redress.settlement:
        yield say["settlement_at"].format(address=redress.settlement)
    yield say["court"]
