"""The arithmetic of MV-Debate: consensus, the top k, the gain of a reflection, and the gate (paper, equation 2).

Pure functions. Scores are `Decimal`: as floats 0.9 − 0.8 is less than 0.1. A mapping's order is that of the views, and
of equal scores the one that stands first counts as the higher, so that a tie is broken the same way every time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal

Scores = Mapping[str, Decimal]


def exact(number: float | str | Decimal) -> Decimal:
    """The decimal that was written: 0.1 is a tenth."""
    return Decimal(str(number))


def agreed(answers: Collection[str]) -> bool:
    """Whether there are answers, and all of them are the same."""
    return len(set(answers)) == 1


def top(scores: Scores, k: int) -> list[str]:
    """The k views with the highest scores, the best first."""
    return sorted(scores, key=lambda view: -scores[view])[:k]


def best(scores: Scores) -> str | None:
    """The view with the highest score; None where there is none."""
    return next(iter(top(scores, 1)), None)


def gain(old: Scores, new: Scores) -> Decimal:
    """Δ, the mean of (new − old) over the views that answered again; 0 where none did."""
    return _grown(old, new) / len(new) if new else Decimal(0)


def adopts(old: Scores, new: Scores, tau: Decimal) -> bool:
    """The gate: whether Δ ≥ τ. Nothing is adopted where no view answered again."""
    return bool(new) and _grown(old, new) >= tau * len(new)  # multiplied, since a quotient may have to be rounded


def _grown(old: Scores, new: Scores) -> Decimal:
    return sum((new[view] - old[view] for view in new), Decimal(0))
