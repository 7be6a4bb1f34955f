"""A case in words, for whatever shows one to a person: a terminal and a notebook say the same.

Records come in here by their fields alone: `tribunal.schema` stands on this file, since a record draws itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from tribunal.seats import VIEWS
from tribunal.text import one_line

STAGES = {
    "scan": "rapid scan",
    "indictment": "indictment",
    "investigation": "investigation",
    "argument": "argument",
    "rebuttal": "defence",
    "opening": "argument",
    "response": "answer",
    "answer": "answer",
    "score": "scores",
    "reflection": "reflection",
    "revision": "answer after the reflection",
}
_SPEAKERS = {"debater:hate": "Debater for hate", "debater:not_hate": "Debater for non-hate"}
BY_RULES = "A rehearsal, by written rules: no moderator has seen this post."


_A_CAUSE = 40  # characters from which a text in two warnings is a cause of both
_PASSAGE = 240  # characters of a passage that is listed


class Outline(NamedTuple):
    """An outcome: its title, which way it goes, what was decided and how, why, and what a reviewer made of it."""

    title: str
    tone: Literal["hate", "other", "open"]
    first: str
    track: str
    reasons: tuple[str, ...]
    decided: tuple[str, ...] = ()


def outline(record: Any) -> Outline:
    """The outcome of a `Record` in a few lines."""
    tone: Literal["hate", "other", "open"] = "open"
    if record.outcome == "verdict":
        title = (record.category or "").upper()  # so is a category that isn't hate
        if record.task == "hate" and (record.hateful or not record.label):
            title = "HATE SPEECH" if record.hateful else "NOT HATE SPEECH"
        tone = "hate" if record.label else "other"
        by = f"policy {record.policy['name']}" if record.policy else "no policy was shown"
        first = f"{record.category} (label {record.label}, {record.scheme} scheme, {by})"
    elif record.outcome == "pending":
        title = "PENDING"
        court = record.review.court if record.review else {}
        first = f"the court: {court.get('category') or court.get('outcome')}; tribunal review show {record.thread}"
    else:
        fault = record.fault or {}
        title = "REFUSED" if record.outcome == "refusal" else "FAILED"
        asked = f"{fault['seat']} ({fault.get('model')}): " if fault.get("seat") else ""
        first = f"no verdict: {asked}{fault.get('kind')}"
    track = f"{record.graph}, {record.track.replace('_', ' ')}" if record.track else record.graph
    if record.rounds:
        track += f", {record.rounds} round{'s' if record.rounds > 1 else ''}"
    if record.shown is not None:
        track += f"; shown: {' and '.join(record.shown) or 'nothing'}"
    if record.confidence is not None:
        first += f", confidence {record.confidence:.2f}{', uncertain' if record.uncertain else ''}"
    elif record.uncertain:
        first += ", uncertain"
    if len(record.votes) > 1:
        agreeing = sum(vote.category == record.category for vote in record.votes)
        track += f", {agreeing} of {len(record.votes)} votes"
    reasons = [record.explanation]
    if record.outcome == "pending" and record.review:
        reasons = [record.review.court.get("explanation") or "", record.explanation]
    decided: tuple[str, ...] = ()
    if record.review and record.review.action:
        done, court = record.review, record.review.court.get("category") or record.review.court["outcome"]
        how = "accepted" if done.action == "accept" else f"decided against the court ({court})"
        decided = (f"{how} by {done.reviewer or 'a reviewer'} at {done.at}",)
    return Outline(title, tone, first, track, tuple(each for each in reasons if each), decided)


def cost(record: Any) -> str:
    """What a `Record` cost, and what was spared, in one line."""
    usage, kept = record.usage, sum(call.cached for call in record.calls)
    cost = (
        f"{usage.calls} calls, {usage.prompt_tokens} + {usage.completion_tokens} tokens, {usage.seconds:.2f} s in calls"
    )
    # What was spared, and why, was told as it happened; here stands how much.
    calls, tokens = sum(each.calls for each in record.saved), sum(each.tokens for each in record.saved)
    saved = [f"{number} {what} saved" for number, what in ((calls, "calls"), (tokens, "tokens")) if number]
    return f"{record.post_id} · {', '.join([cost, *([f'{kept} answers from the cache'] if kept else []), *saved])}"


def speaker(seat: str) -> str:
    """A seat in words: a view by its title, others by their kind and name."""
    if seat in _SPEAKERS:
        return _SPEAKERS[seat]
    kind, _, name = seat.partition(":")
    if kind == "view" and name in VIEWS:
        return VIEWS[name]
    return f"{kind.capitalize()} {name}".strip()


def quoted(claim: str) -> str:
    """A claim between quotation marks, of which it may have brought its own."""
    return claim if claim.startswith("“") and claim.endswith("”") and claim.count("“") == 1 else f"“{claim}”"


def source(found: Any) -> str:
    """What an `Evidence` is taken from: its title, and its address where it has one."""
    return " · ".join(each for each in (found.title, found.url) if each) or "no source named"


def precedent(brought: Any) -> str:
    """A `Precedent` in a line: what was decided, by what means, when, how alike it is, and what may not hold of it."""
    said = [f"{brought.id} {brought.category}", f"{brought.how} {brought.at[:10]}".rstrip(), f"case {brought.case}"]
    said += [f"similarity {brought.similarity:.2f}"]
    if not brought.same_policy:
        said += [
            "under an earlier policy, may not hold" if brought.policy_sha else "its policy not known, may not hold"
        ]
    said += [] if brought.here else ["no category of this policy"]
    cited = f"; cited by {', '.join(brought.cited_by)}" if brought.cited_by else ""
    return f"{', '.join(said)}{cited}"


def shortened(passage: str) -> str:
    """A passage as it is listed: on one line, and cut off where it is long."""
    words = one_line(passage)
    return words if len(words) <= _PASSAGE else f"{words[:_PASSAGE].rstrip()} …"


def round_of_views(entry: dict[str, Any]) -> str:
    """What a round of views came to."""
    if entry["consensus"]:
        return f"round {entry['round']}: all agree on {next(iter(entry['answers'].values()))}"
    gate = ""
    if "delta" in entry:
        gate = f"Δ = {entry['delta']:.4g}, the second answers {'stand' if entry['adopted'] else 'are not adopted'}; "
    return f"round {entry['round']}: {gate}best: {entry['best']}"


def each_cause_once(warnings: Sequence[str]) -> Iterator[str]:
    """Warnings as they are shown: what several seats had the same of, such as a server's words, is in full once."""
    seen: set[str] = set()
    for warning in warnings:
        parts = warning.split(": ")
        tails = [": ".join(parts[first:]) for first in range(1, len(parts))]
        same = next((tail for tail in tails if tail in seen), None)
        yield warning if same is None else f"{warning.removesuffix(same)}the same"
        seen.update(tail for tail in tails if len(tail) > _A_CAUSE)
