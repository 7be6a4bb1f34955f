"""The letter to the person who posted: one call that puts the decision into plain words, checked against the record."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from tribunal.cases.case_drawing import TO_AUTHORS, fixed_texts
from tribunal.cases.case_view import AuthorLetter
from tribunal.cases.deciders import model_verdict, recorded_policy
from tribunal.cases.quotations import find_spans, merge_spans, quotations_in, quoted_spans, withdrawn_cue_ids
from tribunal.cases.view_maker import CaseAtHand, case_details, fields_of_post
from tribunal.context import Context, context_from
from tribunal.errors import BadInput, ModelError
from tribunal.language import detect_language, language_name, language_of_post, parse_language
from tribunal.models.ask import ask
from tribunal.models.image import load_picture, stored_file
from tribunal.nodes.explaining import (
    EXPLAINER,
    MOST_GROUNDS,
    Decision,
    Ground,
    PlainForm,
    decision_in_words,
    fields_of,
    grounds_shown,
)
from tribunal.nodes.rehearsal.lexicon import LEXICON
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import Policy, translate_policy
from tribunal.schema import JSON, Post, Record
from tribunal.text import one_line

IMAGE_EDGE = 1024  # pixels of the longest side of an image, as it is shown
_SQUARE = (1000, 1000)
_CITED = re.compile(r"\s*\[[A-Z]\d+(?:, ?[A-Z]\d+)*\]")
_NO_WORDS = "the post's text isn't available, so the fixed text is used"
_NO_GROUND = "the record names no ground and the policy isn't available, so the fixed text is used"
# Words of the court that mean nothing to whoever wasn't there.
_JARGON = re.compile(
    r"\b(prosecut(?:or|ion)|defender|gatekeeper|indictment|rebuttal|transcript|deep dive|fast track|cues?|"
    r"C\d+|E\d+|language model|AI model|LLM)\b"
)
_ADDRESS = re.compile(r"https?://\S+|\bwww\.\S+|\S+@\S+\.\w+")
_QUOTED = re.compile(r"“([^”]+)”|„([^“”]+)[“”]|\"([^\"]+)\"|«([^»]+)»|「([^」]+)」|『([^』]+)』|‘([^’]+)’(?!\w)")
_MOST_CHARACTERS = 3_000  # characters of title and text
_STEM, _LEAST_STEM = 3, 5  # letters that a word's forms differ in at its end; and how many are left at least
# The settings that the call heeds. What a debate heeds besides plays no part.
LETTER_SETTINGS = frozenset({
    "model", "aux_model", "extra_body", "prompts", "policy", "task", "scheme", "image_edge", "max_output_tokens",
    "timeout", "attempts", "cache", "repeat", "trace",
})  # fmt: skip


async def write_letter(
    case: CaseAtHand, *, language: str | None = None, context: Context | None = None, files: bool = True
) -> AuthorLetter:
    """Return the letter to the person who posted.

    A model is asked once, and once more where its text names what the decision doesn't rest on. Where that doesn't
    help, or there is nothing to explain, the text is a fixed one.

    Args:
        case: of any graph and any outcome. Its settings play no part.
        language: a tag or an English name; None: the post's, and English where that isn't known.
        context: the settings of the call: model, timeout, cache, …; the others play no part.
        files: whether the image may be a file of this machine that the post names; else only one of the data folder.

    Raises:
        BadInput: the language, the policy's text or a setting is wrong; or the case isn't about hate speech.
    """
    record = case.record
    if record.task != "hate":
        raise BadInput(
            f"poster: the case {record.post_id} is about {record.task}: only decisions on hate speech are explained to "
            "the person who posted; leave it out"
        )
    at_hand = fields_of_post(case.post)
    text = at_hand.get("text")
    tag = await asyncio.to_thread(parse_language, language) if language else record.language
    if language and tag is None:
        raise BadInput(f"language: {language[:40]!r}: is no language; give a tag such as en, ko or pt-BR")
    tag = tag or (await language_of_post(None, text or ""))[0] or "en"
    policy = await asyncio.to_thread(recorded_policy, record, case.policy_text)
    decision = decision_of(record)
    against = decision == "hate_speech"
    grounds = find_grounds(record, text) if against else []
    # What the policy says of the verdict's category, in the person's language where it is translated.
    categories = translate_policy(policy, tag).categories(record.scheme) if policy and against else ()
    rule = next((each.meaning for each in categories if each.name == record.category), "")
    details = case_details(record, case.case or record.kept or record.thread)
    fields: dict[str, Any] = {
        "outcome": record.outcome, "hateful": record.hateful if record.outcome == "verdict" else None, "post": text,
        "quoted": tuple(dict.fromkeys(words for each in grounds for words in each.quotes)), "rule": rule,
        "details": tuple((name, value) for name, value in details if value and name in TO_AUTHORS),
    }  # fmt: skip
    if decision in ("not_yet_decided", "could_not_be_decided") and fixed_texts(tag):
        return _fixed_letter(decision, tag, fields, ())
    if not (text or at_hand.get("image")):
        return _fixed_letter(decision, tag, fields, (_NO_WORDS,))
    if against and not (grounds or rule):
        return _fixed_letter(decision, tag, fields, (_NO_GROUND,))
    # Without the posts of others before it, and with its image where it is.
    source, absent = None, ""
    if at_hand.get("image"):
        source, _, absent = await load_image(record, dict(at_hand), files=files)
    warnings = [f"the letter was written without the image: {absent}"] if absent else []
    image = (await load_picture(source, IMAGE_EDGE)).image if source else None
    shown = Post(id=record.post_id, text=text or "", image=image, language=record.language)
    settings = (context or Context()).model_dump(mode="json", exclude_defaults=True, include=set(LETTER_SETTINGS))
    state = {"post": shown.dump(), "context": {"settings": settings}}
    if policy and policy.source:
        state["context"]["policy"] = policy.source
    await asyncio.to_thread(detect_language, "load the language detector before the check needs it")
    check = partial(
        check_letter, decision=decision, grounds=grounds, policy=policy, rule=rule, record=record, post=text or "",
        language=tag,
    )  # fmt: skip
    try:
        answer = await ask(
            EXPLAINER,
            state,
            Runtime(context=context_from(settings)),
            check=check,
            decision=decision_in_words(decision),
            rule=operator_words(rule) if rule else "",
            grounds=grounds_shown(grounds),
            language=operator_words(language_name(tag)),
        )
    except ModelError as error:
        why = f"no model's letter passed the check, so the fixed text is used ({error})"
        return _fixed_letter(decision, tag, fields, (*warnings, *error.warnings, why), tuple(error.calls))
    return AuthorLetter(
        **fields,
        language=tag,
        title=answer.value.title,
        text=answer.value.text,
        source="written",
        warnings=(*warnings, *answer.log["warnings"]),
        calls=tuple(answer.log["calls"]),
    )


def _fixed_letter(
    decision: Decision, language: str, fields: JSON, warnings: Iterable[str], calls: tuple[JSON, ...] = ()
) -> AuthorLetter:
    """Return the fixed letter of a decision: in English, where there is none in this language."""
    texts = fixed_texts(language)
    title, text = (texts or fixed_texts("en") or {})[decision]
    other = [] if texts else [f"there is no fixed text in {language_name(language)}; it is in English"]
    return AuthorLetter(
        **fields, language=language if texts else "en", title=title, text=text, source="fixed",
        warnings=(*warnings, *other), calls=calls,
    )  # fmt: skip


def decision_of(record: Record) -> Decision:
    """Return what a record decides, as the person who posted reads it."""
    if record.outcome == "pending":
        return "not_yet_decided"
    if record.outcome != "verdict":
        return "could_not_be_decided"
    against = record.hateful if record.hateful is not None else bool(record.label)
    return "hate_speech" if against else "not_hate_speech"


def find_grounds(record: Record, text: str | None) -> list[Ground]:
    """Return what a verdict rests on: the cues that its reasons name, else those of its category, else all that stand.

    A cue that the prosecution withdrew is no ground. Where a person changed the model verdict, the cues of their
    category are. Where a system has no cues, its reasons are the ground.
    """
    gone = withdrawn_cue_ids(record)
    standing = [cue for cue in record.cues if cue.id not in gone]
    # Where a person changed the model verdict, its reasons are theirs, and no longer the model's.
    edited = record.review is not None and record.review.action == "edit"
    changed = edited or any(each.result != "upheld" for each in record.appeals)
    reasons = "" if changed else str(model_verdict(record).get("explanation") or "")
    of_category = [cue for cue in standing if record.scheme == "binary" or cue.category == record.category]
    named = [cue for cue in standing if re.search(rf"(?<!\w){re.escape(cue.id)}(?!\w)", reasons)]
    chosen = of_category if changed else named or of_category or standing
    if not record.cues and not changed:
        words = text or ""
        quotes = [words[begin:end] for begin, end in merge_spans(find_spans(words, quotations_in(reasons)))]
        reason = _CITED.sub("", reasons)
        return [Ground("G1", tuple(dict.fromkeys(quotes)), "", "", "", reason)] if reason else []
    return [
        Ground(
            id=f"G{number}",
            quotes=tuple(dict.fromkeys((text or "")[begin:end] for begin, end in quoted_spans(cue, text or ""))),
            group=cue.target_group,
            characteristic=cue.characteristic,
            claim=_CITED.sub("", cue.claim),
            reason=_CITED.sub("", cue.justification),
        )
        for number, cue in enumerate(chosen[:MOST_GROUNDS], start=1)
    ]


def _names_to_leave_out(record: Record) -> list[str]:
    """Return names that are nothing for the person who posted: of people, models, perspectives and other cases."""
    people = [name for each in record.appeals for name in (each.appellant, each.reviewer, each.decided_by)]
    people += [trial.reviewer for trial in record.trials]
    people.append(record.review.reviewer if record.review else None)
    named = [name for person in people if person for name in (person, person.partition(" (")[0])]
    models = [name for call in record.calls for name in (call.model, call.model.partition(":")[2])]
    others = [*(opinion.title for opinion in record.opinions), *(precedent.case for precedent in record.precedents)]
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
    text = one_line(f"{answer.title} {answer.text}")
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"text: has {len(text)} characters; say it in {_MOST_CHARACTERS} at most")
    known = [each.id for each in grounds]
    for each in answer.grounds:
        if each.id.strip("[] ") not in known:
            listed = f"they are {', '.join(known)}" if known else "nothing is held against the post"
            raise ValueError(f"grounds.id: {each.id[:40]!r}: is no ground of the decision; {listed}")
        if _fold_case(each.words) not in _fold_case(text):
            raise ValueError(f"grounds.words: {each.words[:80]!r}: don't stand in the text")
    category, against = record.category or "", decision == "hate_speech"
    texts = [text for each in grounds for text in (*each.quotes, *(words for _, words in fields_of(each)))]
    allowed = _fold_case(" \n ".join([*texts, *([category, rule] if against else [])]))
    # Where nothing is held against the post, its own words may be repeated: they are no ground.
    quotable = allowed if against else f"{_fold_case(post)} \n {allowed}"
    for found in _QUOTED.finditer(text):
        inside = next(filter(None, found.groups()))
        if _fold_case(inside).strip(" .,!?;:") not in quotable:
            raise ValueError(f"text: quotes {inside[:80]!r}, which no ground of the decision quotes; leave it out")
    own = _QUOTED.sub(" ", text)
    _check_no_other_ground(_fold_case(own), allowed, policy, category, against=against)
    _check_nobody_else_named(own, record, post)
    spoken = detect_language(own)
    if spoken is not None and spoken.partition("-")[0] != language.partition("-")[0]:
        raise ValueError(f"text: is in {language_name(spoken)}; write it in {language_name(language)}")


def _check_no_other_ground(own: str, allowed: str, policy: Policy | None, category: str, *, against: bool) -> None:
    """Check that the text names no category, characteristic or group but those of its grounds."""
    kinds = [each.name for each in policy.kinds if each.name != category] if policy else []
    for name in kinds:
        folded = _fold_case(name)
        if folded not in _fold_case(category) and _mentions(own, folded) and not _mentions(allowed, folded):
            raise ValueError(f"text: names {name}, which is no ground of the decision; leave it out")
    for name in policy.protected_groups if policy else ():
        if _mentions_form_of(own, name) and not _mentions_form_of(allowed, name):
            raise ValueError(f"text: names {name}, which is no ground of the decision; leave it out")
    for key, group in LEXICON.groups.items() if against else ():
        terms = (*group.many, *group.one)
        said = next((term for term in terms if _mentions(own, term)), None)
        # Under a mixed head stand different groups: that of another one of them is another ground.
        fit = [said] if group.mixed and said else [key, *terms]
        if said and not any(_mentions_form_of(allowed, term) for term in fit if term):
            raise ValueError(f"text: names {said}, who are no ground of the decision; leave them out")


def _check_nobody_else_named(own: str, record: Record, post: str) -> None:
    """Check that the text names no word of the court, no address and nobody else."""
    if found := _JARGON.search(own):
        raise ValueError(f"text: {found[0]!r}: is a word of the court; say it in plain words")
    if found := _ADDRESS.search(own):
        raise ValueError(f"text: {found[0][:80]!r}: is an address; leave it out")
    for name in _names_to_leave_out(record):
        # In the letters of a name: somebody may be called Will.
        named = _mentions(own, name) or _mentions(own, name.title())
        if named and len(name) > 2 and _fold_case(name) not in _fold_case(post):
            raise ValueError(f"text: names {name[:80]!r}, which is nothing for the person who posted; leave it out")


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


# Its image


async def load_image(record: Record, post: JSON | None, *, files: bool) -> tuple[str | None, tuple[int, int], str]:
    """Return the image of a post as a data URI of its pixels alone, its size, and why there is none.

    An address of the web isn't fetched: that would tell the other side that somebody looks, and may bring another
    picture. Without `files`, no file of this machine that the post names is read, but one of the data folder alone.
    """
    ref = (post or {}).get("image")
    ref = ref.get("ref") if isinstance(ref, dict) else ref
    kept = await asyncio.to_thread(stored_file, record.image_sha256) if record.image_sha256 and post else None
    if kept is not None:
        ref = str(kept)
    elif not ref:
        return None, _SQUARE, "The image isn't available here."
    elif not (ref.startswith("data:") or (files and not ref.startswith(("http://", "https://")))):
        return None, _SQUARE, "The image isn't stored here."
    try:
        loaded = await load_picture(ref, IMAGE_EDGE, sha256=record.image_sha256)
    except BadInput as error:
        return None, _SQUARE, f"The image can't be shown: {error}."
    return loaded.data_uri, (loaded.image.width, loaded.image.height), ""
