"""The letter to the person who posted: a notice in their language, of fixed sentences and of the policy's own words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from langgraph.runtime import Runtime

from tribunal.core.calls import DEMO_NOTICE
from tribunal.core.language import detect_language, language_name, language_of_post, parse_language
from tribunal.errors import BadInput, ModelError
from tribunal.explanations.case_drawing import TO_AUTHORS, fixed_texts
from tribunal.explanations.case_view import AuthorLetter
from tribunal.explanations.deciders import model_verdict, recorded_policy
from tribunal.explanations.letter_parts import (
    check_letter,
    make_notice,
    measures_of,
    missing_from_mapping,
    rule_in_language,
)
from tribunal.explanations.notices import LEAST_MONTHS, DecisionMapping, add_months
from tribunal.explanations.quotations import find_spans, merge_spans, quotations_in, quoted_spans
from tribunal.explanations.view_maker import CaseAtHand, case_details, fields_of_post
from tribunal.models.ask import ask
from tribunal.models.image import load_picture, stored_file
from tribunal.nodes.explaining import (
    EXPLAINER,
    MOST_GROUNDS,
    RESTRICTING,
    Decision,
    Ground,
    PlainForm,
    category_in_words,
    decision_in_words,
    grounds_shown,
)
from tribunal.prompts.marks import operator_words
from tribunal.prompts.policy import Policy
from tribunal.schema import JSON, Post, Record, standing_cues
from tribunal.settings.context import Context, context_from

IMAGE_EDGE = 1024  # pixels of the longest side of an image, as it is shown
_SQUARE = (1000, 1000)
_CITED = re.compile(r"\s*\[[A-Z]\d+(?:, ?[A-Z]\d+)*\]")
_NO_WORDS = "the post's text isn't available, so no model is asked and no words of it are quoted"
# The settings that the call heeds. What a debate heeds besides plays no part.
LETTER_SETTINGS = frozenset({
    "model", "aux_model", "extra_body", "prompts", "policy", "task", "scheme", "image_edge", "max_output_tokens",
    "timeout", "attempts", "cache", "repeat", "trace",
})  # fmt: skip


class NoStatedReason(BadInput):
    """A decision against a post states no reason, so there is no letter: a person should look at the case first."""


async def write_letter(
    case: CaseAtHand,
    *,
    language: str | None = None,
    context: Context | None = None,
    mapping: DecisionMapping | None = None,
    today: date | None = None,
    files: bool = True,
) -> AuthorLetter:
    """Return the letter to the person who posted.

    It is made of fixed sentences and of the policy's own words, in their language. A model is asked only where the
    policy isn't translated into it, or there are no fixed sentences in it; what it writes is checked, asked for once
    more, and else withheld.

    Args:
        case: of any graph and any outcome. Its settings play no part.
        language: a tag or an English name; None: the post's, and English where that isn't known.
        context: the settings of the call: model, timeout, cache, …; the others play no part.
        mapping: what the operator does by category, and the redress; None: the letter doesn't say what was done.
        today: the day on which it is written, from which the time for a complaint runs; None: this day, in UTC.
        files: whether the image may be a file of this machine that the post names; else only one of the data folder.

    Raises:
        BadInput: the language, the policy's text or a setting is wrong; or the case isn't about hate speech.
        NoStatedReason: it was decided against the post, and no reason can be stated.
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
        raise BadInput(
            f"language: {language[:40]!r}: is no language; give a tag such as en, ko or pt-BR"
        )
    tag = tag or (await language_of_post(None, text or ""))[0] or "en"
    policy = await asyncio.to_thread(recorded_policy, record, case.policy_text)
    decision = decision_of(record)
    against = decision in RESTRICTING
    grounds = find_grounds(record, text) if against else []
    name = case.case or record.kept or record.thread
    if against and not (grounds or record.explanation.strip()):
        raise NoStatedReason(
            f"letter: {name or record.post_id}: no reason can be stated for this decision: its explanation is empty "
            "and no cue stands; a person should look: reopen it at the desk, or judge the post again with --review"
        )
    details = tuple(
        (each, value) for each, value in case_details(record, name) if value and each in TO_AUTHORS
    )
    draft = _Draft(
        record, decision, tag, policy, mapping, today or datetime.now(UTC).date(), text, bool(at_hand.get("image")),
        grounds, details,
    )  # fmt: skip
    open_or_failed = decision in ("not_yet_decided", "could_not_be_decided")
    if fixed_texts(tag) and (
        open_or_failed or not against or rule_in_language(policy, record, tag).rule
    ):
        return draft.finish()
    if open_or_failed or not (text or draft.has_image):
        return draft.finish(warnings=() if open_or_failed else (_NO_WORDS,))
    return await _write_by_model(draft, dict(at_hand), context or Context(), files=files)


@dataclass(frozen=True)
class _Draft:
    """A letter to be: the facts of it that are known before it is written."""

    record: Record
    decision: Decision
    tag: str
    policy: Policy | None
    mapping: DecisionMapping | None
    today: date
    text: str | None
    has_image: bool
    grounds: list[Ground]
    details: tuple[tuple[str, str], ...]

    def finish(
        self,
        written: PlainForm | None = None,
        warnings: Iterable[str] = (),
        calls: tuple[JSON, ...] = (),
    ) -> AuthorLetter:
        """Return the letter: with what a model wrote, or of fixed sentences; in English where there are none."""
        record = self.record
        texts = fixed_texts(self.tag)
        frame = self.tag if texts else "en"
        noted = [*([DEMO_NOTICE] if record.rehearsed else []), *warnings]
        if not texts:
            what = "its sections are" if written else "it is"
            noted.append(f"there is no fixed text in {language_name(self.tag)}; {what} in English")
            texts = fixed_texts("en") or {}
        about: JSON = {}
        if self.decision in RESTRICTING:
            category = record.category or ""
            rule = rule_in_language(self.policy, record, frame)
            about = {
                "category": category,
                "clauses": rule.clauses,
                "rule": rule.rule,
                "measures": measures_of(self.mapping, category),
                "complain_until": add_months(self.today, self.mapping.redress.months if self.mapping else LEAST_MONTHS),
                "notice": make_notice(
                    record, frame, policy=self.policy, rule=rule, attacked=self._attacked(frame),
                    has_image=self.has_image, mapping=self.mapping, today=self.today,
                ),
            }  # fmt: skip
            noted += missing_from_mapping(self.mapping, category, frame)
            if not rule.rule and not written:
                noted.append(
                    f"the words of the rule are left out: the policy has none in {language_name(frame)}; add them "
                    f"under [translations.{frame}]"
                )
        title, text = (written.title, written.text) if written else texts[self.decision]
        return AuthorLetter(
            outcome=record.outcome,
            hateful=record.hateful if record.outcome == "verdict" else None,
            language=self.tag if written else frame,
            title=title,
            text=text,
            post=self.text,
            quoted=tuple(dict.fromkeys(words for each in self.grounds for words in each.quotes)),
            details=self.details,
            source="written" if written else "fixed",
            warnings=tuple(noted),
            calls=calls,
            **about,
        )

    def _attacked(self, frame: str) -> tuple[str, ...]:
        """Return whom the grounds name, where that is surely in the language of the sections: it was of the debate."""
        spoken = {self.policy.language if self.policy else "", self.record.language or frame}
        if self.decision != "hate_speech" or {each.partition("-")[0] for each in spoken} != {
            frame.partition("-")[0]
        }:
            return ()
        groups = (
            f"{each.group} ({each.characteristic})" if each.characteristic else each.group
            for each in self.grounds
        )
        return tuple(dict.fromkeys(filter(None, groups)))


async def _write_by_model(
    draft: _Draft, post: JSON, context: Context, *, files: bool
) -> AuthorLetter:
    """Return a letter whose decision and reasons a model puts into words, or without them, if they can't be taken."""
    record = draft.record
    against = draft.decision in RESTRICTING
    categories = draft.policy.categories(record.scheme) if draft.policy and against else ()
    rule = next((each.meaning for each in categories if each.name == record.category), "")
    # Without the posts of others before it, and with its image where it is.
    source = None
    absent = ""
    if post.get("image"):
        source, _, absent = await load_image(record, post, files=files)
    warnings = [f"the letter was written without the image: {absent}"] if absent else []
    image = (await load_picture(source, IMAGE_EDGE)).image if source else None
    shown = Post(id=record.post_id, text=draft.text or "", image=image, language=record.language)
    settings = context.model_dump(mode="json", exclude_defaults=True, include=set(LETTER_SETTINGS))
    state = {"post": shown.dump(), "context": {"settings": settings}}
    if draft.policy and draft.policy.source:
        state["context"]["policy"] = draft.policy.source
    await asyncio.to_thread(detect_language, "load the language detector before the check needs it")
    check = partial(
        check_letter, decision=draft.decision, grounds=draft.grounds, policy=draft.policy, rule=rule, record=record,
        post=draft.text or "", language=draft.tag,
    )  # fmt: skip
    try:
        answer = await ask(
            EXPLAINER,
            state,
            Runtime(context=context_from(settings)),
            check=check,
            decision=decision_in_words(draft.decision),
            category=category_in_words(record.category) if against and record.category else "",
            rule=operator_words(rule) if rule else "",
            grounds=grounds_shown(draft.grounds),
            language=operator_words(language_name(draft.tag)),
        )
    except ModelError as error:
        why = f"no model's letter passed the check, so what it wrote is withheld ({error})"
        return draft.finish(warnings=(*warnings, *error.warnings, why), calls=tuple(error.calls))
    return draft.finish(
        answer.value, (*warnings, *answer.log["warnings"]), tuple(answer.log["calls"])
    )


def decision_of(record: Record) -> Decision:
    """Return what a record decides, as the person who posted reads it.

    The first category of a scheme is that of posts that stand. Every other one is against the rules, hate or not.
    """
    if record.outcome == "pending":
        return "not_yet_decided"
    if record.outcome != "verdict":
        return "could_not_be_decided"
    if record.hateful:
        return "hate_speech"
    return "against_rules" if record.label else "stands"


def find_grounds(record: Record, text: str | None) -> list[Ground]:
    """Return what a verdict rests on: the cues that its reasons name, else those of its category, else all that stand.

    A cue that the prosecution withdrew is no ground. Where a person changed the model verdict, the cues of their
    category are. Where a system has no cues, its reasons are the ground.
    """
    standing = standing_cues(record.cues, record.transcript)
    # Where a person changed the model verdict, its reasons are theirs, and no longer the model's.
    edited = record.review is not None and record.review.action == "edit"
    changed = edited or any(each.result != "upheld" for each in record.appeals)
    reasons = "" if changed else str(model_verdict(record).get("explanation") or "").strip()
    of_category = [
        cue for cue in standing if record.scheme == "binary" or cue.category == record.category
    ]
    named = [cue for cue in standing if re.search(rf"(?<!\w){re.escape(cue.id)}(?!\w)", reasons)]
    chosen = of_category if changed else named or of_category or standing
    if not record.cues and not changed:
        words = text or ""
        quotes = [
            words[begin:end]
            for begin, end in merge_spans(find_spans(words, quotations_in(reasons)))
        ]
        reason = _CITED.sub("", reasons)
        return [Ground("G1", tuple(dict.fromkeys(quotes)), "", "", "", reason)] if reason else []
    return [
        Ground(
            id=f"G{number}",
            quotes=tuple(
                dict.fromkeys(
                    (text or "")[begin:end] for begin, end in quoted_spans(cue, text or "")
                )
            ),
            group=cue.target_group,
            characteristic=cue.characteristic,
            claim=_CITED.sub("", cue.claim),
            reason=_CITED.sub("", cue.justification),
        )
        for number, cue in enumerate(chosen[:MOST_GROUNDS], start=1)
    ]


# Its image


async def load_image(
    record: Record, post: JSON | None, *, files: bool
) -> tuple[str | None, tuple[int, int], str]:
    """Return the image of a post as a data URI of its pixels alone, its size, and why there is none.

    An address of the web isn't fetched: that would tell the other side that somebody looks, and may bring another
    picture. Without `files`, no file of this machine that the post names is read, but one of the data folder alone.
    """
    ref = (post or {}).get("image")
    ref = ref.get("ref") if isinstance(ref, dict) else ref
    kept = (
        await asyncio.to_thread(stored_file, record.image_sha256)
        if record.image_sha256 and post
        else None
    )
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
