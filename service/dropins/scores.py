"""The number that stands for a verdict where an API wants one, and what is said beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tribunal.context import context_from
from tribunal.nodes.certainty import USUAL_THRESHOLD, confidence_wanted
from tribunal.schema import JSON, Record
from tribunal.settings import SETTINGS


def with_confidence(settings: JSON, graph: str) -> JSON:
    """Settings under which the judge states a confidence, where the graph has a judge that can."""
    if graph not in SETTINGS["threshold"].graphs or confidence_wanted(context_from(settings)):
        return settings
    return {**settings, "threshold": USUAL_THRESHOLD}


def score(record: Record, holds: bool) -> float:
    """How much speaks for a statement about a post, from 0 to 1.

    The judge's confidence is in the category that it chose. Where no confidence was stated (a post that was dismissed
    before it reached a judge, the rehearsal model, a graph without a judge), it is the verdict itself: 1 or 0.

    Args:
        record: a verdict's.
        holds: whether the verdict says so.
    """
    if record.confidence is None:
        return float(holds)
    return record.confidence if holds else round(1 - record.confidence, 4)


def headers(cases: Sequence[str], records: Sequence[Record]) -> dict[str, str]:
    """What neither API has a field for, one value a result, in order."""
    said = {
        "Tribunal-Case": cases,
        "Tribunal-Score": ["verdict" if each.confidence is None else "confidence" for each in records],
        "Tribunal-Uncertain": [str(each.uncertain).lower() for each in records],
        "Tribunal-Rehearsed": [str(each.rehearsed).lower() for each in records],
    }
    return {name: ", ".join(values) for name, values in said.items()}
