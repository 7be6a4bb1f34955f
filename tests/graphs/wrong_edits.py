"""Edits that a person may get wrong in Studio, of every channel of a case that has begun."""

from __future__ import annotations

from typing import Any

WRONG: tuple[Any, ...] = ("words", 7, {"a": 1}, [7], [{"id": "x"}], ["x"])
WRONG_OUTCOMES: tuple[Any, ...] = (
    {"outcome": "verdict", "category": "Foo"},
    {"outcome": "verdict", "label": 1, "category": "Foo", "hateful": True, "explanation": "words"},
    {
        "outcome": "verdict",
        "label": 1,
        "category": "Racist",
        "hateful": False,
        "explanation": "words",
    },
    {"outcome": "acquittal"},
)


def edits_of(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """Each channel of a state with each wrong value."""
    edits = [(channel, wrong) for channel in [*values, "outcome"] for wrong in WRONG]
    return [*edits, *(("outcome", wrong) for wrong in WRONG_OUTCOMES)]
