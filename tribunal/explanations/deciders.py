"""Who decided a case: a person, or which models by which policy at what cost. A part that isn't known says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from tribunal.core.calls import Call
from tribunal.core.times import format_date
from tribunal.errors import BadInput
from tribunal.explanations.case_drawing import line_of_case
from tribunal.explanations.case_view import (
    AppliedClause,
    AppliedPolicy,
    CaseCost,
    DecisionStep,
    ModelUse,
    PolicyRule,
    RuleCategory,
)
from tribunal.models.exam_results import name_of_label
from tribunal.prompts.policy import Policy, list_shipped_policies, load_policy, parse_policy
from tribunal.schema import JSON, Record, Review, Scheme, standing_cues
from tribunal.settings.contents import remembered_text

DecidedBy = Literal["models", "person", "appeal"]
DECIDED_BY = (
    "models: no person had a part in it; person: a reviewer accepted or changed it; appeal: a person decided it on an "
    "appeal, or reopened it; null: nobody has decided it"
)


class CaseDecider(NamedTuple):
    """Say who decided a case last, and the person's name if it was one. Nobody has decided where both are None."""

    decided_by: DecidedBy | None = None
    reviewer: str | None = None


def find_case_decider(record: JSON) -> CaseDecider:
    """Return who decided a case last.

    Args:
        record: its record as JSON. One of a post without an outcome may lack every field.
    """
    appeals = record.get("appeals")
    if appeals:
        return CaseDecider("appeal", appeals[-1].get("reviewer"))
    review: JSON = record.get("review") or {}
    if review.get("action"):
        return CaseDecider("person", review.get("reviewer"))
    return CaseDecider("models" if record.get("outcome") == "verdict" else None)


def find_models_outcome(record: JSON | None) -> JSON:
    """Return what the models came to in a case that a person has to decide, or has decided; empty in any other.

    Args:
        record: its record as JSON; None where it has none yet.
    """
    review: JSON = (record or {}).get("review") or {}
    appeals: list[JSON] = (record or {}).get("appeals") or []
    outcome: JSON = review.get("court") or (appeals[0].get("before") if appeals else None) or {}
    return outcome


class Finding(NamedTuple):
    """What the models or a person found in turn; `kind` is models, review, appeal or reopened, `category` may be None.

    `result` is accepted or changed of a review, and upheld, reversed or changed of an appeal.
    """

    kind: str
    result: str
    category: str | None
    hateful: bool | None


def list_findings(record: JSON) -> list[Finding]:
    """Return what was found in a case, the models' finding first, then each person's.

    Args:
        record: its record as JSON.
    """
    appeals = record.get("appeals") or ()
    # as it was after the review, and after each appeal
    outcomes = [
        *(each["before"] for each in appeals),
        record,
    ]
    review: JSON = record.get("review") or {}
    court = find_models_outcome(record) or record
    findings = [Finding("models", "", court.get("category"), court.get("hateful"))]
    if review.get("action"):
        after = outcomes[0]
        result = "accepted" if after.get("category") == court.get("category") else "changed"
        findings.append(Finding("review", result, after.get("category"), after.get("hateful")))
    for each, after in zip(appeals, outcomes[1:], strict=True):
        findings.append(
            Finding(each["kind"], each["result"], after.get("category"), after.get("hateful"))
        )
    return findings


PriceOfCall = Callable[[Call], float | None]
_DECIDING_SEATS = ("judge", "classifier", "summary", "annotator", "triage")
_UNKNOWN_TIME = "not recorded"
_UNNAMED = "an unnamed reviewer"


def read_reason(reason: str | None) -> str:
    """Return why a case needs review, as people read it."""
    return line_of_case("reason", reason)


def cost_of_case(record: Record, price: PriceOfCall | None) -> CaseCost:
    """Return what a case cost, in calls, tokens, time and money."""
    by_model: dict[str, list[Call]] = {}
    for call in record.calls:
        by_model.setdefault(call.model, []).append(call)
    return CaseCost(
        models=tuple(_model_use(model, calls, price) for model, calls in by_model.items()),
        total=line_of_case("usage", record.usage),
        money=_money(record.calls, price),
        line=line_of_case("cost", record),
    )


def _model_use(model: str, calls: Sequence[Call], price: PriceOfCall | None) -> ModelUse:
    """Return what a model was asked; its provider's own name of what answered stands beside it where it differs."""
    own = model.partition(":")[2]
    served = [
        each
        for each in dict.fromkeys(name_of_label(call.served or "") for call in calls)
        if each not in ("", own, model)
    ]
    paid = [call for call in calls if not call.cached]
    return ModelUse(
        model=f"{model} (answered by {', '.join(served)})" if served else model,
        seats=", ".join(dict.fromkeys(call.seat for call in calls)),
        calls=len(paid),
        prompt_tokens=sum(call.prompt_tokens for call in paid),
        completion_tokens=sum(call.completion_tokens for call in paid),
        cost=_money(calls, price),
    )


def _money(calls: Sequence[Call], price: PriceOfCall | None) -> str:
    """Return what calls cost, or why that isn't known."""
    if price is None:
        return "unknown, since no price table was given"
    prices = [price(call) for call in calls]
    lacking = dict.fromkeys(
        call.model for call, paid in zip(calls, prices, strict=True) if paid is None
    )
    if lacking:
        return f"unknown, since the price table has no price for {', '.join(lacking)}"
    return f"{sum(each or 0.0 for each in prices):.6f}, by the price table"


def decision_steps(
    record: Record, ended_at: str | None, answered_by: str = ""
) -> tuple[DecisionStep, ...]:
    """Return who decided, the models first.

    Args:
        record: the case's.
        ended_at: when the case ended, as text, where that is known.
        answered_by: who has decided a pending case, while their decision doesn't stand in its record yet.
    """
    review = record.review
    known = ended_at or _UNKNOWN_TIME
    if record.appeals or (
        review and review.action
    ):  # the time of the end isn't that of the models' verdict
        known = _UNKNOWN_TIME
    steps = [
        DecisionStep(
            by=each.reviewer or _UNNAMED, at=format_date(each.at), how="returned the case with a question",
            note=each.question,
        )
        for each in record.trials
    ]  # fmt: skip
    own = {name: getattr(record, name) for name in ("outcome", "category", "confidence", "tie")}
    verdict = {**own, **model_verdict(record)}
    how = line_of_case("outcome", verdict)
    if record.outcome == verdict["outcome"] == "verdict" and record.category != verdict["category"]:
        how += "; a person overruled it"
    steps.append(DecisionStep(by=_deciding_models(record), at=known, how=how))
    if review is not None:
        steps.append(_review_step(record, review, answered_by))
    for each in record.appeals:
        did = "decided the appeal" if each.kind == "appeal" else "reopened the case"
        cited = f", {line_of_case('clauses', each.clauses)}" if each.clauses else ""
        how = f"{did}: {each.result}{cited}"
        at = format_date(each.decided)
        steps.append(DecisionStep(by=each.reviewer, at=at, how=how, note=each.note))
    return tuple(steps)


def _review_step(record: Record, review: Review, answered_by: str) -> DecisionStep:
    """Return what a reviewer did, or that a case needs review."""
    if review.action is None and answered_by:
        return DecisionStep(
            by=answered_by, at="–", how="has decided; the decision takes effect soon"
        )
    if review.action is None:
        return DecisionStep(
            by="not decided yet", at="–", how=f"needs review: {read_reason(review.reason)}"
        )
    verdict = review.court.get("category")
    decided = record.appeals[0].before.get("category") if record.appeals else record.category
    changed = f"changed {verdict}, the model's verdict, to {decided}"
    if verdict is None:
        changed = f"decided {decided}; the models gave no verdict"
    how = "accepted the model's verdict" if review.action == "accept" else changed
    how += f", {line_of_case('clauses', review.clauses)}" if review.clauses else ""
    at = format_date(review.at) if review.at else _UNKNOWN_TIME
    return DecisionStep(by=review.reviewer or _UNNAMED, at=at, how=how, note=review.note)


def _deciding_models(record: Record) -> str:
    """Return the models that decided, each with its seat."""
    if record.track == "dismissed":
        return "ended early: nothing found, so no judge decided"
    if model_verdict(record).get("outcome") in ("refusal", "failure") and record.fault:
        return f"{record.fault.get('model')} ({record.fault.get('seat')})"
    deciding = [
        call for call in record.calls if call.seat in _DECIDING_SEATS and call.error is None
    ]
    if len(record.votes) <= 1:
        deciding = deciding[-1:]
    if not deciding and record.calls:
        return "a vote of " + ", ".join(dict.fromkeys(call.model for call in record.calls))
    models = dict.fromkeys(f"{call.model} ({call.seat})" for call in deciding)
    return ", ".join(models) or "unknown: the record holds no call"


def model_verdict(record: Record) -> JSON:
    """Return what the agents came to, whatever people have decided since."""
    if record.review:
        return record.review.court
    if record.appeals:
        return record.appeals[0].before
    names = ("outcome", "category", "explanation", "confidence", "tie")
    return {name: getattr(record, name) for name in names}


# The policy that was applied


def recorded_policy(record: Record, text: str | None) -> Policy | None:
    """Return the policy that a record names, as it was then, in the language of its file; None if it isn't at hand.

    `text` is the whole text of its file; without it a policy that this process has met, or a shipped one, is known by
    its hash.

    Raises:
        BadInput: the text is no policy, or another one than the record names.
    """
    if not record.policy:
        return None
    name = str(record.policy.get("name", ""))
    sha = str(record.policy.get("sha") or "")
    text = remembered_text("policy", sha) if text is None else text
    if text is None:
        return next(
            (each for each in map(load_policy, list_shipped_policies()) if each.sha == sha), None
        )
    policy = parse_policy(text, name)
    if sha and policy.sha != sha:
        raise BadInput(
            f"policy: {policy.name}: its hash is {policy.sha}, and the record's is {sha}; give the policy as it was"
        )
    return policy


def rule_of_policy(policy: Policy, scheme: Scheme, category: str = "") -> PolicyRule:
    """Return what a person who decides reads of a policy, in which a `category` may be in question."""
    categories = tuple(
        RuleCategory(name=each.name, meaning=each.meaning) for each in policy.categories(scheme)
    )
    return PolicyRule(
        policy=policy.name, category=category if any(each.name == category for each in categories) else "",
        definition=policy.definition, exceptions=tuple(each for each in (policy.exclusions, policy.excuses) if each),
        further=tuple(each for each in (policy.expression, policy.together) if each),
        protected_groups=policy.protected_groups, categories=categories,
    )  # fmt: skip


def _cited_clauses(record: Record) -> Sequence[str]:
    """Return the clauses that the outcome cites, or that of the models while a case waits."""
    return record.clauses or (
        model_verdict(record).get("clauses") or () if record.outcome == "pending" else ()
    )


def applied_policy(record: Record, policy: Policy | None) -> AppliedPolicy | None:
    """Return the part of the policy that was applied; None where no policy was shown to any model."""
    if not record.policy:
        return None
    name = str(record.policy.get("name", ""))
    sha = str(record.policy.get("sha", ""))
    verdict = {"category": record.category} if record.outcome == "verdict" else {}
    if record.outcome == "pending" and record.review:
        verdict = model_verdict(record)
    category = str(verdict.get("category") or "")
    if policy is None:
        why = f"The text of this policy isn't stored here; its hash is {sha or 'unknown'}."
        return AppliedPolicy(name=name, sha=sha, category=category, absent=why)
    definition = f"{policy.definition} {policy.expression}".strip()
    name = policy.name
    sha = policy.sha
    passages = [("Definition", definition)]
    if not category:
        return AppliedPolicy(name=name, sha=sha, rests_on=tuple(passages))
    categories = policy.categories(record.scheme)
    applied = next((each for each in categories if each.name == category), None)
    if applied is None:
        why = f"The policy has no category {category} in the scheme {record.scheme}."
        return AppliedPolicy(name=name, sha=sha, category=category, absent=why)
    if categories[0].name == category:
        passages = [("Exceptions", policy.exclusions), ("What may excuse a post", policy.excuses)]
    else:
        named = {cue.characteristic for cue in standing_cues(record.cues, record.transcript)}
        protected = ", ".join(each for each in policy.protected_groups if each in named)
        passages.append(("Protected characteristics that are named", protected))
    rests_on = tuple((title, words) for title, words in passages if words)
    cited = [policy.find_clause(each) for each in _cited_clauses(record)]
    clauses = tuple(
        AppliedClause(id=each.id, rule=each.rule, exceptions=policy.exceptions_of(each))
        for each in cited
        if each
    )
    more: JSON = {"sentence": applied.meaning, "clauses": clauses, "rests_on": rests_on}
    return AppliedPolicy(name=name, sha=sha, category=category, **more)
