"""The facts of a restriction in a letter to the author (Digital Services Act, article 17(3)), and the letter's check.

The templates put them into fixed sentences (`templates/letters.toml`). What the policy says is from its own
translations, and what the operator did is from their file of measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from tribunal.core.language import is_in_language, language_name
from tribunal.core.text import one_line
from tribunal.explanations.case_view import Notice
from tribunal.explanations.deciders import find_case_decider, list_findings
from tribunal.explanations.notices import (
    SCOPES,
    DecisionMapping,
    Redress,
    applied_clauses,
    automation_of,
)
from tribunal.nodes.explaining import RESTRICTING, Decision, Ground, PlainForm, fields_of
from tribunal.nodes.rehearsal.lexicon import LEXICON
from tribunal.prompts.policy import Policy, translate_policy
from tribunal.schema import JSON, Record

_DECISIONS = ("decision_visibility", "decision_monetary", "decision_provision", "decision_account")
_WORDS = (
    "incompatible_content_ground", "illegal_content_legal_ground", "decision_visibility_other",
    "decision_monetary_other",
)  # fmt: skip
_TOLD = (
    *_WORDS,
    "decision_ground_reference_url",
    "source_type",
    "automated_detection",
    "automated_decision",
)
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
    category = record.category or ""
    base = tag.partition("-")[0]
    if policy is None:
        return AppliedRule(category, record.clauses)
    clauses = applied_clauses(policy, category, record.clauses)
    ids = tuple(each.id for each in clauses)
    if policy.language.partition("-")[0] == base:
        meaning = next(
            (each.meaning for each in policy.categories(record.scheme) if each.name == category), ""
        )
        rule = " ".join(each.rule for each in clauses) or meaning
        exceptions = [policy.exceptions_of(each) for each in clauses] or [
            f"{policy.exclusions} {policy.excuses}"
        ]
        return AppliedRule(
            category, ids, one_line(rule), one_line(" ".join(dict.fromkeys(exceptions)))
        )
    translation = policy.translations.get(tag) or policy.translations.get(base)
    if translation is None:
        return AppliedRule(category, ids)
    translated = [translation.clauses.get(each.id) for each in clauses]
    rules = [each.rule for each in translated if each and each.rule]
    rule = (
        " ".join(rules)
        if rules and len(rules) == len(clauses)
        else translation.meanings.get(category, "")
    )
    general = " ".join(filter(None, (translation.exclusions, translation.excuses)))
    exceptions = [
        (each.exceptions if each else "") or "" if clause.exceptions else general
        for clause, each in zip(clauses, translated, strict=True)
    ] or [general]
    name = translation.names.get(category, category)
    return AppliedRule(name, ids, one_line(rule), one_line(" ".join(dict.fromkeys(exceptions))))


def chosen_reason(policy: Policy | None, record: Record, tag: str) -> str:
    """Return the policy's reason that whoever decided last chose, in a language; empty if it isn't one of them.

    A person's own note isn't for the author.
    """
    notes = [each.note for each in record.appeals if each.result != "upheld"]
    note = notes[-1] if notes else record.review.note if record.review else ""
    if policy is None or not note.strip():
        return ""
    translated = translate_policy(policy, tag)
    if translated is policy and policy.language.partition("-")[0] != tag.partition("-")[0]:
        return ""
    for category, theirs in zip(
        policy.categories(record.scheme), translated.categories(record.scheme), strict=True
    ):
        if category.name == record.category:
            reasons = translated.reasons_for(theirs)
            return dict(zip(policy.reasons_for(category), reasons, strict=True)).get(
                note.strip(), ""
            )
    return ""


def make_notice(
    record: Record,
    tag: str,
    *,
    policy: Policy | None,
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
        policy: the policy of the case; None where its text isn't at hand.
        rule: what the policy says, in that language.
        attacked: whom the post attacks, in that language.
        has_image: whether the post's image is at hand.
        mapping: what the operator does by category; None: it isn't said.
        today: the day on which the letter is written.
    """
    category = record.category or ""
    dumped = record.dump()
    models = record.model_copy(
        update={"category": list_findings(dumped)[0].category, "clauses": ()}
    )
    mapped: JSON = mapping.fields_for(category) if mapping else {}
    fields = {"automated_decision": automation_of(dumped), **mapped}
    fields |= mapping.words_for(category, tag) if mapping else {}
    return Notice(
        language=tag,
        fields={name: value for name, value in fields.items() if name in _TOLD},
        ends=tuple(
            dict.fromkeys(value for name, value in mapped.items() if name.startswith("end_date_"))
        ),
        territory=_name_territory(mapped.get("territorial_scope") or (), tag),
        attacked=attacked,
        has_image=has_image,
        category=rule.category,
        models_category=rule_in_language(policy, models, tag).category or None,
        by_person=find_case_decider(dumped).decided_by != "models",
        reason=chosen_reason(policy, record, tag),
        exceptions=rule.exceptions,
        written_on=today,
        redress=(mapping.redress if mapping else Redress()).model_dump(exclude_none=True),
    )


def measures_of(mapping: DecisionMapping | None, category: str) -> tuple[str, ...]:
    """Return what was done with posts of a category, as the register of the EU calls it."""
    fields = mapping.fields_for(category) if mapping else {}
    values = [fields.get(name) or () for name in _DECISIONS]
    return tuple(
        each for value in values for each in (value if isinstance(value, tuple) else (value,))
    )


def missing_from_mapping(mapping: DecisionMapping | None, category: str, tag: str) -> Iterator[str]:
    """Yield a warning if there is no mapping, and for each field in the operator's words that isn't in a language."""
    if mapping is None:
        yield _NO_MAPPING
    elif tag.partition("-")[0] != "en":
        fields = mapping.fields_for(category)
        words = mapping.words_for(category, tag)
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


# The check of a letter that a model wrote: it explains its decision and no other, in the language asked for

# Words of the court that mean nothing to whoever wasn't there.
_JARGON = re.compile(
    r"\b(prosecut(?:or|ion)|defender|gatekeeper|indictment|rebuttal|transcript|deep dive|fast track|cues?|"
    r"C\d+|E\d+|language model|AI model|LLM)\b"
)
_ADDRESS = re.compile(r"https?://\S+|\bwww\.\S+|\S+@\S+\.\w+")
_QUOTED = re.compile(
    r"“([^”]+)”|„([^“”]+)[“”]|\"([^\"]+)\"|«([^»]+)»|「([^」]+)」|『([^』]+)』|‘([^’]+)’(?!\w)"
)
_MOST_CHARACTERS = 3_000  # characters of title and text
# letters that a word's forms differ in at its end; and how many are left at least
_STEM = 3
_LEAST_STEM = 5


def _names_to_leave_out(record: Record) -> list[str]:
    """Return names that are nothing for the person who posted: of people, models, perspectives and other cases."""
    people = [
        name for each in record.appeals for name in (each.appellant, each.reviewer, each.decided_by)
    ]
    people += [trial.reviewer for trial in record.trials]
    people.append(record.review.reviewer if record.review else None)
    named = [name for person in people if person for name in (person, person.partition(" (")[0])]
    models = [name for call in record.calls for name in (call.model, call.model.partition(":")[2])]
    others = [
        *(opinion.title for opinion in record.opinions),
        *(precedent.case for precedent in record.precedents),
    ]
    return list(dict.fromkeys([*named, *models, *others]))


# The check of a letter. Names of groups are known in English; in other languages it knows what the model says that it
# names, what it quotes, and the names of the policy.


def check_letter(
    answer: PlainForm, *, decision: Decision, grounds: Sequence[Ground], policy: Policy | None, rule: str,
    record: Record, post: str, language: str,
) -> None:  # fmt: skip
    """Check that a letter explains its decision and no other.

    It may name no ground but those of the decision: no other category or characteristic of the policy, no other group,
    and no other words of the post; and nobody else of the case.

    Args:
        answer: the letter.
        decision: what was decided.
        grounds: what it rests on; none where nothing is held against the post.
        policy: whose categories and characteristics may be named only where they are grounds; None: not at hand.
        rule: the words of the policy that the model was shown.
        record: the case's.
        post: the words of the post.
        language: the tag of the language that was asked for.

    Raises:
        ValueError: what is wrong with it.
    """
    if answer.decision != decision:
        raise ValueError(f"decision: {answer.decision}: it was {decision}; explain that")
    category = record.category or ""
    against = decision in RESTRICTING
    if against and _fold_case(answer.category) != _fold_case(category):
        raise ValueError(f"category: {answer.category[:80]!r}: it was {category}; explain that")
    text = one_line(f"{answer.title} {answer.text}")
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text: has {len(text)} characters; say it in {_MOST_CHARACTERS} at most")
    known = [each.id for each in grounds]
    for each in answer.grounds:
        if each.id.strip("[] ") not in known:
            listed = f"they are {', '.join(known)}" if known else "nothing is held against the post"
            raise ValueError(
                f"grounds.id: {each.id[:40]!r}: is no ground of the decision; {listed}"
            )
        if _fold_case(each.words) not in _fold_case(text):
            raise ValueError(f"grounds.words: {each.words[:80]!r}: aren't in the text")
    texts = [
        text
        for each in grounds
        for text in (*each.quotes, *(words for _, words in fields_of(each)))
    ]
    allowed = _fold_case(" \n ".join([*texts, *([category, rule] if against else [])]))
    # Where nothing is held against the post, its own words may be repeated: they are no ground.
    quotable = allowed if against else f"{_fold_case(post)} \n {allowed}"
    for found in _QUOTED.finditer(text):
        inside = next(filter(None, found.groups()))
        if _fold_case(inside).strip(" .,!?;:") not in quotable:
            raise ValueError(
                f"text: quotes {inside[:80]!r}, which no ground of the decision quotes; leave it out"
            )
    own = _QUOTED.sub(" ", text)
    _check_no_other_ground(_fold_case(own), allowed, policy, category, against=against)
    _check_nobody_else_named(own, record, post)
    check_language(own, language)


def check_language(text: str, language: str) -> None:
    """Check that a text is in a language. One that is too short to tell is not taken for it.

    Raises:
        ValueError: it is in another one, or that can't be told.
    """
    spoken = is_in_language(text, language)
    if spoken is False:
        raise ValueError(
            f"text: is not in {language_name(language)}, or not all of it; write all of it in that language"
        )
    if spoken is None:
        raise ValueError(
            f"text: can't be told to be in {language_name(language)}; write it in that language, in whole sentences"
        )


def _check_no_other_ground(
    own: str, allowed: str, policy: Policy | None, category: str, *, against: bool
) -> None:
    """Check that the text names no category, characteristic or group but those of its grounds."""
    kinds = [each.name for each in policy.kinds if each.name != category] if policy else []
    for name in kinds:
        folded = _fold_case(name)
        if (
            folded not in _fold_case(category)
            and _mentions(own, folded)
            and not _mentions(allowed, folded)
        ):
            raise ValueError(
                f"text: names {name}, which is no ground of the decision; leave it out"
            )
    for name in policy.protected_groups if policy else ():
        if _mentions_form_of(own, name) and not _mentions_form_of(allowed, name):
            raise ValueError(
                f"text: names {name}, which is no ground of the decision; leave it out"
            )
    for key, group in LEXICON.groups.items() if against else ():
        terms = (*group.many, *group.one)
        said = next((term for term in terms if _mentions(own, term)), None)
        # Under a mixed head stand different groups: that of another one of them is another ground.
        fit = [said] if group.mixed and said else [key, *terms]
        if said and not any(_mentions_form_of(allowed, term) for term in fit if term):
            raise ValueError(
                f"text: names {said}, who are no ground of the decision; leave them out"
            )


def _check_nobody_else_named(own: str, record: Record, post: str) -> None:
    """Check that the text names no word of the court, no address and nobody else."""
    found = _JARGON.search(own)
    if found:
        raise ValueError(f"text: {found[0]!r}: is a word of the court; say it in plain words")
    found = _ADDRESS.search(own)
    if found:
        raise ValueError(f"text: {found[0][:80]!r}: is an address; leave it out")
    for name in _names_to_leave_out(record):
        # In the letters of a name: somebody may be called Will.
        named = _mentions(own, name) or _mentions(own, name.title())
        if named and len(name) > 2 and _fold_case(name) not in _fold_case(post):
            raise ValueError(
                f"text: names {name[:80]!r}, which is nothing for the person who posted; leave it out"
            )


def _fold_case(text: str) -> str:
    """Return a text on one line, without the difference of letter cases."""
    return one_line(text).casefold()


def _mentions(text: str, term: str) -> bool:
    """Return whether a term stands in a text as whole words, in these letters."""
    return bool(term) and re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None


def _mentions_form_of(text: str, term: str) -> bool:
    """Return whether a term, or a word that begins as it does, stands in a text: religion, religious."""
    folded = _fold_case(term)
    stem = folded[:-_STEM] if len(folded) - _STEM >= _LEAST_STEM else folded
    end = "" if stem != folded else r"s?(?!\w)"
    return re.search(rf"(?<!\w){re.escape(stem)}{end}", text) is not None
