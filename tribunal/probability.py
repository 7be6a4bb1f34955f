"""The probability that a post is hate speech, as a case says it: one number for records, drop-in APIs and tables.

It grows with what speaks for hate, and lies on the hateful side of 0.5 exactly if the verdict does.
"""

from __future__ import annotations

from tribunal.calls import JSON
from tribunal.shared_settings import ProbabilitySource
from tribunal.threshold import Threshold

_BELOW_HALF = 0.499999


def estimate_probability(
    hateful: bool, confidence: float | None, fitted: Threshold | None = None
) -> tuple[float, ProbabilitySource]:
    """Return the probability that a post is hate speech, and where that number is from.

    Without a fitted file the stated confidence is taken for the way from 0.5 to the verdict: "not hateful, 0.3" is
    0.35, and "hateful, 0.3" is 0.65. A verdict that states none is taken at its word, as 1 or 0.

    Args:
        hateful: the verdict.
        confidence: that it states, from 0 to 1; None if it states none, as a dismissal.
        fitted: the file that `tribunal fit` wrote for this graph, scheme, policy and line-up of models.
    """
    if fitted is not None and (share := fitted.share_of_hate(hateful, confidence)) is not None:
        return put_on_side(share, hateful), "calibrated"
    if confidence is None:
        return float(hateful), "verdict"
    half = confidence / 2
    return put_on_side(0.5 + half if hateful else 0.5 - half, hateful), "confidence"


def probability_by_person(hateful: bool) -> JSON:
    """Return the two fields of a record that a person has decided: 1 or 0, and that it is theirs."""
    return {"probability": float(hateful), "probability_from": "person"}


def put_on_side(probability: float, hateful: bool) -> float:
    """Return a probability no further than 0.5 on the other side of the verdict's."""
    return round(max(0.5, probability) if hateful else min(_BELOW_HALF, probability), 6)
