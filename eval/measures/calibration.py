"""Whether confidence means what it says: expected calibration error, reliability, and risk against coverage.

Over labelled verdicts that state a confidence. Expected calibration error as in Guo et al., "On Calibration of Modern
Neural Networks" (2017); risk and coverage as in Geifman and El-Yaniv, "Selective Classification for Deep Neural
Networks" (2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tribunal.eval.measures.columns import Bools, Columns, Floats, Ints
    from tribunal.schema import JSON

BINS = 10
POINTS = 200  # the most that the curve keeps


def calibration(columns: Columns) -> JSON:
    """ECE, AURC, the reliability of each bin, and the curve; None and nothing where no verdict states a confidence."""
    rows = columns.decided & ~np.isnan(columns.confidence)
    confidence, right = columns.confidence[rows], columns.right[rows]
    return {
        "n": int(rows.sum()),
        "bins": BINS,
        "ece": ece(confidence, right),
        "aurc": aurc(confidence, right),
        "reliability": reliability(confidence, right),
        "risk_coverage": _thinned(risk_coverage(confidence, right)),
    }


def reliability(confidence: Floats, right: Bools) -> list[JSON]:
    """What was said and what was so, in bins of equal width over [0, 1]: (0, 0.1], …, and 0 in the first."""
    edges = np.linspace(0, 1, BINS + 1)
    within = np.digitize(confidence, edges[1:-1], right=True)
    return [
        {
            "from": round(float(edges[i]), 10),
            "to": round(float(edges[i + 1]), 10),
            "n": int((within == i).sum()),
            "confidence": float(confidence[within == i].mean()),
            "accuracy": float(right[within == i].mean()),
        }
        for i in range(BINS)
        if (within == i).any()
    ]


def ece(confidence: Floats, right: Bools) -> float | None:
    """The mean over bins of |accuracy − mean confidence|, each weighted by its share of the posts."""
    if not len(confidence):
        return None
    gaps = (each["n"] * abs(each["accuracy"] - each["confidence"]) for each in reliability(confidence, right))
    return float(sum(gaps) / len(confidence))


def risk_coverage(confidence: Floats, right: Bools) -> list[JSON]:
    """The share of wrong ones among the verdicts at or above each confidence that occurs, from the highest down.

    Verdicts of equal confidence are accepted together, since no threshold tells them apart.
    """
    levels, accepted, wrong = _accepted(confidence, right)
    return [
        {"threshold": float(level), "coverage": float(taken / len(confidence)), "risk": float(lost / taken)}
        for level, taken, lost in zip(levels, accepted, wrong, strict=True)
    ]


def aurc(confidence: Floats, right: Bools) -> float | None:
    """The area under the risk–coverage curve: the mean, over k = 1 … n, of the risk of the k most confident verdicts.

    Within a tie any order is as good as another: the errors of a tie are spread evenly over it.
    """
    if not len(confidence):
        return None
    _, accepted, wrong = _accepted(confidence, right)
    each = np.arange(1, len(confidence) + 1)
    errors = np.interp(each, np.concatenate(([0], accepted)), np.concatenate(([0], wrong)))
    return float((errors / each).mean())


def _accepted(confidence: Floats, right: Bools) -> tuple[Floats, Ints, Ints]:
    """Each confidence that occurs, from the highest, with how many verdicts reach it and how many are wrong."""
    levels, place = np.unique(-confidence, return_inverse=True)
    wrong = np.bincount(place, weights=~right, minlength=len(levels)).cumsum()
    return -levels, np.bincount(place, minlength=len(levels)).cumsum(), wrong.astype(np.int64)


def _thinned(curve: list[JSON]) -> list[JSON]:
    if len(curve) <= POINTS:
        return curve
    return [curve[place] for place in np.linspace(0, len(curve) - 1, POINTS).round().astype(int)]
