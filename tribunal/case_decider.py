"""Find who decided a case: its models alone, a person who reviewed it, or a person on an appeal."""

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
