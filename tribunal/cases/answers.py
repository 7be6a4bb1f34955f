"""What a person may say of a case that waits for them: accept it, change it, or ask for one more trial."""

from __future__ import annotations

from typing import Literal

from tribunal.errors import BadInput
from tribunal.schema import JSON

Action = Literal["accept", "change", "ask"]


def answer_of(
    action: Action,
    *,
    category: str | None = None,
    question: str | None = None,
    note: str = "",
    reviewer: str | None = None,
) -> JSON:
    """A person's answer, in the shape of the Agent Inbox.

    Args:
        action: `accept` the court's outcome, `change` it to a category, or `ask` a question, which sends the case back.
        category: of a change: a category of the policy, by its name or its number.
        question: of an ask.
        note: why; it becomes the explanation of a changed verdict.
        reviewer: who decides.

    Raises:
        BadInput: something is missing, or doesn't belong to the action.
    """
    wanted = {"change": "category", "ask": "question"}.get(action)
    given = {"category": category, "question": question}
    for name, value in given.items():
        if value is not None and name != wanted:
            raise BadInput(f"{name}: {value[:80]!r}: doesn't belong to {action}; leave it out")
    if wanted is not None and not (given[wanted] or "").strip():
        raise BadInput(f"{wanted}: {given[wanted]!r}: {action} wants one; give it")
    by: JSON = {} if reviewer is None else {"reviewer": reviewer}
    if action == "accept":
        return {"type": "accept", "args": None, "note": note, **by}
    if action == "ask":
        return {"type": "response", "args": question, **by}
    named = str(category)
    chosen: JSON = {"label": int(named)} if named.isdecimal() else {"category": named}
    return {"type": "edit", "args": {"action": "decide", "args": {**chosen, "note": note}}, **by}
