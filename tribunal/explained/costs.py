"""Who decided a case, with which models, and what that cost. What isn't known is said to be unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tribunal.explained.shape import Asked, Cost, Decided
from tribunal.outline import cost as cost_line
from tribunal.schema import JSON, Call, Record

Price = Callable[[Call], float | None]
_DECIDING = ("judge", "classifier", "summary", "annotator", "triage")
_UNKNOWN_TIME = "when isn't recorded"
_NO_PRICES = "unknown: no price table was given"


def cost_of(record: Record, price: Price | None) -> Cost:
    """What a case cost.

    Args:
        record: the case.
        price: what a call cost, by a price table; None for a call whose model has no price.
    """
    by_model: dict[str, list[Call]] = {}
    for call in record.calls:
        by_model.setdefault(call.model, []).append(call)
    asked = tuple(
        Asked(
            model=_served(model, calls),
            seats=", ".join(dict.fromkeys(call.seat for call in calls)),
            calls=len(_paid(calls)),
            prompt_tokens=sum(call.prompt_tokens for call in _paid(calls)),
            completion_tokens=sum(call.completion_tokens for call in _paid(calls)),
            cost=_money(calls, price),
        )
        for model, calls in by_model.items()
    )
    usage = record.usage
    total = f"{usage.calls} calls, {usage.prompt_tokens} + {usage.completion_tokens} tokens, {usage.seconds:.2f} s"
    return Cost(models=asked, total=total, money=_money(record.calls, price), line=cost_line(record))


def _served(model: str, calls: Sequence[Call]) -> str:
    """A model as it was asked for, and as its provider called what answered, where that is another name."""
    own = model.partition(":")[2]
    served = [each for each in dict.fromkeys(call.served for call in calls) if each and each not in (own, model)]
    return f"{model} (answered by {', '.join(served)})" if served else model


def _paid(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if not call.cached]


def _money(calls: Sequence[Call], price: Price | None) -> str:
    if price is None:
        return _NO_PRICES
    prices = [price(call) for call in calls]
    lacking = dict.fromkeys(call.model for call, paid in zip(calls, prices, strict=True) if paid is None)
    if lacking:
        return f"unknown: the price table has no price for {', '.join(lacking)}"
    return f"{sum(each or 0.0 for each in prices):.6f}, by the price table"


def deciders(record: Record, at: str | None) -> tuple[Decided, ...]:
    """Who decided, the court first.

    Args:
        record: the case.
        at: when the court came to its outcome, as text; None where nobody knows.
    """
    review = record.review
    appealed = [
        Decided(
            by=each.reviewer,
            at=each.decided,
            how=f"decided the appeal: {each.result}" if each.kind == "appeal" else f"reopened the case: {each.result}",
            note=each.note,
        )
        for each in record.appeals
    ]
    sent_back = [
        Decided(
            by=each.reviewer or "a person who isn't named", at=each.at, how="sent the case back", note=each.question
        )
        for each in record.trials
    ]
    # The time at hand is that of the end: after a person has decided, that isn't the court's.
    when = at if at and not (review and review.action) and not appealed else _UNKNOWN_TIME
    court = Decided(by=_court(record), at=when, how=_how(record))
    if review is None:
        return (*sent_back, court, *appealed)
    if review.action is None:
        waits = Decided(by="nobody yet", at="it waits", how=f"a person has to decide: {review.reason}")
        return (*sent_back, court, waits)
    said = review.court.get("category") or review.court.get("outcome")
    how = "accepted the court's outcome" if review.action == "accept" else f"decided otherwise than the court ({said})"
    who = review.reviewer or "a person who isn't named"
    person = Decided(by=who, at=review.at or _UNKNOWN_TIME, how=how, note=review.note)
    return (*sent_back, court, person, *appealed)


def _court(record: Record) -> str:
    if record.track == "dismissed":
        return "no judge: the case was dismissed"
    if record.track == "triage" and record.first_look:
        return f"a first look that was fitted ({record.first_look[:12]})"
    if record.outcome in ("refusal", "failure") and record.fault and not record.review:
        return f"{record.fault.get('model')} ({record.fault.get('seat')})"
    if record.votes and len(record.votes) > 1:
        found = [call for call in record.calls if call.seat in _DECIDING and call.error is None]
    else:
        found = [call for call in record.calls if call.seat in _DECIDING and call.error is None][-1:]
    if not found and record.calls:
        return "a vote of " + ", ".join(dict.fromkeys(call.model for call in record.calls))
    models = dict.fromkeys(f"{call.model} ({call.seat})" for call in found)
    return ", ".join(models) or "unknown: the record holds no call"


def court_of(record: Record) -> JSON:
    """What the agents came to: of a case that people have decided since, what they had before them."""
    if record.review:
        return record.review.court
    if record.appeals:
        return record.appeals[0].before
    names = ("outcome", "category", "explanation", "confidence", "tie")
    return {name: getattr(record, name) for name in names}


def _how(record: Record) -> str:
    court = court_of(record)
    outcome = court.get("outcome", record.outcome)
    if outcome == "verdict":
        found = court.get("category", record.category)
        sure = court.get("confidence", record.confidence)
        how = f"found {found}" + (f", confidence {sure:.2f}" if isinstance(sure, float) else "")
        return f"{how}, a tie" if court.get("tie", record.tie) else how
    return "declined to answer" if outcome == "refusal" else "failed"
