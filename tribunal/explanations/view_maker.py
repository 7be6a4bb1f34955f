"""A record and what else is at hand, made into the picture of the case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tribunal.core.calls import DEMO_NOTICE, warnings_of_unfit_models
from tribunal.core.text import count_noun
from tribunal.core.times import format_date
from tribunal.explanations.case_drawing import line_of_case, mark_cues, view_trial
from tribunal.explanations.case_view import (
    ActivityEntry,
    CaseNote,
    CaseStatus,
    CaseView,
    EvidenceCard,
    ImageRegion,
    Tone,
    ViewedImage,
    ViewedPost,
    ViewedTrial,
)
from tribunal.explanations.deciders import (
    PriceOfCall,
    applied_policy,
    cost_of_case,
    decision_steps,
    model_verdict,
    read_reason,
    recorded_policy,
)
from tribunal.explanations.quotations import MarkedCue, cut_segments
from tribunal.schema import JSON, Evidence, Post, Record, Saving, Trial

_NO_WORDS = "The post's text isn't available: a record doesn't hold it, or it was erased."
_ERASED = (
    "The text of this case was erased: the post, and what was said about it. The decision is left."
)
# An image that stands in the page itself, or a path on the server that the page comes from.
_OWN_IMAGE = re.compile(
    r"data:image/(?:png|jpeg|webp|gif|bmp);base64,[A-Za-z0-9+/=]*\Z|/(?![/\\])[\w./-]*\Z"
)
_SHARED_CAUSE = 40  # characters from which a text in two warnings is a cause of both
PostAtHand = Post | Mapping[str, Any] | str | None


class CaseAtHand(NamedTuple):
    """A case, and what is at hand of it. `post` is what was asked: text, image, language, earlier."""

    record: Record
    post: JSON | None = None
    policy_text: str | None = None
    decided_at: str | None = None
    case: str | None = None
    settings: JSON | None = None
    erased: str | None = None
    status: CaseStatus | None = None


def view_case(
    record: Record,
    *,
    post: PostAtHand = None,
    image: str | None = None,
    image_size: tuple[int, int] = (1000, 1000),
    image_absent: str = "The image isn't available here.",
    policy_text: str | None = None,
    price: PriceOfCall | None = None,
    decided_at: str | None = None,
    case: str | None = None,
    erased: str | None = None,
    status: CaseStatus | None = None,
    answered_by: str = "",
    notes: Sequence[CaseNote] = (),
    activity: Sequence[ActivityEntry] = (),
) -> CaseView:
    """Return the picture of a case, from which all that people see of it is drawn.

    Args:
        record: of any graph and any outcome.
        post: its words; or the post itself, or what a case keeps of it: text, image, language, earlier.
        image: where whoever shows the page has the image: a data URI, or an address of their own. Strangers' addresses
            are no use here: the page loads nothing.
        image_size: its width and height, where they are known: the regions in it are drawn by them.
        image_absent: why there is none, where the post has an image.
        policy_text: the whole text of the policy's file, as a case keeps it; a shipped policy needs none.
        price: the cost of a call, such as `Prices.of`.
        decided_at: when the case ended, as text.
        case: the case's id; else the one that the record names.
        erased: when its words were erased, as text: what the record lacks is then said to have been there.
        status: where the case stands in its store.
        answered_by: who has decided it, while that doesn't stand in the record yet; `status` says so, too.
        notes: what people wrote about it.
        activity: what the audit log has of it.

    Raises:
        BadInput: the policy's text is none, or is of another policy than the record names.
    """
    at_hand = fields_of_post(post)
    verdict = model_verdict(record)
    text = at_hand.get("text")
    marked = mark_cues(record.transcript, record.cues, text)
    outcome = str(verdict.get("outcome") or record.outcome)
    ended_by = {"verdict": "Judge", "refusal": "Refusal", "failure": "Failure"}.get(
        outcome, "Outcome"
    )
    has_image = (
        bool(at_hand.get("image")) or image is not None or any(cue.box for cue in record.cues)
    )
    decided: Tone = "hate" if record.label else "other"
    answered_by = answered_by or (status.decided_by if status else "")
    title = line_of_case("title", record)
    reasons = [record.explanation]
    first = line_of_case(
        "decision", record, verdict, read_reason(record.review.reason) if record.review else ""
    )
    if record.outcome == "pending" and record.review:  # the models' reasons come first
        reasons.insert(0, str(verdict.get("explanation") or ""))
        if answered_by:
            title = f"DECIDED BY {answered_by}"
            first = f"The models {line_of_case('outcome', verdict)}"
            reasons = reasons[:1]
    case = case or record.kept or record.thread
    notes_at_head = warnings_of_unfit_models(record.warnings)
    same = ("outcome", "rehearsed", "opinions", "precedents", "appeals", "votes")
    return CaseView(
        **{name: getattr(record, name) for name in same},
        case=case,
        erased=erased,
        title=title,
        tone=decided if record.outcome == "verdict" else "open",
        first=first,
        track=line_of_case("track", record),
        reasons=tuple(each for each in reasons if each),
        banners=(*[DEMO_NOTICE] * record.rehearsed, *notes_at_head),
        status=status,
        post=ViewedPost(
            id=record.post_id,
            segments=cut_segments(text, marked) if text else (),
            image=_view_image(image, image_size, image_absent, marked) if has_image else None,
            language=record.language,
            language_from=record.language_from,
            earlier=tuple(at_hand.get("earlier") or ()),
            absent=_ERASED if erased else "" if text is not None else _NO_WORDS,
        ),
        trial=view_trial(
            record.transcript,
            marked,
            text,
            title=line_of_case("run", len(record.trials) + 1) if record.trials else "Debate",
            last_column="Dismissal" if record.track == "dismissed" else ended_by,
            outcome=str(verdict.get("category") or outcome),
            reasons=str(verdict.get("explanation") or ""),
            notes=[line_of_case("debate", entry) for entry in record.debate],
        ),
        earlier_trials=tuple(
            _view_earlier_trial(each, line_of_case("run", number, each))
            for number, each in enumerate(record.trials, start=1)
        ),
        applied=applied_policy(record, recorded_policy(record, policy_text)),
        rationale=record.steps,
        evidence=tuple(_evidence_card(each, record) for each in record.evidence),
        appeal_trials=tuple(
            _view_earlier_trial(each.trial, f"New run, ordered {format_date(each.trial.at)}") if each.trial else None
            for each in record.appeals
        ),
        decided=decision_steps(record, decided_at, answered_by),
        cost=cost_of_case(record, price),
        warnings=tuple(_merge_causes([each for each in record.warnings if each not in notes_at_head])),
        notes=tuple(notes),
        activity=tuple(activity),
        details=tuple((name, value) for name, value in case_details(record, case) if value),
    )  # fmt: skip


def case_details(record: Record, case: str | None) -> Iterator[tuple[str, str]]:
    """Yield what every picture of a case lists by name; an empty value is left out.

    A field of the record without a section of its own is added here, and then shows wherever a case is drawn
    (`case_drawing.IN_FULL_ONLY` and `TO_AUTHORS` say which of them short pictures leave out, and authors are told).
    """
    prompts = record.prompts
    research = record.research or {}
    spared = (_list_spared(each) for each in record.saved)
    yield "Case", case or ""
    yield "Post", record.post_id
    yield "System", record.graph
    yield "Task", record.task
    yield "Categories", "the policy's categories" if record.scheme == "fine" else "hateful or not"
    yield "Rounds of debate", str(record.rounds)
    yield (
        "Shown to models",
        "not recorded" if record.shown is None else " and ".join(record.shown) or "nothing",
    )
    yield "Prompts", f"{prompts.get('name')} ({prompts.get('sha')})" if prompts else "not recorded"
    yield "Not needed", "; ".join(spared)
    yield (
        "Research",
        f"run {research.get('run')} of the archive, {research.get('turn')} turns"
        if research
        else "",
    )
    yield "Protocol", record.protocol or ""
    yield "Hash of the image", record.image_sha256 or ""
    yield "Thread", record.thread or "" if record.thread != case else ""


def _list_spared(saving: Saving) -> str:
    """Return the calls and tokens that a shortcut spared, and how."""
    calls = [count_noun(saving.calls, "call")] if saving.calls or not saving.tokens else []
    tokens = [count_noun(saving.tokens, "token")] if saving.tokens else []
    return f"{', '.join(calls + tokens)}: {saving.how}"


def fields_of_post(post: PostAtHand) -> Mapping[str, Any]:
    """Return the fields of a post that are at hand, by name; `text` is missing if its words are."""
    if isinstance(post, str):
        return {"text": post}
    fields = post.dump() if isinstance(post, Post) else dict(post or {})
    # An image alone is a whole post; its text is empty, and not missing.
    if fields.get("text") is None and fields.get("image"):
        fields["text"] = ""
    return fields


def _view_image(
    source: str | None, size: tuple[int, int], absent: str, marked: Sequence[MarkedCue]
) -> ViewedImage:
    """Return the image with the regions that cues mark in it; strangers' addresses are left out."""
    regions = tuple(
        ImageRegion(cue=each.number, box=each.cue.box) for each in marked if each.cue.box
    )
    alt = line_of_case("alt", [each for each in marked if each.cue.box])
    if source is not None and not _OWN_IMAGE.match(source):
        source = None
    absent = "" if source else absent
    return ViewedImage(
        source=source, alt=alt, absent=absent, regions=regions, width=size[0], height=size[1]
    )


def _view_earlier_trial(trial: Trial, title: str) -> ViewedTrial:
    """Return a run of the agents that another one followed."""
    outcome = trial.outcome
    return view_trial(
        trial.transcript,
        mark_cues(trial.transcript, trial.cues, None),
        None,
        title=title,
        last_column="Judge",
        outcome=str(outcome.get("category") or outcome.get("outcome") or "unknown"),
        reasons=str(outcome.get("explanation") or ""),
        question=trial.question,
    )


def _evidence_card(evidence: Evidence, record: Record) -> EvidenceCard:
    """Return a passage with its source, and the date of its page where research recorded one."""
    pages: Sequence[Mapping[str, Any]] = (record.research or {}).get("pages") or ()
    page = next(
        (page for page in pages if evidence.page_id and page.get("page_id") == evidence.page_id), {}
    )
    return EvidenceCard(
        **dict(evidence), href=safe_link(evidence.url), date=str(page.get("date") or "unknown")
    )


def safe_link(address: str) -> str | None:
    """Return an address that a page may link to, or None.

    It is one of the web, whole, and without a name or a password in it.
    """
    try:
        parts = urlsplit(address)
        fit = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        return None
    plain = (
        address.isascii()
        and address.isprintable()
        and not any(each in address for each in " \"'<>\\`")
    )
    return address if fit and plain else None


def _merge_causes(warnings: Sequence[str]) -> Iterator[str]:
    """Yield warnings with a cause that several share, such as a server's words, in full only once."""
    seen: set[str] = set()
    for warning in warnings:
        parts = warning.split(": ")
        tails = [": ".join(parts[first:]) for first in range(1, len(parts))]
        same = next((tail for tail in tails if tail in seen), None)
        yield warning if same is None else f"{warning.removesuffix(same)}the same"
        seen.update(tail for tail in tails if len(tail) > _SHARED_CAUSE)
