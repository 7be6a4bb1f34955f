"""Find who decided a case, its models alone or a person, and what the models came to before a person had it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tribunal.schema import JSON

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
    if appeals := record.get("appeals"):
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
    outcome: JSON = review.get("court") or {}
    return outcome
