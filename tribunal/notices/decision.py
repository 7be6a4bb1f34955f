"""Find what a notice tells of a decision: the part that automated means had in it, and whether it gives a reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from tribunal.case_decider import find_case_decider
from tribunal.notices.register_values import Automated
from tribunal.prompts.policy import Policy
from tribunal.prompts.policy_parts import Clause
from tribunal.schema import JSON


def automation_of(record: JSON) -> Automated:
    """Return the part that automated means had in a decision, as the register calls it.

    The models always decide first. A person who accepts or changes their verdict decides with their help.
    """
    by_person = find_case_decider(record).decided_by in ("person", "appeal")
    return "AUTOMATED_DECISION_PARTIALLY" if by_person else "AUTOMATED_DECISION_FULLY"


def applied_clauses(policy: Policy, category: str, cited: Sequence[str]) -> tuple[Clause, ...]:
    """Return the clauses that a verdict cites by id; where it cites none, its category's, if it has just one."""
    if cited:
        return tuple(each for each in policy.clauses if each.id in cited)
    of_category = tuple(each for each in policy.clauses if each.category == category)
    return of_category if len(of_category) == 1 else ()


def has_stated_reason(record: JSON) -> bool:
    """Return whether a decision names any reason: words of explanation, or a cue. A check of reasons may empty them."""
    return bool(str(record.get("explanation") or "").strip() or record.get("cues"))


def add_months(day: date, months: int) -> date:
    """Return the same day some months later; the last of a month that is shorter."""
    year, month = divmod(day.month - 1 + months, 12)
    first_after = date(day.year + year + (month + 1) // 12, (month + 1) % 12 + 1, 1)
    last = (first_after - date.resolution).day
    return date(day.year + year, month + 1, min(day.day, last))
